use core::fmt;
use smallvec::SmallVec;

/// The most CPUs a scheduler may have (the simulator's largest machine).
pub const CPUS_MAX: usize = 4096;

/// The number of a CPU: a scheduling slot with a run queue and a tick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u16);

impl CpuId {
    /// A value no CPU has.
    pub const NONE: CpuId = CpuId(u16::MAX);

    /// The CPU as an array index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

/// A set of CPUs. Up to 64 CPUs it needs no allocation and is one word.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuMask {
    /// Little-endian words without trailing zero words, so that equal sets are equal.
    words: SmallVec<[u64; 1]>,
}

impl CpuMask {
    /// The empty set.
    pub fn empty() -> CpuMask {
        CpuMask::default()
    }

    /// The set `0 .. n`.
    pub fn first(n: usize) -> CpuMask {
        let n = n.min(CPUS_MAX);
        let mut words: SmallVec<[u64; 1]> = SmallVec::from_elem(u64::MAX, n / 64);
        if !n.is_multiple_of(64) {
            words.push((1 << (n % 64)) - 1);
        }
        CpuMask { words }
    }

    /// The set of one CPU.
    pub fn only(cpu: CpuId) -> CpuMask {
        let mut m = CpuMask::empty();
        m.insert(cpu);
        m
    }

    /// The set with these words, lowest CPUs first; CPUs from [`CPUS_MAX`] on are dropped.
    pub fn from_words(words: &[u64]) -> CpuMask {
        let n = words.len().min(CPUS_MAX / 64);
        let mut m = CpuMask { words: SmallVec::from_slice(&words[..n]) };
        m.trim();
        m
    }

    /// [`CpuMask::from_words`] with words that come one by one.
    pub fn of_words(words: impl Iterator<Item = u64>) -> CpuMask {
        let mut m = CpuMask { words: words.take(CPUS_MAX / 64).collect() };
        m.trim();
        m
    }

    /// The words, lowest CPUs first, without trailing zero words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    /// Whether `cpu` is in the set.
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|w| w >> (cpu.index() % 64) & 1 != 0)
    }

    /// Adds `cpu`.
    pub fn insert(&mut self, cpu: CpuId) {
        assert!(cpu.index() < CPUS_MAX, "{cpu:?} is not below {CPUS_MAX}");
        let i = cpu.index() / 64;
        if self.words.len() <= i {
            self.words.resize(i + 1, 0);
        }
        self.words[i] |= 1 << (cpu.index() % 64);
    }

    /// Removes `cpu`.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(w) = self.words.get_mut(cpu.index() / 64) {
            *w &= !(1 << (cpu.index() % 64));
        }
        self.trim();
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many CPUs are in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The set of CPUs that are in both.
    pub fn and(&self, other: &CpuMask) -> CpuMask {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        let mut m = CpuMask { words };
        m.trim();
        m
    }

    /// Whether every CPU of `self` is in `other`.
    pub fn is_subset(&self, other: &CpuMask) -> bool {
        self.words.iter().enumerate().all(|(i, w)| w & !other.words.get(i).copied().unwrap_or(0) == 0)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &w)| {
            let mut left = w;
            core::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(CpuId((i * 64 + bit) as u16))
            })
        })
    }

    /// The lowest CPU of the set.
    pub fn lowest(&self) -> Option<CpuId> {
        self.iter().next()
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|c| c.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_are_equal_however_they_were_made() {
        let mut a = CpuMask::only(CpuId(200));
        a.insert(CpuId(1));
        a.remove(CpuId(200));
        assert_eq!(a, CpuMask::only(CpuId(1)));
        assert_eq!(CpuMask::first(64), CpuMask::from_words(&[u64::MAX, 0, 0]));
    }

    #[test]
    fn iterates_in_order_over_word_borders() {
        let m = CpuMask::from_words(&[1 << 63, 1, 0, 1 << 5]);
        let v: alloc_free::V = m.iter().map(|c| c.0).collect();
        assert_eq!(v.as_slice(), &[63, 64, 197]);
        assert_eq!(m.count(), 3);
    }

    mod alloc_free {
        pub type V = smallvec::SmallVec<[u16; 8]>;
    }

    #[test]
    fn subset_and_intersection() {
        let a = CpuMask::first(3);
        let b = CpuMask::first(130);
        assert!(a.is_subset(&b) && !b.is_subset(&a));
        assert_eq!(a.and(&b), a);
        assert!(CpuMask::empty().is_subset(&a));
    }
}
