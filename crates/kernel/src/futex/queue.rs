//! The table of queues, and their nodes.

use super::pool::NodePool;
use crate::Kernel;
use crate::machine::Machine;
use abi::Errno;
use alloc::boxed::Box;
use ids::{THREADS_MAX, ThreadIdx};
use sched::Urgency;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use sync::{Guard, Lock};

/// No node, or no bucket.
pub(super) const NONE: u32 = u32::MAX;
/// Large enough that with 100,000 threads that wait for words of their own most have a bucket for themselves. Only used
/// parts of the table take memory.
const BUCKETS_LOG2: u32 = 18;
const BUCKETS: usize = 1 << BUCKETS_LOG2;
const OWN_END: u32 = THREADS_MAX as u32;

/// A node by number: below [`THREADS_MAX`] that thread's own node, from there on one of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// The own node of a thread.
    #[inline(always)]
    pub(super) fn own(t: ThreadIdx) -> NodeId {
        NodeId(t.0)
    }

    /// A node of the pool.
    pub(super) fn pooled(i: u32) -> NodeId {
        NodeId(OWN_END + i)
    }
}

/// The role of a node in a queue, which decides what kind of wake-up may take it out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Role {
    /// FUTEX_WAIT: any wake.
    Plain = 0,
    /// One word of `futex_waitv(2)`: any wake.
    Vector = 1,
    /// FUTEX_WAIT_REQUEUE_PI, not moved yet: FUTEX_CMP_REQUEUE_PI only.
    RequeuePi = 2,
    /// A waiter for a PI lock: the owner's unlock or exit only.
    Pi = 3,
}

/// A place in a queue, guarded by the lock of the bucket it names. A thread that reads "no bucket" in its own node
/// needs no lock: whoever took it out wrote that last.
#[derive(Debug)]
pub struct Node {
    pub(super) next: AtomicU32,
    prev: AtomicU32,
    /// The bucket it is in, or [`NONE`].
    bucket: AtomicU32,
    /// The word it waits on.
    pub(super) addr: AtomicU64,
    /// Which wakes it answers to.
    pub(super) bitset: AtomicU32,
    /// The waiter's rank when it joined: lower goes first.
    pub(super) rank: AtomicU32,
    /// The waiter's number among all that ever joined this bucket, wrapping.
    pub(super) joined: AtomicU32,
    /// A [`Role`].
    role: AtomicU32,
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
            joined: AtomicU32::new(0),
            role: AtomicU32::new(0),
        }
    }
}

impl Node {
    /// The word that it waits on, or waited on last.
    pub fn address(&self) -> u64 {
        self.addr.load(Relaxed)
    }

    /// Notes that the node stands for a word that is waited for at the host; it joins no queue.
    pub(super) fn belongs_to_host(&self) {
        self.addr.store(0, Relaxed);
    }

    /// Whether it does. No word that is waited for here lies at address 0.
    pub(super) fn is_hosts(&self) -> bool {
        self.address() == 0
    }

    /// Whether it is in a queue.
    #[inline(always)]
    pub fn queued(&self) -> bool {
        self.bucket.load(Acquire) != NONE
    }

    /// Whether any wake may take it out.
    #[inline(always)]
    pub(super) fn answers_to_wakes(&self) -> bool {
        self.role.load(Relaxed) <= Role::Vector as u32
    }

    /// The waiter's role.
    #[inline(always)]
    pub(super) fn role(&self) -> Role {
        [Role::Plain, Role::Vector, Role::RequeuePi, Role::Pi][self.role.load(Relaxed) as usize & 3]
    }
}

/// The ends of a queue, and how many have ever joined it. All zero is a valid empty queue: the ends are stored
/// inverted, so that zero is [`NONE`].
type Words = [u32; 3];
const HEAD: usize = 0;
const TAIL: usize = 1;
const JOINED: usize = 2;

/// A locked queue.
#[derive(Debug)]
pub struct Bucket<'a> {
    words: Guard<'a, Words>,
    index: u32,
}

impl Bucket<'_> {
    fn head(&self) -> u32 {
        !self.words[HEAD]
    }

    fn set_head(&mut self, id: u32) {
        self.words[HEAD] = !id;
    }

    /// Whether no node is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.head() == NONE
    }

    fn tail(&self) -> u32 {
        !self.words[TAIL]
    }

    fn set_tail(&mut self, id: u32) {
        self.words[TAIL] = !id;
    }

    /// How many have ever joined, wrapping.
    pub(super) fn joined(&self) -> u32 {
        self.words[JOINED]
    }

    /// Counts a node that joins; returns its number.
    fn count(&mut self) -> u32 {
        let number = self.words[JOINED];
        self.words[JOINED] = number.wrapping_add(1);
        number
    }
}

