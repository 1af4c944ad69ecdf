//! System calls, one file a family. What is not listed here is the host's business and is
//! passed on as it is.

mod affinity;
mod clocks;
pub mod clone;
mod futex;
mod futex2;
mod identity;
mod itimers;
mod limits;
mod masked;
pub(crate) mod membarrier;
mod named;
mod policy;
mod rseq;
mod signal;
mod sleep;

pub(crate) use masked::is_masked;

use crate::machine::{Call, Machine};
use crate::trap::{Out, Process};
use crate::{Kernel, PRIVATE_JOIN_GROUP, PRIVATE_VERSION, cpu};
use abi::nr;
use ids::{CpuId, ThreadIdx};

impl<M: Machine> Kernel<M> {
    /// Answers a system call of thread `t`, or says who will.
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
            nr::RT_SIGPROCMASK => self.sys_sigprocmask(t, a),
            nr::RSEQ => self.sys_rseq(t, a),
            nr::SET_ROBUST_LIST => self.sys_set_robust_list(t, a),
            nr::EXIT => self.sys_exit(cpu, t, a[0] as i32),
            nr::NANOSLEEP | nr::CLOCK_NANOSLEEP => self.sys_sleep(cpu, t, call),
            nr::CLONE => self.sys_clone(cpu, t, a),
            nr::CLONE3 => self.sys_clone3(cpu, t, a),
            nr::FORK => self.new_process(clone::fork_args(false)),
            nr::VFORK => self.new_process(clone::fork_args(true)),
            nr::EXECVE | nr::EXECVEAT => {
                self.back_files();
                Out::Process(Process::Exec(*call))
            }
            nr::EXIT_GROUP => {
                self.process_ends(cpu);
                Out::Process(Process::Exit(a[0] as i32))
            }
            nr::SET_TID_ADDRESS => self.sys_set_tid_address(t, a),
            nr::GET_ROBUST_LIST => self.sys_get_robust_list(t, call),
            nr::PRCTL => self.sys_prctl(cpu, t, call),
            nr::ARCH_PRCTL => self.sys_arch_prctl(t, call),
            nr::GETCPU => self.sys_getcpu(cpu, a),
            nr::FUTEX_WAITV => self.sys_futex_waitv(cpu, t, call),
            nr::FUTEX_WAKE => self.sys_futex2_wake(cpu, t, call),
            nr::FUTEX_WAIT => self.sys_futex2_wait(cpu, t, call),
            nr::FUTEX_REQUEUE => self.sys_futex2_requeue(cpu, t, call),
            nr::SCHED_SETSCHEDULER => self.sys_sched_setscheduler(cpu, t, a),
            nr::SCHED_GETSCHEDULER => self.sys_sched_getscheduler(t, call),
            nr::SCHED_SETPARAM => self.sys_sched_setparam(cpu, t, a),
            nr::SCHED_GETPARAM => self.sys_sched_getparam(t, call),
            nr::SCHED_SETATTR => self.sys_sched_setattr(cpu, t, a),
            nr::SCHED_GETATTR => self.sys_sched_getattr(t, call),
            nr::SCHED_RR_GET_INTERVAL => self.sys_sched_rr_get_interval(t, call),
            nr::SCHED_SETAFFINITY => self.sys_sched_setaffinity(cpu, t, call),
            nr::SCHED_GETAFFINITY => self.sys_sched_getaffinity(t, call),
            nr::GETPRIORITY => self.sys_getpriority(t, call),
            nr::SETPRIORITY => self.sys_setpriority(cpu, t, call),
            nr::SETUID
            | nr::SETGID
            | nr::SETREUID
            | nr::SETREGID
            | nr::SETRESUID
            | nr::SETRESGID
            | nr::SETGROUPS
            | nr::SETFSUID
            | nr::SETFSGID
            | nr::CAPSET
            | nr::PERSONALITY
            | nr::LANDLOCK_RESTRICT_SELF => {
                self.proc.rights_change();
                Out::Process(Process::Rights(*call))
            }
            nr::PTRACE => Out::Process(Process::Rights(self.with_host_ids(call))),
            nr::SECCOMP | nr::UNSHARE | nr::SETNS => self.sys_confine(call),
            nr::PPOLL | nr::PSELECT6 | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 | nr::IO_PGETEVENTS => {
                self.back_files();
                self.sys_masked(cpu, t, call)
            }
            nr if abi::checkpoint::call::ALL.contains(&nr) => {
                self.back_files();
                self.private_call(cpu, t, call)
            }
            nr::RT_SIGACTION => self.sys_sigaction(t, a),
            nr::RT_SIGRETURN => self.sys_sigreturn(cpu, t),
            nr::RT_SIGPENDING => self.sys_sigpending(t, a),
            nr::RT_SIGTIMEDWAIT => self.sys_sigtimedwait(cpu, t, a),
            nr::RT_SIGSUSPEND => self.sys_sigsuspend(t, a),
            nr::PAUSE => self.sys_pause(t),
            nr::SIGALTSTACK => self.sys_sigaltstack(t, a),
            nr::KILL => self.sys_kill(cpu, call),
            nr::TKILL => self.sys_tkill(cpu, t, call),
            nr::TGKILL => self.sys_tgkill(cpu, t, call),
            nr::RT_SIGQUEUEINFO => self.sys_sigqueueinfo(cpu, call),
            nr::RT_TGSIGQUEUEINFO => self.sys_tgsigqueueinfo(cpu, t, call),
            nr::RESTART_SYSCALL => self.sys_restart(cpu, t),
            nr::SIGNALFD | nr::SIGNALFD4 => {
                self.back_files();
                self.sys_signalfd(cpu, t, call)
            }
            nr::TIMER_CREATE => self.sys_timer_create(cpu, t, call),
            nr::TIMER_SETTIME => self.sys_timer_settime(cpu, call),
            nr::TIMER_GETTIME => self.sys_timer_gettime(call),
            nr::TIMER_GETOVERRUN => self.sys_timer_getoverrun(call),
            nr::TIMER_DELETE => self.sys_timer_delete(cpu, call),
            nr::CLOCK_GETTIME => self.sys_clock_gettime(cpu, t, call),
            nr::CLOCK_GETRES
            | nr::CLOCK_SETTIME
            | nr::GETRUSAGE
            | nr::TIMES
            | nr::SETITIMER
            | nr::GETITIMER
            | nr::GETRLIMIT
            | nr::SETRLIMIT
            | nr::PRLIMIT64 => self.syscall_of_time(cpu, t, call),
            nr::READ | nr::PREAD64 => self.sys_read(cpu, call),
            nr::WRITE => self.sys_write(cpu, call),
            nr::CLOSE | nr::CLOSE_RANGE => self.sys_close(cpu, call),
            nr::OPEN
            | nr::OPENAT
            | nr::OPENAT2
            | nr::STAT
            | nr::LSTAT
            | nr::NEWFSTATAT
            | nr::STATX
            | nr::ACCESS
            | nr::FACCESSAT
            | nr::FACCESSAT2
            | nr::READLINK
            | nr::READLINKAT => self.sys_path(cpu, t, call),
            nr::DUP | nr::DUP2 | nr::DUP3 => self.sys_dup(cpu, call),
            nr::FCNTL => {
                self.note_sources(call);
                self.sys_fcntl(cpu, call)
            }
            nr::IOCTL => {
                self.note_sources(call);
                self.sys_signalling(cpu, t, call)
            }
            nr::MQ_NOTIFY => {
                self.note_sources(call);
                self.pass(cpu, call)
            }
            nr::WAIT4 | nr::WAITID | nr::ALARM | nr::MQ_TIMEDSEND => self.sys_signalling(cpu, t, call),
            nr::PIDFD_SEND_SIGNAL => self.send_by_host(call, call.args[1]),
            nr::SETSOCKOPT => {
                self.enough.note(call);
                self.pass(cpu, call)
            }
            nr::FSTAT => self.sys_fstat(cpu, call),
            nr::GETDENTS64 => self.sys_getdents(cpu, t, call),
            nr::LSEEK => self.sys_lseek(cpu, call),
            nr::MMAP => self.sys_mmap(call),
            nr::MUNMAP => self.sys_munmap(call),
            nr::MPROTECT => self.sys_mprotect(call),
            nr::MADVISE => self.sys_madvise(cpu, t, call),
            nr::MREMAP | nr::PKEY_MPROTECT | nr::MSEAL | nr::MLOCKALL => self.sys_change_memory(cpu, call),
            nr::SHMAT => self.sys_shmat(call),
            nr::MEMBARRIER => self.sys_membarrier(call),
            nr::GETPGID
            | nr::GETSID
            | nr::KCMP
            | nr::IOPRIO_GET
            | nr::IOPRIO_SET
            | nr::PROCESS_VM_READV
            | nr::PROCESS_VM_WRITEV
            | nr::MOVE_PAGES
            | nr::MIGRATE_PAGES => self.sys_named(cpu, call),
            nr::SETPGID => self.sys_setpgid(cpu, call),
            nr::PIDFD_OPEN => self.sys_pidfd_open(cpu, call),
            nr::CAPGET => self.sys_capget(t, call),
            nr::PERF_EVENT_OPEN => self.sys_perf_event_open(t, call),
            nr::IO_URING_SETUP | nr::IO_URING_REGISTER => self.sys_io_uring(call),
            PRIVATE_VERSION => Out::Done(1),
            PRIVATE_JOIN_GROUP => self.sys_join_group(t, &call.args),
            // The kernel does not know what it asks: it may show descriptors.
            _ => {
                self.back_files();
                self.pass(cpu, call)
            }
        }
    }

    /// CPU time and its limits, but for reading clocks.
    #[inline(never)]
    fn syscall_of_time(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        match call.nr {
            nr::CLOCK_GETRES => self.sys_clock_getres(cpu, t, call),
            nr::CLOCK_SETTIME => self.sys_clock_settime(cpu, t, call),
            nr::GETRUSAGE => self.sys_getrusage(cpu, t, call),
            nr::TIMES => self.sys_times(cpu, t, call),
            nr::SETITIMER => self.sys_setitimer(cpu, t, call),
            nr::GETITIMER => self.sys_getitimer(cpu, call),
            _ => self.sys_rlimit(cpu, call),
        }
    }

    /// Passes a call on to the host: at once if it cannot wait, else as one that may.
    pub(crate) fn pass(&self, cpu: CpuId, call: &Call) -> Out {
        cpu::bump(&self.cpu(cpu).count.passed);
        self.expect_of_descriptors(cpu);
        if crate::host_call::may_wait(call.nr) {
            self.try_host(cpu, call)
        } else if crate::host_call::may_last(call.nr) {
            Out::Inline(*call)
        } else {
            self.host_at_once(call)
        }
    }
}
