//! RLIMIT_CPU and RLIMIT_RTTIME, and limits finer than Linux has.

use crate::Error;
use ids::Nanos;

/// RLIM_INFINITY.
pub const UNLIMITED: u64 = u64::MAX;

/// A soft and a hard limit, as `getrlimit(2)` shows them. RLIMIT_CPU counts seconds,
/// RLIMIT_RTTIME microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rlimit {
    /// The soft limit.
    pub cur: u64,
    /// The hard limit.
    pub max: u64,
}

/// The result of checking a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a limit that was reached is a signal"]
pub enum Reached {
    /// Neither limit.
    Nothing,
    /// The soft one: SIGXCPU.
    Soft,
    /// The hard one: SIGKILL.
    Hard,
}

impl Default for Rlimit {
    fn default() -> Rlimit {
        Rlimit::NONE
    }
}

impl Rlimit {
    /// No limit.
    pub const NONE: Rlimit = Rlimit { cur: UNLIMITED, max: UNLIMITED };

    /// Whether a caller may put `new` in this one's place (`do_prlimit`): EINVAL for soft
    /// above hard, EPERM for raising hard without CAP_SYS_RESOURCE.
    pub fn may_become(&self, new: Rlimit, privileged: bool) -> Result<(), Error> {
        if new.cur > new.max {
            Err(Error::Invalid)
        } else if new.max > self.max && !privileged {
            Err(Error::Permission)
        } else {
            Ok(())
        }
    }

    /// The soft RLIMIT_CPU as a reading of the process's clock, `Nanos::MAX` if unlimited.
    pub fn next_cpu(&self) -> Nanos {
        span(self.cur, 1_000_000_000)
    }

    /// Checks RLIMIT_CPU (`check_process_timers`): the hard limit comes first; each soft
    /// one reached is moved on by a second, for all to see.
    pub fn check_cpu(&mut self, consumed: Nanos) -> Reached {
        self.check(consumed, 1_000_000_000, 1)
    }

    /// Checks RLIMIT_RTTIME (`check_thread_timers`): `consumed` is what a real-time thread
    /// has run since it last woke up. The soft limit moves on by a second.
    pub fn check_rttime(&mut self, consumed: Nanos) -> Reached {
        self.check(consumed, 1_000, 1_000_000)
    }

    fn check(&mut self, consumed: Nanos, unit: u64, step: u64) -> Reached {
        if self.cur == UNLIMITED {
            Reached::Nothing
        } else if self.max != UNLIMITED && consumed >= span(self.max, unit) {
            Reached::Hard
        } else if consumed >= span(self.cur, unit) {
            self.cur = self.cur.saturating_add(step);
            Reached::Soft
        } else {
            Reached::Nothing
        }
    }
}

fn span(n: u64, unit: u64) -> Nanos {
    Nanos(n.saturating_mul(unit))
}

/// The action at a hard [`CpuLimit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtHard {
    /// The thread or group ends.
    Stop,
    /// The thread is not scheduled until its next period.
    Throttle,
}

/// A CPU limit beyond Linux: for a thread or a named group of threads, in nanoseconds. The soft limit is reported once,
/// the hard one at each check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuLimit {
    /// Signal at this consumption; `Nanos::MAX`: never.
    soft: Nanos,
    hard: Nanos,
    at_hard: AtHard,
}

/// The result of checking a [`CpuLimit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a limit that was reached is a signal or worse"]
pub enum LimitReached {
    /// Neither limit.
    Nothing,
    /// The soft one, for the first time.
    Soft,
    /// The hard one.
    Hard(AtHard),
}

impl CpuLimit {
    /// A limit; refused (EINVAL) if it makes no sense: soft above hard, or nothing limited.
    pub fn new(soft: Option<Nanos>, hard: Option<Nanos>, at_hard: AtHard) -> Result<CpuLimit, Error> {
        let (soft, hard) = (soft.unwrap_or(Nanos::MAX), hard.unwrap_or(Nanos::MAX));
        let nothing = soft == Nanos::MAX && hard == Nanos::MAX;
        if nothing || hard == Nanos::ZERO || (soft != Nanos::MAX && soft > hard) {
            return Err(Error::Invalid);
        }
        Ok(CpuLimit { soft, hard, at_hard })
    }

    /// The reading at which something happens next.
    pub fn next(&self) -> Nanos {
        self.soft.min(self.hard)
    }

