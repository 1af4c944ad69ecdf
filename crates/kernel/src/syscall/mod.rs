//! System calls of the kernel, one file per family. All others are the personality's.

mod affinity;
mod clocks;
pub mod clone;
mod futex;
mod futex2;
mod identity;
mod itimers;
mod limits;
pub mod neighbour;
mod nice;
pub(crate) mod policy;
mod rseq;
mod signal;
mod sleep;

use crate::machine::{Call, Event, Machine};
use crate::syscall::policy::By;
use crate::trap::{Out, Process};
use crate::{
    CAUGHT_BY_DISPATCH, CAUGHT_BY_FILTER, Kernel, PRIVATE_CATCH, PRIVATE_JOIN_GROUP, PRIVATE_OBJECTS, PRIVATE_POINT,
    PRIVATE_VERSION,
};
use abi::nr;
use ids::{CpuId, ThreadIdx};

impl<M: Machine> Kernel<M> {
    /// Handles a system call of thread `t`, or returns what must be done for it.
    #[inline(always)]
    pub(crate) fn syscall(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        match call.nr {
            nr::GETTID => Out::Done(self.tid(t).0 as isize),
            _ => self.syscall_rare(cpu, t, call),
        }
    }

    #[inline(never)]
    fn syscall_rare(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let a = &call.args;
        match call.nr {
            nr::RT_SIGPROCMASK => self.sys_sigprocmask(t, a).into(),
            nr::RSEQ => self.sys_rseq(t, a),
            nr::SET_ROBUST_LIST => self.sys_set_robust_list(cpu, t, call),
            nr::EXIT => self.sys_exit(cpu, t, a[0] as i32),
            nr::NANOSLEEP | nr::CLOCK_NANOSLEEP => self.sys_sleep(cpu, t, call),
            nr::CLONE => self.sys_clone(cpu, t, a),
            nr::CLONE3 => self.sys_clone3(cpu, t, a),
            nr::FORK | nr::VFORK => self.clone_any(cpu, t, &clone::fork_args(call.nr == nr::VFORK)),
            nr::EXIT_GROUP => {
                self.process_ends(cpu);
                Out::Process(Process::Exit(a[0] as i32))
            }
            nr::SET_TID_ADDRESS => self.sys_set_tid_address(t, a),
            nr::GET_ROBUST_LIST => self.sys_get_robust_list(cpu, t, call),
            nr::PRCTL => self.sys_prctl(cpu, t, call),
            nr::GETCPU => self.sys_getcpu(cpu, a),
            nr::FUTEX => self.futex_rare(cpu, t, call),
            nr::FUTEX_WAITV => self.sys_futex_waitv(cpu, t, call),
            nr::FUTEX_WAKE => self.sys_futex2_wake(cpu, t, call),
            nr::FUTEX_WAIT => self.sys_futex2_wait(cpu, t, call),
            nr::FUTEX_REQUEUE => self.sys_futex2_requeue(cpu, t, call),
            nr::SCHED_SETSCHEDULER => self.sys_sched_setscheduler(By::own(cpu), t, call),
            nr::SCHED_GETSCHEDULER => self.sys_sched_getscheduler(cpu, t, call),
            nr::SCHED_SETPARAM => self.sys_sched_setparam(By::own(cpu), t, call),
            nr::SCHED_GETPARAM => self.sys_sched_getparam(cpu, t, call),
            nr::SCHED_SETATTR => self.sys_sched_setattr(By::own(cpu), t, call),
            nr::SCHED_GETATTR => self.sys_sched_getattr(cpu, t, call),
            nr::SCHED_RR_GET_INTERVAL => self.sys_sched_rr_get_interval(cpu, t, call),
            nr::SCHED_SETAFFINITY => self.sys_sched_setaffinity(cpu, t, call),
            nr::SCHED_GETAFFINITY => self.sys_sched_getaffinity(cpu, t, call),
            nr::GETPRIORITY => self.sys_getpriority(cpu, t, call),
            nr::SETPRIORITY => self.sys_setpriority(cpu, t, call),
            nr::RT_SIGACTION => self.sys_sigaction(t, a).into(),
            nr::RT_SIGRETURN => self.sys_sigreturn(cpu, t),
            nr::RT_SIGSUSPEND => self.sys_sigsuspend(t, a).into(),
            nr::PAUSE => self.sys_pause(t),
            nr::SIGALTSTACK => self.sys_sigaltstack(t, a).into(),
            nr::KILL => self.sys_kill(cpu, t, call),
            nr::TKILL => self.sys_tkill(cpu, t, call),
            nr::TGKILL => self.sys_tgkill(cpu, t, call),
            nr::RT_SIGQUEUEINFO => self.sys_sigqueueinfo(cpu, t, call),
            nr::RT_TGSIGQUEUEINFO => self.sys_tgsigqueueinfo(cpu, t, call),
            nr::RESTART_SYSCALL => self.sys_restart(cpu, t, call),
            nr::TIMER_CREATE => self.sys_timer_create(cpu, t, call),
            nr::TIMER_SETTIME => self.sys_timer_settime(cpu, call),
            nr::TIMER_GETTIME => self.sys_timer_gettime(cpu, call),
            nr::TIMER_GETOVERRUN => self.sys_timer_getoverrun(cpu, call),
            nr::TIMER_DELETE => self.sys_timer_delete(cpu, call),
            nr::CLOCK_GETTIME => self.sys_clock_gettime(cpu, t, call),
            nr::CLOCK_GETRES
            | nr::CLOCK_SETTIME
            | nr::SETITIMER
            | nr::GETITIMER
            | nr::GETRLIMIT
            | nr::SETRLIMIT
            | nr::PRLIMIT64 => self.syscall_of_time(cpu, t, call),
            PRIVATE_VERSION => Out::Done(1),
            PRIVATE_CATCH => Out::Done(if self.config.by_filter { CAUGHT_BY_FILTER } else { CAUGHT_BY_DISPATCH }),
            PRIVATE_JOIN_GROUP => self.sys_join_group(t, &call.args),
            PRIVATE_POINT => self.sys_point(t),
            PRIVATE_OBJECTS => {
                self.m.observe(Event::Objects);
                Out::Done(0)
            }
            nr::GETTIMEOFDAY | nr::TIME | nr::GETRANDOM => self.sys_chance(cpu, t, call),
            _ => self.foreign(cpu, t, call),
        }
    }

    /// Calls about CPU time and its limits, except reading clocks.
    #[inline(never)]
    fn syscall_of_time(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        match call.nr {
            nr::CLOCK_GETRES => self.sys_clock_getres(cpu, t, call),
            nr::CLOCK_SETTIME => self.sys_clock_settime(cpu, t, call),
            nr::SETITIMER => self.sys_setitimer(cpu, t, call).into(),
            nr::GETITIMER => self.sys_getitimer(cpu, t, call),
            _ => self.sys_rlimit(cpu, t, call),
        }
    }
}
