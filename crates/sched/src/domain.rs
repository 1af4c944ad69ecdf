//! State shared by the CPUs of one root domain (overload and priorities of real-time threads), and by all CPUs (which
//! are idle, which are unserved).
//!
//! Everything here is a hint that is read without a lock and verified under one.

use crate::OutOfMemory;
use crate::cpuset::{CpuSet, first_from};
use crate::index::CpuIndex;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use ids::{CpuId, CpuMask};
use sync::CachePadded;
use sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sync::boxed_slice;

/// Vector of a CPU with deadline or stop threads.
pub(crate) const HIGHER: u8 = 100;
/// Vectors: 0 for CPUs without a real-time thread, 1..=99 the priority of the most urgent one, 100 [`HIGHER`].
const VECTORS: usize = 101;

/// How many CPUs have a priority, and which (`kernel/sched/cpupri.c`).
#[derive(Debug)]
struct Vector {
    count: AtomicU32,
    cpus: CpuSet,
}

/// One root domain: the CPUs among which urgent threads are balanced (`struct root_domain`). A domain's words are not
/// read by CPUs of other domains.
#[derive(Debug)]
pub(crate) struct Domain {
    vectors: Vec<Vector>,
    overloaded: CpuSet,
    overload_count: CachePadded<AtomicU32>,
    span: CpuMask,
}

/// All root domains, and what all CPUs share regardless of their domain.
#[derive(Debug)]
pub(crate) struct Domains {
    all: Box<[Domain]>,
    /// The domain of each CPU.
    of: Box<[u16]>,
    /// Idle CPUs that look for work by themselves.
    pub spinning: CachePadded<CpuIndex>,
    /// Idle CPUs that must be kicked.
    pub parked: CachePadded<CpuIndex>,
    /// On a large machine, every CPU on which fair threads wait, and some on which they did lately (`help.rs`).
    pub waiting: CachePadded<CpuIndex>,
    /// CPUs that no carrier serves at present.
    pub absent: CachePadded<CpuSet>,
    /// For every 64 CPUs, the outstanding nudge of one of them (`help.rs`); 0: none.
    pub nudges: Box<[CachePadded<AtomicU64>]>,
    /// Varies the start of searches, so that they do not all end at the same CPU.
    rotor: AtomicU32,
    /// The host's processors if there are more CPUs than processors, otherwise empty: for each, one more than the CPU
    /// whose urgent threads have it; 0: free.
    cores: Box<[AtomicU32]>,
    /// How many CPUs are between two urgent threads: they are in no vector, but count as urgent.
    between: CachePadded<AtomicU32>,
}

/// Makes a CPU count as urgent while it looks for its next urgent thread.
#[must_use]
pub(crate) struct Place<'a>(&'a AtomicU32);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Domains {
    /// A domain for each of these sets, without the CPUs of earlier sets, and one for the rest. At most `at_once` CPUs
    /// run at the same time; zero: all.
    pub(crate) fn new(cpus: usize, sets: &[CpuMask], at_once: usize) -> Result<Domains, OutOfMemory> {
        let mut rest = CpuMask::first(cpus);
        let mut spans = Vec::new();
        spans.try_reserve_exact(sets.len() + 1).map_err(|_| OutOfMemory)?;
        for set in sets {
            let span = set.and(&rest);
            span.iter().for_each(|cpu| rest.remove(cpu));
            spans.push(span);
        }
        spans.push(rest);
        spans.retain(|span| !span.is_empty());
        let mut all = Vec::new();
        all.try_reserve_exact(spans.len()).map_err(|_| OutOfMemory)?;
        let of =
            boxed_slice(cpus, |c| spans.iter().position(|span| span.contains(CpuId(c as u16))).unwrap_or(0) as u16)?;
        for span in spans {
            all.push(Domain::new(cpus, span)?);
        }
        let d = Domains {
            all: all.into_boxed_slice(),
            of,
            spinning: CachePadded(CpuIndex::new(cpus)?),
            parked: CachePadded(CpuIndex::new(cpus)?),
            waiting: CachePadded(CpuIndex::new(cpus)?),
            absent: CachePadded(CpuSet::new(cpus)?),
            nudges: boxed_slice(cpus.div_ceil(64), |_| CachePadded(AtomicU64::new(0)))?,
            rotor: AtomicU32::new(0),
            cores: boxed_slice(if at_once < cpus { at_once } else { 0 }, |_| AtomicU32::new(0))?,
            between: CachePadded(AtomicU32::new(0)),
        };
        (0..cpus).for_each(|c| d.spinning.insert(CpuId(c as u16)));
        Ok(d)
    }

