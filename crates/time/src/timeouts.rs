//! Timeouts of threads: one queue per CPU, at most one timeout per thread and queue.
//!
//! A 4-ary heap over dense arrays. The four children of an entry share one cache line
//! (16 bytes an entry, lines of 64 bytes), and every thread knows where its entry stands,
//! so that cancelling needs no search. Why not something with cheaper arming: a pairing
//! heap or a timer wheel now and then moves *all* its entries inside one operation, and
//! a trap has a bound on its work. Here arming late timeouts and cancelling young ones,
//! the fate of nearly all timeouts, touches one or two lines; the worst case is one
//! path through the heap, 10 lines with a million threads.
//!
//! Timeouts of equal time expire in the order they were armed, as on Linux
//! (`timerqueue_add` goes right on equality).

use crate::OutOfMemory;
use alloc::vec::Vec;
use ids::{Nanos, ThreadIdx};

/// The root's place. Starting at 3 puts each group of four children on one line:
/// those of place `i` are `4 * (i - 2) ..`. Place 0 means "not in the heap".
const ROOT: usize = 3;
const ABSENT: u32 = 0;

/// One armed timeout: 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: Nanos,
    /// When it was armed, counted in arms and compared with wrap-around: right as long
    /// as two equal timeouts are armed within 2^31 arms of each other.
    order: u32,
    thread: u32,
}

impl Entry {
    #[inline(always)]
    fn before(&self, other: &Entry) -> bool {
        if self.at == other.at { (self.order.wrapping_sub(other.order) as i32) < 0 } else { self.at < other.at }
    }
}

/// Four entries on a cache line of their own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([Entry; 4]);

/// What the queue knows about a thread: 8 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    place: u32,
    generation: u32,
}

/// The timeouts of one CPU. 24 bytes per reserved thread.
///
/// Not synchronised: the owner guards it with the CPU's lock.
#[derive(Debug, Default)]
pub struct TimeoutQueue {
    heap: Vec<Line>,
    /// How many timeouts are armed.
    len: usize,
    threads: Vec<Thread>,
    arms: u32,
}

impl TimeoutQueue {
    /// An empty queue without room for any thread.
    pub const fn new() -> TimeoutQueue {
        TimeoutQueue { heap: Vec::new(), len: 0, threads: Vec::new(), arms: 0 }
    }

    /// Makes room for threads `0 .. threads`, so that arming never allocates.
    ///
    /// Room grows by doubling: a queue that is asked for one thread more each time
    /// copies itself once in a while, never at arming. On failure the queue is as before.
    pub fn reserve(&mut self, threads: usize) -> Result<(), OutOfMemory> {
        if threads <= self.threads.len() {
            return Ok(());
        }
        let lines = (threads + ROOT).div_ceil(4);
        self.heap.try_reserve(lines.saturating_sub(self.heap.len()))?;
        self.threads.try_reserve(threads - self.threads.len())?;
        self.heap.resize(lines.max(self.heap.len()), Line::default());
        self.threads.resize(threads, Thread::default());
        Ok(())
    }

    /// Arms the timeout of `thread` for time `at`; an armed one is moved there.
    /// `generation` comes back at expiry, so that the owner knows which wait it was.
    ///
    /// # Panics
    /// If no room was reserved for the thread.
    #[inline]
    pub fn arm(&mut self, thread: ThreadIdx, at: Nanos, generation: u32) {
        let known = &mut self.threads[thread.index()];
        known.generation = generation;
        let place = known.place as usize;
        self.arms = self.arms.wrapping_add(1);
        let entry = Entry { at, order: self.arms, thread: thread.0 };
        if place != ABSENT as usize {
            self.settle(place, entry);
        } else {
            let end = ROOT + self.len;
            self.len += 1;
            self.rise(end, entry);
        }
    }

    /// Takes the timeout of `thread` away; false if none was armed.
    #[inline]
    pub fn cancel(&mut self, thread: ThreadIdx) -> bool {
        let Some(known) = self.threads.get_mut(thread.index()) else { return false };
        let place = core::mem::replace(&mut known.place, ABSENT);
        if place == ABSENT {
            return false;
        }
        self.close_gap(place as usize);
        true
    }

    /// Whether a timeout of `thread` is armed here, and for when.
    pub fn armed(&self, thread: ThreadIdx) -> Option<Nanos> {
        let place = self.threads.get(thread.index())?.place;
        (place != ABSENT).then(|| self.at(place as usize).at)
    }

    /// When the first timeout is due.
    #[inline]
    pub fn earliest(&self) -> Option<Nanos> {
        (self.len != 0).then(|| self.at(ROOT).at)
    }

    /// Takes the first timeout away if it is due at `now` (`at <= now`).
    #[inline]
    pub fn pop_expired(&mut self, now: Nanos) -> Option<(ThreadIdx, u32)> {
        if self.len == 0 {
            return None;
        }
        let first = *self.at(ROOT);
        if first.at > now {
            return None;
        }
        let known = &mut self.threads[first.thread as usize];
        known.place = ABSENT;
        let generation = known.generation;
        self.close_gap(ROOT);
        Some((ThreadIdx(first.thread), generation))
    }

