//! A set of CPUs that is cheap to fill, to go through and to empty.

use ids::CpuId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CpuBits {
    words: Vec<u64>,
}

impl CpuBits {
    /// The empty set of a machine with so many CPUs.
    pub(crate) fn new(cpus: usize) -> CpuBits {
        CpuBits { words: vec![0; cpus.div_ceil(64)] }
    }

    /// All of so many CPUs.
    pub(crate) fn all(cpus: usize) -> CpuBits {
        let mut all = CpuBits::new(cpus);
        (0..cpus).for_each(|c| all.insert(CpuId(c as u16)));
        all
    }

    pub(crate) fn insert(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    /// Inserts `cpu`, or removes it.
    pub(crate) fn set(&mut self, cpu: CpuId, is_in: bool) {
        let word = &mut self.words[cpu.index() / 64];
        let bit = 1 << (cpu.index() % 64);
        *word = if is_in { *word | bit } else { *word & !bit };
    }

    /// Adds all CPUs of these words.
    pub(crate) fn add(&mut self, words: impl IntoIterator<Item = u64>) {
        self.words.iter_mut().zip(words).for_each(|(to, word)| *to |= word);
    }

    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64] >> (cpu.index() % 64) & 1 != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The words, lowest CPUs first.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().copied()
    }

    /// The CPUs in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        cpus_of(self.words())
    }
}

/// The CPUs of a set's words, in ascending order.
pub(crate) fn cpus_of(words: impl Iterator<Item = u64>) -> impl Iterator<Item = CpuId> {
    words.enumerate().flat_map(|(i, mut left)| {
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < 64).then(|| CpuId((i * 64) as u16 + bit as u16))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_come_in_order_and_go() {
        let mut set = CpuBits::new(130);
        [129, 3, 64, 63].into_iter().for_each(|c| set.insert(CpuId(c)));
        set.set(CpuId(3), false);
        set.add([1 << 5, 0, 0]);
        assert_eq!(set.iter().map(|c| c.0).collect::<Vec<_>>(), [5, 63, 64, 129]);
        assert!(set.contains(CpuId(64)) && !set.contains(CpuId(3)));
        set.clear();
        assert!(set.is_empty());
        assert_eq!(CpuBits::all(70).iter().count(), 70);
    }
}