    /// Which domain a CPU is in.
    #[inline(always)]
    pub(crate) fn number(&self, cpu: CpuId) -> usize {
        usize::from(self.of[cpu.index()])
    }

    /// The domain of a CPU.
    #[inline(always)]
    pub(crate) fn of(&self, cpu: CpuId) -> &Domain {
        &self.all[self.number(cpu)]
    }

    /// Whether there are more CPUs than can run at the same time.
    #[inline(always)]
    pub(crate) fn is_limited(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Whether the limit of CPUs with urgent threads is reached, so that no other CPU should get one.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_limited() && self.urgent_count() >= self.cores.len() as u32
    }

    /// The number of CPUs that have urgent threads or look for their next one. Threads that wait on an unserved CPU do
    /// not count.
    fn urgent_count(&self) -> u32 {
        let urgent = |i| self.all.iter().fold(0, |word, domain| word | domain.urgent_word(i)) & !self.absent.word(i);
        self.between.load(Ordering::Acquire) + (0..self.words()).map(|i| urgent(i).count_ones()).sum::<u32>()
    }

    /// Counts the caller's CPU, which has no urgent thread in its vector, as one that has, if the limit allows it. Two
    /// simultaneous callers may both fail: each tries again.
    pub(crate) fn find_place(&self) -> Option<Place<'_>> {
        self.confirm(self.keep_place())
    }

    /// Keeps the caller's CPU counted while it leaves its vector.
    pub(crate) fn keep_place(&self) -> Place<'_> {
        self.between.fetch_add(1, Ordering::AcqRel);
        Place(&self.between)
    }

    /// The place, if the limit is still respected with it.
    pub(crate) fn confirm<'a>(&self, place: Place<'a>) -> Option<Place<'a>> {
        (self.urgent_count() <= self.cores.len() as u32).then_some(place)
    }

    /// Takes a core for `cpu`, `kept` if that is free.
    pub(crate) fn take_core(&self, cpu: CpuId, kept: Option<usize>) -> Option<usize> {
        let owner = u32::from(cpu.0) + 1;
        let free =
            |&core: &usize| self.cores[core].compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        kept.into_iter().chain(0..self.cores.len()).find(free)
    }

    /// Releases a core.
    pub(crate) fn leave_core(&self, core: usize) {
        self.cores[core].store(0, Ordering::Release);
    }

    /// Whether `cpu` has an urgent thread, running or about to.
    pub(crate) fn is_urgent(&self, cpu: CpuId) -> bool {
        !self.of(cpu).vectors[0].cpus.contains(cpu)
    }

    /// The domains.
    pub(crate) fn all(&self) -> &[Domain] {
        &self.all
    }

    /// How many words a set of CPUs has.
    pub(crate) fn words(&self) -> usize {
        self.absent.len()
    }

    /// Whether a search must not visit every queue: there are more than 64, and `waiting` is kept.
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.waiting.len() > 1
    }

    /// The first CPU for which `word`, given a word's index, has a bit; searching from `start` on.
    pub(crate) fn first(&self, start: CpuId, word: impl Fn(usize) -> u64) -> Option<CpuId> {
        first_from(self.words(), start, word)
    }

    /// A starting point for a search, different each time.
    pub(crate) fn turn(&self) -> CpuId {
        CpuId((self.rotor.fetch_add(1, Ordering::Relaxed) as usize % self.of.len()) as u16)
    }
}

impl Domain {
    fn new(cpus: usize, span: CpuMask) -> Result<Domain, OutOfMemory> {
        let mut vectors = Vec::new();
        vectors.try_reserve_exact(VECTORS).map_err(|_| OutOfMemory)?;
        for _ in 0..VECTORS {
            vectors.push(Vector { count: AtomicU32::new(0), cpus: CpuSet::new(cpus)? });
        }
        span.iter().for_each(|cpu| vectors[0].cpus.insert(cpu));
        vectors[0].count.store(span.count() as u32, Ordering::Release);
        let overload_count = CachePadded(AtomicU32::new(0));
        Ok(Domain { vectors, overloaded: CpuSet::new(cpus)?, overload_count, span })
    }

    /// The domain's CPUs.
    pub(crate) fn span(&self) -> &CpuMask {
        &self.span
    }

    /// Moves `cpu` from one vector to another: into the new one first, so that it is always found in one.
    pub(crate) fn set_priority(&self, cpu: CpuId, old: u8, new: u8) {
        let v = &self.vectors[new as usize];
        v.cpus.insert(cpu);
        v.count.fetch_add(1, Ordering::Release);
        let v = &self.vectors[old as usize];
        v.count.fetch_sub(1, Ordering::Release);
        v.cpus.remove(cpu);
    }

