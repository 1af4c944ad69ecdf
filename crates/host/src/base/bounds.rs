//! A lower and an upper bound of CLOCK_MONOTONIC, from the time-stamp counter. Deadlines must not be early, scheduling
//! time may be off by microseconds, and a host call for each check would be too slow.

use crate::base::os;
use arch::base::tsc;
use ids::Nanos;
use sync::atomic::{AtomicU64, Ordering::*};
use sync::{Lock, SeqCount};

/// How long a reading of the host's clock stays usable, in nanoseconds.
const FRESH: u64 = 2_000_000;
/// The host's clock is slewed, and our rate off, by at most 1/1024 together (`adjtimex(2)`: half of that).
const SLEW_SHIFT: u32 = 10;
/// The number of readings; the one with the smallest delay counts.
const READINGS: u32 = 3;

/// One reading of the host's clock, made between two readings of the counter.
#[derive(Debug, Default)]
pub struct Bounds {
    sequence: SeqCount,
    before: AtomicU64,
    after: AtomicU64,
    ns: AtomicU64,
    writer: Lock<()>,
}

impl Bounds {
    /// Two times between which the host's clock reads now. `span` converts counter ticks to nanoseconds.
    #[inline]
    pub fn read(&self, span: impl Fn(u64) -> u64) -> (Nanos, Nanos) {
        let (before, after, ns) =
            self.sequence.read(|| (self.before.load(Relaxed), self.after.load(Relaxed), self.ns.load(Relaxed)));
        let now = tsc();
        if span(now.saturating_sub(before)) > FRESH {
            return self.look(span);
        }
        between(ns, span(now.saturating_sub(after)), span(now.saturating_sub(before)))
    }

    /// Sets the reading of a stopped clock: its ticks take no time, so the reading does not age.
    pub(crate) fn set(&self, now: Nanos) {
        let _writing = self.sequence.write();
        self.ns.store(now.0, Relaxed);
    }

    /// Reads the host's clock.
    #[cold]
    #[inline(never)]
    fn look(&self, span: impl Fn(u64) -> u64) -> (Nanos, Nanos) {
        let readings = (0..READINGS).map(|_| {
            let before = tsc();
            let ns = os::clock_gettime(1).0;
            (before, ns, tsc())
        });
        let (before, ns, after) = readings.min_by_key(|r| r.2 - r.0).unwrap_or_default();
        if let Some(_writer) = self.writer.try_lock() {
            let _writing = self.sequence.write();
            self.before.store(before, Relaxed);
            self.after.store(after, Relaxed);
            self.ns.store(ns, Relaxed);
        }
        let now = tsc();
        between(ns, span(now - after), span(now - before))
    }
}

/// The bounds of a clock that read `ns` between `least` and `most` nanoseconds ago.
#[inline]
fn between(ns: u64, least: u64, most: u64) -> (Nanos, Nanos) {
    (Nanos(ns + least - (least >> SLEW_SHIFT)), Nanos(ns + most + (most >> SLEW_SHIFT) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;

    #[test]
    fn the_clock_lies_between() {
        let (clock, bounds) = (Clock::new(None), Bounds::default());
        let mut widest = 0;
        for _ in 0..200_000 {
            let before = os::clock_gettime(1);
            let (low, high) = bounds.read(|ticks| clock.span(ticks));
            let after = os::clock_gettime(1);
            assert!(low <= after && high >= before, "{before:?} {low:?} {high:?} {after:?}");
            widest = widest.max(high.0 - low.0);
        }
        assert!(widest != 0);
    }
}
