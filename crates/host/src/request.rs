//! Requests from outside, by a signal that is ignored by default and names a descriptor of the asker
//! (`abi::checkpoint::request`). The service thread answers them: no thread of the program stops for it.

use crate::machine::kernel;
use crate::os;
use abi::checkpoint::request;
use abi::{SigInfo, si_code};
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
    const O_WRONLY_NONBLOCK: usize = 0o1 | 0o4000;
    // Whoever asked has gone, or may not be written to: nobody is told anything.
    let Ok(fd) = os::open(path.as_bytes(), O_WRONLY_NONBLOCK, 0) else { return true };
    let mut buffer = [0u8; BUFFER];
    let mut len = 0;
    kernel().write_checkpoint(|bytes| {
        if len + bytes.len() > BUFFER {
            os::write(fd, &buffer[..len]);
            len = 0;
        }
        buffer[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    });
    os::write(fd, &buffer[..len]);
    os::close(fd);
    true
}