    /// How many timeouts are armed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timeout is armed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn at(&self, place: usize) -> &Entry {
        &self.heap[place / 4].0[place % 4]
    }

    #[inline(always)]
    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place / 4].0[place % 4] = entry;
        self.threads[entry.thread as usize].place = place as u32;
    }

    /// Fills the gap at `gap` with the last entry.
    #[inline]
    fn close_gap(&mut self, gap: usize) {
        self.len -= 1;
        let end = ROOT + self.len;
        if gap != end {
            let last = *self.at(end);
            self.settle(gap, last);
        }
    }

    /// Puts `entry` where it belongs, starting from the gap at `gap`.
    #[inline]
    fn settle(&mut self, gap: usize, entry: Entry) {
        if gap != ROOT && entry.before(self.at(parent(gap))) {
            self.rise(gap, entry);
        } else {
            self.sink(gap, entry);
        }
    }

    #[inline]
    fn rise(&mut self, mut gap: usize, entry: Entry) {
        while gap != ROOT {
            let up = *self.at(parent(gap));
            if !entry.before(&up) {
                break;
            }
            self.put(gap, up);
            gap = parent(gap);
        }
        self.put(gap, entry);
    }

    #[inline]
    fn sink(&mut self, mut gap: usize, entry: Entry) {
        let end = ROOT + self.len;
        loop {
            let child = 4 * (gap - 2);
            if child >= end {
                break;
            }
            let line = &self.heap[child / 4].0;
            let mut first = 0;
            for i in 1..4.min(end - child) {
                if line[i].before(&line[first]) {
                    first = i;
                }
            }
            let down = line[first];
            if !down.before(&entry) {
                break;
            }
            self.put(gap, down);
            gap = child + first;
        }
        self.put(gap, entry);
    }
}

#[inline(always)]
fn parent(place: usize) -> usize {
    place / 4 + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn queue(threads: usize) -> TimeoutQueue {
        let mut q = TimeoutQueue::new();
        q.reserve(threads).unwrap();
        q
    }

    #[test]
    fn expires_in_order_and_never_early() {
        let mut q = queue(3);
        q.arm(ThreadIdx(0), Nanos(30), 7);
        q.arm(ThreadIdx(1), Nanos(10), 8);
        q.arm(ThreadIdx(2), Nanos(20), 9);
        assert_eq!(q.earliest(), Some(Nanos(10)));
        assert_eq!(q.pop_expired(Nanos(9)), None);
        assert_eq!(q.pop_expired(Nanos(20)), Some((ThreadIdx(1), 8)));
        assert_eq!(q.pop_expired(Nanos(20)), Some((ThreadIdx(2), 9)));
        assert_eq!(q.pop_expired(Nanos(20)), None);
        assert_eq!(q.pop_expired(Nanos(30)), Some((ThreadIdx(0), 7)));
        assert!(q.is_empty() && q.earliest().is_none());
    }

    #[test]
    fn equal_times_expire_in_the_order_of_arming_even_over_the_wrap() {
        let mut q = queue(40);
        q.arms = u32::MAX - 20;
        for t in (0..40).rev() {
            q.arm(ThreadIdx(t), Nanos(5), t);
        }
        q.arm(ThreadIdx(39), Nanos(5), 39);
        let got: Vec<u32> = core::iter::from_fn(|| q.pop_expired(Nanos(5))).map(|(t, _)| t.0).collect();
        let want: Vec<u32> = (0..39).rev().chain([39]).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn cancel_says_whether_there_was_one() {
        let mut q = queue(2);
        assert!(!q.cancel(ThreadIdx(0)) && !q.cancel(ThreadIdx(77)));
        q.arm(ThreadIdx(1), Nanos(1), 0);
        assert_eq!(q.armed(ThreadIdx(1)), Some(Nanos(1)));
        assert!(q.cancel(ThreadIdx(1)));
        assert!(!q.cancel(ThreadIdx(1)));
        assert_eq!(q.pop_expired(Nanos::MAX), None);
    }

    #[test]
    #[should_panic]
    fn a_thread_without_room_is_a_bug_of_the_caller() {
        queue(4).arm(ThreadIdx(4), Nanos(1), 0);
    }

    #[test]
    fn memory_stays_in_its_bounds() {
        let q = queue(100_000);
        let bytes = q.heap.len() * size_of::<Line>() + q.threads.len() * size_of::<Thread>();
        assert!(bytes <= 24 * 100_000 + 128, "{bytes}");
    }

    #[derive(Clone, Debug)]
    enum Op {
        Arm(u32, u64),
        Cancel(u32),
        Pop(u64),
        Reserve(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..64u32, 0..200u64).prop_map(|(t, at)| Op::Arm(t, at)),
            2 => (0..64u32).prop_map(Op::Cancel),
            2 => (0..200u64).prop_map(Op::Pop),
            1 => (0..90usize).prop_map(Op::Reserve),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(ops in prop::collection::vec(op(), 1..400)) {
            let mut q = queue(64);
            let mut model: BTreeMap<(u64, u32), u32> = BTreeMap::new();
            let mut armed: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
            for (order, op) in ops.into_iter().enumerate() {
                let order = order as u32;
                match op {
                    Op::Arm(t, at) => {
                        q.arm(ThreadIdx(t), Nanos(at), order);
                        if let Some(old) = armed.insert(t, (at, order)) {
                            model.remove(&old);
                        }
                        model.insert((at, order), t);
                    }
                    Op::Cancel(t) => {
                        let old = armed.remove(&t);
                        prop_assert_eq!(q.cancel(ThreadIdx(t)), old.is_some());
                        old.map(|key| model.remove(&key));
                    }
                    Op::Pop(now) => {
                        let due = model.first_key_value().filter(|((at, _), _)| *at <= now).map(|(k, t)| (*k, *t));
                        let want = due.map(|((at, order), t)| {
                            model.remove(&(at, order));
                            armed.remove(&t);
                            (ThreadIdx(t), order)
                        });
                        prop_assert_eq!(q.pop_expired(Nanos(now)), want);
                    }
                    Op::Reserve(n) => q.reserve(n).unwrap(),
                }
                prop_assert_eq!(q.len(), model.len());
                prop_assert_eq!(q.earliest(), model.keys().next().map(|k| Nanos(k.0)));
            }
        }
    }
}