/// All queues.
#[derive(Debug)]
pub struct FutexTable {
    buckets: Box<[Lock<Words>; BUCKETS]>,
    pub(super) pool: NodePool,
    pub(super) pi: Lock<super::pi::PiState>,
}

impl FutexTable {
    /// `None` if there is no memory.
    pub(crate) fn new() -> Option<FutexTable> {
        Some(FutexTable {
            buckets: sync::zeroed_slice(BUCKETS)?.try_into().ok()?,
            pool: NodePool::default(),
            pi: Lock::default(),
        })
    }

    /// The number of the queue for a word, or for a key that is no address ([`USER_END`](crate::USER_END)).
    ///
    /// Words are scattered over the table. Other keys are numbers from a small range, descriptors for instance, and
    /// their queues are neighbours: scattered, almost each of a thousand would use a page of the table.
    #[inline(always)]
    pub fn hash(key: u64) -> u32 {
        // Words are four bytes, and keys have the same distance.
        let number = key >> 2;
        if key < crate::USER_END {
            // Fibonacci hashing.
            (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS_LOG2)) as u32
        } else {
            (number % BUCKETS as u64) as u32
        }
    }

    #[inline(always)]
    fn bucket(&self, index: u32) -> Bucket<'_> {
        // The remainder saves a bounds check.
        Bucket { words: self.buckets[index as usize % BUCKETS].lock(), index }
    }

    /// Locks the queue of a word.
    #[inline(always)]
    pub fn lock(&self, addr: u64) -> Bucket<'_> {
        self.bucket(FutexTable::hash(addr))
    }

    /// Locks the queues of two words, lower number first.
    pub fn lock_two(&self, a: u64, b: u64) -> Two<'_> {
        let (i, j) = (FutexTable::hash(a), FutexTable::hash(b));
        if i == j {
            return Two { first: self.bucket(i), second: None };
        }
        let low = self.bucket(i.min(j));
        let high = self.bucket(i.max(j));
        let (first, second) = if i < j { (low, high) } else { (high, low) };
        Two { first, second: Some(second) }
    }

    /// Locks the queue of a node, if the node is still in one when the lock is held.
    pub fn lock_of(&self, node: &Node) -> Option<Bucket<'_>> {
        loop {
            let i = node.bucket.load(Acquire);
            if i == NONE {
                return None;
            }
            let bucket = self.bucket(i);
            match node.bucket.load(Relaxed) {
                now if now == i => return Some(bucket),
                NONE => return None,
                _ => {}
            }
        }
    }
}

/// The locked queues of two words, which may be the same queue.
#[derive(Debug)]
pub struct Two<'a> {
    /// The bucket of the first word.
    pub first: Bucket<'a>,
    second: Option<Bucket<'a>>,
}

impl<'a> Two<'a> {
    /// The bucket of the second word.
    pub fn second(&mut self) -> &mut Bucket<'a> {
        self.second.as_mut().unwrap_or(&mut self.first)
    }
}

/// The rank of all waiters without a priority.
const FAIR: u32 = 100;

/// The rank in a queue: deadline and real-time threads by urgency, all others equal (`__futex_queue`).
fn rank(urgency: Urgency) -> u32 {
    match urgency {
        Urgency::Stop | Urgency::Deadline(_) => 0,
        Urgency::Rt(priority) => FAIR - u32::from(priority.0),
        Urgency::Fair => FAIR,
    }
}

impl<M: Machine> Kernel<M> {
    /// Puts the own node of `t` into a queue, behind all that are at least as urgent.
    #[inline(always)]
    pub(super) fn enqueue(&self, bucket: &mut Bucket<'_>, t: ThreadIdx, addr: u64, bitset: u32, role: Role) {
        self.enqueue_node(bucket, NodeId::own(t), t, addr, bitset, role);
    }

    /// Puts a node of thread `t` into a queue.
    #[inline(always)]
    pub(super) fn enqueue_node(
        &self,
        bucket: &mut Bucket<'_>,
        id: NodeId,
        t: ThreadIdx,
        addr: u64,
        bitset: u32,
        role: Role,
    ) {
        let node = self.node(id);
        node.bitset.store(bitset, Relaxed);
        let rank = if self.sched.is_fair(t) { FAIR } else { rank(self.sched.urgency(t)) };
        node.rank.store(rank, Relaxed);
        self.link(bucket, node, id, addr, role);
    }

