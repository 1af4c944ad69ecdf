//! ITIMER_REAL and `alarm(2)`: one timer on the monotonic clock per process.
//!
//! It does not restart itself. The period goes on when SIGALRM is *dequeued*, by anyone
//! and from wherever it came: a blocked SIGALRM costs nothing, an ignored one ends a
//! periodic timer for good, and a later `kill(SIGALRM)` that is delivered revives it
//! (`dequeue_signal`, `posixtimer_rearm_itimer`).

use crate::cpu::itimer::ItimerValue;
use ids::Nanos;

/// The real-time interval timer of a process; guarded by the process lock.
#[derive(Clone, Copy, Default, Debug)]
pub struct RealItimer {
    /// When it expires, or expired last.
    at: Nanos,
    armed: bool,
    interval: Nanos,
}

impl RealItimer {
    /// A timer that is not armed.
    pub const fn new() -> RealItimer {
        RealItimer { at: Nanos::ZERO, armed: false, interval: Nanos::ZERO }
    }

    /// `setitimer(2)`: the old setting. A zero value disarms and forgets the interval.
    pub fn set(&mut self, new: ItimerValue, now: Nanos) -> ItimerValue {
        let old = self.get(now);
        *self = if new.value == Nanos::ZERO {
            RealItimer::new()
        } else {
            RealItimer { at: now + new.value, armed: true, interval: new.interval }
        };
        old
    }

    /// `getitimer(2)`: zero while expired and not delivered; a microsecond if the expiry
    /// is due but did not happen yet.
    pub fn get(&self, now: Nanos) -> ItimerValue {
        let value = match self.armed {
            false => Nanos::ZERO,
            true if self.at <= now => Nanos::from_micros(1),
            true => self.at - now,
        };
        ItimerValue { value, interval: self.interval }
    }

    /// `alarm(2)`: the whole seconds that were left, rounded to the nearest, but never
    /// to zero.
    pub fn alarm(&mut self, seconds: u32, now: Nanos) -> u32 {
        let new = ItimerValue { value: Nanos::from_secs(seconds as u64), interval: Nanos::ZERO };
        let left = self.set(new, now).value.0 / 1_000;
        let (sec, usec) = (left / 1_000_000, left % 1_000_000);
        let up = (sec == 0 && usec != 0) || usec >= 500_000;
        (sec + up as u64) as u32
    }

    /// When it expires, if armed.
    pub fn next(&self) -> Option<Nanos> {
        self.armed.then_some(self.at)
    }

    /// Whether it expires at `now`: then SIGALRM goes to the process.
    #[must_use = "an expiry is a signal"]
    pub fn expire(&mut self, now: Nanos) -> bool {
        let due = self.armed && self.at <= now;
        self.armed &= !due;
        due
    }

    /// A SIGALRM was dequeued from the process's queue: a periodic timer that waits for that continues, past the
    /// periods it missed. Returns its next expiry if it was rearmed.
    pub fn sigalrm_dequeued(&mut self, now: Nanos) -> Option<Nanos> {
        if self.armed || self.interval == Nanos::ZERO {
            return None;
        }
        let missed = now.since(self.at).0 / self.interval.0;
        self.at += Nanos(self.interval.0.saturating_mul(missed + 1));
        self.armed = true;
        Some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn value(value: u64, interval: u64) -> ItimerValue {
        ItimerValue { value: MS(value), interval: MS(interval) }
    }

    #[test]
    fn zero_disarms_and_forgets_the_interval() {
        let mut t = RealItimer::new();
        assert_eq!(t.set(value(10, 5), MS(0)), value(0, 0));
        assert_eq!(t.set(value(0, 7), MS(4)), value(6, 5));
        assert_eq!(t.get(MS(4)), value(0, 0));
        assert_eq!(t.next(), None);
    }

    #[test]
    fn a_due_timer_reads_one_microsecond_an_expired_one_zero() {
        let mut t = RealItimer::new();
        t.set(value(10, 5), MS(0));
        assert_eq!(t.get(MS(10)).value, Nanos::from_micros(1));
        assert!(!t.expire(MS(9)) && t.expire(MS(10)) && !t.expire(MS(10)));
        assert_eq!(t.get(MS(10)), value(0, 5));
    }

    #[test]
    fn the_period_goes_on_at_delivery_and_skips_what_was_missed() {
        let mut t = RealItimer::new();
        t.set(value(10, 10), MS(0));
        assert_eq!(t.sigalrm_dequeued(MS(5)), None, "still armed");
        assert!(t.expire(MS(12)));
        assert_eq!(t.sigalrm_dequeued(MS(12)), Some(MS(20)));
        assert!(t.expire(MS(20)));
        assert_eq!(t.sigalrm_dequeued(MS(55)), Some(MS(60)));
        assert!(t.expire(MS(60)));
        assert_eq!(t.sigalrm_dequeued(MS(70)), Some(MS(80)), "a period that ends now is over");
    }

    #[test]
    fn an_ignored_sigalrm_ends_it_until_another_sigalrm_is_dequeued() {
        let mut t = RealItimer::new();
        t.set(value(10, 10), MS(0));
        assert!(t.expire(MS(10)));
        assert_eq!(t.next(), None, "ignored: nobody dequeues it");
        assert_eq!(t.get(MS(500)), value(0, 10));
        assert_eq!(t.sigalrm_dequeued(MS(505)), Some(MS(510)), "kill(SIGALRM)");
    }

    #[test]
    fn a_sigalrm_for_no_timer_starts_none() {
        let mut t = RealItimer::new();
        assert_eq!(t.sigalrm_dequeued(MS(1)), None);
        t.set(value(1, 0), MS(0));
        assert!(t.expire(MS(1)));
        assert_eq!(t.sigalrm_dequeued(MS(1)), None, "once means once");
    }

    #[test]
    fn alarm_rounds_as_seen_on_linux() {
        for (left, want) in [(0, 0), (400, 1), (1_000, 1), (1_400, 1), (1_500, 2), (1_600, 2), (90_499, 90)] {
            let mut t = RealItimer::new();
            t.set(value(left, 0), MS(0));
            assert_eq!(t.alarm(0, MS(0)), want, "{left} ms");
            assert_eq!(t.next(), None);
        }
        let mut t = RealItimer::new();
        assert_eq!(t.alarm(3, MS(0)), 0);
        assert_eq!(t.next(), Some(MS(3_000)));
    }
}
