use crate::Kernel;
use crate::machine::Machine;
use alloc::boxed::Box;
use ids::ThreadIdx;
use sched::Urgency;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use sync::{CachePadded, Guard, Lock};

const NONE: u32 = u32::MAX;
const BUCKETS_LOG2: u32 = 12;

/// A thread's place in a queue. Guarded by the lock of the bucket it names; a thread that
/// reads "no bucket" about itself needs no lock: whoever took it out wrote that last.
#[derive(Debug)]
pub struct Node {
    next: AtomicU32,
    prev: AtomicU32,
    /// The bucket it is in, or [`NONE`].
    bucket: AtomicU32,
    /// What it is waiting on.
    pub addr: AtomicU64,
    /// Which wakes it answers to.
    pub bitset: AtomicU32,
    /// Its rank in the queue when it joined: lower goes first.
    rank: AtomicU32,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            next: AtomicU32::new(NONE),
            prev: AtomicU32::new(NONE),
            bucket: AtomicU32::new(NONE),
            addr: AtomicU64::new(0),
            bitset: AtomicU32::new(0),
            rank: AtomicU32::new(0),
        }
    }
}

impl Node {
    /// Whether it is in a queue.
    #[inline(always)]
    pub fn queued(&self) -> bool {
        self.bucket.load(Acquire) != NONE
    }
}

/// The ends of a queue.
#[derive(Debug)]
pub struct Bucket {
    head: u32,
    tail: u32,
    index: u32,
}

/// All queues.
#[derive(Debug)]
pub struct FutexTable {
    buckets: Box<[CachePadded<Lock<Bucket>>]>,
}

impl FutexTable {
    pub(crate) fn new() -> FutexTable {
        let bucket = |index| CachePadded(Lock::new(Bucket { head: NONE, tail: NONE, index }));
        FutexTable { buckets: (0..1 << BUCKETS_LOG2).map(bucket).collect() }
    }

    /// The number of the queue for a word.
    #[inline(always)]
    pub fn hash(addr: u64) -> u32 {
        // Fibonacci hashing; words are four bytes.
        ((addr >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS_LOG2)) as u32
    }

    /// Locks the queue of a word.
    #[inline(always)]
    pub fn lock(&self, addr: u64) -> Guard<'_, Bucket> {
        self.buckets[FutexTable::hash(addr) as usize].lock()
    }

    /// Locks the queues of two words, in order of their numbers (ranked locks).
    pub fn lock_two(&self, a: u64, b: u64) -> (Guard<'_, Bucket>, Option<Guard<'_, Bucket>>) {
        let (i, j) = (FutexTable::hash(a), FutexTable::hash(b));
        if i == j {
            return (self.buckets[i as usize].lock(), None);
        }
        let first = self.buckets[i.min(j) as usize].lock();
        let second = self.buckets[i.max(j) as usize].lock();
        if i < j { (first, Some(second)) } else { (second, Some(first)) }
    }

    /// Locks the queue a node is in, if it still is in one once that is locked.
    pub fn lock_of(&self, node: &Node) -> Option<Guard<'_, Bucket>> {
        loop {
            let i = node.bucket.load(Acquire);
            if i == NONE {
                return None;
            }
            let guard = self.buckets[i as usize].lock();
            match node.bucket.load(Relaxed) {
                now if now == i => return Some(guard),
                NONE => return None,
                _ => {}
            }
        }
    }
}

/// The order of a queue: deadline and real-time threads by urgency, all others alike.
fn rank(urgency: Urgency) -> u32 {
    match urgency {
        Urgency::Stop | Urgency::Deadline(_) => 0,
        Urgency::Rt(priority) => 100 - u32::from(priority.0),
        Urgency::Fair => 100,
    }
}

impl<M: Machine> Kernel<M> {
    /// Joins a queue, behind everybody at least as urgent.
    pub(crate) fn enqueue(&self, bucket: &mut Bucket, t: ThreadIdx, addr: u64, bitset: u32) {
        let node = &self.thread(t).node;
        let rank = rank(self.sched.urgency(t));
        node.addr.store(addr, Relaxed);
        node.bitset.store(bitset, Relaxed);
        node.rank.store(rank, Relaxed);
        let mut after = bucket.tail;
        while after != NONE && self.node(after).rank.load(Relaxed) > rank {
            after = self.node(after).prev.load(Relaxed);
        }
        let before = if after == NONE {
            core::mem::replace(&mut bucket.head, t.0)
        } else {
            self.node(after).next.swap(t.0, Relaxed)
        };
        node.prev.store(after, Relaxed);
        node.next.store(before, Relaxed);
        if before == NONE {
            bucket.tail = t.0;
        } else {
            self.node(before).prev.store(t.0, Relaxed);
        }
        node.bucket.store(bucket.index, Release);
    }

    /// Leaves its queue. After this its thread may be gone.
    pub(crate) fn dequeue(&self, bucket: &mut Bucket, t: ThreadIdx) {
        let node = &self.thread(t).node;
        let (prev, next) = (node.prev.load(Relaxed), node.next.load(Relaxed));
        match prev {
            NONE => bucket.head = next,
            p => self.node(p).next.store(next, Relaxed),
        }
        match next {
            NONE => bucket.tail = prev,
            n => self.node(n).prev.store(prev, Relaxed),
        }
        node.bucket.store(NONE, Release);
    }

    /// The waiters on a word, most urgent first.
    pub(crate) fn waiters<'a>(&'a self, bucket: &Bucket, addr: u64) -> impl Iterator<Item = ThreadIdx> + 'a {
        let mut at = bucket.head;
        core::iter::from_fn(move || {
            while at != NONE {
                let t = ThreadIdx(at);
                let node = self.node(at);
                at = node.next.load(Relaxed);
                if node.addr.load(Relaxed) == addr {
                    return Some(t);
                }
            }
            None
        })
    }

    #[inline(always)]
    fn node(&self, i: u32) -> &Node {
        &self.thread(ThreadIdx(i)).node
    }
}