    /// One word of the set of the domain's CPUs that have urgent threads, running or about to run.
    fn urgent_word(&self, i: usize) -> u64 {
        self.span.words().get(i).copied().unwrap_or(0) & !self.vectors[0].cpus.word(i)
    }

    /// Passes the CPUs of the first vector among `vectors` that has any `allowed` one to `choose`, as a function from
    /// word index to word.
    pub(crate) fn find_lower<R>(
        &self,
        vectors: Range<u8>,
        allowed: impl Fn(usize) -> u64,
        choose: impl Fn(&dyn Fn(usize) -> u64) -> R,
    ) -> Option<R> {
        for v in &self.vectors[vectors.start.into()..vectors.end.into()] {
            if v.count.load(Ordering::Acquire) == 0 {
                continue;
            }
            let word = |i: usize| v.cpus.word(i) & allowed(i);
            if (0..v.cpus.len()).any(|i| word(i) != 0) {
                return Some(choose(&word));
            }
        }
        None
    }

    /// Records that `cpu` has pushable threads. The bit is set before the count, so a reader that sees the count sees
    /// the bit (`rt_set_overload`).
    pub(crate) fn set_overload(&self, cpu: CpuId) {
        self.overloaded.insert(cpu);
        self.overload_count.fetch_add(1, Ordering::Release);
    }

    /// Reverts `set_overload`, in the opposite order.
    pub(crate) fn clear_overload(&self, cpu: CpuId) {
        self.overload_count.fetch_sub(1, Ordering::Release);
        self.overloaded.remove(cpu);
    }

    /// How many CPUs have pushable threads.
    #[inline(always)]
    pub(crate) fn overload_count(&self) -> u32 {
        self.overload_count.load(Ordering::Acquire)
    }

    /// The next overloaded CPU at or after `from`, wrapping around.
    pub(crate) fn overloaded_from(&self, from: CpuId) -> Option<CpuId> {
        first_from(self.overloaded.len(), from, |i| self.overloaded.word(i))
    }

    pub(crate) fn is_overloaded(&self, cpu: CpuId) -> bool {
        self.overloaded.contains(cpu)
    }

    /// Whether `cpu` is in this vector and in no other that has any CPUs.
    pub(crate) fn is_counted_in_vector(&self, cpu: CpuId, vector: u8) -> bool {
        // Each CPU is counted once, so the vectors after the last one that any is in need not be looked at.
        let mut left = self.span.count() as u32;
        for (i, v) in self.vectors.iter().enumerate() {
            let count = v.count.load(Ordering::Relaxed);
            if count != 0 && v.cpus.contains(cpu) != (i == vector as usize) {
                return false;
            }
            left = left.saturating_sub(count);
            if left == 0 {
                break;
            }
        }
        self.vectors[vector as usize].cpus.contains(cpu)
    }

