//! The hash tables: one for all processes, chains of timers.
//!
//! Until 6.14 there were 512 buckets and one lock, taken for each creation while the chain
//! was searched for a duplicate: 100,000 timers make chains of 200. The candidate of
//! February 2025 searched first without the lock and again with it, which spread the
//! threads out but walked twice. 6.15 has 512 buckets per CPU, a lock in each.

use crate::posix_timers::pool::Pool;
use crate::posix_timers::{ID_MASK, TimerIds};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::CpuId;
use sync::Lock;
use sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

const BUCKETS: usize = 512;
/// Ends a chain; a link is a node's number plus one.
const END: u32 = 0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Locking {
    One,
    OneAfterAWalk,
    PerBucket,
}

#[derive(Debug, Default)]
struct Bucket {
    lock: Lock<()>,
    head: AtomicU32,
}

/// A hash table of timers.
#[derive(Debug)]
pub struct Hash {
    locking: Locking,
    lock: Lock<()>,
    buckets: Box<[Bucket]>,
    nodes: Pool,
    next_ids: Box<[AtomicU32]>,
}

impl Hash {
    /// Linux up to 6.14, for this many processes and timers.
    pub fn global(processes: usize, timers: usize) -> Hash {
        Hash::new(Locking::One, BUCKETS, processes, timers)
    }

    /// The candidate of February 2025.
    pub fn double_walk(processes: usize, timers: usize) -> Hash {
        Hash::new(Locking::OneAfterAWalk, BUCKETS, processes, timers)
    }

    /// Linux 6.15 on a machine of this many CPUs.
    pub fn scaled(processes: usize, timers: usize, cpus: usize) -> Hash {
        Hash::new(Locking::PerBucket, (BUCKETS * cpus).next_power_of_two(), processes, timers)
    }

    fn new(locking: Locking, buckets: usize, processes: usize, timers: usize) -> Hash {
        let many = |n: usize| (0..n as u32).rev().collect::<Vec<_>>();
        Hash {
            locking,
            lock: Lock::new(()),
            buckets: many(buckets).iter().map(|_| Bucket::default()).collect(),
            nodes: Pool::new(timers),
            next_ids: many(processes).iter().map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The bucket of a timer (the kernel's `hash_32` of a Jenkins hash; any good mix does).
    fn bucket(&self, owner: usize, id: u32) -> &Bucket {
        let mixed = (id as u64 ^ (owner as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.buckets[(mixed >> 40) as usize & (self.buckets.len() - 1)]
    }

    fn find(&self, bucket: &Bucket, owner: usize, id: u32) -> Option<u32> {
        let mut link = bucket.head.load(Acquire);
        while link != END {
            let node = self.nodes.node(link - 1);
            if node.id.load(Relaxed) == id && node.owner.load(Relaxed) == owner as u32 {
                return Some(link - 1);
            }
            link = node.next.load(Acquire);
        }
        None
    }

    fn locked<R>(&self, bucket: &Bucket, work: impl FnOnce() -> R) -> R {
        let _held = if self.locking == Locking::PerBucket { bucket.lock.lock() } else { self.lock.lock() };
        work()
    }

    /// Inserts; `Some(false)` if the id is taken, `None` if there is no room.
    fn insert(&self, owner: usize, id: u32) -> Option<bool> {
        let bucket = self.bucket(owner, id);
        if self.locking == Locking::OneAfterAWalk && self.find(bucket, owner, id).is_some() {
            return Some(false);
        }
        let number = self.nodes.take(id)?;
        let node = self.nodes.node(number);
        node.owner.store(owner as u32, Relaxed);
        node.id.store(id, Relaxed);
        let inserted = self.locked(bucket, || {
            if self.find(bucket, owner, id).is_some() {
                return false;
            }
            node.next.store(bucket.head.load(Relaxed), Relaxed);
            bucket.head.store(number + 1, Release);
            true
        });
        if !inserted {
            self.nodes.give(number);
        }
        Some(inserted)
    }
}

impl TimerIds for Hash {
    fn name(&self) -> &'static str {
        match self.locking {
            Locking::One => "global hash",
            Locking::OneAfterAWalk => "double walk",
            Locking::PerBucket => "scaled hash",
        }
    }

    fn create(&self, process: usize, _: CpuId) -> Option<u32> {
        loop {
            // The counter was under the one lock until it became an atomic in 6.15.
            let id = self.next_ids[process].fetch_add(1, Relaxed) & ID_MASK;
            if self.insert(process, id)? {
                return Some(id);
            }
        }
    }

    fn create_exact(&self, process: usize, id: u32) -> Option<u32> {
        self.next_ids[process].store(id.wrapping_add(1) & ID_MASK, Relaxed);
        self.insert(process, id)?.then_some(id)
    }

    fn look_up(&self, process: usize, id: u32) -> bool {
        let found = self.find(self.bucket(process, id), process, id);
        found.is_some_and(|number| {
            let node = self.nodes.node(number);
            let _overrun = node.overrun.lock();
            node.id.load(Relaxed) == id
        })
    }

    fn delete(&self, process: usize, id: u32) -> bool {
        let bucket = self.bucket(process, id);
        let removed = self.locked(bucket, || {
            let mut link = &bucket.head;
            loop {
                let number = link.load(Relaxed).checked_sub(1)?;
                let node = self.nodes.node(number);
                if node.id.load(Relaxed) == id && node.owner.load(Relaxed) == process as u32 {
                    link.store(node.next.load(Relaxed), Release);
                    return Some(number);
                }
                link = &node.next;
            }
        });
        removed.map(|number| self.nodes.give(number)).is_some()
    }

    fn index_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }
}