    /// Checks the limit.
    pub fn check(&mut self, consumed: Nanos) -> LimitReached {
        if consumed >= self.hard {
            LimitReached::Hard(self.at_hard)
        } else if consumed >= self.soft {
            self.soft = Nanos::MAX;
            LimitReached::Soft
        } else {
            LimitReached::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn limit(cur: u64, max: u64) -> Rlimit {
        Rlimit { cur, max }
    }

    #[test]
    fn one_sigxcpu_per_cpu_second_until_the_hard_limit() {
        let mut l = limit(2, 4);
        assert_eq!(l.check_cpu(Nanos(2 * S - 1)), Reached::Nothing);
        assert_eq!(l.check_cpu(Nanos(2 * S)), Reached::Soft);
        assert_eq!((l.cur, l.next_cpu()), (3, Nanos(3 * S)));
        assert_eq!(l.check_cpu(Nanos(2 * S)), Reached::Nothing);
        assert_eq!(l.check_cpu(Nanos(3 * S + 1)), Reached::Soft);
        assert_eq!(l.check_cpu(Nanos(4 * S)), Reached::Hard, "hard is tested before soft");
    }

    #[test]
    fn soft_zero_is_legal_and_fires_at_once() {
        let mut l = limit(0, UNLIMITED);
        assert_eq!(l.check_cpu(Nanos(0)), Reached::Soft);
        assert_eq!(l.cur, 1);
    }

    #[test]
    fn without_a_soft_limit_nothing_happens() {
        let mut l = Rlimit::NONE;
        assert_eq!(l.check_cpu(Nanos(u64::MAX)), Reached::Nothing);
        assert_eq!(l.next_cpu(), Nanos::MAX);
        let mut l = limit(u64::MAX - 1, UNLIMITED);
        assert_eq!(l.check_cpu(Nanos(1 << 62)), Reached::Nothing);
        assert_eq!(l.cur, u64::MAX - 1, "reads back what was set");
    }

    #[test]
    fn rttime_counts_microseconds_and_moves_on_by_a_second() {
        let mut l = limit(500, 2_000_000);
        assert_eq!(l.check_rttime(Nanos::from_micros(499)), Reached::Nothing);
        assert_eq!(l.check_rttime(Nanos::from_micros(500)), Reached::Soft);
        assert_eq!(l.cur, 1_000_500);
        assert_eq!(l.check_rttime(Nanos::from_secs(2)), Reached::Hard);
    }

    #[test]
    fn who_may_set_what() {
        let old = limit(10, 20);
        assert_eq!(old.may_become(limit(21, 20), true), Err(Error::Invalid));
        assert_eq!(old.may_become(limit(0, 21), false), Err(Error::Permission));
        assert_eq!(old.may_become(limit(0, 21), true), Ok(()));
        assert_eq!(old.may_become(limit(20, 20), false), Ok(()));
        assert_eq!(old.may_become(limit(0, 0), false), Ok(()));
        assert_eq!(old.may_become(Rlimit::NONE, false), Err(Error::Permission));
        assert_eq!(old.may_become(limit(30, 25), false), Err(Error::Invalid), "sense is checked before rights");
    }

    #[test]
    fn limits_beyond_linux() {
        let ms = Nanos::from_millis;
        let mut l = CpuLimit::new(Some(ms(300)), Some(ms(500)), AtHard::Throttle).unwrap();
        assert_eq!(l.next(), ms(300));
        assert_eq!(l.check(ms(299)), LimitReached::Nothing);
        assert_eq!(l.check(ms(300)), LimitReached::Soft);
        assert_eq!(l.check(ms(400)), LimitReached::Nothing, "told once");
        assert_eq!(l.next(), ms(500));
        assert_eq!(l.check(ms(500)), LimitReached::Hard(AtHard::Throttle));
        assert_eq!(l.check(ms(501)), LimitReached::Hard(AtHard::Throttle));
    }

    #[test]
    fn a_limit_that_makes_no_sense_is_refused() {
        let ms = |n| Some(Nanos::from_millis(n));
        for (soft, hard) in [(None, None), (ms(5), ms(4)), (None, ms(0)), (ms(0), ms(0))] {
            assert_eq!(CpuLimit::new(soft, hard, AtHard::Stop), Err(Error::Invalid));
        }
        assert!(CpuLimit::new(ms(4), ms(4), AtHard::Stop).is_ok());
        assert!(CpuLimit::new(ms(5), None, AtHard::Stop).is_ok());
    }
}
