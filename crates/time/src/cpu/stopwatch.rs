//! A clock that runs and stands still, in one word.
//!
//! | bits | stopped | running |
//! |---|---|---|
//! | 0 | 0 | 1 |
//! | 1..=63 | the total | the total minus the moment of starting (signed) |
//!
//! While it runs, nothing needs to be written: the reading is `word + now`. So a process's
//! clock costs nothing while a CPU switches between its threads, and a reader on any CPU
//! needs one load, no lock and no retry. There is one writer at a time (the CPU that runs
//! the thread, or the CPU that the word belongs to).
//!
//! A reader takes `now` first and loads the word after. What it then computes is never
//! more than the truth at the load, but can miss the nanoseconds between its `now` and a
//! start that it already sees; [`Floor`] keeps such a reading from going back.

use crate::planted::{self, Fault};
use ids::Nanos;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

const RUNNING: u64 = 1;

/// A CPU-time clock of one thread, or of one process on one CPU.
#[derive(Debug, Default)]
pub struct Stopwatch(AtomicU64);

impl Stopwatch {
    /// A stopped clock that reads zero.
    pub const fn new() -> Stopwatch {
        Stopwatch(AtomicU64::new(0))
    }

    /// Whether it runs.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.0.load(Relaxed) & RUNNING != 0
    }

    /// Lets it run from `now` on; no effect if it runs already.
    #[inline(always)]
    pub fn start(&self, now: Nanos) {
        let word = self.0.load(Relaxed);
        if word & RUNNING == 0 {
            self.0.store(word.wrapping_sub(now.0 << 1) | RUNNING, Relaxed);
        }
    }

    /// Stops it at `now`; no effect if it stands still already.
    #[inline(always)]
    pub fn stop(&self, now: Nanos) {
        let word = self.0.load(Relaxed);
        if word & RUNNING != 0 {
            self.0.store(value(word, now) << 1, Relaxed);
        }
    }

    /// Adds time that was consumed while the clock stood still (host calls).
    #[inline]
    pub fn add(&self, span: Nanos) {
        self.0.store(self.0.load(Relaxed).wrapping_add(span.0 << 1), Relaxed);
    }

    /// Takes time back that was counted but not consumed (stolen by the host), at most
    /// what the clock reads.
    #[inline]
    pub fn take_back(&self, span: Nanos, now: Nanos) {
        let word = self.0.load(Relaxed);
        let span = span.0.min(value(word, now));
        self.0.store(word.wrapping_sub(span << 1), Relaxed);
    }

    /// Sets a clock that stands still to a total.
    #[inline(always)]
    pub fn set(&self, total: Nanos) {
        self.0.store(total.0 << 1, Relaxed);
    }

    /// The reading at `now`.
    #[inline(always)]
    pub fn read(&self, now: Nanos) -> Nanos {
        Nanos(value(self.0.load(Relaxed), now))
    }

    /// Back to zero, stopped.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

#[inline(always)]
fn value(word: u64, now: Nanos) -> u64 {
    if word & RUNNING == 0 {
        word >> 1
    } else {
        // The flag is shifted out; the rest is a signed difference. A reader whose `now`
        // is older than the start of a fresh clock computes less than nothing: zero.
        ((word as i64) >> 1).wrapping_add(now.0 as i64).max(0) as u64
    }
}

/// The highest value that anyone has read: readings through it never go back, whatever
/// the order of loads on different CPUs and whatever was taken back.
#[derive(Debug, Default)]
pub struct Floor(AtomicU64);

impl Floor {
    /// Nothing was read yet.
    pub const fn new() -> Floor {
        Floor(AtomicU64::new(0))
    }

    /// `reading`, or what was read before if that is more.
    #[inline(always)]
    pub fn raise(&self, reading: Nanos) -> Nanos {
        if planted::strikes(Fault::NoFloor) {
            return reading;
        }
        let before = self.0.load(Relaxed);
        if before >= reading.0 {
            return Nanos(before);
        }
        Nanos(self.0.fetch_max(reading.0, Relaxed).max(reading.0))
    }

    /// The highest value that was read.
    pub fn get(&self) -> Nanos {
        Nanos(self.0.load(Relaxed))
    }

    /// Forgets what was read.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_and_stands_still() {
        let w = Stopwatch::new();
        assert_eq!(w.read(Nanos(1_000)), Nanos::ZERO);
        w.start(Nanos(1_000));
        assert!(w.is_running());
        assert_eq!(w.read(Nanos(1_500)), Nanos(500));
        w.start(Nanos(1_600));
        assert_eq!(w.read(Nanos(1_700)), Nanos(700), "a second start changes nothing");
        w.stop(Nanos(2_000));
        w.stop(Nanos(3_000));
        assert_eq!(w.read(Nanos(9_000)), Nanos(1_000));
        assert!(!w.is_running());
    }

    #[test]
    fn additions_count_running_or_not_and_take_back_stops_at_zero() {
        let w = Stopwatch::new();
        w.add(Nanos(5));
        w.start(Nanos(10));
        w.add(Nanos(5));
        assert_eq!(w.read(Nanos(11)), Nanos(11));
        w.take_back(Nanos(3), Nanos(11));
        assert_eq!(w.read(Nanos(11)), Nanos(8));
        w.take_back(Nanos(100), Nanos(12));
        assert_eq!(w.read(Nanos(12)), Nanos(0));
        w.stop(Nanos(20));
        assert_eq!(w.read(Nanos(20)), Nanos(8));
        w.reset();
        assert_eq!(w.read(Nanos(20)), Nanos(0));
    }

    #[test]
    fn a_clock_is_set_while_it_stands_still() {
        let w = Stopwatch::new();
        w.set(Nanos(1_234_567));
        assert_eq!((w.read(Nanos(9)), w.is_running()), (Nanos(1_234_567), false));
        w.start(Nanos(10));
        assert_eq!(w.read(Nanos(13)), Nanos(1_234_570));
    }

    #[test]
    fn a_stale_now_reads_zero_not_the_end_of_time() {
        let w = Stopwatch::new();
        w.start(Nanos(1_000));
        assert_eq!(w.read(Nanos(999)), Nanos::ZERO);
    }

    #[test]
    fn the_floor_only_rises() {
        let f = Floor::new();
        assert_eq!(f.raise(Nanos(7)), Nanos(7));
        assert_eq!(f.raise(Nanos(5)), Nanos(7));
        assert_eq!(f.raise(Nanos(7)), Nanos(7));
        assert_eq!(f.raise(Nanos(8)), Nanos(8));
        f.reset();
        assert_eq!(f.raise(Nanos(1)), Nanos(1));
    }

    proptest! {
        /// The reading is the sum of the stretches, for any start in the life of a machine.
        #[test]
        fn reads_the_sum_of_its_stretches(
            boot in 0u64..1 << 61,
            stretches in prop::collection::vec((1u64..1 << 40, 0u64..1 << 40, 0u64..1000), 1..50),
        ) {
            let (w, mut now, mut sum) = (Stopwatch::new(), boot, 0);
            for (gap, run, extra) in stretches {
                now += gap;
                w.start(Nanos(now));
                now += run;
                sum += run;
                prop_assert_eq!(w.read(Nanos(now)), Nanos(sum));
                w.stop(Nanos(now));
                w.add(Nanos(extra));
                sum += extra;
                prop_assert_eq!(w.read(Nanos(now)), Nanos(sum));
            }
        }
    }
}
