//! Confinement of host threads (`seccomp(2)`, `unshare(2)`, `setns(2)`), and calls about the host thread that makes them
//! (`arch_prctl(2)`, `uretprobe(2)`).

use crate::{Host, Linux};
use abi::args::{
    ARCH_GET_GS, ARCH_SET_CPUID, ARCH_SET_GS, F_GETFD, NS_GET_NSTYPE, SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES,
};
use abi::{Errno, SigInfo, Signal, clone_flags as cf, nr};
use ids::{CpuId, ThreadIdx};
use kernel::syscall::clone::SHARED;
use kernel::{Call, Next, Out, Process};
use sync::atomic::Ordering::*;

/// Resources that only threads of one process share (`check_unshare_flags`).
const OF_THREADS: u64 = cf::THREAD | cf::SIGHAND | cf::VM;
/// The namespaces that a process with one host thread may leave: its later host threads inherit the new ones. Not time
/// namespaces, because what a child inherits of our clocks applies to its parent's. Not PID namespaces, because a
/// process that has left its own gets no more host threads (`copy_process`), and we need one as soon as a tool inspects
/// the process.
const NAMESPACES: u64 = cf::NAMESPACES & !(cf::NEWTIME | cf::NEWPID);

impl<M: Host> Linux<'_, M> {
    /// Confinement of one host thread that cannot be repeated on the others is refused, as by a host built without it:
    /// a sandbox that does not exist must not seem to.
    pub(crate) fn sys_confine(&self, call: &Call) -> Out {
        let a = &call.args;
        match call.nr {
            nr::SECCOMP if matches!(a[0], SECCOMP_GET_ACTION_AVAIL | SECCOMP_GET_NOTIF_SIZES) => {
                Out::Done(self.host(call))
            }
            nr::UNSHARE if a[0] & !(SHARED | OF_THREADS | NAMESPACES) == 0 => {
                self.stop_sharing(a[0]).unwrap_or(Out::Done(0))
            }
            nr::SETNS => self.sys_setns(call),
            _ => Errno::EINVAL.into(),
        }
    }

    /// `unshare(2)` of what the process shares with other ones. `None`: the current thread has these to itself. One among threads
    /// cannot: a carrier that had its own would be another world for whoever runs on it. That is refused, as by a host without
    /// such calls.
    pub(crate) fn stop_sharing(&self, flags: u64) -> Option<Out> {
        if flags & NAMESPACES == 0 && (flags == 0 || self.has_alone(flags)) {
            return None;
        }
        Some(self.leave(Call { nr: nr::UNSHARE, args: [flags & (SHARED | NAMESPACES), 0, 0, 0, 0, 0] }))
    }

    /// `setns(2)`: given a namespace's file, or a process and the kinds of its namespaces to join.
    fn sys_setns(&self, call: &Call) -> Out {
        let (file, kinds) = (call.args[0], u64::from(call.args[1] as u32));
        let found = self.host(&Call { nr: nr::FCNTL, args: [file, F_GETFD, 0, 0, 0, 0] });
        if found < 0 {
            return Out::Done(found);
        }
        let kind = self.host(&Call { nr: nr::IOCTL, args: [file, NS_GET_NSTYPE, 0, 0, 0, 0] });
        let kinds = kinds | u64::try_from(kind).unwrap_or(0);
        if kinds & !NAMESPACES != 0 {
            return Errno::EINVAL.into();
        }
        self.leave(*call)
    }

    /// The process, if it has one thread, leaves what it shares by this call.
    fn leave(&self, call: Call) -> Out {
        if self.has_one_thread() { Out::Process(Process::Leave(call)) } else { Errno::EINVAL.into() }
    }

    /// A call of [`Process::Leave`] is done. The current thread gets the result, or, if its own call is another one that the process
    /// has left something for, makes that again.
    pub fn has_left(&self, cpu: CpuId, call: &Call, result: isize) -> Next {
        if result != 0 {
            return self.process_done(cpu, result);
        }
        // A user namespace has rights of its own.
        self.state().proc.rights_change();
        if call.nr == nr::UNSHARE {
            self.shares_no_more(call.args[0] | implied(call.args[0]));
        }
        let own = self.thread(self.current(cpu)).wait.call.load(Relaxed) as usize;
        if own == call.nr { self.process_done(cpu, result) } else { self.process_prepared(cpu) }
    }

    /// `arch_prctl(2)`. The FS base is in its register while the current thread makes a call, so the host reads and sets the
    /// thread's. The GS base names the carrier; a program's own is not supported (CAVEATS).
    pub(crate) fn sys_arch_prctl(&self, call: &Call) -> Out {
        let a = &call.args;
        match a[0] {
            ARCH_SET_GS => Errno::EPERM.into(),
            ARCH_GET_GS => self.put::<u64>(a[1], 0).into(),
            // The machine asks the processor, too: as one that cannot refuse to say.
            ARCH_SET_CPUID if a[1] == 0 => Errno::ENODEV.into(),
            _ => Out::Done(self.host(call)),
        }
    }

    /// `uretprobe(2)` sends SIGILL to any caller but the host's own code (`SYSCALL_DEFINE0(uretprobe)`). From the image,
    /// it would end the process, so the signal is raised here.
    pub(crate) fn sys_uretprobe(&self, t: ThreadIdx) -> Out {
        self.fault(t, SigInfo::kernel(Signal::ILL));
        Out::Done(-1)
    }
}

/// What a process also stops sharing with other resources (`ksys_unshare`).
fn implied(flags: u64) -> u64 {
    let with = |namespaces: u64, others: u64| if flags & namespaces != 0 { others } else { 0 };
    with(cf::NEWUSER | cf::NEWNS, cf::FS) | with(cf::NEWIPC, cf::SYSVSEM)
}
