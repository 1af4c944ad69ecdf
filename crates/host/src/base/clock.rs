//! Scheduling time: CLOCK_MONOTONIC computed from the time-stamp counter.
//!
//! The vDSO is not used, because it may make a system call of its own, from its own text. The rate is measured over
//! the whole life of the process and the base is renewed every 100 ms, so the error stays below 10 µs.

use crate::base::os;
use arch::base::tsc;
use ids::Nanos;
use sync::atomic::{AtomicU64, Ordering::*};
use sync::{Lock, SeqCount};

const RESYNC: u64 = 100_000_000;
/// If the computed time is this far ahead of the host's, the host was suspended.
const SLEPT: u64 = 100_000_000;
/// Fixed point of the multiplier. Ticks are shifted left by `SHORT` bits before the multiplication, so the result is
/// the upper half of the product, which the processor delivers in its own register.
const SHIFT: u32 = 64 - SHORT;
/// Leaves enough bits for years of ticks and for rates down to 63 MHz.
const SHORT: u32 = 4;

/// Plausible counter rates: 67 MHz to 16 GHz.
const PLAUSIBLE: core::ops::Range<u64> = (1 << SHIFT) / 16..15 << SHIFT;
/// A rate is handed on to the next program only if its baseline is at least this long. There it counts as measured over
/// a baseline of this length.
const BASELINE: u64 = RESYNC / 4;

/// The time at which a stopped clock begins.
const STANDS_FROM: Nanos = Nanos(1_000_000_000_000);

#[derive(Debug)]
pub struct Clock {
    sequence: SeqCount,
    base_tsc: AtomicU64,
    base_ns: AtomicU64,
    mult: AtomicU64,
    /// The first pair read: the start of the baseline. Written by the writer.
    origin: [AtomicU64; 2],
    writer: Lock<()>,
}

fn pair() -> (u64, u64) {
    // Of three readings, use the one with the smallest delay.
    (0..3)
        .map(|_| {
            let a = tsc();
            let ns = os::clock_gettime(1).0;
            let b = tsc();
            (b - a, a + (b - a) / 2, ns)
        })
        .min()
        .map_or((0, 0), |(_, t, ns)| (t, ns))
}

impl Clock {
    /// A clock of this rate, if the rate is known; [`Clock::keep`] improves it.
    pub fn new(rate: Option<u64>) -> Clock {
        let Some(mult) = rate.filter(|&mult| PLAUSIBLE.contains(&mult)) else { return Clock::calibrated() };
        let now = pair();
        // Pretend a baseline of this length, because re-measuring over a shorter one would lose accuracy.
        let ticks = ((u128::from(BASELINE) << SHIFT) / u128::from(mult)) as u64;
        Clock::with(mult, now, (now.0.saturating_sub(ticks), now.1.saturating_sub(BASELINE)))
    }

    /// Measures the rate over 40 µs, because the program's start waits for it.
    fn calibrated() -> Clock {
        let origin = pair();
        let mut now = pair();
        while now.1 < origin.1 + 40_000 {
            now = pair();
        }
        Clock::with(rate(origin, now), now, origin)
    }

    fn with(mult: u64, base: (u64, u64), origin: (u64, u64)) -> Clock {
        Clock {
            sequence: SeqCount::default(),
            base_tsc: AtomicU64::new(base.0),
            base_ns: AtomicU64::new(base.1),
            mult: AtomicU64::new(mult),
            origin: [AtomicU64::new(origin.0), AtomicU64::new(origin.1)],
            writer: Lock::new(()),
        }
    }

    /// A copy for a forked child, with the same time and rate. It is made before the fork: at the fork itself another thread
    /// could be renewing the base.
    pub fn for_child(&self) -> Clock {
        if self.stands().is_some() {
            // Children of a controlled process are not controlled.
            return Clock::calibrated();
        }
        let (base_tsc, base_ns, mult) =
            self.sequence.read(|| (self.base_tsc.load(Relaxed), self.base_ns.load(Relaxed), self.mult.load(Relaxed)));
        let [origin_tsc, origin_ns] = [0, 1].map(|i| self.origin[i].load(Relaxed));
        Clock::with(mult, (base_tsc, base_ns), (origin_tsc, origin_ns))
    }

    /// The rate for [`Clock::new`] of another process, once it has been measured for long enough.
    pub fn rate(&self) -> Option<u64> {
        if self.stands().is_some() {
            return None;
        }
        let (base, mult) = self.sequence.read(|| (self.base_ns.load(Relaxed), self.mult.load(Relaxed)));
        (base.saturating_sub(self.origin[1].load(Relaxed)) >= BASELINE).then_some(mult)
    }

    /// A clock that stands still except for [`Clock::set`], for controlled runs. `epoch` is its CLOCK_REALTIME. Its
    /// rate is zero, so the counter has no influence.
    pub fn standing(epoch: Nanos) -> Clock {
        let clock = Clock::with(0, (0, STANDS_FROM.0), (0, 0));
        clock.origin[1].store(epoch.0.saturating_sub(STANDS_FROM.0), Relaxed);
        clock
    }

    /// The difference between CLOCK_REALTIME and a stopped clock's time; `None` for a clock that runs.
    pub(crate) fn stands(&self) -> Option<Nanos> {
        (self.mult.load(Relaxed) == 0).then(|| Nanos(self.origin[1].load(Relaxed)))
    }

    /// Moves a stopped clock.
    pub(crate) fn set(&self, now: Nanos) {
        let _writing = self.sequence.write();
        self.base_ns.store(now.0, Relaxed);
    }

