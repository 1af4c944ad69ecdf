//! The real-time queue: one list per level and a bitmap of the levels in use, so that
//! the most urgent thread is found in constant time (the "active array" of O(1)).
//!
//! A running thread stays in its list, at the head: that is how a preempted FIFO thread
//! keeps its place. A second queue of the same form holds the *pushable* ones: queued, not
//! running, and allowed elsewhere.

use crate::entity::{Class, Entity};
use crate::field::FieldU32;
use crate::table::Table;
use ids::ThreadIdx;

const NONE: u32 = ThreadIdx::NONE.0;
/// Level 0 is the stop class, levels 1..=99 are user priorities 99..=1.
const LEVELS: usize = 100;
/// Whether the class is in this build: without it (`no-rt`) its threads are fair ones, and nothing asks for it. That build
/// exists to be compared with: what does the class cost those who do not use it?
pub(crate) const BUILT: bool = !cfg!(feature = "no-rt");
/// More urgent is smaller: this is less urgent than every level.
pub(crate) const NO_LEVEL: u8 = LEVELS as u8;

/// A priority array over one pair of links: the queue's (`PUSHABLE` false) or the pushable list's.
#[derive(Debug)]
pub(crate) struct PriorityArray<const PUSHABLE: bool> {
    used: u128,
    head: [u32; LEVELS],
    tail: [u32; LEVELS],
}

impl<const PUSHABLE: bool> PriorityArray<PUSHABLE> {
    pub(crate) const fn new() -> Self {
        PriorityArray { used: 0, head: [NONE; LEVELS], tail: [NONE; LEVELS] }
    }

    fn next(e: &Entity) -> &FieldU32 {
        if PUSHABLE { &e.push_next } else { &e.links.right }
    }

    fn prev(e: &Entity) -> &FieldU32 {
        if PUSHABLE { &e.push_prev } else { &e.links.left }
    }

    /// The most urgent level in use, or [`NO_LEVEL`].
    #[inline]
    pub(crate) fn best(&self) -> u8 {
        if self.used == 0 { NO_LEVEL } else { self.used.trailing_zeros() as u8 }
    }

    /// The head of the most urgent level.
    #[inline]
    pub(crate) fn first(&self) -> Option<ThreadIdx> {
        (self.used != 0).then(|| ThreadIdx(self.head[self.best() as usize]))
    }

    /// Whether `e` shares its level with somebody.
    pub(crate) fn shares_level(&self, e: &Entity) -> bool {
        let level = e.level.get() as usize;
        self.head[level] != self.tail[level]
    }

    /// Adds `t` behind all others of its level.
    pub(crate) fn push_back(&mut self, table: &Table, t: ThreadIdx) {
        let e = table.get(t);
        let level = e.level.get() as usize;
        let tail = self.tail[level];
        Self::next(e).set(NONE);
        Self::prev(e).set(tail);
        if tail == NONE {
            self.head[level] = t.0;
        } else {
            Self::next(table.get(ThreadIdx(tail))).set(t.0);
        }
        self.tail[level] = t.0;
        self.used |= 1 << level;
    }

    /// Adds `t` before all others of its level.
    pub(crate) fn push_front(&mut self, table: &Table, t: ThreadIdx) {
        let e = table.get(t);
        let level = e.level.get() as usize;
        let head = self.head[level];
        Self::prev(e).set(NONE);
        Self::next(e).set(head);
        if head == NONE {
            self.tail[level] = t.0;
        } else {
            Self::prev(table.get(ThreadIdx(head))).set(t.0);
        }
        self.head[level] = t.0;
        self.used |= 1 << level;
    }

    /// Removes `t`, a member.
    pub(crate) fn remove(&mut self, table: &Table, t: ThreadIdx) {
        let e = table.get(t);
        let level = e.level.get() as usize;
        let (prev, next) = (Self::prev(e).get(), Self::next(e).get());
        if prev == NONE {
            self.head[level] = next;
        } else {
            Self::next(table.get(ThreadIdx(prev))).set(next);
        }
        if next == NONE {
            self.tail[level] = prev;
        } else {
            Self::prev(table.get(ThreadIdx(next))).set(prev);
        }
        if self.head[level] == NONE {
            self.used &= !(1 << level);
        }
    }

    /// The most urgent member for which `wanted` holds, looking at no more than `most`.
    pub(crate) fn find(
        &self,
        table: &Table,
        most: u32,
        mut wanted: impl FnMut(ThreadIdx, &Entity) -> bool,
    ) -> Option<ThreadIdx> {
        let mut left = most;
        let mut levels = self.used;
        while levels != 0 {
            let level = levels.trailing_zeros();
            levels &= levels - 1;
            let mut n = self.head[level as usize];
            while n != NONE {
                if left == 0 {
                    return None;
                }
                left -= 1;
                let e = table.get(ThreadIdx(n));
                if wanted(ThreadIdx(n), e) {
                    return Some(ThreadIdx(n));
                }
                n = Self::next(e).get();
            }
        }
        None
    }
}

/// The real-time threads of one CPU.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RtQueue {
    /// Members of `active`.
    pub len: u32,
    /// Everything runnable, the running one included.
    pub active: PriorityArray<false>,
    /// What could run elsewhere.
    pub pushable: PriorityArray<true>,
}

impl RtQueue {
    /// Nobody is in it, running or waiting.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many are in it, running or waiting.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        if BUILT { self.len } else { 0 }
    }

    pub(crate) const fn new() -> RtQueue {
        RtQueue { active: PriorityArray::new(), pushable: PriorityArray::new(), len: 0 }
    }

    /// Adds `t`; it does not run.
    pub(crate) fn enqueue(&mut self, table: &Table, t: ThreadIdx, head: bool) {
        if head {
            self.active.push_front(table, t)
        } else {
            self.active.push_back(table, t)
        }
        self.len += 1;
        self.make_pushable(table, t);
    }

    /// Removes `t`; `running` says whether it is the CPU's current thread.
    pub(crate) fn dequeue(&mut self, table: &Table, t: ThreadIdx, running: bool) {
        if !running {
            self.take_from_pushable(table, t);
        }
        self.active.remove(table, t);
        self.len -= 1;
    }

    /// `t` stops running and stays: now it can be pushed.
    pub(crate) fn make_pushable(&mut self, table: &Table, t: ThreadIdx) {
        if can_push(table.get(t)) {
            self.pushable.push_back(table, t);
        }
    }

    /// `t` begins to run: a running thread is never pushable.
    pub(crate) fn take_from_pushable(&mut self, table: &Table, t: ThreadIdx) {
        if can_push(table.get(t)) {
            self.pushable.remove(table, t);
        }
    }

    /// Moves `t`, a member, behind all others of its level.
    pub(crate) fn move_to_tail(&mut self, table: &Table, t: ThreadIdx) {
        if self.active.shares_level(table.get(t)) {
            self.active.remove(table, t);
            self.active.push_back(table, t);
        }
    }
}

/// Whether others may take it while it waits. Stop threads stay where they are.
fn can_push(e: &Entity) -> bool {
    e.movable.get() != 0 && e.class() == Class::Rt
}
