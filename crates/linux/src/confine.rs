//! Confinement of host threads (`seccomp(2)`, `unshare(2)`, `setns(2)`).

use crate::{Host, Linux};
use abi::args::{F_GETFD, SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES};
use abi::{Errno, SigInfo, Signal, clone_flags as cf, nr};
use ids::ThreadIdx;
use kernel::syscall::clone::SHARED;
use kernel::{Call, Out};

/// Resources that only threads of one process share (`check_unshare_flags`).
const OF_THREADS: u64 = cf::THREAD | cf::SIGHAND | cf::VM;

impl<M: Host> Linux<'_, M> {
    /// Confinement of one host thread that cannot be repeated on the others is refused, as a host
    /// does that was built without it: a sandbox that is not there must not seem to be.
    pub(crate) fn sys_confine(&self, call: &Call) -> Out {
        let a = &call.args;
        match call.nr {
            nr::SECCOMP if matches!(a[0], SECCOMP_GET_ACTION_AVAIL | SECCOMP_GET_NOTIF_SIZES) => {
                Out::Done(self.m.host(*call))
            }
            nr::UNSHARE if a[0] & !(SHARED | OF_THREADS) == 0 => Out::Done(self.stop_sharing(a[0])),
            nr::SETNS => self.sys_setns(a),
            _ => Errno::EINVAL.into(),
        }
    }

    /// The current thread has these to itself from now on. One among threads cannot: a carrier that had its own would be
    /// another world for whoever runs on it. That is refused, as by a host without such calls.
    ///
    /// `unshare(2)` of what the process shares with another one. Only a process with one host thread can: then all of it leaves.
    pub(crate) fn stop_sharing(&self, flags: u64) -> isize {
        if flags == 0 || self.has_alone(flags) {
            return 0;
        }
        if !self.has_one_thread() || !self.m.is_alone() {
            return Errno::EINVAL.to_ret();
        }
        let result = self.m.host(Call { nr: nr::UNSHARE, args: [flags & SHARED, 0, 0, 0, 0, 0] });
        if result == 0 {
            self.shares_no_more(flags);
        }
        result
    }

    fn sys_setns(&self, a: &[u64; 6]) -> Out {
        let found = self.m.host(Call { nr: nr::FCNTL, args: [a[0], F_GETFD, 0, 0, 0, 0] });
        if found < 0 { Out::Done(found) } else { Errno::EINVAL.into() }
    }

    /// `uretprobe(2)` ends any caller but the host's own code (`SYSCALL_DEFINE0(uretprobe)`). The call would be the
    /// image's, so the host would end that.
    pub(crate) fn sys_uretprobe(&self, t: ThreadIdx) -> Out {
        self.fault(t, SigInfo::kernel(Signal::ILL));
        Out::Done(-1)
    }
}
