//! The request of `timer_create(2)`, and its checks in Linux's order:
//!
//! 1. the clock can have timers ([`TimerClock::new`]),
//! 2. in restore mode the wanted id is read (EFAULT) and is one ([`wanted_id`]),
//! 3. the limit on pending signals (EAGAIN), an id ([`TimerTable::reserve`]),
//! 4. the notification makes sense ([`Notify::new`]),
//! 5. the id is copied out (EFAULT; the id is used up),
//! 6. whose CPU clock it is, or that there is no alarm clock ([`TimerClock::resolve`]),
//! 7. [`TimerTable::publish`].
//!
//! [`TimerTable::reserve`]: crate::posix::TimerTable::reserve
//! [`TimerTable::publish`]: crate::posix::TimerTable::publish

use crate::clock_id::{ClockId, CpuClockId, CpuTarget, Who};
use crate::{CpuClock, Error};

/// A clock that timers can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerClock {
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_REALTIME: relative expiries run on the monotonic clock, absolute ones follow
    /// clock steps.
    Realtime,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_TAI.
    Tai,
    /// A CPU clock.
    Cpu(CpuClockId),
    /// CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM: refused late, for lack of a clock that
    /// could wake the machine.
    Alarm,
    /// An encoded CPU clock that does not exist: also refused late.
    NoCpu,
}

/// The clock of a timer that exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_TAI.
    Tai,
    /// A CPU clock of this process.
    ProcessCpu(CpuClock),
    /// A CPU clock of this thread of the process.
    ThreadCpu(CpuClock, i32),
}

impl TimerClock {
    /// The clock if it can have timers: EINVAL if there is none, EOPNOTSUPP if it cannot.
    pub fn new(raw: i32) -> Result<TimerClock, Error> {
        if raw < 0 && raw & 7 == 7 {
            return Ok(TimerClock::NoCpu);
        }
        let clock = ClockId::from_raw(raw).ok_or(Error::Invalid)?;
        Ok(match clock {
            ClockId::Realtime => TimerClock::Realtime,
            ClockId::Monotonic => TimerClock::Monotonic,
            ClockId::Boottime => TimerClock::Boottime,
            ClockId::Tai => TimerClock::Tai,
            ClockId::RealtimeAlarm | ClockId::BoottimeAlarm => TimerClock::Alarm,
            ClockId::ProcessCputime | ClockId::ThreadCputime | ClockId::Cpu(_) => {
                TimerClock::Cpu(clock.as_cpu().ok_or(Error::Invalid)?)
            }
            ClockId::MonotonicRaw | ClockId::RealtimeCoarse | ClockId::MonotonicCoarse | ClockId::Fd(_) => {
                return Err(Error::NotSupported);
            }
            ClockId::Aux(_) => return Err(Error::Invalid),
        })
    }

    /// The clock's owner. EINVAL for a thread of another process, a missing process, or one that we do not run;
    /// EOPNOTSUPP for alarm clocks.
    pub fn resolve(self, who: &impl Who) -> Result<Base, Error> {
        Ok(match self {
            TimerClock::Monotonic => Base::Monotonic,
            TimerClock::Realtime => Base::Realtime,
            TimerClock::Boottime => Base::Boottime,
            TimerClock::Tai => Base::Tai,
            TimerClock::Alarm => return Err(Error::NotSupported),
            TimerClock::NoCpu => return Err(Error::Invalid),
            TimerClock::Cpu(id) => match id.resolve(who, false)? {
                CpuTarget::OwnProcess => Base::ProcessCpu(id.clock),
                CpuTarget::Thread(tid) => Base::ThreadCpu(id.clock, tid),
                CpuTarget::OtherProcess(_) => return Err(Error::Invalid),
            },
        })
    }
}

/// The receiver of an expiry, and the kind of notification (`struct sigevent`, checked).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notify {
    /// SIGEV_NONE: no notification.
    None {
        /// Anything; shown in `/proc`.
        signo: i32,
    },
    /// SIGEV_SIGNAL: the process. SIGEV_THREAD counts as this; the C library turns it
    /// into SIGEV_THREAD_ID before it gets here.
    Process {
        /// 1 to 64.
        signo: u8,
        /// SIGEV_THREAD was asked for: shown in `/proc`.
        thread: bool,
    },
    /// SIGEV_SIGNAL | SIGEV_THREAD_ID: this thread.
    Thread {
        /// 1 to 64.
        signo: u8,
        /// The receiving thread.
        tid: i32,
    },
}

const SIGEV_SIGNAL: i32 = 0;
const SIGEV_NONE: i32 = 1;
const SIGEV_THREAD: i32 = 2;
const SIGEV_THREAD_ID: i32 = 4;
const SIGALRM: u8 = 14;

impl Notify {
    /// The meaning of a null `sigevent`; its value is the timer's id.
    pub const DEFAULT: Notify = Notify::Process { signo: SIGALRM, thread: false };

