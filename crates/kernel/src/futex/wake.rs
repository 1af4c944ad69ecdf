//! FUTEX_WAKE: takes waiters out of their queue under its lock and wakes them after releasing it.

use super::queue::Bucket;
use super::work::Rest;
use crate::machine::Machine;
use crate::trap::Out;
use crate::{Kernel, WAKES_MAX};
use abi::Errno;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

/// Threads to be woken once the locks are released, at most [`WAKES_MAX`].
pub(super) struct Batch {
    threads: [ThreadIdx; WAKES_MAX],
    len: usize,
}

impl Batch {
    #[inline(always)]
    pub fn new() -> Batch {
        Batch { threads: [ThreadIdx::NONE; WAKES_MAX], len: 0 }
    }

    #[inline(always)]
    pub fn push(&mut self, t: ThreadIdx) {
        self.threads[self.len] = t;
        self.len += 1;
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn room(&self) -> usize {
        WAKES_MAX - self.len
    }
}

/// Which waiters a round may take.
#[derive(Clone, Copy)]
pub(super) struct Which {
    pub addr: u64,
    pub bitset: u32,
    /// Wakes only waiters that joined before this number. A later round of a call must not wake a thread that an
    /// earlier round woke and that waits again.
    pub before: Option<u32>,
}

impl<M: Machine> Kernel<M> {
    /// FUTEX_WAKE_BITSET: wakes at most `count` waiters and returns how many. As in Linux (`futex_wake`), 0 and
    /// negative counts wake one, and a waiter for a PI lock makes the result EINVAL, though those before it have been
    /// woken.
    #[inline]
    pub(crate) fn futex_wake(&self, cpu: CpuId, t: ThreadIdx, addr: u64, count: i32, bitset: u32) -> Out {
        if bitset == 0 {
            return Errno::EINVAL.into();
        }
        if count <= 1 {
            self.futex_wake_one(cpu, addr, bitset)
        } else {
            self.futex_wake_many(cpu, t, addr, count as u32, bitset, 0)
        }
    }

    /// Fast path of nearly all calls: with at most one waiter there is no batch and no rounds.
    #[inline(always)]
    pub(crate) fn futex_wake_one(&self, cpu: CpuId, addr: u64, bitset: u32) -> Out {
        let taken = {
            let mut bucket = self.futexes.lock(addr);
            self.take_first(&mut bucket, addr, bitset)
        };
        match taken {
            Err(e) => e.into(),
            Ok(None) => Out::Done(0),
            Ok(Some(woken)) => {
                self.wake_here(cpu, woken);
                Out::Done(1)
            }
        }
    }

    /// `already` waiters were woken elsewhere, and count.
    #[inline(never)]
    pub(super) fn futex_wake_many(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        addr: u64,
        count: u32,
        bitset: u32,
        already: usize,
    ) -> Out {
        let mut batch = Batch::new();
        let (taken, before) = {
            let mut bucket = self.futexes.lock(addr);
            let which = Which { addr, bitset, before: None };
            (self.take_waiters(&mut bucket, which, count as usize, &mut batch), bucket.joined())
        };
        self.wake_batch(cpu, &batch);
        match taken {
            Err(e) => e.into(),
            Ok(n) if n == WAKES_MAX && count as usize > n => {
                self.begin_work(t, Rest::wake(addr, count - n as u32, before, bitset, (already + n) as u32))
            }
            Ok(n) => Out::Done((already + n) as isize),
        }
    }

    /// Wakes at most `count` waiters, which is at most one round.
    pub(crate) fn futex_wake_some(&self, cpu: CpuId, addr: u64, count: usize) -> usize {
        let mut batch = Batch::new();
        // Waiters for a PI lock on this word cannot be woken here.
        let _ = {
            let mut bucket = self.futexes.lock(addr);
            self.take_waiters(&mut bucket, Which { addr, bitset: u32::MAX, before: None }, count, &mut batch)
        };
        self.wake_batch(cpu, &batch);
        batch.len()
    }

    /// Wakes threads for a process that shares the memory and has no CPU: at most `count`, and at most one round.
    pub fn wake_from_outside(&self, addr: u64, private: bool, count: usize) -> usize {
        self.futex_wake_some(CpuId::NONE, super::key_of(addr, private), count)
    }

    /// Takes waiters out of their queue: at most `count`, and at most as many as fit into the batch.
    #[inline(always)]
    pub(super) fn take_waiters(
        &self,
        bucket: &mut Bucket<'_>,
        which: Which,
        count: usize,
        batch: &mut Batch,
    ) -> Result<usize, Errno> {
        let limit = count.min(batch.room());
        let mut n = 0;
        let mut waiters = self.waiters(bucket, which.addr);
        while n < limit {
            let Some(id) = waiters.next() else { break };
            let node = self.node(id);
            if !node.answers_to_wakes() {
                return Err(Errno::EINVAL);
            }
            let late = |before: u32| node.joined.load(Relaxed).wrapping_sub(before) as i32 >= 0;
            if node.bitset.load(Relaxed) & which.bitset != 0 && !which.before.is_some_and(late) {
                batch.push(self.thread_of(id));
                self.dequeue(bucket, id);
                n += 1;
            }
        }
        Ok(n)
    }

    #[inline(always)]
    pub(super) fn wake_batch(&self, cpu: CpuId, batch: &Batch) {
        if batch.len > 0 {
            let now = self.now();
            for &t in &batch.threads[..batch.len] {
                self.wake_at(cpu, t, now);
            }
        }
    }
}
