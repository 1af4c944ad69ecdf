//! Clock readings for timers: cheap for the monotonic clock, and rounded so that nothing is early or counted twice.
//! Other clocks are the host's, read under one timer's lock by a call that cannot wait.

use super::clock_bit;
use crate::Kernel;
use crate::machine::{Clock, Machine};
use ids::Nanos;
use sync::atomic::Ordering::*;
use time::posix::{Base, ReadClock, WallClocks};

/// Which clock of the machine a timer counts on.
pub(super) fn machine_clock(base: Base) -> Clock {
    match base {
        Base::Realtime => Clock::Realtime,
        Base::Boottime => Clock::Boottime,
        Base::Tai => Clock::Tai,
        Base::Monotonic | Base::ProcessCpu(_) | Base::ThreadCpu(..) => Clock::Monotonic,
    }
}

/// The clock for settings relative to now: expiries that are computed from it are never early.
pub(super) struct NotEarlier<'a, M>(pub &'a M);

/// The clock for counting elapsed periods: no period is counted before its end.
pub(super) struct NotLater<'a, M>(pub &'a M);

fn read<M: Machine>(m: &M, base: Base, monotonic: Clock) -> Option<Nanos> {
    match base {
        Base::Monotonic => Some(m.clock(monotonic)),
        Base::ProcessCpu(_) | Base::ThreadCpu(..) => None,
        _ => Some(m.clock(machine_clock(base))),
    }
}

impl<M: Machine> ReadClock for NotEarlier<'_, M> {
    fn read(&self, base: Base) -> Option<Nanos> {
        read(self.0, base, Clock::MonotonicCeiling)
    }
}

impl<M: Machine> ReadClock for NotLater<'_, M> {
    fn read(&self, base: Base) -> Option<Nanos> {
        read(self.0, base, Clock::MonotonicFloor)
    }
}

impl<M: Machine> Kernel<M> {
    /// Exact readings of the clocks on which the process has, or had, timers.
    pub(super) fn wall_clocks(&self) -> WallClocks {
        let used = self.posix.clocks.load(Relaxed);
        let read = |base| {
            if used & clock_bit(base) == clock_bit(base) { self.clock(machine_clock(base)) } else { Nanos::ZERO }
        };
        WallClocks {
            monotonic: if used & 1 != 0 { self.clock(Clock::Monotonic) } else { Nanos::ZERO },
            realtime: read(Base::Realtime),
            boottime: read(Base::Boottime),
            tai: read(Base::Tai),
        }
    }
}
