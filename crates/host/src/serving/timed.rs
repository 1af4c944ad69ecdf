//! `poll(2)`, `epoll_wait(2)` and `epoll_pwait(2)` of a carrier, in the forms that take a mask and a time in
//! nanoseconds (`ppoll(2)`, `epoll_pwait2(2)`).
//!
//! The wait then needs no separate call to change the carrier's mask. It can also end when the CPU that the carrier has
//! left is wanted, so that the CPU needs no other carrier until then.

use crate::base::dispositions::WAITING_MASK;
use crate::base::os::{self, nr};
use abi::Errno;
use ids::Nanos;
use kernel::Call;

/// One such wait. Its clock is CLOCK_MONOTONIC, like that of the CPU's timeouts.
pub(crate) struct TimedWait {
    call: Call,
    /// The program's own time limit; `None`: none.
    span: Option<Nanos>,
    /// A wait on a CPU with a timeout.
    limited: Option<Limited>,
}

struct Limited {
    /// When the program's time limit ends.
    end: Option<Nanos>,
    /// When the CPU is wanted; `None`: another carrier has it.
    until: Option<Nanos>,
    /// The last reading of the clock, if it was just taken.
    now: Option<Nanos>,
}

/// How a wait has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// The host has answered.
    Answered,
    /// The CPU is wanted. The next wait lasts as long as the program says.
    CpuWanted,
    /// A seccomp filter of an outer program knows the call but not this form of it.
    Forbidden,
}

impl TimedWait {
    /// `None` if the call has no such form. The clock is read only if the CPU has a timeout.
    pub(crate) fn of(call: &Call, until: Option<Nanos>, clock: impl Fn() -> Nanos) -> Option<TimedWait> {
        let ms = match call.nr {
            nr::EPOLL_WAIT | nr::EPOLL_PWAIT => call.args[3],
            nr::POLL => call.args[2],
            _ => return None,
        };
        let span = u64::try_from(ms as i32).ok().map(Nanos::from_millis);
        let limited = until.map(|until| {
            let now = clock();
            Limited { end: span.map(|span| now + span), until: Some(until), now: Some(now) }
        });
        Some(TimedWait { call: *call, span, limited })
    }

    /// The host's answer.
    pub(crate) fn make(&mut self, clock: impl Fn() -> Nanos) -> isize {
        let [a, b, c, ms, ..] = self.call.args;
        let mask = WAITING_MASK;
        let (mask, size) = (&raw const mask as u64, size_of::<u64>() as u64);
        if self.call.nr != nr::POLL && self.limited.is_none() {
            return os::interruptible(&Call { nr: nr::EPOLL_PWAIT, args: [a, b, c, ms, mask, size] });
        }
        // The host overwrites it with the remaining time.
        let mut time = self.left(clock).map(|left| [left.0 / 1_000_000_000, left.0 % 1_000_000_000]);
        let time = time.as_mut().map_or(0, |time| time.as_mut_ptr() as u64);
        os::interruptible(&match self.call.nr {
            nr::POLL => Call { nr: nr::PPOLL, args: [a, b, time, mask, size, 0] },
            _ => Call { nr: nr::EPOLL_PWAIT2, args: [a, b, c, time, mask, size] },
        })
    }

    /// The time it may still last.
    fn left(&mut self, clock: impl Fn() -> Nanos) -> Option<Nanos> {
        let Some(limited) = &mut self.limited else { return self.span };
        let first = [limited.end, limited.until].into_iter().flatten().min()?;
        Some(first.since(limited.now.take().unwrap_or_else(clock)))
    }

    /// What the host's answer means.
    #[must_use]
    pub(crate) fn ended_by(&mut self, answer: isize, clock: impl Fn() -> Nanos) -> Ended {
        if [Errno::ENOSYS, Errno::EPERM].iter().any(|error| answer == error.to_ret()) {
            return Ended::Forbidden;
        }
        let Some(limited) = self.limited.as_mut().filter(|limited| answer == 0 && limited.until.is_some()) else {
            return Ended::Answered;
        };
        let now = clock();
        if limited.end.is_some_and(|end| end <= now) {
            return Ended::Answered;
        }
        (limited.until, limited.now) = (None, Some(now));
        Ended::CpuWanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn wait(nr: usize, ms: i32, until: Option<u64>) -> TimedWait {
        let args = if nr == nr::POLL { [0, 0, ms as u64, 0, 0, 0] } else { [0, 0, 0, ms as u64, 0, 0] };
        TimedWait::of(&Call { nr, args }, until.map(|ms| Nanos(ms * MS)), || Nanos(100 * MS)).unwrap()
    }

    fn left(wait: &mut TimedWait, now: u64) -> Option<u64> {
        wait.left(|| Nanos(now * MS)).map(|left| left.0 / MS)
    }

    #[test]
    fn a_wait_that_was_cut_short_lasts_for_the_rest_of_its_time() {
        for nr in [nr::POLL, nr::EPOLL_WAIT] {
            let mut wait = wait(nr, 1000, Some(1000));
            assert_eq!(left(&mut wait, 100), Some(900));
            assert_eq!(wait.ended_by(0, || Nanos(1000 * MS)), Ended::CpuWanted);
            assert_eq!(left(&mut wait, 1000), Some(100));
            // A signal of ours has interrupted it.
            assert_eq!(left(&mut wait, 1040), Some(60));
            assert_eq!(wait.ended_by(0, || Nanos(1100 * MS)), Ended::Answered);
        }
    }

    #[test]
    fn its_own_time_may_be_over_first() {
        let mut wait = wait(nr::POLL, 50, Some(1000));
        assert_eq!(left(&mut wait, 100), Some(50));
        assert_eq!(wait.ended_by(0, || Nanos(150 * MS)), Ended::Answered);
    }

    #[test]
    fn one_without_a_time_goes_on_for_ever_when_its_cpu_was_wanted() {
        let mut wait = wait(nr::EPOLL_WAIT, -1, Some(120));
        assert_eq!((left(&mut wait, 100), left(&mut wait, 110)), (Some(20), Some(10)));
        assert_eq!(wait.ended_by(1, || panic!("no clock is needed")), Ended::Answered);
        assert_eq!(wait.ended_by(0, || Nanos(120 * MS)), Ended::CpuWanted);
        assert_eq!(left(&mut wait, 130), None);
    }

    #[test]
    fn a_form_that_is_forbidden_is_told() {
        let mut wait = wait(nr::POLL, 7, None);
        assert_eq!(left(&mut wait, 100), Some(7));
        assert_eq!(wait.ended_by(Errno::ENOSYS.to_ret(), || panic!("no clock is needed")), Ended::Forbidden);
        assert!(TimedWait::of(&Call { nr: nr::READ, args: [0; 6] }, None, || Nanos(0)).is_none());
    }
}
