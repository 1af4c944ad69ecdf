//! `writev(2)` and `sendmsg(2)` in a form that does not wait, from any byte on: a stream may take a part.

use crate::facts::CURRENT;
use crate::{Host, Linux, facts};
use abi::args::{MAX_RW_COUNT, MSG_DONTWAIT, MSG_EOR, MSG_NOSIGNAL, MSG_OOB, RWF_NOWAIT};
use abi::{Errno, nr};
use kernel::{Call, Fault};

/// The most pieces that a call may have (UIO_MAXIOV).
const PIECES_MAX: u64 = 1024;

/// The pieces of memory that a call sends, each an address and a length.
#[derive(Clone, Copy)]
struct Pieces {
    at: u64,
    count: u64,
}

/// The outcome of a try.
pub(crate) enum Sent {
    /// This result.
    Done(isize),
    /// This much more was taken, but not all.
    Part(isize),
    /// The host took nothing: the call would wait.
    Nothing,
}

impl<M: Host> Linux<'_, M> {
    /// Sends the rest of the call after `part` bytes.
    pub(crate) fn send_pieces(&self, call: &Call, part: u64) -> Sent {
        let Ok((pieces, total)) = self.pieces_of(call) else {
            // The host returns the right error.
            return Sent::Done(self.send_at_once(call));
        };
        let result = if part == 0 { self.send_at_once(call) } else { self.send_rest(call, pieces, part, total) };
        match result {
            r if r == Errno::EAGAIN.to_ret() => Sent::Nothing,
            r if r >= 0 && part + (r as u64) < total => Sent::Part(r),
            r => Sent::Done(r),
        }
    }

    fn pieces_of(&self, call: &Call) -> Result<(Pieces, u64), Fault> {
        let a = &call.args;
        // struct msghdr: the pieces' address is its third word, their number the fourth.
        let pieces = match call.nr {
            nr::SENDMSG => {
                let [at, count] = self.get(a[1].wrapping_add(16))?;
                Pieces { at, count }
            }
            _ => Pieces { at: a[1], count: a[2] },
        };
        let mut total = 0_u64;
        for i in 0..(pieces.count <= PIECES_MAX).then_some(pieces.count).ok_or(Fault)? {
            total = total.saturating_add(self.piece(pieces, i)?[1]);
        }
        Ok((pieces, total))
    }

    fn piece(&self, pieces: Pieces, i: u64) -> Result<[u64; 2], Fault> {
        self.get(pieces.at.wrapping_add(i * 16))
    }

    /// Sends everything at once, without waiting.
    fn send_at_once(&self, call: &Call) -> isize {
        let a = &call.args;
        self.host(&match call.nr {
            nr::SENDMSG => Call { nr: call.nr, args: [a[0], a[1], a[2] | MSG_DONTWAIT, 0, 0, 0] },
            _ => Call { nr: nr::PWRITEV2, args: [a[0], a[1], a[2], CURRENT, CURRENT, RWF_NOWAIT] },
        })
    }

    /// After `part` bytes of a `writev(2)`: a call that writes the rest of the piece that they end in, and the pieces
    /// after it. `None`: nothing remains, or more than one call can move.
    pub(crate) fn rest_of_pieces(&self, call: &Call, part: u64) -> Option<(Call, (u64, u64))> {
        let (pieces, total) = self.pieces_of(call).ok()?;
        if total > MAX_RW_COUNT {
            return None;
        }
        let (i, at, len) = self.piece_after(pieces, part).ok()??;
        let call = Call { nr: nr::WRITE, args: [call.args[0], at, len, 0, 0, 0] };
        Some((call, (pieces.at.wrapping_add((i + 1) * 16), pieces.count - i - 1)))
    }

    /// The rest of the piece that the first `part` bytes end in: the piece's number, the rest's address and length.
    /// `None`: nothing remains.
    fn piece_after(&self, pieces: Pieces, part: u64) -> Result<Option<(u64, u64, u64)>, Fault> {
        let mut skip = part;
        for i in 0..pieces.count {
            let [at, len] = self.piece(pieces, i)?;
            if skip < len {
                return Ok(Some((i, at.wrapping_add(skip), len - skip)));
            }
            skip -= len;
        }
        Ok(None)
    }

    /// Sends the first remaining piece after `part` bytes. Control data went with the first part.
    fn send_rest(&self, call: &Call, pieces: Pieces, part: u64, total: u64) -> isize {
        match self.piece_after(pieces, part) {
            Ok(Some((_, at, len))) => self.send_piece(call, at, len, part + len == total),
            Ok(None) => 0,
            Err(Fault) => Errno::EFAULT.to_ret(),
        }
    }

    fn send_piece(&self, call: &Call, at: u64, len: u64, is_last: bool) -> isize {
        let [fd, _, flags, ..] = call.args;
        let flags = match call.nr {
            // Only the last piece ends the record or carries the urgent byte.
            nr::SENDMSG if is_last => flags,
            nr::SENDMSG => flags & !(MSG_EOR | MSG_OOB),
            _ if facts::is_socket(&self.m, fd) => 0,
            _ => return facts::transfer_at_once(&self.m, nr::PWRITEV2, fd, at, len),
        };
        self.host(&Call { nr: nr::SENDTO, args: [fd, at, len, flags | MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0] })
    }
}
