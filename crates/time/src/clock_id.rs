//! Clock ids: which there are, what each can do, and the errors of those that cannot.

use crate::Error;
use crate::cpu::CpuClock;
use ids::Nanos;

/// A well-formed clock id; [`CpuClockId::resolve`] checks whether its thread or process exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockId {
    /// CLOCK_REALTIME, 0.
    Realtime,
    /// CLOCK_MONOTONIC, 1.
    Monotonic,
    /// CLOCK_PROCESS_CPUTIME_ID, 2.
    ProcessCputime,
    /// CLOCK_THREAD_CPUTIME_ID, 3.
    ThreadCputime,
    /// CLOCK_MONOTONIC_RAW, 4.
    MonotonicRaw,
    /// CLOCK_REALTIME_COARSE, 5.
    RealtimeCoarse,
    /// CLOCK_MONOTONIC_COARSE, 6.
    MonotonicCoarse,
    /// CLOCK_BOOTTIME, 7.
    Boottime,
    /// CLOCK_REALTIME_ALARM, 8.
    RealtimeAlarm,
    /// CLOCK_BOOTTIME_ALARM, 9.
    BoottimeAlarm,
    /// CLOCK_TAI, 11.
    Tai,
    /// CLOCK_AUX, 16 to 23: may only be read.
    Aux(u8),
    /// The CPU clock of some thread or process, encoded.
    Cpu(CpuClockId),
    /// A clock behind a file descriptor.
    Fd(i32),
}

/// An encoded CPU clock: `(~pid << 3) | (thread ? 4 : 0) | clock`, pid 0 being oneself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuClockId {
    /// A thread's rather than a process's.
    pub per_thread: bool,
    /// The owner's id; 0 is the caller.
    pub pid: i32,
    /// Which of the three.
    pub clock: CpuClock,
}

/// The owner of the clock that an encoded id names, once looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuTarget {
    /// This thread of the caller's process.
    Thread(i32),
    /// The caller's process.
    OwnProcess,
    /// Another process.
    OtherProcess(i32),
}

/// Facts about threads and processes that are needed to judge an encoded id.
pub trait Who {
    /// The caller's thread id.
    fn tid(&self) -> i32;
    /// The caller's process id.
    fn pid(&self) -> i32;
    /// Whether `tid` is a living thread of the caller's process.
    fn is_own_thread(&self, tid: i32) -> bool;
    /// Whether `pid` is a process (the id of a group's leader), the caller's or not.
    fn is_process(&self, pid: i32) -> bool;
}

impl CpuClockId {
    /// The id as programs write it.
    pub const fn to_raw(self) -> i32 {
        (!self.pid << 3) | if self.per_thread { 4 } else { 0 } | self.clock as i32
    }

    /// The clock's owner (`pid_for_clock`); EINVAL if there is none. A thread must be of the caller's own process.
    /// `reading`: `clock_gettime(2)` also accepts the caller's own *thread* id as a process.
    pub fn resolve(&self, who: &impl Who, reading: bool) -> Result<CpuTarget, Error> {
        match (self.per_thread, self.pid) {
            (true, 0) => Ok(CpuTarget::Thread(who.tid())),
            (true, tid) if who.is_own_thread(tid) => Ok(CpuTarget::Thread(tid)),
            (false, 0) => Ok(CpuTarget::OwnProcess),
            (false, pid) if pid == who.pid() || (reading && pid == who.tid()) => Ok(CpuTarget::OwnProcess),
            (false, pid) if who.is_process(pid) => Ok(CpuTarget::OtherProcess(pid)),
            _ => Err(Error::Invalid),
        }
    }
}

impl ClockId {
    /// The clock with number `raw`; `None` (EINVAL) if there is none.
    pub fn from_raw(raw: i32) -> Option<ClockId> {
        Some(match raw {
            0 => ClockId::Realtime,
            1 => ClockId::Monotonic,
            2 => ClockId::ProcessCputime,
            3 => ClockId::ThreadCputime,
            4 => ClockId::MonotonicRaw,
            5 => ClockId::RealtimeCoarse,
            6 => ClockId::MonotonicCoarse,
            7 => ClockId::Boottime,
            8 => ClockId::RealtimeAlarm,
            9 => ClockId::BoottimeAlarm,
            11 => ClockId::Tai,
            16..=23 => ClockId::Aux(raw as u8 - 16),
            _ if raw >= 0 => return None,
            _ if raw & 7 == 3 => ClockId::Fd(!(raw >> 3)),
            _ => {
                let clock = *CpuClock::ALL.get((raw & 3) as usize)?;
                ClockId::Cpu(CpuClockId { per_thread: raw & 4 != 0, pid: !(raw >> 3), clock })
            }
        })
    }

