//! Which function answers which call. Calls that are not listed are passed to the host unchanged.

use crate::facts::CURRENT;
use crate::masked::is_masked;
use crate::owners::{FIOGETOWN, SIOCGPGRP};
use crate::{Host, Linux, arrivals, kinds};
use abi::args::{FIOSETOWN, SIOCSPGRP};
use abi::nr;
use ids::{CpuId, ThreadIdx};
use kernel::cpu::bump;
use kernel::{Call, ELSEWHERE, Out, Process};

impl<M: Host> Linux<'_, M> {
    /// Answers a call of the current thread `t` that the kernel does not handle.
    pub fn call(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        if !is_masked(call.nr)
            && let Some(result) = self.with_own_signals(t, call)
        {
            return Out::Done(result);
        }
        match call.nr {
            nr::READ | nr::PREAD64 => self.sys_read(cpu, call),
            nr::WRITE => self.sys_write(cpu, call),
            nr::PREADV2 if is_plain(call) => self.call(cpu, t, &Call { nr: nr::READV, ..*call }),
            nr::PWRITEV2 if is_plain(call) => self.call(cpu, t, &Call { nr: nr::WRITEV, ..*call }),
            nr::WRITEV | nr::PWRITE64 | nr::PWRITEV | nr::PWRITEV2 => self.sys_write_otherwise(cpu, call),
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
            nr::DUP | nr::DUP2 | nr::DUP3 => {
                self.state().ready.note_change(&self.m, call);
                self.sys_dup(cpu, call)
            }
            nr::FCNTL => {
                self.state().files.note_flags(call);
                self.state().ready.note_change(&self.m, call);
                self.note_sources(call);
                self.sys_fcntl(cpu, call)
            }
            nr::IOCTL => {
                self.state().files.note_flags(call);
                self.state().ready.note_change(&self.m, call);
                self.note_sources(call);
                let owner = match call.args[1] {
                    FIOSETOWN | SIOCSPGRP => self.sys_set_owner_of_socket(call),
                    FIOGETOWN | SIOCGPGRP => self.sys_owner_of_socket(call),
                    _ => None,
                };
                owner.unwrap_or_else(|| self.sys_signalling(cpu, t, call))
            }
            nr::MQ_NOTIFY => {
                self.note_sources(call);
                self.pass(cpu, call)
            }
            nr::WAIT4 | nr::WAITID | nr::MQ_TIMEDSEND => self.sys_signalling(cpu, t, call),
            nr::ALARM => self.sys_alarm(cpu, t, call),
            nr::SENDTO | nr::SENDMSG if arrivals::is_urgent(call) => {
                self.back_files();
                self.sys_signalling(cpu, t, call)
            }
            nr::SENDMSG | nr::SENDMMSG => {
                self.state().ready.note_change(&self.m, call);
                self.back_files();
                self.pass(cpu, call)
            }
            nr::PIDFD_SEND_SIGNAL => self.sys_pidfd_send_signal(t, call),
            nr::SETSOCKOPT => {
                self.state().enough.note(call);
                self.state().ready.note_option(call);
                self.state().ready.note_change(&self.m, call);
                self.pass(cpu, call)
            }
            nr::FSTAT => self.sys_fstat(cpu, call),
            nr::GETDENTS64 => self.sys_getdents(cpu, t, call),
            nr::LSEEK => self.sys_lseek(cpu, call),
            nr::FTRUNCATE => self.sys_ftruncate(cpu, call),
            nr::MMAP => self.sys_mmap(call),
            nr::MUNMAP => {
                self.complete_updates();
                self.sys_munmap(call)
            }
            nr::MPROTECT => {
                self.complete_updates();
                self.sys_mprotect(call)
            }
            nr::MADVISE | nr::MREMAP | nr::PKEY_MPROTECT | nr::MSEAL | nr::MLOCKALL => {
                self.complete_updates();
                self.sys_change_memory(cpu, call)
            }
            nr::SHMAT => self.sys_shmat(call),
            nr::MEMBARRIER => {
                self.complete_updates();
                self.sys_membarrier(call)
            }
            nr::GETPGID
            | nr::GETSID
            | nr::KCMP
            | nr::PROCESS_VM_READV
            | nr::PROCESS_VM_WRITEV
            | nr::MOVE_PAGES
            | nr::MIGRATE_PAGES => self.sys_named(cpu, call),
            nr::IOPRIO_GET => self.sys_ioprio_get(t, call),
            nr::IOPRIO_SET => self.sys_ioprio_set(t, call),
            nr::SETPGID => self.sys_setpgid(cpu, call),
            nr::PIDFD_OPEN => self.sys_pidfd_open(cpu, call),
            nr::CAPGET => self.sys_capget(t, call),
            nr::PERF_EVENT_OPEN => self.sys_perf_event_open(t, call),
            nr::IO_URING_SETUP | nr::IO_URING_REGISTER => self.sys_io_uring(call),
            nr::GETRUSAGE => self.sys_getrusage(cpu, t, call),
            nr::TIMES => self.sys_times(cpu, t, call),
            nr::RT_SIGPENDING => self.sys_sigpending(t, call),
            nr::RT_SIGTIMEDWAIT => self.sys_sigtimedwait(cpu, t, call).into(),
            nr::SIGNALFD | nr::SIGNALFD4 => {
                self.back_files();
                self.sys_signalfd(cpu, t, call)
            }
            nr::EXECVE | nr::EXECVEAT => Out::Process(Process::Exec(*call)),
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
                self.state().proc.rights_change();
                Out::Process(Process::Rights(*call))
            }
            nr::PTRACE => Out::Process(Process::Rights(self.with_host_ids(call))),
            nr::SECCOMP | nr::UNSHARE | nr::SETNS => self.sys_confine(call),
            nr::URETPROBE => self.sys_uretprobe(t),
            nr::ARCH_PRCTL => self.sys_arch_prctl(call),
            nr if is_masked(nr) => {
                self.back_files();
                self.sys_masked(cpu, t, call)
            }
            abi::checkpoint::call::PROCESS_TIME => self.sys_process_time(call),
            nr if abi::checkpoint::call::ALL.contains(&nr) => {
                self.back_files();
                self.private_call(cpu, t, call)
            }
            nr::PRCTL => {
                // The call may change whether the process may be inspected.
                let result = self.host(call);
                self.state().proc.rights_change();
                Out::Done(result)
            }
            nr::SETITIMER if call.args[0] as i32 == 0 => self.sys_alarm(cpu, t, call),
            nr::KILL if call.args[0] as i32 <= 0 => self.send_by_host(call, call.args[1]),
            nr::KILL | nr::RT_SIGQUEUEINFO | nr::PRLIMIT64 => self.sys_named(cpu, call),
            nr::FUTEX => self.shared_futex(t, call),
            nr::RESTART_SYSCALL => self.poll_again(t),
            // These concern threads that are not ours, and reveal no descriptors.
            nr::TKILL
            | nr::TGKILL
            | nr::RT_TGSIGQUEUEINFO
            | nr::FUTEX_WAKE
            | nr::FUTEX_REQUEUE
            | nr::SET_ROBUST_LIST
            | nr::GET_ROBUST_LIST
            | nr::GETPRIORITY
            | nr::SETPRIORITY => Out::Done(self.host(call)),
            // The answer may have to come from another process under Entresol.
            nr::SCHED_SETAFFINITY
            | nr::SCHED_GETAFFINITY
            | nr::SCHED_SETSCHEDULER
            | nr::SCHED_GETSCHEDULER
            | nr::SCHED_SETPARAM
            | nr::SCHED_GETPARAM
            | nr::SCHED_RR_GET_INTERVAL
            | nr::SCHED_SETATTR
            | nr::SCHED_GETATTR => Out::Inline(Call { nr: call.nr | ELSEWHERE, args: call.args }),
            nr::CLOCK_GETRES | nr::CLOCK_SETTIME | nr::GETITIMER | nr::SETITIMER | nr::GETRLIMIT | nr::SETRLIMIT => {
                self.pass(cpu, call)
            }
            // An unknown call may reveal descriptors to the program.
            _ => {
                self.back_files();
                self.pass(cpu, call)
            }
        }
    }

    /// Passes a call to the host: at once if it cannot wait, otherwise as one that may.
    pub(crate) fn pass(&self, cpu: CpuId, call: &Call) -> Out {
        bump(&self.cpu(cpu).count.passed);
        self.expect_of_descriptors(cpu);
        if kinds::may_wait(call.nr) {
            self.try_host(cpu, call)
        } else if kinds::may_last(call.nr) {
            self.lasting(self.current(cpu), call)
        } else {
            self.host_at_once(call)
        }
    }
}

/// Whether a `preadv2(2)` or `pwritev2(2)` is a `readv(2)` or `writev(2)`: at the file's own position, without flags.
fn is_plain(call: &Call) -> bool {
    call.args[3] == CURRENT && call.args[5] as u32 == 0
}
