//! A set of CPUs, changed and read by many CPUs without a lock.

use crate::OutOfMemory;
use alloc::boxed::Box;
use ids::CpuId;
use sync::atomic::{AtomicU64, Ordering};
use sync::boxed_slice;

/// One bit per CPU. The first 64 need no memory of their own: each root domain has a hundred sets, from the start of the
/// process.
#[derive(Debug)]
pub(crate) struct CpuSet {
    first: AtomicU64,
    rest: Box<[AtomicU64]>,
}

impl CpuSet {
    pub(crate) fn new(cpus: usize) -> Result<CpuSet, OutOfMemory> {
        let rest = boxed_slice(cpus.div_ceil(64).saturating_sub(1), |_| AtomicU64::new(0))?;
        Ok(CpuSet { first: AtomicU64::new(0), rest })
    }

    #[inline(always)]
    fn at(&self, i: usize) -> &AtomicU64 {
        if i == 0 { &self.first } else { &self.rest[i - 1] }
    }

    pub(crate) fn insert(&self, cpu: CpuId) {
        self.at(cpu.index() / 64).fetch_or(1 << (cpu.index() % 64), Ordering::AcqRel);
    }

    pub(crate) fn remove(&self, cpu: CpuId) {
        self.at(cpu.index() / 64).fetch_and(!(1 << (cpu.index() % 64)), Ordering::AcqRel);
    }

    #[inline(always)]
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.word(cpu.index() / 64) >> (cpu.index() % 64) & 1 != 0
    }

    #[inline(always)]
    pub(crate) fn word(&self, i: usize) -> u64 {
        self.at(i).load(Ordering::Acquire)
    }

    /// Empties a word; returns what it was.
    #[cfg(feature = "watched")]
    pub(crate) fn take_word(&self, i: usize) -> u64 {
        // The exchange costs more than the question.
        if self.word(i) == 0 { 0 } else { self.at(i).swap(0, Ordering::AcqRel) }
    }

    pub(crate) fn len(&self) -> usize {
        1 + self.rest.len()
    }
}

/// The first CPU of the set `word(0), word(1), …` of `len` words, searching from `start` on and wrapping around.
#[inline(always)]
pub(crate) fn first_from(len: usize, start: CpuId, word: impl Fn(usize) -> u64) -> Option<CpuId> {
    if len > 1 {
        return first_of_many(len, start, word);
    }
    let all = word(0);
    let high = all & u64::MAX << (start.index() % 64);
    first_in(0, if high == 0 { all } else { high })
}

/// The first CPU of word `i` of a set.
#[inline(always)]
fn first_in(i: usize, word: u64) -> Option<CpuId> {
    (word != 0).then(|| CpuId((i * 64 + word.trailing_zeros() as usize) as u16))
}

/// [`first_from`] on a machine of more than 64 CPUs.
#[inline(never)]
fn first_of_many(len: usize, start: CpuId, word: impl Fn(usize) -> u64) -> Option<CpuId> {
    let (first, high) = (start.index() / 64 % len, u64::MAX << (start.index() % 64));
    first_in(first, word(first) & high)
        .or_else(|| (1..len).find_map(|d| first_in((first + d) % len, word((first + d) % len))))
        .or_else(|| first_in(first, word(first) & !high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_starts_anywhere_and_goes_round() {
        let words = [1u64 << 3, 0, 1 << 1];
        let find = |start| first_from(3, CpuId(start), |i| words[i]);
        assert_eq!(find(0), Some(CpuId(3)));
        assert_eq!(find(4), Some(CpuId(129)));
        assert_eq!(find(130), Some(CpuId(3)));
        assert_eq!(first_from(1, CpuId(5), |_| 1 << 2), Some(CpuId(2)));
        assert_eq!(first_from(1, CpuId(5), |_| 0), None);
    }

    /// Against the definition: the first CPU at or after `start`, else the first at all.
    #[test]
    fn search_finds_what_its_definition_says() {
        let sets: [&[u16]; 8] = [&[], &[0], &[63], &[64], &[5, 70], &[63, 64, 128], &[1, 65, 129], &[127, 191]];
        for set in sets {
            let word = |i: usize| set.iter().filter(|&&c| c as usize / 64 == i).fold(0, |m, &c| m | 1 << (c % 64));
            for start in [0, 1, 5, 6, 62, 63, 64, 65, 70, 71, 127, 128, 130, 191] {
                let expected = set.iter().find(|&&c| c >= start).or(set.first()).map(|&c| CpuId(c));
                assert_eq!(first_from(3, CpuId(start), word), expected, "{set:?} from {start}");
            }
        }
    }

    #[test]
    fn each_cpu_has_a_bit_of_its_own() {
        for (cpus, words) in [(1, 1), (64, 1), (65, 2), (128, 2), (129, 3)] {
            assert_eq!(CpuSet::new(cpus).unwrap().len(), words, "{cpus}");
        }
        let s = CpuSet::new(130).unwrap();
        let members =
            |s: &CpuSet| (0..130).filter(|&c| s.contains(CpuId(c))).fold((0, 0), |(n, sum), c| (n + 1, sum + c));
        [0, 63, 64, 129].iter().for_each(|&c| s.insert(CpuId(c)));
        s.insert(CpuId(64));
        assert_eq!((members(&s), s.word(0), s.word(1), s.word(2)), ((4, 256), 1 << 63 | 1, 1, 2));
        s.remove(CpuId(63));
        s.remove(CpuId(63));
        assert_eq!((members(&s), s.word(0)), ((3, 193), 1));
    }
}
