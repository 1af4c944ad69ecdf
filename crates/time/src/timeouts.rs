//! Timeouts of threads: one queue per CPU, at most one timeout per thread and queue.
//!
//! Timeouts of equal time expire in the order they were armed.

use crate::OutOfMemory;
use crate::chunked::Chunked;
use crate::heap::{Heap, Places};
use ids::{Nanos, ThreadIdx};

/// The queue's record of a thread: 8 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// The timeout's place in the heap.
    place: u32,
    generation: u32,
}

/// The records of as many threads are allocated together as have room in a chunk of the heap.
const CHUNK: usize = 64;

impl Places for Chunked<Thread, CHUNK> {
    #[inline(always)]
    fn set_place(&mut self, item: u32, place: u32) {
        self[item as usize].place = place;
    }
}

/// The timeouts of one CPU. 24 bytes per reserved thread.
///
/// Not synchronised: the owner guards it with the CPU's lock.
#[derive(Debug, Default)]
pub struct TimeoutQueue {
    heap: Heap,
    threads: Chunked<Thread, CHUNK>,
}

impl TimeoutQueue {
    /// An empty queue without memory for any thread.
    pub const fn new() -> TimeoutQueue {
        TimeoutQueue { heap: Heap::new(), threads: Chunked::new() }
    }

    /// Reserves memory for threads `0 .. threads`, so that arming never allocates.
    ///
    /// Growing moves nothing. On failure the queue is unchanged, or slightly larger.
    pub fn reserve(&mut self, threads: usize) -> Result<(), OutOfMemory> {
        if threads > self.threads.len() {
            self.heap.reserve(threads.next_multiple_of(CHUNK))?;
            self.threads.grow(threads)?;
        }
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
        match known.place {
            Heap::ABSENT => self.heap.insert(thread.0, at, &mut self.threads),
            place => self.heap.change(place, at, &mut self.threads),
        }
    }

    /// Removes the timeout of `thread`; false if none was armed.
    #[inline]
    pub fn cancel(&mut self, thread: ThreadIdx) -> bool {
        match self.threads.get(thread.index()) {
            Some(known) if known.place != Heap::ABSENT => {
                self.heap.remove(known.place, &mut self.threads);
                true
            }
            _ => false,
        }
    }

    /// The time of the timeout of `thread` that is armed here, if there is one.
    pub fn armed(&self, thread: ThreadIdx) -> Option<Nanos> {
        let place = self.threads.get(thread.index())?.place;
        (place != Heap::ABSENT).then(|| self.heap.expiry(place))
    }

    /// The thread whose timeout is due first, and when.
    #[inline]
    pub fn first(&self) -> Option<(ThreadIdx, Nanos)> {
        self.heap.first().map(|(thread, at)| (ThreadIdx(thread), at))
    }

    /// When the first timeout is due.
    #[inline]
    pub fn earliest(&self) -> Option<Nanos> {
        self.heap.first().map(|(_, at)| at)
    }

    /// Takes the first timeout away if it is due according to its thread and time: whose it was and the generation it
    /// was armed with.
    #[inline]
    pub fn pop_if(&mut self, is_due: impl FnOnce(ThreadIdx, Nanos) -> bool) -> Option<(ThreadIdx, u32)> {
        let (thread, _) = self.heap.pop_if(&mut self.threads, |thread, at| is_due(ThreadIdx(thread), at))?;
        Some((ThreadIdx(thread), self.threads[thread as usize].generation))
    }

    /// How many timeouts are armed.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no timeout is armed.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl TimeoutQueue {
        fn pop_expired(&mut self, now: Nanos) -> Option<(ThreadIdx, u32)> {
            self.pop_if(|_, at| at <= now)
        }
    }

    fn queue(threads: usize) -> TimeoutQueue {
        let mut q = TimeoutQueue::new();
        q.reserve(threads).unwrap();
        q
    }

    #[test]
    fn expires_in_order_and_never_early() {
        let mut q = queue(3);
        assert!(q.is_empty());
        q.arm(ThreadIdx(0), Nanos(30), 7);
        assert!(!q.is_empty() && q.len() == 1);
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
        queue(4).arm(ThreadIdx(256), Nanos(1), 0);
    }

    #[test]
    fn memory_stays_in_its_bounds() {
        let q = queue(100_000);
        let bytes = q.heap.capacity() * 16 + q.threads.len() * size_of::<Thread>();
        assert!(bytes <= 24 * (100_000 + 1024), "{bytes}");
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
