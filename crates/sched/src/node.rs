//! Nodes of the trees in [`crate::tree`]: up to sixteen ordered slots. Each slot holds everything a search compares,
//! so a search reads few cache lines and none of the threads' own.
//!
//! A leaf's slot stays in its place as long as it exists; only the order of the places changes, sixteen four-bit
//! numbers in one word (as in the border nodes of Masstree: Mao, Kohler and Morris 2012). So insertion and removal move
//! nothing. Inner nodes change ten times less often than they are searched, so their slots are in order and a search
//! need not load that word. Unused places hold the greatest key, so a search needs no branch on keys.
//!
//! The first four lines hold all that a search reads, so they can be prefetched together.
//!
//! Nodes are allocated with the threads ([`crate::table::Table::reserve`]) and wait in a free list, so queueing never
//! allocates. `tree.rs` proves that there are always enough.

use crate::field::{FieldI64, FieldU8, FieldU32, FieldU64};
use ids::ThreadIdx;

/// Slots of a node.
pub(crate) const WIDTH: usize = 16;
/// The cache lines of a node that a search reads.
pub(crate) const SEARCHED_LINES: usize = 4;
/// The greatest key of a member; places without a slot have a greater one.
pub(crate) const KEY_MAX: i64 = NO_KEY - 1;
const NO_KEY: i64 = i64::MAX;
/// No node.
pub(crate) const NONE: u32 = ThreadIdx::NONE.0;

/// One slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// A thread, or a node below.
    pub id: u32,
    /// The thread's key, at most [`KEY_MAX`]; for a node, a lower bound of the keys below. (The first slot of an inner
    /// node has the smallest possible key: whatever precedes the second belongs there.)
    pub key: i64,
    /// The thread's `vruntime`; for an inner node, a lower bound of those below.
    pub low: i64,
}

/// A leaf, whose slots are threads, or an inner node, whose slots are nodes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// The node above; in the free list, the next node.
    pub above: FieldU32,
    len: FieldU8,
    /// The height of the node: 0 if its slots are threads.
    level: FieldU8,
    /// The places of the first slot, the second and so on, then the unused places; four bits each, from the lowest. For
    /// an inner node they are in order.
    order: FieldU64,
    /// A lower bound of each `vruntime` here and below.
    pub low: FieldI64,
    /// A superset of all masks here and below (folded: see `Table::fold`).
    pub masks: FieldU64,
    keys: Line<[FieldI64; WIDTH]>,
    ids: [FieldU32; WIDTH],
    lows: [FieldI64; WIDTH],
}

/// Aligned to a cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

/// The order of a node in which nothing was moved.
const IN_ORDER: u64 = 0xfedc_ba98_7654_3210;

impl Node {
    pub(crate) fn new() -> Node {
        Node {
            above: FieldU32::from(NONE),
            len: FieldU8::default(),
            level: FieldU8::default(),
            order: FieldU64::from(IN_ORDER),
            low: FieldI64::from(i64::MAX),
            masks: FieldU64::default(),
            keys: Line(core::array::from_fn(|_| FieldI64::from(NO_KEY))),
            ids: Default::default(),
            lows: Default::default(),
        }
    }

    /// Turns an empty node into one of this level.
    pub(crate) fn reset(&self, level: u8, above: u32) {
        debug_assert!(self.len() == 0 && self.keys.0.iter().all(|key| key.get() == NO_KEY));
        self.above.set(above);
        self.level.set(level);
        self.order.set(IN_ORDER);
        self.low.set(i64::MAX);
        self.masks.set(0);
    }

    /// Removes all slots.
    pub(crate) fn clear(&self) {
        self.len.set(0);
        self.keys.0.iter().for_each(|key| key.set(NO_KEY));
    }

