//! Confinement of host threads (`seccomp(2)`, `unshare(2)`, `setns(2)`).

use crate::{Host, Linux};
use abi::args::{SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES};
use abi::{Errno, nr};
use kernel::{Call, Out};

impl<M: Host> Linux<'_, M> {
    /// Confinement of one host thread that cannot be repeated on the others is refused, as a host
    /// does that was built without it: a sandbox that is not there must not seem to be.
    pub(crate) fn sys_confine(&self, call: &Call) -> Out {
        let a = &call.args;
        match call.nr {
            nr::SECCOMP if matches!(a[0], SECCOMP_GET_ACTION_AVAIL | SECCOMP_GET_NOTIF_SIZES) => {
                Out::Done(self.m.host(*call))
            }
            // A process of one thread shares these with nobody, so they are its own already.
            nr::UNSHARE if a[0] & !kernel::syscall::clone::SHARED == 0 && self.has_alone(a[0]) => Out::Done(0),
            _ => Errno::EINVAL.into(),
        }
    }
}
