//! Errors that a connection reports after a part.
//!
//! One call of Linux that sends or receives a part and then fails tells of the part. The next call tells of the error, which
//! the socket keeps until then (`sk_err`); and a writer to a connection without a reader gets SIGPIPE only with the next call
//! (`tcp_sendmsg_locked`). Here the rest is a call of its own, which uses the error up: so it is kept for the next call here,
//! and the rest raises no signal.

use super::table::Ready;
use crate::{Host, Linux, facts};
use abi::args::MSG_NOSIGNAL;
use abi::{Errno, nr};
use ids::ThreadIdx;
use kernel::Call;
use sync::atomic::Ordering::*;

impl Ready {
    fn owe(&self, fd: u32, error: Errno) {
        if let Some(descriptor) = self.get_or_make(fd) {
            descriptor.owed.store(error.0 as u32, Release);
            self.owes.store(true, Release);
        }
    }

    fn take_owed(&self, fd: u32) -> Option<Errno> {
        let error = self.get(fd)?.owed.swap(0, AcqRel);
        (error != 0).then_some(Errno(error as i32))
    }
}

impl<M: Host> Linux<'_, M> {
    /// The rest of a call has failed.
    #[cold]
    pub(crate) fn owe_error(&self, t: ThreadIdx, result: isize) {
        let fd = self.m.registers(t).rdi;
        if let Err(error) = Errno::from_ret(result)
            && !matches!(error, Errno::EAGAIN | Errno::EINTR | Errno::EFAULT | Errno::EBADF)
            && facts::is_tcp(&self.m, fd)
        {
            self.state().ready.owe(fd as u32, error);
        }
    }

    /// The error that is left for this call. What has come before it is read first.
    #[inline]
    pub(crate) fn owed_error(&self, call: &Call) -> Option<isize> {
        if !self.state().ready.owes.load(Acquire) {
            return None;
        }
        let fd = call.args[0];
        let is_next = match call.nr {
            nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG => facts::unread(&self.m, fd) == Some(0),
            nr::WRITE | nr::WRITEV | nr::SENDTO | nr::SENDMSG => true,
            _ => false,
        };
        if is_next { self.state().ready.take_owed(fd as u32).map(|error| error.to_ret()) } else { None }
    }

    /// The call that writes the rest. To a socket, so that it raises no signal.
    pub(crate) fn without_signal(&self, rest: Call) -> Call {
        let [fd, at, len, flags, to, size] = rest.args;
        match rest.nr {
            nr::SENDTO => Call { nr: nr::SENDTO, args: [fd, at, len, flags | MSG_NOSIGNAL, to, size] },
            nr::WRITE if facts::is_socket(&self.m, fd) => {
                Call { nr: nr::SENDTO, args: [fd, at, len, MSG_NOSIGNAL, 0, 0] }
            }
            _ => rest,
        }
    }
}
