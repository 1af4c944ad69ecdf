//! Descriptors with O_NONBLOCK, whose calls end instead of waiting and need no form of their own.
//!
//! A server with an event loop reads until it is told EAGAIN. The form of a read that cannot wait is told it, too, but
//! says nothing of the flag: two more host calls would follow, for the flag and for the read itself. So a descriptor
//! that has once been found non-blocking is *known*, and the program's own call is made.
//!
//! 1. A descriptor is known only after a try in the form that cannot wait, so it is no terminal, which has no such form;
//!    and it is no file on disk, which is waited for whatever the flag says, and with signals held off.
//! 2. A clearing of the flag by this process ends that for all descriptors, because several may share a file. A number
//!    that this process gives to another file is not known.
//! 3. What is known may be wrong: another process may share the file and clear the flag, a thread here may at the moment
//!    of the call, and those who share the table of descriptors may give the number to another file. So a tick or a
//!    kick ends the call ([`Ends::ByAnything`]): it is doubted and made in another form, and so is the rest
//!    of a write of which a part was done.

use crate::host_call::{Tried, waits_for_all};
use crate::machine::Arg::Word;
use crate::machine::Ends;
use crate::{Host, Linux};
use abi::args::{F_SETFL, FIONBIO, MSG_DONTWAIT, O_NONBLOCK};
use abi::{Errno, nr};
use ids::{CpuId, ThreadIdx};
use kernel::Call;
use kernel::trap::Out;
use sync::atomic::{AtomicU32, Ordering::*};

/// [`Clearings`] when the descriptor was found non-blocking, plus one; 0 if it was not.
#[derive(Debug, Default)]
pub(super) struct Nonblocking(AtomicU32);

/// How often this process may have cleared O_NONBLOCK of a file.
#[derive(Debug, Default)]
pub(super) struct Clearings(AtomicU32);

impl Nonblocking {
    /// Found non-blocking after a try in the form that cannot wait.
    pub(super) fn note(&self, clearings: &Clearings) {
        self.0.store(clearings.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Whether it is known to be non-blocking.
    #[inline]
    pub(super) fn is_known(&self, clearings: &Clearings) -> bool {
        self.0.load(Relaxed) == clearings.0.load(Relaxed).wrapping_add(1)
    }

    /// Whether it was found so, at whatever time.
    pub(super) fn was_noted(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    pub(super) fn forget(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Clearings {
    /// Called before a call that may clear O_NONBLOCK.
    pub(super) fn note(&self, call: &Call) {
        let may_clear = match call.nr {
            nr::FCNTL => call.args[1] == F_SETFL && call.args[2] & O_NONBLOCK == 0,
            nr::IOCTL => call.args[1] == FIONBIO,
            _ => false,
        };
        if may_clear {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

impl<M: Host> Linux<'_, M> {
    /// Whether the call is about a descriptor that is known to be non-blocking, and is best made as it is.
    #[inline]
    pub(crate) fn is_known_nonblocking(&self, call: &Call) -> bool {
        let ready = &self.state().ready;
        // A write, or a read that finds the end, may be owed an error.
        (is_read(call.nr) || is_write(call.nr))
            && ready.is_nonblocking(call.args[0] as u32)
            && !ready.owes.load(Acquire)
            && !self.asks_for_enough(call)
    }

    /// Whether the call would wait for more than one byte if the descriptor were blocking after all.
    fn asks_for_enough(&self, call: &Call) -> bool {
        let [_, _, second, third, ..] = call.args;
        let for_all = match call.nr {
            nr::RECVFROM => waits_for_all(third),
            nr::RECVMSG => waits_for_all(second),
            _ => false,
        };
        for_all || self.state().enough.is_used()
    }

    /// Makes such a call; `None` if something has come up before or meanwhile.
    #[inline]
    pub(crate) fn call_nonblocking(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Option<Out> {
        let moves_bytes = matches!(call.nr, nr::READ | nr::RECVFROM | nr::WRITE | nr::SENDTO);
        if !moves_bytes || self.is_controlled() {
            return is_read(call.nr).then_some(Out::Inline(*call));
        }
        match self.m.host_call(call.nr, &mut call.args.map(Word), Ends::ByAnything) {
            r if r == Errno::ERESTARTNOINTR.to_ret() => None,
            r if r == Errno::EINTR.to_ret() => {
                self.state().ready.doubt_nonblocking(call.args[0] as u32);
                None
            }
            r if is_write(call.nr) && r >= 0 && (r as u64) < call.args[2] => self.written_in_part(cpu, t, call, r),
            r => Some(Out::Done(r)),
        }
    }

    /// A write that took a part has found no room for the rest, or was interrupted.
    #[cold]
    fn written_in_part(&self, cpu: CpuId, t: ThreadIdx, call: &Call, done: isize) -> Option<Out> {
        if call.nr == nr::SENDTO && call.args[3] & MSG_DONTWAIT != 0 {
            return Some(Out::Done(done));
        }
        Some(match self.unless_nonblocking(call, self.rest_of(call, done)) {
            Tried::Rest(done, rest) => self.descriptor_wait(cpu, t, rest, done),
            _ => Out::Done(done),
        })
    }

    /// A call that was expected to be short was interrupted.
    pub(crate) fn doubt_nonblocking(&self, call: &Call) {
        if is_read(call.nr) {
            self.state().ready.doubt_nonblocking(call.args[0] as u32);
        }
    }

    /// Whether the descriptor of a call that would wait is non-blocking, which is then known.
    pub(crate) fn finds_nonblocking(&self, call: &Call) -> bool {
        let found = self.is_nonblocking(call.args[0]);
        if found && is_read(call.nr) && !self.file_of(call.args[0]).is_on_disk() {
            self.state().ready.note_nonblocking(call.args[0] as u32);
        }
        found
    }
}

/// Whether the call reads, and would wait for what is not there yet.
fn is_read(nr: usize) -> bool {
    matches!(nr, nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG | nr::ACCEPT | nr::ACCEPT4)
}

/// Whether the call writes, and would wait for room.
fn is_write(nr: usize) -> bool {
    matches!(nr, nr::WRITE | nr::SENDTO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(nr: usize, second: u64, third: u64) -> Call {
        Call { nr, args: [3, second, third, 0, 0, 0] }
    }

    #[test]
    fn what_is_known_ends_when_the_flag_may_be_cleared() {
        let (one, clearings) = (Nonblocking::default(), Clearings::default());
        assert!(!one.is_known(&clearings));
        one.note(&clearings);
        clearings.note(&call(nr::FCNTL, F_SETFL, O_NONBLOCK));
        clearings.note(&call(nr::FCNTL, F_SETFL + 1, 0));
        clearings.note(&call(nr::READ, F_SETFL, 0));
        assert!(one.is_known(&clearings));
        for clears in [call(nr::FCNTL, F_SETFL, 0), call(nr::IOCTL, FIONBIO, 0x1000)] {
            one.note(&clearings);
            clearings.note(&clears);
            assert!(!one.is_known(&clearings), "{clears:?}");
        }
        one.note(&clearings);
        one.forget();
        assert!(!one.is_known(&clearings));
    }
}
