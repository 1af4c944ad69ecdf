//! `poll(2)` and `epoll_wait(2)` of a carrier, in the forms that take a mask and a time in nanoseconds (`ppoll(2)`,
//! `epoll_pwait2(2)`).
//!
//! So the wait needs no call that changes the carrier's mask. And it can end when the CPU that the carrier has left is
//! wanted, so that the CPU needs no other carrier until then.

use crate::base::dispositions::WAITING_MASK;
use crate::base::os::{self, nr};
use abi::Errno;
use ids::Nanos;
use kernel::Call;

/// One such wait. Times are those of [`kernel::Machine::now`].
pub(crate) struct TimedWait {
    call: Call,
    /// When the program's own time is over.
    end: Option<Nanos>,
    /// When the CPU is wanted.
    until: Option<Nanos>,
}

impl TimedWait {
    /// `None` if the call has no such form.
    pub(crate) fn of(call: &Call, until: Option<Nanos>, now: impl Fn() -> Nanos) -> Option<TimedWait> {
        let ms = match call.nr {
            nr::EPOLL_WAIT => call.args[3],
            nr::POLL => call.args[2],
            _ => return None,
        };
        let end = u64::try_from(ms as i32).ok().map(|ms| now() + Nanos::from_millis(ms));
        Some(TimedWait { call: *call, end, until })
    }

    /// The host's answer.
    pub(crate) fn make(&self, now: impl Fn() -> Nanos) -> isize {
        let [a, b, c, ms, ..] = self.call.args;
        let mask = WAITING_MASK;
        let (mask, size) = (&raw const mask as u64, size_of::<u64>() as u64);
        if self.call.nr == nr::EPOLL_WAIT && self.until.is_none() {
            return os::interruptible(&Call { nr: nr::EPOLL_PWAIT, args: [a, b, c, ms, mask, size] });
        }
        let limit = [self.end, self.until].into_iter().flatten().min();
        // The host writes what is left of it.
        let mut time = limit.map(|at| at.since(now())).map(|left| [left.0 / 1_000_000_000, left.0 % 1_000_000_000]);
        let time = time.as_mut().map_or(0, |time| time.as_mut_ptr() as u64);
        os::interruptible(&match self.call.nr {
            nr::POLL => Call { nr: nr::PPOLL, args: [a, b, time, mask, size, 0] },
            _ => Call { nr: nr::EPOLL_PWAIT2, args: [a, b, c, time, mask, size] },
        })
    }

    /// Whether the wait was given up because the CPU is wanted. From now on it lasts as long as the program says.
    ///
    /// A filter above us may know `epoll_wait` but not its successor: then the CPU is wanted at once.
    #[must_use]
    pub(crate) fn gives_cpu_up(&mut self, result: isize, now: impl Fn() -> Nanos) -> bool {
        let forbidden = [Errno::ENOSYS, Errno::EPERM].iter().any(|error| result == error.to_ret());
        let Some(until) = self.until.filter(|_| result == 0 || forbidden) else { return false };
        let cut_short = forbidden || self.end.is_none_or(|end| until < end && now() < end);
        if cut_short {
            self.until = None;
        }
        cut_short
    }
}
