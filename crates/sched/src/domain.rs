//! What all CPUs of one root domain share: which are overloaded with real-time threads,
//! at which priority each runs, which are idle.
//!
//! Everything here is a hint that is read without a lock and verified under one.

use crate::OutOfMemory;
use crate::cpuset::{CpuSet, first_from};
use alloc::vec::Vec;
use ids::CpuId;
use sync::CachePadded;
use sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Vector of a CPU with deadline or stop threads.
pub(crate) const HIGHER: u8 = 100;
/// Vectors: 0 no real-time thread, 1..=99 its most urgent one's priority, 100 [`HIGHER`].
const VECTORS: usize = 101;

/// How many CPUs have a priority, and which (`kernel/sched/cpupri.c`).
#[derive(Debug)]
struct Vector {
    count: AtomicU32,
    cpus: CpuSet,
}

/// One root domain: the CPUs among which threads are balanced.
#[derive(Debug)]
pub(crate) struct Domain {
    vectors: Vec<Vector>,
    overloaded: CpuSet,
    overload_count: CachePadded<AtomicU32>,
    /// Idle CPUs that look for work by themselves.
    pub spinning: CachePadded<CpuSet>,
    /// Idle CPUs that must be kicked.
    pub parked: CachePadded<CpuSet>,
    /// CPUs that nobody serves at present.
    pub absent: CachePadded<CpuSet>,
    /// The outstanding nudge of a parked CPU: its time's low bits, waker and target; 0 none.
    pub nudge: CachePadded<AtomicU64>,
    /// Turns, so that searches do not all end at the same CPU.
    rotor: AtomicU32,
    cpus: usize,
}

impl Domain {
    pub(crate) fn new(cpus: usize) -> Result<Domain, OutOfMemory> {
        let mut vectors = Vec::new();
        vectors.try_reserve_exact(VECTORS).map_err(|_| OutOfMemory)?;
        for _ in 0..VECTORS {
            vectors.push(Vector { count: AtomicU32::new(0), cpus: CpuSet::new(cpus)? });
        }
        let d = Domain {
            vectors,
            overloaded: CpuSet::new(cpus)?,
            overload_count: CachePadded(AtomicU32::new(0)),
            spinning: CachePadded(CpuSet::new(cpus)?),
            parked: CachePadded(CpuSet::new(cpus)?),
            absent: CachePadded(CpuSet::new(cpus)?),
            nudge: CachePadded(AtomicU64::new(0)),
            rotor: AtomicU32::new(0),
            cpus,
        };
        (0..cpus).for_each(|c| {
            d.vectors[0].cpus.insert(CpuId(c as u16));
            d.spinning.insert(CpuId(c as u16));
        });
        d.vectors[0].count.store(cpus as u32, Ordering::Release);
        Ok(d)
    }

    /// Moves `cpu` from one vector to another: into the new one first, so that it can
    /// always be found in one.
    pub(crate) fn set_priority(&self, cpu: CpuId, old: u8, new: u8) {
        let v = &self.vectors[new as usize];
        v.cpus.insert(cpu);
        v.count.fetch_add(1, Ordering::Release);
        let v = &self.vectors[old as usize];
        v.count.fetch_sub(1, Ordering::Release);
        v.cpus.remove(cpu);
    }

    /// The CPUs of the first vector below `priority` that has any `allowed` one, given to `choose`
    /// as a function from word index to word.
    pub(crate) fn find_lower<R>(
        &self,
        priority: u8,
        allowed: impl Fn(usize) -> u64,
        choose: impl Fn(&dyn Fn(usize) -> u64) -> R,
    ) -> Option<R> {
        for v in &self.vectors[..priority as usize] {
            if v.count.load(Ordering::Acquire) == 0 {
                continue;
            }
            let word = |i: usize| v.cpus.word(i) & allowed(i) & !self.absent.word(i);
            if (0..v.cpus.len()).any(|i| word(i) != 0) {
                return Some(choose(&word));
            }
        }
        None
    }

    /// Says that `cpu` has pushable threads: the bit first, then the count, so that whoever sees the
    /// count sees the bit (`rt_set_overload`).
    pub(crate) fn set_overload(&self, cpu: CpuId) {
        self.overloaded.insert(cpu);
        self.overload_count.fetch_add(1, Ordering::Release);
    }

    /// Takes it back, in the opposite order.
    pub(crate) fn clear_overload(&self, cpu: CpuId) {
        self.overload_count.fetch_sub(1, Ordering::Release);
        self.overloaded.remove(cpu);
    }

    /// How many CPUs have pushable threads.
    #[inline(always)]
    pub(crate) fn overload_count(&self) -> u32 {
        self.overload_count.load(Ordering::Acquire)
    }

    /// The next overloaded CPU at or after `from`, going round.
    pub(crate) fn overloaded_from(&self, from: CpuId) -> Option<CpuId> {
        first_from(self.overloaded.len(), from, |i| self.overloaded.word(i))
    }

    pub(crate) fn is_overloaded(&self, cpu: CpuId) -> bool {
        self.overloaded.contains(cpu)
    }

    /// Whether `cpu` is in this vector and in no other.
    pub(crate) fn is_in_vector(&self, cpu: CpuId, vector: u8) -> bool {
        self.vectors.iter().enumerate().all(|(i, v)| v.cpus.contains(cpu) == (i == vector as usize))
    }

    /// How many words a set of CPUs has.
    pub(crate) fn words(&self) -> usize {
        self.overloaded.len()
    }

    /// The first CPU for which `word`, given a word's index, has a bit; searching from `start` on.
    pub(crate) fn first(&self, start: CpuId, word: impl Fn(usize) -> u64) -> Option<CpuId> {
        first_from(self.words(), start, word)
    }

    /// A starting point for a search, another each time.
    pub(crate) fn turn(&self) -> CpuId {
        CpuId((self.rotor.fetch_add(1, Ordering::Relaxed) as usize % self.cpus) as u16)
    }
}