    #[inline(always)]
    pub(crate) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    #[inline(always)]
    pub(crate) fn level(&self) -> u8 {
        self.level.get()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len.get())
    }

    /// The place of slot `i`.
    #[inline(always)]
    fn place(&self, i: usize) -> usize {
        place_in(self.order.get(), i)
    }

    #[inline(always)]
    pub(crate) fn id(&self, i: usize) -> u32 {
        self.ids[self.place(i)].get()
    }

    #[inline(always)]
    pub(crate) fn key(&self, i: usize) -> i64 {
        self.keys.0[self.place(i)].get()
    }

    #[inline(always)]
    pub(crate) fn low_of(&self, i: usize) -> i64 {
        self.lows[self.place(i)].get()
    }

    pub(crate) fn set_key(&self, i: usize, key: i64) {
        self.keys.0[self.place(i)].set(key);
    }

    pub(crate) fn set_low(&self, i: usize, low: i64) {
        self.lows[self.place(i)].set(low);
    }

    #[inline(always)]
    pub(crate) fn slot(&self, i: usize) -> Slot {
        self.at(self.place(i))
    }

    /// Inserts a slot before slot `i`. There must be room.
    #[inline(always)]
    pub(crate) fn insert(&self, i: usize, slot: Slot) {
        let len = self.len();
        self.len.set(len as u8 + 1);
        if !self.is_leaf() {
            (i..len).rev().for_each(|from| self.put(from + 1, self.at(from)));
            return self.put(i, if i == 0 { Slot { key: i64::MIN, ..slot } } else { slot });
        }
        // The last place in the order is free: it moves before those from `i` on.
        let (order, before) = (self.order.get(), lowest(i));
        let p = place_in(order, WIDTH - 1);
        self.put(p, slot);
        self.order.set(order & before | (p as u64) << (4 * i) | (order & !before) << 4);
    }

    /// Removes slot `i`.
    #[inline(always)]
    pub(crate) fn remove(&self, i: usize) {
        let last = self.len() - 1;
        self.len.set(last as u8);
        if !self.is_leaf() {
            (i..last).for_each(|to| self.put(to, self.at(to + 1)));
            self.keys.0[0].set(i64::MIN);
            return self.keys.0[last % WIDTH].set(NO_KEY);
        }
        // The inverse of `insert`.
        let (order, before) = (self.order.get(), lowest(i));
        let p = place_in(order, i);
        self.keys.0[p].set(NO_KEY);
        self.order.set(order & before | order >> 4 & !before | (p as u64) << (4 * (WIDTH - 1)));
    }

    /// The entry at place `p`.
    #[inline(always)]
    fn at(&self, p: usize) -> Slot {
        let p = p % WIDTH;
        Slot { id: self.ids[p].get(), key: self.keys.0[p].get(), low: self.lows[p].get() }
    }

    #[inline(always)]
    fn put(&self, p: usize, slot: Slot) {
        let p = p % WIDTH;
        self.ids[p].set(slot.id);
        self.keys.0[p].set(slot.key);
        self.lows[p].set(slot.low);
    }

    /// The slot of `id`, a thread in this leaf.
    #[inline(always)]
    pub(crate) fn find(&self, id: u32) -> usize {
        let last = self.len() - 1;
        (0..last).find(|&i| self.id(i) == id).unwrap_or(last)
    }

    /// The slot of `id`, a node below this one.
    #[inline(always)]
    pub(crate) fn find_below(&self, id: u32) -> usize {
        let last = self.len() - 1;
        self.ids[..last % WIDTH].iter().position(|here| here.get() == id).unwrap_or(last)
    }

    /// How many slots of a leaf have a key that is not greater.
    #[inline(always)]
    pub(crate) fn count_up_to(&self, key: i64) -> usize {
        let one = |order: u64, i: usize| usize::from(self.keys.0[place_in(order, i)].get() <= key);
        // Find the right four first: seven comparisons, of which four depend on three.
        let order = self.order.get();
        let four = 4 * (one(order, 3) + one(order, 7) + one(order, 11));
        let order = order >> (4 * four);
        four + one(order, 0) + one(order, 1) + one(order, 2) + one(order, 3)
    }

    /// The node below this one where this key belongs. Narrows `range` to that node's keys.
    #[inline(always)]
    pub(crate) fn below(&self, key: i64, (from, until): (&mut i64, &mut i64)) -> u32 {
        let one = |i: usize| usize::from(self.keys.0[i % WIDTH].get() <= key);
        let four = 4 * (one(3) + one(7) + one(11));
        let next = four + one(four) + one(four + 1) + one(four + 2) + one(four + 3);
        let at = next.wrapping_sub(1) % WIDTH;
        *from = self.keys.0[at].get().max(*from);
        let end = self.keys.0[next % WIDTH].get();
        *until = if next == WIDTH { NO_KEY } else { end }.min(*until);
        self.ids[at].get()
    }

    /// Moves the slots from the `keep`-th on to `to`, which is empty and of the same level. `moved` is called for each.
    #[inline(always)]
    pub(crate) fn move_behind(&self, keep: usize, to: &Node, moved: impl Fn(u32)) {
        let (order, len) = (self.order.get(), self.len());
        let mut low = i64::MAX;
        for i in keep..len {
            let from = place_in(order, i);
            let slot = self.at(from);
            to.put(i - keep, slot);
            self.keys.0[from].set(NO_KEY);
            low = low.min(slot.low);
            moved(slot.id);
        }
        if !self.is_leaf() && keep < len {
            to.keys.0[0].set(i64::MIN);
        }
        to.low.set(low);
        to.len.set((len - keep) as u8);
        self.len.set(keep as u8);
    }

    /// The smallest `low` of the slots.
    #[inline(always)]
    pub(crate) fn lowest(&self) -> i64 {
        (0..self.len()).map(|i| self.low_of(i)).min().unwrap_or(i64::MAX)
    }
}

