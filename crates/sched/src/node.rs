//! What the trees of [`crate::tree`] are made of: nodes of up to sixteen slots, in order, each with what a search asks
//! of it, so that a search reads few lines of memory and none of the threads' own.
//!
//! The slots lie in a ring: taking away at one end and adding at the other, which is what a scheduler mostly does, moves
//! nothing. Places without a slot have the greatest key, so a search compares all keys and branches on none.
//!
//! Nodes are made with the threads ([`crate::table::Table::reserve`]) and wait in a list until a tree needs them, so that
//! queueing never allocates. There are always enough: `tree.rs` says why.

use crate::field::{FieldI64, FieldU8, FieldU32, FieldU64};
use ids::ThreadIdx;

/// Slots of a node.
pub(crate) const WIDTH: usize = 16;
/// No node.
pub(crate) const NONE: u32 = ThreadIdx::NONE.0;

/// One slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// A thread, or a node below.
    pub id: u32,
    /// The thread's key; of a node, no key below is smaller. (In the first slot of an inner node it says nothing.)
    pub key: i64,
    /// The thread's `vruntime`; of a node, none below is smaller.
    pub low: i64,
}

/// A leaf, whose slots are threads, or an inner node, whose slots are nodes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// The node above; in the list of free ones the next.
    pub above: FieldU32,
    start: FieldU8,
    len: FieldU8,
    /// 1: the slots are threads.
    leaf: FieldU8,
    /// No `vruntime` here and below is smaller.
    pub low: FieldI64,
    /// Every mask here and below is part of this (folded: see `Table::fold`).
    pub masks: FieldU64,
    ids: [FieldU32; WIDTH],
    keys: [FieldI64; WIDTH],
    lows: [FieldI64; WIDTH],
}

impl Node {
    pub(crate) fn new() -> Node {
        Node {
            above: FieldU32::from(NONE),
            start: FieldU8::default(),
            len: FieldU8::default(),
            leaf: FieldU8::default(),
            low: FieldI64::from(i64::MAX),
            masks: FieldU64::default(),
            ids: Default::default(),
            keys: core::array::from_fn(|_| FieldI64::from(i64::MAX)),
            lows: Default::default(),
        }
    }

    /// An empty one again.
    pub(crate) fn reset(&self, leaf: bool, above: u32) {
        self.above.set(above);
        self.start.set(0);
        self.len.set(0);
        self.leaf.set(u8::from(leaf));
        self.low.set(i64::MAX);
        self.masks.set(0);
        self.keys.iter().for_each(|key| key.set(i64::MAX));
    }

    #[inline(always)]
    pub(crate) fn is_leaf(&self) -> bool {
        self.leaf.get() != 0
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len.get())
    }

    /// Where slot `i` lies.
    #[inline(always)]
    fn place(&self, i: usize) -> usize {
        (usize::from(self.start.get()) + i) % WIDTH
    }

    #[inline(always)]
    pub(crate) fn id(&self, i: usize) -> u32 {
        self.ids[self.place(i)].get()
    }

    #[inline(always)]
    pub(crate) fn key(&self, i: usize) -> i64 {
        self.keys[self.place(i)].get()
    }

    #[inline(always)]
    pub(crate) fn low_of(&self, i: usize) -> i64 {
        self.lows[self.place(i)].get()
    }

    pub(crate) fn set_key(&self, i: usize, key: i64) {
        self.keys[self.place(i)].set(key);
    }

    pub(crate) fn set_low(&self, i: usize, low: i64) {
        self.lows[self.place(i)].set(low);
    }

    #[inline(always)]
    pub(crate) fn slot(&self, i: usize) -> Slot {
        let p = self.place(i);
        Slot { id: self.ids[p].get(), key: self.keys[p].get(), low: self.lows[p].get() }
    }

    #[inline(always)]
    fn put(&self, i: usize, slot: Slot) {
        let p = self.place(i);
        self.ids[p].set(slot.id);
        self.keys[p].set(slot.key);
        self.lows[p].set(slot.low);
    }

    /// Adds a slot before slot `i`; there is room. The shorter side moves.
    #[inline]
    pub(crate) fn insert(&self, i: usize, slot: Slot) {
        let len = self.len();
        if i < len - i {
            self.start.set((self.start.get().wrapping_sub(1)) % WIDTH as u8);
            (0..i).for_each(|j| self.put(j, self.slot(j + 1)));
        } else {
            (i..len).rev().for_each(|j| self.put(j + 1, self.slot(j)));
        }
        self.len.set(len as u8 + 1);
        self.put(i, slot);
    }

    /// Takes slot `i` away. The shorter side moves.
    #[inline]
    pub(crate) fn remove(&self, i: usize) {
        let last = self.len() - 1;
        if i < last - i {
            (0..i).rev().for_each(|j| self.put(j + 1, self.slot(j)));
            self.set_key(0, i64::MAX);
            self.start.set((self.start.get() + 1) % WIDTH as u8);
        } else {
            (i..last).for_each(|j| self.put(j, self.slot(j + 1)));
            self.set_key(last, i64::MAX);
        }
        self.len.set(last as u8);
    }

    /// Keeps the first `len` slots.
    pub(crate) fn truncate(&self, len: usize) {
        (len..self.len()).for_each(|i| self.set_key(i, i64::MAX));
        self.len.set(len as u8);
    }

    /// The slot of `id`, which is here.
    #[inline(always)]
    pub(crate) fn find(&self, id: u32) -> usize {
        let last = self.len() - 1;
        (0..last).find(|&i| self.id(i) == id).unwrap_or(last)
    }

    /// How many slots have no greater key.
    #[inline(always)]
    pub(crate) fn count_up_to(&self, key: i64) -> usize {
        self.keys.iter().map(|k| usize::from(k.get() <= key)).sum::<usize>().min(self.len())
    }

    /// The smallest `low` of the slots.
    #[inline(always)]
    pub(crate) fn lowest(&self) -> i64 {
        (0..self.len()).map(|i| self.low_of(i)).min().unwrap_or(i64::MAX)
    }
}
