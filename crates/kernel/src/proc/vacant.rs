//! Numbers that the program has closed and the host still has (*kept*), so that opening again needs no host call.
//!
//! "The lowest number that is free" (open(2)) stays true: a number is kept only while every number below it is taken
//! or kept. [`super::files`] says how that is known; here are the sets: of the near numbers a word, of the far ones
//! ([`super::table`]) one aligned block of 64 at a time, since a program opens about the same number again and again.

use core::ops::RangeInclusive;
use sync::atomic::{AtomicU64, Ordering::*};

const BLOCK: i32 = 64;

/// The near numbers.
///
/// | | who may | when |
/// |---|---|---|
/// | set bit `n` | whoever has the lock of number `n` | its file was [`lowest`](super::files::OpenFile::lowest) |
/// | clear bit `n` | whoever has the lock of number `n` | at any time: the number goes back to the host |
/// | clear the lowest bit | anybody, in one exchange of the word | the number is his: he opens it |
/// | read | anybody | a bit that is seen may be gone |
#[derive(Debug, Default)]
pub(super) struct Near(AtomicU64);

/// The near numbers that were kept at some moment.
#[derive(Clone, Copy)]
pub(super) struct Kept(u64);

impl Kept {
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Near {
    /// Whether it is among them.
    #[inline]
    pub(super) fn has(&self, fd: i32) -> bool {
        (0..BLOCK).contains(&fd) && self.0.load(Acquire) >> fd & 1 != 0
    }

    /// All of them.
    #[inline]
    pub(super) fn look(&self) -> Kept {
        Kept(self.0.load(SeqCst))
    }

    /// Takes the lowest out, if they still are these.
    #[inline]
    pub(super) fn take_lowest(&self, Kept(bits): Kept) -> Option<i32> {
        let rest = bits & bits.wrapping_sub(1);
        let lowest = (bits != 0).then_some(bits.trailing_zeros() as i32)?;
        self.0.compare_exchange(bits, rest, SeqCst, Relaxed).is_ok().then_some(lowest)
    }

    /// Keeps a near number, whose lock is held.
    #[inline]
    pub(super) fn keep(&self, fd: i32) {
        self.0.fetch_or(1 << fd, SeqCst);
    }

    /// Keeps a near number, whose lock is held, no longer: whether it was.
    #[inline]
    pub(super) fn take(&self, fd: i32) -> bool {
        self.has(fd) && self.0.fetch_and(!(1 << fd), SeqCst) >> fd & 1 != 0
    }
}

/// Far numbers, under their lock.
#[derive(Debug, Default)]
pub(super) struct Far {
    first: i32,
    bits: u64,
}

impl Far {
    pub(super) fn is_empty(&self) -> bool {
        self.bits == 0
    }

    pub(super) fn has(&self, fd: i32) -> bool {
        let at = fd.wrapping_sub(self.first);
        (0..BLOCK).contains(&at) && self.bits >> at & 1 != 0
    }

    /// Keeps a number, if it is in the block.
    pub(super) fn keep(&mut self, fd: i32) -> bool {
        if self.bits == 0 {
            self.first = fd & !(BLOCK - 1);
        }
        let at = fd - self.first;
        if !(0..BLOCK).contains(&at) {
            return false;
        }
        self.bits |= 1 << at;
        true
    }

    /// The lowest, which is the program's again.
    pub(super) fn reuse(&mut self) -> Option<i32> {
        let bits = self.bits;
        self.bits &= bits.wrapping_sub(1);
        (bits != 0).then(|| self.first + bits.trailing_zeros() as i32)
    }

    /// Takes those in a range out: where their block begins, and their bits.
    pub(super) fn take(&mut self, range: RangeInclusive<i32>) -> (i32, u64) {
        let is_meant = |at: &i32| range.contains(&(self.first + at));
        let mask = (0..BLOCK).filter(is_meant).fold(0, |mask, at| mask | 1_u64 << at);
        let taken = self.bits & mask;
        self.bits &= !mask;
        (self.first, taken)
    }
}

/// Numbers that have been taken out: to be closed at the host.
#[must_use]
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub near: u64,
    /// Where the block of far ones begins, and their bits.
    pub far: (i32, u64),
}

impl Taken {
    /// How many.
    pub(super) fn len(&self) -> u32 {
        self.near.count_ones() + self.far.1.count_ones()
    }
}

impl Iterator for Taken {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        let (first, bits) = if self.near != 0 { (0, &mut self.near) } else { (self.far.0, &mut self.far.1) };
        let lowest = *bits;
        *bits &= lowest.wrapping_sub(1);
        (lowest != 0).then(|| first + lowest.trailing_zeros() as i32)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_lowest_of_the_near_ones_comes_first() {
        let near = Near::default();
        assert!(near.look().is_empty() && near.take_lowest(near.look()).is_none() && !near.take(3));
        for fd in [6, 1, 63, 0] {
            assert!(!near.has(fd));
            near.keep(fd);
            assert!(near.has(fd));
        }
        assert!(!near.has(-1) && !near.has(64) && !near.has(i32::MIN) && !near.has(2));
        let before = near.look();
        assert!(near.take(1) && !near.take(1));
        assert!(near.take_lowest(before).is_none() && near.has(0), "they are others now");
        let all: Vec<i32> = core::iter::from_fn(|| near.take_lowest(near.look())).collect();
        assert_eq!(all, [0, 6, 63]);
        assert!(near.look().is_empty());
    }

    #[test]
    fn the_lowest_of_the_far_ones_comes_first() {
        let mut far = Far::default();
        for fd in [70, 65, 127, 64] {
            assert!(!far.has(fd) && far.keep(fd) && far.has(fd));
        }
        assert!(!far.keep(63) && !far.keep(128), "another block");
        assert!(!far.has(-1) && !far.has(i32::MIN) && !far.has(66));
        let all: Vec<i32> = core::iter::from_fn(|| far.reuse()).collect();
        assert_eq!(all, [64, 65, 70, 127]);
        assert!(far.is_empty() && far.keep(200) && far.has(200), "an empty one takes any block");
    }

    #[test]
    fn a_span_is_taken_out() {
        let mut far = Far::default();
        for fd in [64, 69, 73, 127] {
            assert!(far.keep(fd));
        }
        let taken = Taken { near: 0b101, far: far.take(69..=73) };
        assert_eq!(taken.len(), 4);
        assert_eq!(taken.collect::<Vec<i32>>(), [0, 2, 69, 73]);
        assert!(far.has(64) && far.has(127) && !far.has(69));
        assert_eq!(far.take(65..=i32::MAX), (64, 1 << 63));
        assert_eq!(far.take(65..=i32::MAX), (64, 0));
    }
}