    /// Now.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        let (t, ns, mult) =
            self.sequence.read(|| (self.base_tsc.load(Relaxed), self.base_ns.load(Relaxed), self.mult.load(Relaxed)));
        Nanos(ns + scale(tsc().saturating_sub(t), mult))
    }

    /// How many nanoseconds this many counter ticks take, however large the number.
    #[inline]
    pub fn span(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.mult.load(Relaxed))) >> SHIFT) as u64
    }

    /// Renews the base if it is old. Called at ticks and before sleeping.
    pub fn keep(&self) {
        if self.stands().is_some() {
            return;
        }
        // While the baseline is short, 0.1 µs at its ends matters. It is therefore renewed whenever it has become four
        // times as long.
        let base = self.base_ns.load(Relaxed);
        let due = RESYNC.min(4 * base.saturating_sub(self.origin[1].load(Relaxed)));
        let restarted = tsc() < self.base_tsc.load(Relaxed);
        if !restarted && self.now().0.saturating_sub(base) < due {
            return;
        }
        let Some(_writer) = self.writer.try_lock() else { return };
        self.set_anew(pair());
    }

    /// Renews base and rate. The caller holds the writer's lock.
    fn set_anew(&self, real: (u64, u64)) {
        let (base_tsc, mult) = (self.base_tsc.load(Relaxed), self.mult.load(Relaxed));
        let computed = self.base_ns.load(Relaxed) + scale(real.0.saturating_sub(base_tsc), mult);
        // The host was suspended: the counter restarted (S3), or continued while CLOCK_MONOTONIC stood still. No rate
        // can be measured across that.
        let slept = real.0 < base_tsc || computed.saturating_sub(real.1) > SLEPT;
        let mult = if slept {
            self.origin[0].store(real.0, Relaxed);
            self.origin[1].store(real.1, Relaxed);
            mult
        } else {
            rate((self.origin[0].load(Relaxed), self.origin[1].load(Relaxed)), real)
        };
        let _writing = self.sequence.write();
        self.base_tsc.store(real.0, Relaxed);
        // Time never goes back: a base that ran ahead stays, and the corrected rate lets the host's clock catch up.
        self.base_ns.store(real.1.max(computed), Relaxed);
        self.mult.store(mult, Relaxed);
    }
}

fn rate(from: (u64, u64), to: (u64, u64)) -> u64 {
    let (ticks, ns) = (to.0 - from.0, to.1 - from.1);
    // Never zero, which is the rate of a stopped clock ([`Clock::standing`]): two readings may be too close together.
    ((u128::from(ns) << SHIFT) / u128::from(ticks.max(1))).max(1) as u64
}

/// Ticks since the base as nanoseconds.
#[inline(always)]
fn scale(ticks: u64, mult: u64) -> u64 {
    ((u128::from(ticks << SHORT) * u128::from(mult)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2 GHz: the base is 1 s old, the process 2 s.
    fn clock() -> Clock {
        let pair = |seconds: u64| (seconds * 2_000_000_000, seconds * 1_000_000_000);
        let (origin, base) = (pair(10), pair(11));
        Clock::with(rate(origin, base), base, origin)
    }

    #[test]
    fn a_rate_that_is_handed_on_is_kept_until_it_can_be_measured_better() {
        let calibrated = Clock::calibrated();
        assert_eq!(calibrated.rate(), None, "a short baseline");
        let mult = calibrated.mult.load(Relaxed);
        let clock = Clock::new(Some(mult));
        assert_eq!(clock.rate(), Some(mult));
        clock.keep();
        assert_eq!(clock.rate(), Some(mult), "it is not measured again over less");
        let real = os::clock_gettime(1).0;
        assert!(clock.now().0.abs_diff(real) < 10_000_000);
        // A rate that no processor has is not believed.
        for rate in [0, 1, u64::MAX] {
            let own = Clock::new(Some(rate)).mult.load(Relaxed);
            assert!(own.abs_diff(mult) < mult / 10, "{rate}");
        }
    }

    #[test]
    fn a_clock_that_stands_is_moved() {
        let clock = Clock::standing(Nanos(5_000_000_000_000));
        assert_eq!((clock.now(), clock.stands()), (STANDS_FROM, Some(Nanos(4_000_000_000_000))));
        clock.keep();
        clock.set(STANDS_FROM + Nanos(7));
        assert_eq!((clock.now(), clock.rate()), (STANDS_FROM + Nanos(7), None));
        assert_eq!(Clock::new(None).stands(), None);
    }

    fn at(clock: &Clock, ticks: u64) -> u64 {
        clock.base_ns.load(Relaxed) + scale(ticks - clock.base_tsc.load(Relaxed), clock.mult.load(Relaxed))
    }

    #[test]
    fn a_counter_that_began_anew_does_not_stop_time() {
        let clock = clock();
        clock.set_anew((1_000, 11_500_000_000));
        assert!(at(&clock, 2_000_001_000).abs_diff(12_500_000_000) < 1_000);
        // And the rate is measured from there on.
        clock.set_anew((2_000_001_000, 12_500_000_000));
        assert!(at(&clock, 4_000_001_000).abs_diff(13_500_000_000) < 1_000);
    }

    #[test]
    fn a_counter_that_went_on_while_the_host_slept_keeps_its_rate() {
        let clock = clock();
        let hour = 3_600_000_000_000;
        clock.set_anew((24_000_000_000 + 2 * hour, 12_000_000_000));
        let then = at(&clock, 24_000_000_000 + 2 * hour);
        assert!(at(&clock, 26_000_000_000 + 2 * hour).abs_diff(then + 1_000_000_000) < 1_000);
    }
}
