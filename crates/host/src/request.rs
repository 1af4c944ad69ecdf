//! Requests from outside, by a signal that is ignored by default and names a descriptor of the asker
//! (`abi::checkpoint::request`). The service thread answers them: no thread of the program stops for it.

use crate::machine::kernel;
use crate::os::{self, nr};
use abi::checkpoint::request;
use abi::{SigInfo, si_code};
use arch::syscall;
use core::fmt::Write;

/// So much is written at a time.
const BUFFER: usize = 4096;

/// Answers if the signal is a request.
pub(crate) fn serve(info: &SigInfo) -> bool {
    if info.signal().map(|s| s.raw()) != Some(request::SIGNAL) || info.code() != si_code::QUEUE {
        return false;
    }
    let Some(theirs) = request::descriptor(info.value()) else { return false };
    let mut path = crate::report::Text::<64>::default();
    let _ = write!(path, "/proc/{}/fd/{theirs}\0", info.pid());
    // The descriptor is there for as long as the answer takes.
    const FLAGS: usize = 0o1 | 0o2_000_000 | 0o4_000; // O_WRONLY | O_CLOEXEC | O_NONBLOCK
    // SAFETY: the path ends with a zero.
    let fd = unsafe { syscall!(nr::OPENAT, -100isize, path.as_bytes().as_ptr(), FLAGS, 0) };
    if fd < 0 {
        // Whoever asked has gone, or may not be written to: nobody is told anything.
        return true;
    }
    let mut buffer = [0u8; BUFFER];
    let mut len = 0;
    kernel().write_checkpoint(|bytes| {
        if len + bytes.len() > BUFFER {
            os::write(fd as i32, &buffer[..len]);
            len = 0;
        }
        buffer[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    });
    os::write(fd as i32, &buffer[..len]);
    os::close(fd as i32);
    true
}
