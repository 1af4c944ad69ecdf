//! The poller's descriptor: an `epoll(7)` instance in which the machine's idle CPUs sleep while threads are parked.
//!
//! It is made when the first thread parks, and belongs to us: the program cannot close it, exec does, and a forked
//! child closes its copy and makes its own.

use crate::machine::Arg::Word;
use crate::machine::ask;
use crate::{Host, facts};
use abi::args::O_CLOEXEC;
use abi::nr;
use sync::atomic::{AtomicU32, Ordering::*};

/// Near the end of the first descriptor table that Linux allocates: away from the numbers that the program gets, which
/// are the lowest, while a higher one would make `fork` copy a larger table.
const LOWEST: u64 = 1000;

/// The descriptor plus one; 0 before there is one.
#[derive(Debug, Default)]
pub(crate) struct Poller(AtomicU32);

impl Poller {
    /// The descriptor, if there is one.
    pub fn descriptor(&self) -> Option<u32> {
        self.0.load(Acquire).checked_sub(1)
    }

    /// The poller's descriptor, made if there is none yet; `None` if the host refuses.
    pub fn get_or_make(&self, m: &impl Host) -> Option<u32> {
        if let Some(fd) = self.descriptor() {
            return Some(fd);
        }
        let low = u32::try_from(ask(m, nr::EPOLL_CREATE1, &mut [Word(O_CLOEXEC)])).ok()?;
        let fd = facts::duplicate_above(m, low, LOWEST).inspect(|_| facts::close(m, low.into())).unwrap_or(low);
        match self.0.compare_exchange(0, fd + 1, AcqRel, Acquire) {
            Ok(_) => Some(fd),
            // Another thread was faster.
            Err(other) => {
                facts::close(m, fd.into());
                other.checked_sub(1)
            }
        }
    }

    /// The program wants the number `fd` for a file of its own (`dup2(2)`): moves our descriptor to another.
    pub fn move_away(&self, m: &impl Host, fd: u32) {
        let Some(other) = facts::duplicate_above(m, fd, LOWEST) else { return };
        let moved = self.0.compare_exchange(fd + 1, other + 1, AcqRel, Acquire).is_ok();
        // If another thread has moved it, nobody needs the duplicate.
        facts::close(m, if moved { fd } else { other }.into());
    }
}
