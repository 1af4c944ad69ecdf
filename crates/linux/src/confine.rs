//! Confinement of host threads (`seccomp(2)`, `unshare(2)`, `setns(2)`).

use crate::{Host, Linux};
use abi::args::{F_GETFD, NS_GET_NSTYPE, SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES};
use abi::{Errno, SigInfo, Signal, clone_flags as cf, nr};
use ids::ThreadIdx;
use kernel::syscall::clone::SHARED;
use kernel::{Call, Out};

/// Resources that only threads of one process share (`check_unshare_flags`).
const OF_THREADS: u64 = cf::THREAD | cf::SIGHAND | cf::VM;
/// The namespaces that a process with one host thread may leave: its later host threads begin in those that it has then. Not those of
/// time, because what a child inherits of our clocks holds for the parent's. Not those of processes, because a process that has left
/// its own gets no more host threads (`copy_process`), and we need one as soon as somebody looks at it.
const NAMESPACES: u64 = cf::NAMESPACES & !(cf::NEWTIME | cf::NEWPID);

impl<M: Host> Linux<'_, M> {
    /// Confinement of one host thread that cannot be repeated on the others is refused, as a host
    /// does that was built without it: a sandbox that is not there must not seem to be.
    pub(crate) fn sys_confine(&self, call: &Call) -> Out {
        let a = &call.args;
        match call.nr {
            nr::SECCOMP if matches!(a[0], SECCOMP_GET_ACTION_AVAIL | SECCOMP_GET_NOTIF_SIZES) => {
                Out::Done(self.host(call))
            }
            nr::UNSHARE if a[0] & !(SHARED | OF_THREADS | NAMESPACES) == 0 => Out::Done(self.stop_sharing(a[0])),
            nr::SETNS => self.sys_setns(call),
            _ => Errno::EINVAL.into(),
        }
    }

    /// The current thread has these to itself from now on. One among threads cannot: a carrier that had its own would be
    /// another world for whoever runs on it. That is refused, as by a host without such calls.
    ///
    /// `unshare(2)` of what the process shares with other ones. Only a process with one host thread can: then all of it leaves.
    pub(crate) fn stop_sharing(&self, flags: u64) -> isize {
        if flags & NAMESPACES == 0 && (flags == 0 || self.has_alone(flags)) {
            return 0;
        }
        let call = Call { nr: nr::UNSHARE, args: [flags & (SHARED | NAMESPACES), 0, 0, 0, 0, 0] };
        let result = self.leave(flags, &call);
        if result == 0 {
            self.shares_no_more(flags | implied(flags));
        }
        result
    }

    /// `setns(2)`: by a file of one namespace, or by a process and the kinds of those to join.
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
        Out::Done(self.leave(kinds, call))
    }

    /// The process, if it has one host thread, makes this call, by which that leaves namespaces of these kinds.
    fn leave(&self, kinds: u64, call: &Call) -> isize {
        if !self.has_one_thread() || !self.m.is_alone() {
            return Errno::EINVAL.to_ret();
        }
        let result = self.host(call);
        if result == 0 && kinds & cf::NEWUSER != 0 {
            self.m.rights_have_changed();
            self.state().proc.rights_change();
        }
        result
    }

    /// `uretprobe(2)` ends any caller but the host's own code (`SYSCALL_DEFINE0(uretprobe)`). The call would be the
    /// image's, so the host would end that.
    pub(crate) fn sys_uretprobe(&self, t: ThreadIdx) -> Out {
        self.fault(t, SigInfo::kernel(Signal::ILL));
        Out::Done(-1)
    }
}

/// What comes along with other things that a process stops sharing (`ksys_unshare`).
fn implied(flags: u64) -> u64 {
    let with = |namespaces: u64, others: u64| if flags & namespaces != 0 { others } else { 0 };
    with(cf::NEWUSER | cf::NEWNS, cf::FS) | with(cf::NEWIPC, cf::SYSVSEM)
}
