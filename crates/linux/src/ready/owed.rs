//! Errors that a connection reports after a partial transfer.
//!
//! A Linux call that sends or receives a part and then fails returns the part. The socket keeps the error (`sk_err`)
//! for the next call: a write gets it at once, a read when it has read all earlier data. SIGPIPE also comes only with
//! that next call (`tcp_sendmsg_locked`). Here the rest is a call of its own, which consumes the error. So the error is
//! kept here for the next call, and the rest raises no signal. EPIPE is not kept, because the host repeats it.

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
        let owed = &self.get(fd)?.owed;
        let error = if owed.load(Relaxed) == 0 { 0 } else { owed.swap(0, AcqRel) };
        (error != 0).then_some(Errno(error as i32))
    }
}

impl<M: Host> Linux<'_, M> {
    /// The rest of a call has failed.
    #[cold]
    pub(crate) fn owe_error(&self, t: ThreadIdx, result: isize) {
        let fd = self.arguments(t)[0];
        if let Err(error) = Errno::from_ret(result)
            && is_kept(error)
            && facts::is_tcp(&self.m, fd)
        {
            self.state().ready.owe(fd as u32, error);
        }
    }

    /// The error that is owed to this call, if it writes.
    #[inline]
    pub(crate) fn owed_to_writer(&self, call: &Call) -> Option<isize> {
        let ready = &self.state().ready;
        let writes = || matches!(call.nr, nr::WRITE | nr::WRITEV | nr::SENDTO | nr::SENDMSG);
        (ready.owes.load(Acquire) && writes()).then(|| ready.take_owed(call.args[0] as u32))?.map(Errno::to_ret)
    }

    /// The result of a call on the descriptor `fd`: a read that finds the end gets the owed error.
    #[inline]
    pub(crate) fn owed_at_end(&self, nr: usize, fd: impl FnOnce() -> u64, result: isize) -> isize {
        let ready = &self.state().ready;
        let reads = || matches!(nr, nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG);
        match result {
            0 if ready.owes.load(Acquire) && reads() => ready.take_owed(fd() as u32).map_or(0, Errno::to_ret),
            result => result,
        }
    }

    /// The call that writes the rest, sent to a socket without raising a signal.
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

/// Whether a socket keeps this error (`tcp_reset`, `tcp_write_err`, `tcp_v4_err`).
fn is_kept(error: Errno) -> bool {
    matches!(
        error,
        Errno::ECONNRESET
            | Errno::ECONNABORTED
            | Errno::ETIMEDOUT
            | Errno::EHOSTUNREACH
            | Errno::EHOSTDOWN
            | Errno::ENETUNREACH
            | Errno::ENETDOWN
    )
}
