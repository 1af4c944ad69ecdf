//! ITIMER_PROF and ITIMER_VIRTUAL: one timer each per process, no overrun count.

use ids::Nanos;

/// Time to the next expiry and the period, as `setitimer(2)` and `getitimer(2)` speak.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ItimerValue {
    /// Zero: not armed.
    pub value: Nanos,
    /// Zero: once.
    pub interval: Nanos,
}

/// One CPU-time interval timer (Linux's `struct cpu_itimer`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuItimer {
    /// The reading of its clock at which it expires; zero: not armed.
    expires: Nanos,
    interval: Nanos,
}

/// The effect of changing a timer on the cache of next events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the cache of next events must follow"]
pub enum CacheChange {
    /// Nothing.
    None,
    /// An event is due at this reading.
    Lower(Nanos),
    /// An event was removed: recompute.
    Recheck,
}

impl CpuItimer {
    /// A timer that is not armed.
    pub const fn new() -> CpuItimer {
        CpuItimer { expires: Nanos::ZERO, interval: Nanos::ZERO }
    }

    /// Sets the timer when its clock reads `now` (`set_cpu_itimer`). One `tick` is added,
    /// as on Linux: the clock may be that much behind. A zero value disarms but stores
    /// the interval.
    pub fn set(&mut self, new: ItimerValue, now: Nanos, tick: Nanos) -> (ItimerValue, CacheChange) {
        let old = ItimerValue { value: self.left(now, tick, |e, now| e <= now), interval: self.interval };
        let was_armed = self.is_armed();
        self.interval = new.interval;
        self.expires = if new.value == Nanos::ZERO { Nanos::ZERO } else { now + new.value + tick };
        let change = match (self.is_armed(), was_armed) {
            (true, _) => CacheChange::Lower(self.expires),
            (false, true) => CacheChange::Recheck,
            (false, false) => CacheChange::None,
        };
        (old, change)
    }

    /// The time left when its clock reads `now` (`get_cpu_itimer`): one tick if it should
    /// have expired already, zero at the very moment of expiry.
    pub fn get(&self, now: Nanos, tick: Nanos) -> ItimerValue {
        ItimerValue { value: self.left(now, tick, |e, now| e < now), interval: self.interval }
    }

    fn left(&self, now: Nanos, tick: Nanos, is_past: impl Fn(Nanos, Nanos) -> bool) -> Nanos {
        match self.expires {
            Nanos::ZERO => Nanos::ZERO,
            expires if is_past(expires, now) => tick,
            expires => expires - now,
        }
    }

    /// Whether it expires at `now` (`check_cpu_itimer`); a periodic one moves on by one
    /// period, without catching up: late expiries follow one per tick.
    #[must_use = "an expiry is a signal"]
    pub fn expire(&mut self, now: Nanos) -> bool {
        if !self.is_armed() || now < self.expires {
            return false;
        }
        self.expires = if self.interval == Nanos::ZERO { Nanos::ZERO } else { self.expires + self.interval };
        true
    }

    /// The reading at which it expires next, `Nanos::MAX` if never.
    pub fn next(&self) -> Nanos {
        if self.is_armed() { self.expires } else { Nanos::MAX }
    }

    /// Whether it is armed.
    pub fn is_armed(&self) -> bool {
        self.expires != Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CacheChange::*;

    const TICK: Nanos = Nanos::from_millis(4);

    fn value(value: u64, interval: u64) -> ItimerValue {
        ItimerValue { value: Nanos(value), interval: Nanos(interval) }
    }

    #[test]
    fn setting_adds_one_tick_as_seen_on_linux() {
        let mut t = CpuItimer::new();
        let new = ItimerValue { value: Nanos::from_micros(50_000), interval: Nanos::ZERO };
        let (old, change) = t.set(new, Nanos(7), TICK);
        assert_eq!(old, ItimerValue::default());
        assert_eq!(change, Lower(Nanos(54_000_007)));
        assert_eq!(t.get(Nanos(7), TICK).value, Nanos::from_micros(54_000));
    }

    #[test]
    fn zero_disarms_but_keeps_the_interval() {
        let mut t = CpuItimer::new();
        assert_eq!(t.set(value(0, 3), Nanos(0), TICK).1, None);
        assert_eq!(t.get(Nanos(0), TICK), value(0, 3));
        let _ = t.set(value(10, 3), Nanos(0), TICK);
        let (old, change) = t.set(value(0, 5), Nanos(10), TICK);
        assert_eq!((old, change), (value(TICK.0, 3), Recheck));
        assert_eq!(t.get(Nanos(9), TICK), value(0, 5));
        assert_eq!(t.next(), Nanos::MAX);
    }

    #[test]
    fn at_the_moment_of_expiry_get_reads_zero_and_set_reports_a_tick() {
        let mut t = CpuItimer::new();
        let _ = t.set(value(6, 0), Nanos(0), Nanos(4));
        assert_eq!(t.get(Nanos(10), Nanos(4)).value, Nanos(0));
        assert_eq!(t.get(Nanos(11), Nanos(4)).value, Nanos(4));
        assert_eq!(t.set(value(1, 0), Nanos(10), Nanos(4)).0.value, Nanos(4));
    }

    #[test]
    fn a_late_periodic_timer_expires_once_per_look() {
        let mut t = CpuItimer::new();
        let _ = t.set(value(1, 10), Nanos(0), Nanos(9));
        assert!(!t.expire(Nanos(9)));
        assert!(t.expire(Nanos(35)));
        assert_eq!(t.next(), Nanos(20));
        assert!(t.expire(Nanos(35)) && t.expire(Nanos(35)) && !t.expire(Nanos(35)));
        assert_eq!(t.next(), Nanos(40));
    }

    #[test]
    fn once_means_once() {
        let mut t = CpuItimer::new();
        let _ = t.set(value(1, 0), Nanos(0), Nanos(0));
        assert!(t.expire(Nanos(1)) && !t.expire(Nanos(2)) && !t.is_armed());
    }
}
