//! Queues for things other than words: threads that wait for descriptors use them, under keys that no word has.

use super::queue::{NodeId, Role};
use super::wake::{Batch, Which};
use crate::machine::Machine;
use crate::{Kernel, WAKES_MAX};
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    fn node_id(t: ThreadIdx, pooled: Option<u32>) -> NodeId {
        pooled.map_or(NodeId::own(t), NodeId::pooled)
    }

    /// Takes `n` nodes for `t`, which waits in several queues; returns the number of the first. `None` without memory.
    pub fn take_nodes(&self, n: usize, t: ThreadIdx) -> Option<u32> {
        self.futexes.pool.take(n, t).ok()
    }

    /// The nodes from `first` on.
    pub fn nodes(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        self.futexes.pool.siblings(first)
    }

    /// Gives back nodes that are in no queue.
    pub fn give_nodes_back(&self, first: u32) {
        self.futexes.pool.give_back(first);
    }

    /// The thread's own node, or one that it has taken, joins a queue.
    pub fn join_queue(&self, t: ThreadIdx, pooled: Option<u32>, key: u64, bitset: u32) {
        let mut bucket = self.futexes.lock(key);
        self.enqueue_node(&mut bucket, Self::node_id(t, pooled), t, key, bitset, Role::Plain);
    }

    /// Joins the queue that it last left, as before.
    pub fn rejoin_queue(&self, t: ThreadIdx, pooled: Option<u32>) {
        let node = self.node(Self::node_id(t, pooled));
        self.join_queue(t, pooled, node.address(), node.bitset.load(Relaxed));
    }

    /// The key of its queue, or of the last one.
    pub fn queue_of(&self, t: ThreadIdx, pooled: Option<u32>) -> u64 {
        self.node(Self::node_id(t, pooled)).address()
    }

    /// Sets another queue for its own node, which is in none, to join again.
    pub fn set_queue(&self, t: ThreadIdx, key: u64) {
        self.thread(t).node.addr.store(key, Relaxed);
    }

    /// The threads in a queue that answer to `bitset`, under its lock.
    pub fn each_waiter(&self, key: u64, bitset: u32, mut f: impl FnMut(ThreadIdx)) {
        let bucket = self.futexes.lock(key);
        for id in self.waiters(&bucket, key) {
            if self.node(id).bitset.load(Relaxed) & bitset != 0 {
                f(self.thread_of(id));
            }
        }
    }

    /// Leaves the queue. False if a waker has taken it out before.
    pub fn leave_queue(&self, t: ThreadIdx, pooled: Option<u32>) -> bool {
        let id = Self::node_id(t, pooled);
        match self.futexes.lock_of(self.node(id)) {
            Some(mut bucket) => {
                self.dequeue(&mut bucket, id);
                true
            }
            None => false,
        }
    }

    /// Whether it is in a queue.
    pub fn is_queued(&self, t: ThreadIdx, pooled: Option<u32>) -> bool {
        self.node(Self::node_id(t, pooled)).queued()
    }

    /// Wakes the first waiter of a queue that answers to `bitset`; returns whether there may be more.
    pub fn wake_first(&self, cpu: CpuId, key: u64, bitset: u32) -> bool {
        let (first, is_empty) = {
            let mut bucket = self.futexes.lock(key);
            // No waiter for a PI lock has such a key.
            (self.take_first(&mut bucket, key, bitset).unwrap_or(None), bucket.is_empty())
        };
        if let Some(t) = first {
            self.wake(cpu, t);
        }
        !is_empty
    }

    /// Wakes waiters of a queue that answer to `bitset`, at most `count`.
    pub fn wake_from_queue(&self, cpu: CpuId, key: u64, count: usize, bitset: u32) {
        let mut left = count;
        loop {
            let mut batch = Batch::new();
            {
                let mut bucket = self.futexes.lock(key);
                let which = Which { addr: key, bitset, before: None };
                // No waiter for a PI lock has such a key.
                let _ = self.take_waiters(&mut bucket, which, left, &mut batch);
            }
            self.wake_batch(cpu, &batch);
            left -= batch.len();
            if batch.len() < WAKES_MAX || left == 0 {
                return;
            }
        }
    }
}
