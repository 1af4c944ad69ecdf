//! The CPU time of threads: `clock_gettime(2)` by a thread's clock, `getrusage(RUSAGE_THREAD)`.
//! A carrier's time is not the thread's, so the host cannot answer. All other clocks are its.

use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, ThreadIdx};
use abi::{Errno, Timespec};
use ids::{CpuId, Tid};

const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
const RUSAGE_THREAD: i32 = 1;
/// The bits of a clock that names its thread (`include/linux/posix-timers_types.h`).
const CPUCLOCK_PERTHREAD: i32 = 4;
const CPUCLOCK_WHICH: i32 = 3;
const CLOCKFD: i32 = 3;

impl<M: Machine> Kernel<M> {
    /// Whose CPU time a clock tells, if it is one of our threads.
    fn thread_of_clock(&self, t: ThreadIdx, clock: i32) -> Option<ThreadIdx> {
        if clock == CLOCK_THREAD_CPUTIME_ID {
            return Some(t);
        }
        if clock >= 0 || clock & CPUCLOCK_PERTHREAD == 0 || clock & CPUCLOCK_WHICH == CLOCKFD {
            return None;
        }
        match !(clock >> 3) {
            0 => Some(t),
            tid => self.threads().find(Tid(tid)),
        }
    }

    pub(crate) fn sys_clock_gettime(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [clock, to, ..] = call.args;
        let Some(target) = self.thread_of_clock(t, clock as i32) else { return self.pass(cpu, call) };
        let used = Timespec::from_nanos(self.sched.runtime(target, self.m.now()));
        if self.m.write(to, &used.to_bytes()).is_err() { Errno::EFAULT.into() } else { Out::Done(0) }
    }

    /// All clocks of CPU time have the same resolution: the host is asked for the caller's.
    pub(crate) fn sys_clock_getres(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let mut call = *call;
        if self.thread_of_clock(t, call.args[0] as i32).is_some() {
            call.args[0] = CLOCK_THREAD_CPUTIME_ID as u64;
        }
        self.pass(cpu, &call)
    }

    /// The thread's time counts as user time; faults and the like are the carrier's.
    pub(crate) fn sys_getrusage(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [who, to, ..] = call.args;
        let out = self.pass(cpu, call);
        if who as i32 != RUSAGE_THREAD || out != Out::Done(0) {
            return out;
        }
        let used = Timespec::from_nanos(self.sched.runtime(t, self.m.now())).to_bytes();
        // ru_utime and ru_stime are `struct timeval`: microseconds.
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&used[..8]);
        let nanos = i64::from_le_bytes(used[8..].try_into().unwrap_or_default());
        bytes[8..16].copy_from_slice(&(nanos / 1000).to_le_bytes());
        if self.m.write(to, &bytes).is_err() { Errno::EFAULT.into() } else { Out::Done(0) }
    }
}
