//! Numbers that the program has closed and the host still has, so that opening again needs no host call.
//!
//! "The lowest number that is free" (open(2)) stays true: a number is kept only while every number below it is taken
//! or kept. It was when the number was given out ([`OpenFile::lowest`](super::files::OpenFile::lowest)); whatever frees
//! a number below ends that, and gives those above it back to the host. One aligned block of 64 numbers is watched at
//! a time: a program opens about the same number again and again.
//!
//! Changed under the lock of the table of open files; looked at without.

use sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

const BLOCK: i32 = 64;

/// The numbers.
#[derive(Debug, Default)]
pub(super) struct Vacant {
    first: AtomicI32,
    bits: AtomicU64,
}

/// Numbers that have been taken out: to be closed at the host.
#[must_use]
#[derive(Debug)]
pub(super) struct Taken {
    first: i32,
    bits: u64,
}

impl Vacant {
    /// Whether it is among them.
    #[inline]
    pub(super) fn has(&self, fd: i32) -> bool {
        let at = fd.wrapping_sub(self.first.load(Relaxed));
        (0..BLOCK).contains(&at) && self.bits.load(Relaxed) >> at & 1 != 0
    }

    /// Keeps a number, if it is in the block.
    pub(super) fn keep(&self, fd: i32) -> bool {
        let bits = self.bits.load(Relaxed);
        if bits == 0 {
            self.first.store(fd & !(BLOCK - 1), Relaxed);
        }
        let at = fd - self.first.load(Relaxed);
        if !(0..BLOCK).contains(&at) {
            return false;
        }
        self.bits.store(bits | 1 << at, Relaxed);
        true
    }

    /// The lowest, which is the program's again.
    pub(super) fn reuse(&self) -> Option<i32> {
        let bits = self.bits.load(Relaxed);
        self.bits.store(bits & bits.wrapping_sub(1), Relaxed);
        (bits != 0).then(|| self.first.load(Relaxed) + bits.trailing_zeros() as i32)
    }

    /// Takes those from `first` to `last` out.
    pub(super) fn take(&self, first: i32, last: i32) -> Taken {
        let (base, bits) = (self.first.load(Relaxed), self.bits.load(Relaxed));
        let is_meant = |at: &i32| (first..=last).contains(&(base + at));
        let mask = (0..BLOCK).filter(is_meant).fold(0, |mask, at| mask | 1_u64 << at);
        self.bits.store(bits & !mask, Relaxed);
        Taken { first: base, bits: bits & mask }
    }
}

impl Taken {
    /// How many.
    pub(super) fn len(&self) -> u32 {
        self.bits.count_ones()
    }
}

impl Iterator for Taken {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        let bits = self.bits;
        self.bits &= bits.wrapping_sub(1);
        (bits != 0).then(|| self.first + bits.trailing_zeros() as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_lowest_comes_first() {
        let vacant = Vacant::default();
        for fd in [70, 65, 127, 64] {
            assert!(!vacant.has(fd) && vacant.keep(fd) && vacant.has(fd));
        }
        assert!(!vacant.keep(63) && !vacant.keep(128), "another block");
        assert!(!vacant.has(-1) && !vacant.has(i32::MIN) && !vacant.has(66));
        let all: Vec<i32> = core::iter::from_fn(|| vacant.reuse()).collect();
        assert_eq!(all, [64, 65, 70, 127]);
        assert!(vacant.keep(3) && vacant.has(3), "an empty one takes any block");
    }

    #[test]
    fn a_span_is_taken_out() {
        let vacant = Vacant::default();
        for fd in [0, 5, 9, 63] {
            assert!(vacant.keep(fd));
        }
        let taken = vacant.take(5, 9);
        assert_eq!(taken.len(), 2);
        assert_eq!(taken.collect::<Vec<i32>>(), [5, 9]);
        assert!(vacant.has(0) && vacant.has(63) && !vacant.has(5));
        assert_eq!(vacant.take(1, i32::MAX).collect::<Vec<i32>>(), [63]);
        assert_eq!(vacant.take(1, i32::MAX).len(), 0);
    }
}