    /// Checks the fields of a `struct sigevent` (`good_sigevent`). The signal number of SIGEV_NONE is not checked;
    /// SIGKILL is allowed.
    pub fn new(notify: i32, signo: i32, tid: i32, who: &impl Who) -> Result<Notify, Error> {
        let number = match notify {
            SIGEV_NONE => return Ok(Notify::None { signo }),
            _ => u8::try_from(signo).ok().filter(|n| (1..=64).contains(n)),
        };
        match notify {
            SIGEV_SIGNAL | SIGEV_THREAD => {
                Ok(Notify::Process { signo: number.ok_or(Error::Invalid)?, thread: notify == SIGEV_THREAD })
            }
            SIGEV_THREAD_ID if who.is_own_thread(tid) => {
                Ok(Notify::Thread { signo: number.ok_or(Error::Invalid)?, tid })
            }
            _ => Err(Error::Invalid),
        }
    }

    /// Whether there is no notification.
    pub const fn is_none(self) -> bool {
        matches!(self, Notify::None { .. })
    }

    /// The signal, if any.
    pub const fn signo(self) -> Option<u8> {
        match self {
            Notify::None { .. } => None,
            Notify::Process { signo, .. } | Notify::Thread { signo, .. } => Some(signo),
        }
    }
}

/// The id that restore mode wants, as read from memory: EINVAL outside 0 to INT_MAX.
pub fn wanted_id(raw: i32) -> Result<u32, Error> {
    u32::try_from(raw).map_err(|_| Error::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Who for One {
        fn tid(&self) -> i32 {
            7
        }
        fn pid(&self) -> i32 {
            5
        }
        fn is_own_thread(&self, tid: i32) -> bool {
            [5, 7].contains(&tid)
        }
        fn is_process(&self, pid: i32) -> bool {
            [5, 100].contains(&pid)
        }
    }

    #[test]
    fn clocks_that_can_have_timers() {
        for (raw, want) in [
            (0, Ok(Base::Realtime)),
            (1, Ok(Base::Monotonic)),
            (2, Ok(Base::ProcessCpu(CpuClock::Sched))),
            (3, Ok(Base::ThreadCpu(CpuClock::Sched, 7))),
            (7, Ok(Base::Boottime)),
            (11, Ok(Base::Tai)),
            ((!0 << 3) | 1, Ok(Base::ProcessCpu(CpuClock::Virt))),
            ((!5 << 3) | 4, Ok(Base::ThreadCpu(CpuClock::Prof, 5))),
            ((!100 << 3) | 2, Err(Error::Invalid)),
            ((!99 << 3) | 6, Err(Error::Invalid)),
            ((!0 << 3) | 7, Err(Error::Invalid)),
            (8, Err(Error::NotSupported)),
            (9, Err(Error::NotSupported)),
        ] {
            assert_eq!(TimerClock::new(raw).unwrap().resolve(&One), want, "{raw}");
        }
    }

    #[test]
    fn clocks_that_are_refused_before_an_id_is_used_up() {
        for raw in [4, 5, 6, (!3 << 3) | 3] {
            assert_eq!(TimerClock::new(raw), Err(Error::NotSupported), "{raw}");
        }
        for raw in [10, 12, 13, 14, 15, 16, 23, 24, i32::MAX] {
            assert_eq!(TimerClock::new(raw), Err(Error::Invalid), "{raw}");
        }
    }

    #[test]
    fn notifications() {
        let bad = Err(Error::Invalid);
        for (notify, signo, tid, want) in [
            (0, 10, 0, Ok(Notify::Process { signo: 10, thread: false })),
            (2, 64, 0, Ok(Notify::Process { signo: 64, thread: true })),
            (4, 34, 7, Ok(Notify::Thread { signo: 34, tid: 7 })),
            (4, 34, 5, Ok(Notify::Thread { signo: 34, tid: 5 })),
            (0, 9, 0, Ok(Notify::Process { signo: 9, thread: false })),
            (1, 0, 0, Ok(Notify::None { signo: 0 })),
            (1, -3, 0, Ok(Notify::None { signo: -3 })),
            (0, 0, 0, bad),
            (0, -1, 0, bad),
            (0, 65, 0, bad),
            (2, 65, 0, bad),
            (0, 256 + 10, 0, bad),
            (4, 0, 7, bad),
            (4, 10, 100, bad),
            (4, 10, 0, bad),
            (5, 10, 7, bad),
            (6, 10, 7, bad),
            (3, 10, 0, bad),
            (-1, 10, 0, bad),
        ] {
            assert_eq!(Notify::new(notify, signo, tid, &One), want, "{notify} {signo} {tid}");
        }
        assert_eq!(Notify::DEFAULT.signo(), Some(14));
        assert_eq!(Notify::None { signo: 5 }.signo(), None);
    }

    #[test]
    fn wanted_ids() {
        assert_eq!(wanted_id(0), Ok(0));
        assert_eq!(wanted_id(i32::MAX), Ok(0x7fff_ffff));
        assert_eq!(wanted_id(-1), Err(Error::Invalid));
    }
}
