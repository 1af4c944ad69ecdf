//! A sample of consumed CPU time, and the three clocks made from it.

use core::ops::{Add, AddAssign};
use ids::Nanos;

/// Consumed CPU time of a thread or a process (Linux's `struct task_cputime`).
///
/// `exec` is precise. `utime` and `stime` are what of it has been told apart: at each tick
/// everything since the last one is called user or system time by where the tick hit.
/// So `utime + stime <= exec`, and the rest is the stretch since the last tick.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cputime {
    /// Time in user mode, as far as sampled.
    pub utime: Nanos,
    /// Time in the kernel, as far as sampled.
    pub stime: Nanos,
    /// The whole run time (`sum_exec_runtime`).
    pub exec: Nanos,
}

impl Cputime {
    /// Nothing consumed.
    pub const ZERO: Cputime = Cputime { utime: Nanos::ZERO, stime: Nanos::ZERO, exec: Nanos::ZERO };

    /// The reading of one of the three clocks.
    #[inline(always)]
    pub fn of(&self, clock: CpuClock) -> Nanos {
        match clock {
            CpuClock::Prof | CpuClock::Sched => self.exec,
            CpuClock::Virt => self.utime,
        }
    }
}

impl Add for Cputime {
    type Output = Cputime;
    fn add(self, o: Cputime) -> Cputime {
        Cputime { utime: self.utime + o.utime, stime: self.stime + o.stime, exec: self.exec + o.exec }
    }
}

impl AddAssign for Cputime {
    fn add_assign(&mut self, o: Cputime) {
        *self = *self + o;
    }
}

/// The three CPU clocks that a thread and a process have, with the numbers they carry
/// in a clock id (`CPUCLOCK_PROF`, `_VIRT`, `_SCHED`).
///
/// On Linux PROF is tick-sampled and drifts from SCHED by many ticks. Here both read the
/// precise time: ITIMER_PROF and RLIMIT_CPU agree with CLOCK_PROCESS_CPUTIME_ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum CpuClock {
    /// User and system time.
    Prof = 0,
    /// User time.
    Virt = 1,
    /// Precise run time.
    Sched = 2,
}

impl CpuClock {
    /// All three, in the order in which Linux checks them.
    pub const ALL: [CpuClock; 3] = [CpuClock::Prof, CpuClock::Virt, CpuClock::Sched];

    /// The clock as an array index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Where a tick hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the program.
    User,
    /// In a system call.
    System,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prof_and_sched_read_the_precise_time_and_virt_the_user_part() {
        let t = Cputime { utime: Nanos(3), stime: Nanos(4), exec: Nanos(9) };
        assert_eq!(CpuClock::ALL.map(|c| t.of(c)), [Nanos(9), Nanos(3), Nanos(9)]);
        assert_eq!(t + Cputime::ZERO, t);
        assert_eq!((t + t).stime, Nanos(8));
    }
}