    /// Links a node into its bucket by rank.
    #[inline(always)]
    fn link(&self, bucket: &mut Bucket<'_>, node: &Node, id: NodeId, addr: u64, role: Role) {
        let rank = node.rank.load(Relaxed);
        node.addr.store(addr, Relaxed);
        node.role.store(role as u32, Relaxed);
        node.joined.store(bucket.count(), Relaxed);
        let mut after = bucket.tail();
        while after != NONE && self.node(NodeId(after)).rank.load(Relaxed) > rank {
            after = self.node(NodeId(after)).prev.load(Relaxed);
        }
        let before = if after == NONE {
            let head = bucket.head();
            bucket.set_head(id.0);
            head
        } else {
            let next = &self.node(NodeId(after)).next;
            let before = next.load(Relaxed);
            next.store(id.0, Relaxed);
            before
        };
        node.prev.store(after, Relaxed);
        node.next.store(before, Relaxed);
        if before == NONE {
            bucket.set_tail(id.0);
        } else {
            self.node(NodeId(before)).prev.store(id.0, Relaxed);
        }
        node.bucket.store(bucket.index, Release);
    }

    #[inline(always)]
    fn unlink(&self, bucket: &mut Bucket<'_>, node: &Node) {
        let (prev, next) = (node.prev.load(Relaxed), node.next.load(Relaxed));
        match prev {
            NONE => bucket.set_head(next),
            p => self.node(NodeId(p)).next.store(next, Relaxed),
        }
        match next {
            NONE => bucket.set_tail(prev),
            n => self.node(NodeId(n)).prev.store(prev, Relaxed),
        }
    }

    /// Takes a node out of its queue. After this its thread may end at any time.
    #[inline(always)]
    pub(super) fn dequeue(&self, bucket: &mut Bucket<'_>, id: NodeId) {
        self.dequeue_node(bucket, self.node(id));
    }

    /// `dequeue`, for callers that already have the node.
    #[inline(always)]
    pub(super) fn dequeue_node(&self, bucket: &mut Bucket<'_>, node: &Node) {
        self.unlink(bucket, node);
        node.bucket.store(NONE, Release);
    }

    /// Moves a waiter from one word's queue to another's. It is never seen outside a queue, which its thread would take
    /// for a wake-up.
    pub(super) fn transfer(&self, two: &mut Two<'_>, id: NodeId, addr: u64, role: Role) {
        let node = self.node(id);
        self.unlink(&mut two.first, node);
        self.link(two.second(), node, id, addr, role);
    }

    /// Takes the first waiter on `addr` that answers to `bitset` out of its queue. `Err` if a waiter for a PI lock
    /// precedes it.
    #[inline(always)]
    pub(super) fn take_first(&self, bucket: &mut Bucket, addr: u64, bitset: u32) -> Result<Option<ThreadIdx>, Errno> {
        let mut at = bucket.head();
        while at != NONE {
            let node = self.node(NodeId(at));
            if node.addr.load(Relaxed) == addr {
                if !node.answers_to_wakes() {
                    return Err(Errno::EINVAL);
                }
                if node.bitset.load(Relaxed) & bitset != 0 {
                    let t = self.thread_of(NodeId(at));
                    self.dequeue_node(bucket, node);
                    return Ok(Some(t));
                }
            }
            at = node.next.load(Relaxed);
        }
        Ok(None)
    }

    /// The nodes on a word, most urgent first. The last one returned may be taken out.
    pub(super) fn waiters<'a>(&'a self, bucket: &Bucket<'_>, addr: u64) -> impl Iterator<Item = NodeId> + 'a {
        let mut at = bucket.head();
        core::iter::from_fn(move || {
            while at != NONE {
                let id = NodeId(at);
                let node = self.node(id);
                at = node.next.load(Relaxed);
                if node.addr.load(Relaxed) == addr {
                    return Some(id);
                }
            }
            None
        })
    }

    #[inline(always)]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        if id.0 < OWN_END { &self.thread(ThreadIdx(id.0)).node } else { self.futexes.pool.node(id.0 - OWN_END) }
    }

    /// The node's thread. A pool node must be in a queue whose lock is held.
    #[inline(always)]
    pub(super) fn thread_of(&self, id: NodeId) -> ThreadIdx {
        if id.0 < OWN_END { ThreadIdx(id.0) } else { self.futexes.pool.thread(id.0 - OWN_END) }
    }
}
