//! Counts the events of each thread, by classes of the places in the code where they happened.

use alloc::vec::Vec;

/// The number of classes.
pub const CLASSES: usize = 8;
/// The largest number of threads that are counted.
pub const COUNTED_MAX: usize = 256;
/// The number of counts in a census.
pub const LEN: usize = CLASSES * COUNTED_MAX;

/// The class of a place: a hash, which puts neighbouring places into different classes.
#[must_use]
pub fn class(place: u64) -> usize {
    // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4).
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize
}

/// The counts of all threads.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Census(Vec<[u64; CLASSES]>);

impl Census {
    /// The counts of each thread, in the order of their names.
    pub fn threads(&self) -> impl Iterator<Item = &[u64; CLASSES]> {
        self.0.iter()
    }

    /// Sets the count of a thread's events of a class. Ignores threads that are not counted.
    pub fn set(&mut self, thread: u32, class: usize, count: u64) {
        let index = thread as usize;
        if index < COUNTED_MAX && (count > 0 || index < self.0.len()) {
            self.0.resize(self.0.len().max(index + 1), [0; CLASSES]);
            self.0[index][class] = count;
        }
    }

    /// The number of events of this class, of all threads.
    #[must_use]
    pub fn total(&self, class: usize) -> u64 {
        self.0.iter().map(|counts| counts[class]).sum()
    }

    /// The larger of both censuses, count by count.
    #[must_use]
    pub fn max(mut self, other: &Census) -> Census {
        self.0.resize(self.0.len().max(other.0.len()), [0; CLASSES]);
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.iter_mut().zip(other).for_each(|(own, &other)| *own = other.max(*own));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_numbers_are_kept() {
        let (mut a, mut b) = (Census::default(), Census::default());
        a.set(0, 1, 5);
        b.set(0, 1, 3);
        b.set(2, 7, 4);
        b.set(COUNTED_MAX as u32, 0, 1);
        for both in [a.clone().max(&b), b.clone().max(&a)] {
            assert_eq!(both.threads().count(), 3);
            assert_eq!((both.total(1), both.total(7), both.total(0)), (5, 4, 0));
        }
    }

    #[test]
    fn places_are_spread_over_the_classes() {
        let mut seen = [0; CLASSES];
        (0..800).for_each(|i| seen[class(0x40_1000 + 5 * i)] += 1);
        assert!(seen.iter().all(|&n| n > 50), "{seen:?}");
    }
}