/// The place of slot `i` in this order.
#[inline(always)]
fn place_in(order: u64, i: usize) -> usize {
    (order >> (4 * i % 64)) as usize % WIDTH
}

/// The bits of the first `n` of sixteen places, of at most fifteen.
#[inline(always)]
const fn lowest(n: usize) -> u64 {
    (1 << (4 * n)) - 1
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::cell::RefCell;
    use proptest::prelude::*;

    /// A node of this level with these keys, its slots numbered from 1 on.
    fn node(level: u8, keys: &[i64]) -> Node {
        let node = Node::new();
        node.reset(level, NONE);
        keys.iter().enumerate().for_each(|(i, &key)| node.insert(i, Slot { id: i as u32 + 1, key, low: -key }));
        node
    }

    fn slots(node: &Node) -> Vec<Slot> {
        (0..node.len()).map(|i| node.slot(i)).collect()
    }

    #[test]
    fn what_a_search_reads_is_in_the_first_lines() {
        assert_eq!(core::mem::size_of::<Node>(), 384);
        let end = core::mem::offset_of!(Node, ids) + WIDTH * 4;
        assert_eq!((core::mem::offset_of!(Node, keys), end), (64, SEARCHED_LINES * 64));
    }

    proptest! {
        /// Slots come and go anywhere: the same as in a list; and no place without a slot has a key that a search counts.
        #[test]
        fn agrees_with_a_list(
            level in 0u8..2,
            steps in prop::collection::vec((any::<bool>(), 0usize..16, -9i64..9), 1..120)
        ) {
            let (node, mut model) = (node(level, &[]), Vec::new());
            for (step, (add, at, key)) in steps.into_iter().enumerate() {
                if (add || model.is_empty()) && model.len() < WIDTH {
                    let (i, slot) = (at % (model.len() + 1), Slot { id: step as u32, key, low: key - 7 });
                    node.insert(i, slot);
                    model.insert(i, slot);
                } else {
                    node.remove(at % model.len());
                    model.remove(at % model.len());
                }
                if level > 0 && let Some(first) = model.first_mut() {
                    first.key = i64::MIN;
                }
                prop_assert_eq!(slots(&node), model.clone());
                prop_assert!(model.iter().enumerate().all(|(i, slot)| node.find(slot.id) == i));
                prop_assert_eq!(node.lowest(), model.iter().map(|slot| slot.low).min().unwrap_or(i64::MAX));
                prop_assert_eq!(node.keys.0.iter().filter(|k| k.get() != NO_KEY).count(), model.len());
                prop_assert!(level == 0 || node.order.get() == IN_ORDER);
            }
        }

        /// A search in any full or partly full node; what comes before the second slot of an inner node is in its first.
        #[test]
        fn finds_where_a_key_belongs(mut keys in prop::collection::vec(-9i64..9, 1..=16), key in -10i64..10) {
            keys.sort_unstable();
            let up_to = keys.iter().filter(|&&k| k <= key).count();
            prop_assert_eq!(node(0, &keys).count_up_to(key), up_to);
            let at = keys[1..].iter().filter(|&&k| k <= key).count();
            let (mut from, mut until) = (-100, 100);
            let inner = node(1, &keys);
            prop_assert_eq!(inner.below(key, (&mut from, &mut until)), at as u32 + 1);
            prop_assert_eq!(from, if at == 0 { -100 } else { keys[at] });
            prop_assert_eq!(until, keys.get(at + 1).copied().unwrap_or(100));
        }

        /// Moved slots keep their order and are gone from the source.
        #[test]
        fn moves_what_is_behind(
            level in 0u8..2,
            keys in prop::collection::vec(-9i64..9, 1..=16),
            keep in 0usize..=16,
            gone in 0usize..16
        ) {
            let (from, to, moved_ids) = (node(level, &keys), node(level, &[]), RefCell::new(Vec::new()));
            // This shuffles the places.
            let moved = from.slot(gone % keys.len());
            from.remove(gone % keys.len());
            from.insert(0, moved);
            let (all, keep) = (slots(&from), keep.min(keys.len()));
            from.move_behind(keep, &to, |id| moved_ids.borrow_mut().push(id));
            prop_assert_eq!(slots(&from), all[..keep].to_vec());
            let mut there = all[keep..].to_vec();
            prop_assert_eq!(moved_ids.into_inner(), there.iter().map(|slot| slot.id).collect::<Vec<_>>());
            prop_assert_eq!(to.low.get(), to.lowest());
            if level > 0 && let Some(first) = there.first_mut() {
                first.key = i64::MIN;
            }
            prop_assert_eq!(slots(&to), there);
            prop_assert_eq!((from.len(), to.len()), (keep, all.len() - keep));
            prop_assert!([&from, &to].iter().all(|n| n.keys.0.iter().filter(|k| k.get() != NO_KEY).count() == n.len()));
        }
    }
}