    /// The number of the clock.
    pub const fn to_raw(self) -> i32 {
        match self {
            ClockId::Realtime => 0,
            ClockId::Monotonic => 1,
            ClockId::ProcessCputime => 2,
            ClockId::ThreadCputime => 3,
            ClockId::MonotonicRaw => 4,
            ClockId::RealtimeCoarse => 5,
            ClockId::MonotonicCoarse => 6,
            ClockId::Boottime => 7,
            ClockId::RealtimeAlarm => 8,
            ClockId::BoottimeAlarm => 9,
            ClockId::Tai => 11,
            ClockId::Aux(n) => 16 + n as i32,
            ClockId::Cpu(id) => id.to_raw(),
            ClockId::Fd(fd) => (!fd << 3) | 3,
        }
    }

    /// The encoded form of a CPU clock, also of the two static ids; `None` for others.
    /// `/proc/PID/timers` shows timers on the static ids as -6 and -2.
    pub const fn as_cpu(self) -> Option<CpuClockId> {
        match self {
            ClockId::ProcessCputime => Some(CpuClockId { per_thread: false, pid: 0, clock: CpuClock::Sched }),
            ClockId::ThreadCputime => Some(CpuClockId { per_thread: true, pid: 0, clock: CpuClock::Sched }),
            ClockId::Cpu(id) => Some(id),
            _ => None,
        }
    }

    /// `clock_getres(2)` of a CPU clock: 1 ns for the precise one, else a tick
    /// (rounded up). `None`: not ours to answer. The target must be resolved first.
    pub fn cpu_resolution(self, ticks_per_second: u64) -> Option<Nanos> {
        Some(match self.as_cpu()?.clock {
            CpuClock::Sched => Nanos(1),
            CpuClock::Prof | CpuClock::Virt => Nanos(1_000_000_000_u64.div_ceil(ticks_per_second.max(1))),
        })
    }

    /// `clock_settime(2)` of a CPU clock: never. EPERM for encoded ones that exist, even
    /// for root; EINVAL otherwise. `None`: not ours to answer.
    pub fn cpu_settime(self, who: &impl Who) -> Option<Error> {
        match self {
            ClockId::Cpu(id) => Some(id.resolve(who, false).err().unwrap_or(Error::Permission)),
            ClockId::ProcessCputime | ClockId::ThreadCputime => Some(Error::Invalid),
            _ => None,
        }
    }

