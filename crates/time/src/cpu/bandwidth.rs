//! A share of CPU time for a named group of threads: a quota per period; a thread beyond it waits for the next
//! period.

use crate::Error;
use ids::Nanos;

/// At most `quota` of CPU time in each period; what was consumed beyond (up to a tick on
/// each CPU) is owed to the next periods, so that the long-run share is exact.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    quota: Nanos,
    period: Nanos,
    /// The group's clock reading up to which it may run in this period.
    allowed: Nanos,
    /// When the next period begins.
    next_period: Nanos,
}

/// Whether the group may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a throttled group must not run"]
pub enum Share {
    /// Yes.
    Run,
    /// Not before this moment; ask again then.
    ThrottledUntil(Nanos),
}

impl Bandwidth {
    /// `quota` per `period`, from `now` on, for a group whose clock reads `consumed`.
    /// EINVAL for a zero quota or period.
    pub fn new(quota: Nanos, period: Nanos, consumed: Nanos, now: Nanos) -> Result<Bandwidth, Error> {
        if quota == Nanos::ZERO || period == Nanos::ZERO {
            return Err(Error::Invalid);
        }
        Ok(Bandwidth { quota, period, allowed: consumed + quota, next_period: now + period })
    }

    /// Whether the group may run at `now`, when its clock reads `consumed`. Unused quota
    /// of past periods is lost; a debt is paid first.
    pub fn check(&mut self, consumed: Nanos, now: Nanos) -> Share {
        if now >= self.next_period {
            let periods = now.since(self.next_period).0 / self.period.0 + 1;
            self.next_period += Nanos(periods.saturating_mul(self.period.0));
            let earned = self.allowed + Nanos(periods.saturating_mul(self.quota.0));
            self.allowed = earned.min(consumed + self.quota);
        }
        if consumed < self.allowed {
            return Share::Run;
        }
        let debt_periods = (consumed - self.allowed).0 / self.quota.0;
        Share::ThrottledUntil(self.next_period + Nanos(debt_periods.saturating_mul(self.period.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn half_a_cpu_runs_half_of_each_period() {
        let mut b = Bandwidth::new(MS(50), MS(100), MS(0), MS(1_000)).unwrap();
        assert_eq!(b.check(MS(49), MS(1_049)), Share::Run);
        assert_eq!(b.check(MS(50), MS(1_050)), Share::ThrottledUntil(MS(1_100)));
        assert_eq!(b.check(MS(50), MS(1_100)), Share::Run);
        assert_eq!(b.check(MS(100), MS(1_150)), Share::ThrottledUntil(MS(1_200)));
    }

    #[test]
    fn debt_is_paid_and_savings_are_lost() {
        let mut b = Bandwidth::new(MS(50), MS(100), MS(0), MS(0)).unwrap();
        assert_eq!(b.check(MS(170), MS(99)), Share::ThrottledUntil(MS(300)), "120 over: two more periods");
        assert_eq!(b.check(MS(170), MS(200)), Share::ThrottledUntil(MS(300)));
        assert_eq!(b.check(MS(170), MS(300)), Share::Run);
        assert_eq!(b.check(MS(199), MS(350)), Share::Run);
        assert_eq!(b.check(MS(200), MS(350)), Share::ThrottledUntil(MS(400)));
        let mut b = Bandwidth::new(MS(50), MS(100), MS(0), MS(0)).unwrap();
        assert_eq!(b.check(MS(0), MS(10_000)), Share::Run);
        assert_eq!(b.check(MS(50), MS(10_050)), Share::ThrottledUntil(MS(10_100)), "ten idle seconds give nothing");
    }

    #[test]
    fn the_long_run_share_is_exact_with_coarse_ticks() {
        let mut b = Bandwidth::new(MS(30), MS(100), MS(0), MS(0)).unwrap();
        let (mut consumed, mut now) = (0, 0);
        while now < 100_000 {
            match b.check(MS(consumed), MS(now)) {
                Share::Run => consumed += 8,
                Share::ThrottledUntil(_) => {}
            }
            now += 4;
        }
        assert!((29_900..=30_100).contains(&consumed), "{consumed}");
    }

    #[test]
    fn nothing_per_anything_and_anything_per_nothing_are_refused() {
        assert!(Bandwidth::new(MS(0), MS(1), MS(0), MS(0)).is_err());
        assert!(Bandwidth::new(MS(1), MS(0), MS(0), MS(0)).is_err());
    }
}
