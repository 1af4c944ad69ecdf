//! `nanosleep(2)` and `clock_nanosleep(2)`.

use crate::Kernel;
use crate::machine::{Call, Clock, Machine, read_timespec};
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use abi::args::TIMER_ABSTIME;
use abi::{Errno, Timespec, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_sleep(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let (clock, flags, request, rem) = match call.nr {
            nr::NANOSLEEP => (1, 0, call.args[0], call.args[1]),
            _ => (call.args[0] as i32, call.args[1], call.args[2], call.args[3]),
        };
        let clock = match clock {
            0 => Clock::Realtime,
            1 => Clock::Monotonic,
            7 => Clock::Boottime,
            11 => Clock::Tai,
            _ => return self.sys_cpu_sleep(cpu, t, call),
        };
        let at = match read_timespec(&self.m, request) {
            Ok(at) => at,
            Err(e) => return e.into(),
        };
        let absolute = flags & TIMER_ABSTIME != 0;
        let deadline = match (absolute, clock) {
            (false, _) => Deadline::after(&self.m, at),
            (true, Clock::Monotonic | Clock::Realtime) => Deadline { at, clock },
            (true, _) => Deadline::after(&self.m, at.since(self.clock(clock))),
        };
        if absolute && at <= self.clock(clock) {
            // Continue: a late thread must catch up with the rest of its slice or budget.
            return Out::Done(0);
        }
        self.begin_wait(t, Wait::Sleep);
        let wait = &self.thread(t).wait;
        wait.a.store(if absolute { 0 } else { rem }, Relaxed);
        wait.b.store(u64::from(absolute), Relaxed);
        self.arm_timeout(cpu, t, deadline);
        Out::Blocked
    }

    /// 0 at the deadline. A signal ends the sleep: a relative one writes the remaining time (`nanosleep_copyout`), an
    /// absolute one starts over if the signal has no handler (`-ERESTARTNOHAND`).
    pub(crate) fn sleep_finished(&self, t: ThreadIdx) -> Option<isize> {
        let wait = &self.thread(t).wait;
        if wait.timed_out() {
            return Some(0);
        }
        if !self.interrupted(t) {
            return None;
        }
        if wait.b.load(Relaxed) != 0 {
            return Some(Errno::ERESTARTNOHAND.to_ret());
        }
        let left = Nanos(wait.deadline.load(Relaxed)).since(self.clock(Clock::Monotonic));
        let rem = wait.a.load(Relaxed);
        if rem != 0 && self.put(rem, Timespec::from_nanos(left)).is_err() {
            return Some(Errno::EFAULT.to_ret());
        }
        Some(wait.keep_for_restart(nr::NANOSLEEP).to_ret())
    }
}