    /// Whether `cpu` is in this vector and in no other.
    pub(crate) fn is_in_vector(&self, cpu: CpuId, vector: u8) -> bool {
        self.vectors.iter().enumerate().all(|(i, v)| v.cpus.contains(cpu) == (i == vector as usize))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    /// 130 CPUs of which these have a priority, the others none.
    fn domain(of: &[(u16, u8)]) -> Domain {
        let d = Domain::new(130, CpuMask::first(130)).unwrap();
        of.iter().for_each(|&(cpu, vector)| d.set_priority(CpuId(cpu), 0, vector));
        d
    }

    /// The set that a search for something below `priority` ends with, of the CPUs `of`.
    fn lower(d: &Domain, priority: u8, of: &[u16]) -> Option<Vec<u16>> {
        let allowed = |i: usize| of.iter().filter(|&&c| c as usize / 64 == i).fold(0, |m, &c| m | 1 << (c % 64));
        d.find_lower(0..priority, allowed, |word| {
            (0..130).filter(|&c: &u16| word(c as usize / 64) >> (c % 64) & 1 != 0).collect()
        })
    }

    #[test]
    fn the_lowest_priority_that_is_allowed_and_strictly_below_is_found() {
        let d = domain(&[(0, 10), (64, 10), (65, 20), (129, HIGHER)]);
        for (priority, of, found) in [
            (10, &[0, 64, 65, 129][..], None),
            (11, &[0, 64, 65, 129], Some(&[0, 64][..])),
            (30, &[64, 65], Some(&[64])),
            (30, &[65, 129], Some(&[65])),
            (20, &[65, 129], None),
            (HIGHER, &[129], None),
            (1, &[0, 3, 70], Some(&[3, 70])),
            (0, &[3], None),
        ] {
            assert_eq!(lower(&d, priority, of).as_deref(), found, "below {priority} of {of:?}");
        }
    }

    #[test]
    fn a_cpu_is_in_one_vector() {
        let d = domain(&[(70, 10)]);
        assert!(d.is_in_vector(CpuId(70), 10) && !d.is_in_vector(CpuId(70), 0) && !d.is_in_vector(CpuId(70), 11));
        assert!(d.is_in_vector(CpuId(69), 0));
        let count = |v: u8| d.vectors[v as usize].count.load(Ordering::Relaxed);
        assert_eq!((count(0), count(10), count(99)), (129, 1, 0));
        d.set_priority(CpuId(70), 10, 99);
        assert_eq!((count(0), count(10), count(99)), (129, 0, 1));
        assert!(d.is_in_vector(CpuId(70), 99));
        assert_eq!(lower(&d, 50, &[70]), None);
    }

    #[test]
    fn overloaded_cpus_are_counted_and_found_going_round() {
        let d = domain(&[]);
        assert_eq!((d.overload_count(), d.overloaded_from(CpuId(0))), (0, None));
        [3, 129].iter().for_each(|&c| d.set_overload(CpuId(c)));
        assert_eq!(d.overload_count(), 2);
        for (from, found) in [(0, 3), (3, 3), (4, 129), (129, 129)] {
            assert_eq!(d.overloaded_from(CpuId(from)), Some(CpuId(found)));
        }
        d.clear_overload(CpuId(129));
        assert_eq!((d.overload_count(), d.overloaded_from(CpuId(4))), (1, Some(CpuId(3))));
        assert!(d.is_overloaded(CpuId(3)) && !d.is_overloaded(CpuId(129)));
    }

    #[test]
    fn all_cpus_begin_as_spinning_and_turns_visit_each() {
        let d = Domains::new(130, &[], 0).unwrap();
        assert_eq!((d.words(), d.all().len(), d.of(CpuId(129)).span().count()), (3, 1, 130));
        assert!((0..130).all(|c| d.spinning.contains(CpuId(c)) && !d.parked.contains(CpuId(c))));
        let turns: Vec<u16> = (0..260).map(|_| d.turn().0).collect();
        assert_eq!(turns, (0..130).chain(0..130).collect::<Vec<u16>>());
    }

    fn mask(cpus: &[u16]) -> CpuMask {
        let mut mask = CpuMask::empty();
        cpus.iter().for_each(|&c| mask.insert(CpuId(c)));
        mask
    }

    #[test]
    fn each_cpu_is_in_the_first_set_that_has_it_and_else_in_the_rest() {
        let d = Domains::new(130, &[mask(&[3, 129]), mask(&[]), mask(&[3, 4, 500]), mask(&[129])], 0).unwrap();
        let spans: Vec<&CpuMask> = d.all().iter().map(Domain::span).collect();
        assert_eq!(spans[..2], [&mask(&[3, 129]), &mask(&[4])]);
        assert_eq!((spans.len(), spans[2].count()), (3, 127));
        let numbers = [0, 3, 4, 5, 128, 129].map(|c| d.number(CpuId(c)));
        assert_eq!(numbers, [2, 0, 1, 2, 2, 0]);
        for c in (0..130).map(CpuId) {
            let of = d.of(c);
            assert!(of.span().contains(c) && of.is_in_vector(c, 0));
            assert!(d.all().iter().filter(|other| other.vectors[0].cpus.contains(c)).count() == 1, "{c:?}");
        }
        let all = Domains::new(2, &[mask(&[0]), mask(&[1])], 0).unwrap();
        assert_eq!((all.all().len(), all.number(CpuId(0)), all.number(CpuId(1))), (2, 0, 1), "no rest, no domain");
    }

    #[test]
    fn no_domain_sees_what_another_publishes() {
        let d = Domains::new(130, &[mask(&[0, 1]), mask(&[64, 65])], 0).unwrap();
        d.of(CpuId(0)).set_overload(CpuId(0));
        d.of(CpuId(64)).set_priority(CpuId(64), 0, 50);
        let overloads: Vec<u32> = d.all().iter().map(Domain::overload_count).collect();
        assert_eq!(overloads, [1, 0, 0]);
        assert_eq!(d.of(CpuId(65)).overloaded_from(CpuId(0)), None);
        assert_eq!(lower(d.of(CpuId(65)), 60, &[0, 1, 2, 64, 65]), Some(std::vec![65]));
        assert_eq!(lower(d.of(CpuId(65)), 60, &[0, 1, 2, 64]), Some(std::vec![64]));
        assert_eq!(lower(d.of(CpuId(65)), 60, &[0, 1, 2]), None);
    }
}
