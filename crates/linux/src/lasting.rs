//! Calls that wait for a disk and for nobody else.
//!
//! The host has no form of them that cannot wait. A thread keeps its CPU in such a call, unless its calls of that kind
//! usually wait ([`kernel::lasting`]). Then it leaves the CPU to others first.
//!
//! On Linux no signal but one that kills ends such a wait. So a signal that comes before the call has begun does not
//! end it either: it is handled first, and the call starts over.

use crate::{Host, Linux};
use abi::args::{MAX_RW_COUNT, SPLICE_F_NONBLOCK};
use abi::nr;
use ids::ThreadIdx;
use kernel::Call;
use kernel::lasting::Kind;
use kernel::trap::Out;

impl<M: Host> Linux<'_, M> {
    /// The form of a call that waits for nobody but may last.
    pub(crate) fn lasting(&self, t: ThreadIdx, call: &Call) -> Out {
        let leaves = kind(call.nr).is_some_and(|kind| {
            let usually_waits = self.thread(t).parked.lasting.begin(kind);
            usually_waits && self.threads().live() > 1 && !self.is_controlled()
        });
        if leaves { Out::Host(*call, 0) } else { Out::Inline(*call) }
    }

    /// Whether nothing but a disk can make the call wait.
    pub(crate) fn waits_for_disk_only(&self, call: &Call) -> bool {
        kind(call.nr).is_some_and(|kind| kind == Kind::Sync || self.file_of(call.args[0]).is_on_disk())
    }

    /// Whether a call that moves data between two descriptors cannot wait for the peer of either.
    pub(crate) fn moves_without_waiting(&self, call: &Call) -> bool {
        let [first, _, third, ..] = call.args;
        let is_on_disk = |fd| self.file_of(fd).is_on_disk();
        match call.nr {
            nr::COPY_FILE_RANGE => is_on_disk(first) && is_on_disk(third),
            nr::SENDFILE => is_on_disk(first) || self.is_nonblocking(first),
            nr::SPLICE if call.args[5] & SPLICE_F_NONBLOCK != 0 => {
                [first, third].into_iter().all(|fd| is_on_disk(fd) || self.is_nonblocking(fd))
            }
            _ => false,
        }
    }

    /// The rest of a copy from file to file that has moved `got` bytes. One of our signals may have cut the copy short,
    /// and the program would take that for the end of the file.
    pub(crate) fn rest_of_copy(&self, call: &Call, got: isize) -> Option<Call> {
        let len_at = match call.nr {
            nr::COPY_FILE_RANGE => 4,
            nr::SENDFILE if self.file_of(call.args[0]).is_on_disk() => 3,
            _ => return None,
        };
        let (got, len) = (u64::try_from(got).ok()?, call.args[len_at].min(MAX_RW_COUNT));
        // The host has advanced the offsets.
        (0 < got && got < len)
            .then(|| Call { nr: call.nr, args: crate::host_call::with(&call.args, len_at, len - got) })
    }
}

fn kind(nr: usize) -> Option<Kind> {
    match nr {
        nr::READ | nr::READV | nr::PREAD64 | nr::PREADV | nr::PREADV2 | nr::SENDFILE => Some(Kind::Read),
        nr::WRITE | nr::WRITEV | nr::PWRITE64 | nr::PWRITEV | nr::PWRITEV2 | nr::COPY_FILE_RANGE => Some(Kind::Write),
        nr::FSYNC | nr::FDATASYNC | nr::SYNC | nr::SYNCFS | nr::MSYNC => Some(Kind::Sync),
        _ => None,
    }
}
