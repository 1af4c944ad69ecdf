//! Requests from outside, by a signal that is ignored by default (`abi::checkpoint::request`). The service thread
//! answers them; no thread of the program stops.
//!
//! The answer is a file of our own, whose descriptor is passed through a socket on which the asker listens. Nothing of
//! the asker's is opened, because that would happen with this process's rights, which may exceed the asker's. The
//! signal's sender may be forged, so the host is asked who listens: only this process's user and root get an answer.

use crate::base::os::{self, nr};
use crate::base::socket::Socket;
use abi::args::{MFD_CLOEXEC, MSG_DONTWAIT_NOSIGNAL, SCM_RIGHTS, SOL_SOCKET};
use abi::checkpoint::request;
use abi::{SigInfo, si_code};
use arch::syscall;
use kernel::Kernel;
use linux::{Host, Linux};

/// The size of a write.
const BUFFER: usize = 4096;

/// Whether the signal was sent to ask for something.
pub(crate) fn is_one(info: &SigInfo) -> bool {
    info.signal().map(|s| s.raw()) == Some(request::SIGNAL) && info.code() == si_code::QUEUE
}

/// Answers if the signal is a request.
pub(crate) fn serve(k: &Kernel<impl Host>, info: &SigInfo) -> bool {
    let Some(number) = Some(info.value()).filter(|_| is_one(info)).and_then(request::number) else { return false };
    // An asker that is gone or has no right to know gets no answer.
    if let Some(socket) = Socket::connect(&request::name(number))
        // SAFETY: only asks.
        && let user = unsafe { syscall!(nr::GETEUID) } as u32
        && socket.peer().is_some_and(|peer| peer.user == user || peer.user == 0)
        && let Some(file) = write(k)
    {
        send(socket.0, file);
        os::close(file);
    }
    true
}

/// The answer, in a file without a name.
fn write(k: &Kernel<impl Host>) -> Option<i32> {
    // SAFETY: a new descriptor; the name is a string.
    let file = unsafe { syscall!(nr::MEMFD_CREATE, c"entresol-time".as_ptr(), MFD_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let file = file as i32;
    let mut buffer = [0u8; BUFFER];
    let mut len = 0;
    k.write_checkpoint(&Linux(k).process_record(), |bytes| {
        if len + bytes.len() > BUFFER {
            write_quietly(file, &buffer[..len]);
            len = 0;
        }
        buffer[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    });
    write_quietly(file, &buffer[..len]);
    Some(file)
}

/// Writes even if RLIMIT_FSIZE forbids it, without a signal to the program.
fn write_quietly(file: i32, bytes: &[u8]) {
    os::without_signals(|| {
        os::write(file, bytes);
        0
    });
}

/// Sends the descriptor with one byte (`unix(7)`, SCM_RIGHTS).
fn send(socket: i32, file: i32) {
    let byte = [1u8];
    let part = [byte.as_ptr() as u64, 1];
    // `struct cmsghdr`: length, level and type, then the descriptor and its padding.
    let control = [20u64, SCM_RIGHTS << 32 | SOL_SOCKET, u64::from(file as u32)];
    let message = [0, 0, part.as_ptr() as u64, 1, control.as_ptr() as u64, size_of_val(&control) as u64, 0];
    // SAFETY: `struct msghdr` and all that it names are ours.
    unsafe { syscall!(nr::SENDMSG, socket, message.as_ptr(), MSG_DONTWAIT_NOSIGNAL) };
}
