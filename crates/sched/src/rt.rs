//! The real-time queue: one list per level and a bitmap of the levels in use, so that
//! the most urgent thread is found in constant time (the "active array" of O(1)).
//!
//! A running thread stays in its list, at the head: that is how a preempted FIFO thread keeps its place. A second queue
//! of the same form holds the *pushable* threads: waiting, and allowed elsewhere.

use crate::entity::{Class, Entity};
use crate::field::FieldU32;
use crate::table::Table;
use ids::ThreadIdx;

const NONE: u32 = ThreadIdx::NONE.0;
/// Level 0 is the stop class, levels 1..=99 are user priorities 99..=1.
const LEVELS: usize = 100;
/// Whether the class is in this build. Without it (`no-rt`) its threads are fair ones, and nothing checks for it. That
/// build exists for comparison: what does the class cost threads that do not use it?
pub(crate) const BUILT: bool = !cfg!(feature = "no-rt");
/// Smaller is more urgent: this is less urgent than every level.
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

    /// The most urgent member for which `wanted` holds, examining at most `most`.
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
    /// Waiting threads that may run on another CPU.
    pub pushable: PriorityArray<true>,
}

impl RtQueue {
    /// Whether it has no thread, running or waiting.
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

    /// Removes `t`; `running`: it is the CPU's current thread.
    pub(crate) fn dequeue(&mut self, table: &Table, t: ThreadIdx, running: bool) {
        if !running {
            self.take_from_pushable(table, t);
        }
        self.active.remove(table, t);
        self.len -= 1;
    }

    /// `t` stops running but stays runnable: from now on it can be pushed.
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

/// Whether other CPUs may take it while it waits. Stop threads stay where they are.
fn can_push(e: &Entity) -> bool {
    e.movable.get() != 0 && e.class() == Class::Rt
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::attr::Attr;
    use ids::{CpuMask, Nanos};
    use std::vec::Vec;

    /// Threads 0, 1, … of these priorities; even ones may go elsewhere.
    fn table(priorities: &[u8]) -> Table {
        let table = Table::new(2).unwrap();
        for (i, &p) in (0..).zip(priorities) {
            table.reserve(ThreadIdx(i)).unwrap();
            table.get(ThreadIdx(i)).set_attr(&Attr::fifo(p), 700_000, Nanos(1));
            table.set_mask(ThreadIdx(i), &CpuMask::first(if i % 2 == 0 { 2 } else { 1 }));
        }
        table
    }

    fn all<const P: bool>(a: &PriorityArray<P>, table: &Table) -> Vec<u32> {
        let mut seen = Vec::new();
        let found = a.find(table, u32::MAX, |t, _| {
            seen.push(t.0);
            false
        });
        assert_eq!((found, a.first()), (None, seen.first().map(|&n| ThreadIdx(n))));
        seen
    }

    #[test]
    fn members_are_in_order_of_priority_and_place() {
        let table = table(&[20, 20, 20, 99, 1, 20]);
        let mut a = PriorityArray::<false>::new();
        assert_eq!((a.best(), a.first()), (NO_LEVEL, None));
        [0, 1, 4, 3].iter().for_each(|&i| a.push_back(&table, ThreadIdx(i)));
        a.push_front(&table, ThreadIdx(2));
        assert_eq!((all(&a, &table), a.best()), ([3, 2, 0, 1, 4].into(), 1));
        a.push_back(&table, ThreadIdx(5));
        a.remove(&table, ThreadIdx(0));
        assert_eq!(all(&a, &table), [3, 2, 1, 5, 4], "out of the middle");
        a.remove(&table, ThreadIdx(5));
        a.push_back(&table, ThreadIdx(0));
        assert_eq!(all(&a, &table), [3, 2, 1, 0, 4], "off the end, and behind the new one");
        a.remove(&table, ThreadIdx(3));
        a.remove(&table, ThreadIdx(2));
        a.push_front(&table, ThreadIdx(5));
        assert_eq!((all(&a, &table), a.best()), ([5, 1, 0, 4].into(), 80));
        [5, 1, 0].iter().for_each(|&i| a.remove(&table, ThreadIdx(i)));
        assert_eq!((all(&a, &table), a.best()), ([4].into(), 99));
        a.remove(&table, ThreadIdx(4));
        assert_eq!((all(&a, &table), a.best()), ([].into(), NO_LEVEL));
    }

    #[test]
    fn a_search_looks_at_so_many_and_no_more() {
        let table = table(&[20, 20, 20, 30]);
        let mut a = PriorityArray::<true>::new();
        (0..4).for_each(|i| a.push_back(&table, ThreadIdx(i)));
        for (most, found) in [(0, None), (3, None), (4, Some(ThreadIdx(2))), (9, Some(ThreadIdx(2)))] {
            let mut looks = 0;
            let hit = a.find(&table, most, |t, _| {
                looks += 1;
                t == ThreadIdx(2)
            });
            assert_eq!((hit, looks), (found, most.min(4)), "{most}");
        }
    }

    #[test]
    fn a_level_is_shared_by_two() {
        let table = table(&[20, 20, 30]);
        let mut q = RtQueue::new();
        assert!(q.is_empty());
        q.enqueue(&table, ThreadIdx(0), false);
        q.enqueue(&table, ThreadIdx(2), false);
        assert!(!q.active.shares_level(table.get(ThreadIdx(0))));
        q.move_to_tail(&table, ThreadIdx(0));
        q.enqueue(&table, ThreadIdx(1), true);
        assert!(q.active.shares_level(table.get(ThreadIdx(0))) && !q.active.shares_level(table.get(ThreadIdx(2))));
        assert_eq!((all(&q.active, &table), q.count(), q.is_empty()), ([2, 1, 0].into(), 3, false));
        q.move_to_tail(&table, ThreadIdx(1));
        assert_eq!(all(&q.active, &table), [2, 0, 1]);
    }

    #[test]
    fn only_what_waits_and_may_go_elsewhere_is_pushable() {
        let table = table(&[20, 20, 20]);
        let mut q = RtQueue::new();
        (0..3).for_each(|i| q.enqueue(&table, ThreadIdx(i), false));
        assert_eq!(all(&q.pushable, &table), [0, 2], "the other has one CPU only");
        q.take_from_pushable(&table, ThreadIdx(0));
        q.take_from_pushable(&table, ThreadIdx(1));
        assert_eq!((all(&q.pushable, &table), all(&q.active, &table)), ([2].into(), [0, 1, 2].into()));
        q.dequeue(&table, ThreadIdx(0), true);
        q.dequeue(&table, ThreadIdx(2), false);
        assert_eq!((all(&q.pushable, &table), all(&q.active, &table), q.count()), ([].into(), [1].into(), 1));
        let stop = table.get(ThreadIdx(0));
        stop.set_boost(Some(crate::Urgency::Stop));
        q.enqueue(&table, ThreadIdx(0), false);
        assert_eq!((all(&q.pushable, &table), q.active.best()), ([].into(), 0), "stop threads stay where they are");
    }
}