    /// Whether `clock_nanosleep(2)` may sleep on it, and on whose time if it is a CPU
    /// clock. Sleeping on the caller's own thread's clock would never end.
    pub fn sleeper(self, who: &impl Who) -> Result<Option<CpuTarget>, Error> {
        match self {
            ClockId::Realtime | ClockId::Monotonic | ClockId::Boottime | ClockId::Tai => Ok(None),
            ClockId::ThreadCputime
            | ClockId::MonotonicRaw
            | ClockId::RealtimeCoarse
            | ClockId::MonotonicCoarse
            | ClockId::RealtimeAlarm
            | ClockId::BoottimeAlarm
            | ClockId::Fd(_) => Err(Error::NotSupported),
            ClockId::Aux(_) => Err(Error::Invalid),
            ClockId::ProcessCputime => Ok(Some(CpuTarget::OwnProcess)),
            ClockId::Cpu(id) => match id.resolve(who, false)? {
                CpuTarget::Thread(tid) if tid == who.tid() => Err(Error::Invalid),
                target => Ok(Some(target)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Process 10 with threads 10 (leader), 11 (the caller), 12; processes 20 and 30.
    struct Ten;

    impl Who for Ten {
        fn tid(&self) -> i32 {
            11
        }
        fn pid(&self) -> i32 {
            10
        }
        fn is_own_thread(&self, tid: i32) -> bool {
            (10..=12).contains(&tid)
        }
        fn is_process(&self, pid: i32) -> bool {
            [10, 20, 30].contains(&pid)
        }
    }

    fn cpu(per_thread: bool, pid: i32, clock: CpuClock) -> ClockId {
        ClockId::Cpu(CpuClockId { per_thread, pid, clock })
    }

    #[test]
    fn encoded_ids_as_glibc_and_proc_show_them() {
        assert_eq!(ClockId::ProcessCputime.as_cpu().unwrap().to_raw(), -6);
        assert_eq!(ClockId::ThreadCputime.as_cpu().unwrap().to_raw(), -2);
        // clock_getcpuclockid(1234) and pthread_getcpuclockid of thread 1234.
        assert_eq!(cpu(false, 1234, CpuClock::Sched).to_raw(), (!1234 << 3) | 2);
        assert_eq!(cpu(true, 1234, CpuClock::Sched).to_raw(), (!1234 << 3) | 6);
    }

    #[test]
    fn numbers_that_are_no_clock() {
        for raw in [10, 12, 13, 14, 15, 24, 100, i32::MAX, (!0 << 3) | 7, -1] {
            assert_eq!(ClockId::from_raw(raw), None, "{raw}");
        }
        assert_eq!(ClockId::from_raw((!5 << 3) | 3), Some(ClockId::Fd(5)));
        assert_eq!(ClockId::from_raw(23), Some(ClockId::Aux(7)));
    }

    proptest! {
        #[test]
        fn every_clock_keeps_its_number(raw in any::<i32>()) {
            for raw in [raw, raw % 32] {
                if let Some(clock) = ClockId::from_raw(raw) {
                    prop_assert_eq!(clock.to_raw(), raw);
                } else {
                    prop_assert!(raw >= 0 || raw & 7 == 7);
                }
            }
        }
    }

    #[test]
    fn whose_clock() {
        let resolve =
            |per_thread, pid, reading| CpuClockId { per_thread, pid, clock: CpuClock::Sched }.resolve(&Ten, reading);
        assert_eq!(resolve(true, 0, false), Ok(CpuTarget::Thread(11)));
        assert_eq!(resolve(true, 12, false), Ok(CpuTarget::Thread(12)));
        assert_eq!(resolve(true, 20, false), Err(Error::Invalid), "another process's thread");
        assert_eq!(resolve(true, 99, true), Err(Error::Invalid));
        assert_eq!(resolve(false, 0, false), Ok(CpuTarget::OwnProcess));
        assert_eq!(resolve(false, 10, false), Ok(CpuTarget::OwnProcess));
        assert_eq!(resolve(false, 20, false), Ok(CpuTarget::OtherProcess(20)));
        assert_eq!(resolve(false, 99, false), Err(Error::Invalid));
        assert_eq!(resolve(false, 12, true), Err(Error::Invalid), "a thread is no process");
        assert_eq!(resolve(false, 11, true), Ok(CpuTarget::OwnProcess), "clock_gettime takes one's own tid");
        assert_eq!(resolve(false, 11, false), Err(Error::Invalid), "nothing else does");
        assert_eq!(resolve(false, -5, false), Err(Error::Invalid));
    }

    #[test]
    fn resolutions() {
        assert_eq!(ClockId::ProcessCputime.cpu_resolution(250), Some(Nanos(1)));
        assert_eq!(cpu(true, 0, CpuClock::Prof).cpu_resolution(250), Some(Nanos(4_000_000)));
        assert_eq!(cpu(false, 0, CpuClock::Virt).cpu_resolution(300), Some(Nanos(3_333_334)));
        assert_eq!(ClockId::Monotonic.cpu_resolution(250), None);
    }

    #[test]
    fn cpu_clocks_cannot_be_set() {
        assert_eq!(ClockId::ProcessCputime.cpu_settime(&Ten), Some(Error::Invalid));
        assert_eq!(ClockId::ThreadCputime.cpu_settime(&Ten), Some(Error::Invalid));
        assert_eq!(cpu(false, 0, CpuClock::Prof).cpu_settime(&Ten), Some(Error::Permission));
        assert_eq!(cpu(false, 99, CpuClock::Prof).cpu_settime(&Ten), Some(Error::Invalid));
        assert_eq!(ClockId::Realtime.cpu_settime(&Ten), None);
    }

    #[test]
    fn what_one_can_sleep_on() {
        for clock in [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime, ClockId::Tai] {
            assert_eq!(clock.sleeper(&Ten), Ok(None));
        }
        for raw in [3, 4, 5, 6, 8, 9, (!5 << 3) | 3] {
            assert_eq!(ClockId::from_raw(raw).unwrap().sleeper(&Ten), Err(Error::NotSupported), "{raw}");
        }
        assert_eq!(ClockId::ProcessCputime.sleeper(&Ten), Ok(Some(CpuTarget::OwnProcess)));
        assert_eq!(cpu(true, 0, CpuClock::Sched).sleeper(&Ten), Err(Error::Invalid), "oneself");
        assert_eq!(cpu(true, 11, CpuClock::Sched).sleeper(&Ten), Err(Error::Invalid), "oneself by name");
        assert_eq!(cpu(true, 12, CpuClock::Sched).sleeper(&Ten), Ok(Some(CpuTarget::Thread(12))));
        assert_eq!(cpu(true, 99, CpuClock::Sched).sleeper(&Ten), Err(Error::Invalid));
        assert_eq!(ClockId::Aux(0).sleeper(&Ten), Err(Error::Invalid));
    }
}
