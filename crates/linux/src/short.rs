//! Reads that return less than they ask for, although there is more.
//!
//! A stream returns what there is, which is the answer. A file on a disk returns less only at its end: the host is asked
//! for all of it, because in the form that does not wait it also stops where the page cache ends. Endless files
//! (`/dev/zero`, `/dev/urandom`, `getrandom(2)`) stop when a signal is pending (`read_iter_zero`,
//! `get_random_bytes_user`), which may be a tick or a kick that the program must not see. So their rest is read before
//! the call returns.

use crate::host_call::{Tried, with};
use crate::machine::Arg::{Out as Filled, Word};
use crate::machine::ask;
use crate::{Host, Linux, facts};
use abi::args::{
    F_SETFL, FIONBIO, MAX_RW_COUNT, MSG_DONTWAIT, MSG_WAITALL, O_NONBLOCK, S_IFBLK, S_IFCHR, S_IFMT, S_IFREG,
};
use abi::{Errno, nr};
use kernel::Call;
use sync::Arena;
use sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::*};

/// The kind of descriptors from here on is not remembered.
const REMEMBERED: usize = 1 << 20;
const CHUNK: usize = 4096;

/// A kind of file, by what a short read means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum File {
    /// Nothing more is there now: a socket, a pipe, a terminal, a counter.
    Stream = 1,
    /// The end of the file.
    OnDisk = 2,
    /// A signal was pending.
    Endless = 3,
    /// The end of the file, which had no bytes when it was examined: a new one, or one that the host makes up when it is
    /// read, which few of them wait for (`trace_pipe`).
    Empty = 4,
}

/// Beside the kind: a call in the form that cannot wait was told that it would, and the descriptor was blocking. So it
/// was no terminal, which has no such form, and no file on disk.
const WAITS: u8 = 1 << 7;

impl File {
    /// Whether it is a regular file or a block device.
    pub(crate) fn is_on_disk(self) -> bool {
        matches!(self, File::OnDisk | File::Empty)
    }

    fn of(remembered: u8) -> Option<File> {
        [File::Stream, File::OnDisk, File::Endless, File::Empty]
            .into_iter()
            .find(|&file| file as u8 == remembered & !WAITS)
    }
}

/// The kinds of descriptors that were examined, until they are closed.
#[derive(Debug, Default)]
pub(crate) struct Files {
    of: Arena<AtomicU8, CHUNK, { REMEMBERED / CHUNK }>,
    /// Others close descriptors of this process: those who share its table, or an io_uring.
    closed_by_others: AtomicBool,
    /// How often descriptors came to refer to other files.
    changes: AtomicU32,
}

impl Files {
    /// Descriptors in this range refer to other files from now on, or to none.
    pub(crate) fn forget(&self, first: u32, last: u32) {
        self.changes.fetch_add(1, Release);
        if first == last {
            self.of.get(first as usize).into_iter().for_each(|file| file.store(0, Relaxed));
        } else if self.of.is_made() {
            let range = first as usize..=last as usize;
            let within = self.of.numbers().filter(|fd| range.contains(fd));
            within.filter_map(|fd| self.of.get(fd)).for_each(|file| file.store(0, Relaxed));
        }
    }

    /// From now on others may close descriptors, so nothing is remembered.
    pub(crate) fn let_others_close(&self) {
        self.closed_by_others.store(true, Relaxed);
    }

    pub(crate) fn are_closed_by_others(&self) -> bool {
        self.closed_by_others.load(Relaxed)
    }

    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Acquire)
    }

    /// Notes that a call on the blocking descriptor would wait. `changes` was read before the call was tried.
    pub(crate) fn note_wait(&self, fd: u32, changes: u32) {
        let noted = |place: &AtomicU8| place.load(Relaxed) & WAITS != 0;
        if !self.are_closed_by_others()
            && self.changes() == changes
            && let Ok(place) = self.of.get_or_make(fd as usize, |_| AtomicU8::new(0))
            && !noted(place)
        {
            place.fetch_or(WAITS, Relaxed);
        }
    }

    /// Called before a call that may set O_NONBLOCK.
    pub(crate) fn note_flags(&self, call: &Call) {
        let sets = match call.nr {
            nr::FCNTL => call.args[1] == F_SETFL,
            _ => call.args[1] == FIONBIO,
        };
        if sets {
            self.doubt_wait(call.args[0] as u32);
        }
    }

    /// The descriptor may be non-blocking by now: the next call looks.
    pub(crate) fn doubt_wait(&self, fd: u32) {
        self.of.get(fd as usize).into_iter().for_each(|place| {
            place.fetch_and(!WAITS, Relaxed);
        });
    }

    /// Whether a call on the descriptor has been noted so.
    pub(crate) fn may_wait(&self, fd: u32) -> bool {
        !self.are_closed_by_others() && self.of.get(fd as usize).is_some_and(|place| place.load(Relaxed) & WAITS != 0)
    }

    fn find(&self, m: &impl Host, fd: u32) -> File {
        if self.are_closed_by_others() {
            return look(m, fd).unwrap_or(File::Stream);
        }
        let known = self.of.get(fd as usize).and_then(|place| File::of(place.load(Relaxed)));
        known.unwrap_or_else(|| {
            let Some(file) = look(m, fd) else { return File::Stream };
            if let Ok(place) = self.of.get_or_make(fd as usize, |_| AtomicU8::new(0)) {
                let put = |old| File::of(old).is_none().then_some(old | file as u8);
                let _ = place.fetch_update(Relaxed, Relaxed, put);
            }
            file
        })
    }
}

/// The kind by the file's mode and device number; `None` if the host does not report them.
fn look(m: &impl Host, fd: u32) -> Option<File> {
    /// The major number of `/dev/zero` and similar devices (`MEM_MAJOR`), and the minor numbers of the endless ones:
    /// `zero`, `full`, `random`, `urandom`. Another, `kmsg`, has records.
    const MEMORY: u64 = 1;
    const ENDLESS: [u32; 4] = [5, 7, 8, 9];
    // `struct stat` has 144 bytes; st_mode is the word at byte 24, st_rdev the two at byte 40, st_size those at byte 48.
    let mut stat = [[0; 4]; 36];
    let answer = ask(m, nr::FSTAT, &mut [Word(fd.into()), Filled(stat.as_flattened_mut())]);
    let major = u64::from(u32::from_le_bytes(stat[10])) >> 8 & 0xfff;
    (answer == 0).then(|| match u32::from_le_bytes(stat[6]) & S_IFMT {
        S_IFREG if stat[12..14] == [[0; 4]; 2] => File::Empty,
        S_IFREG | S_IFBLK => File::OnDisk,
        S_IFCHR if major == MEMORY && ENDLESS.contains(&(u32::from_le_bytes(stat[10]) & 0xff)) => File::Endless,
        _ => File::Stream,
    })
}

impl<M: Host> Linux<'_, M> {
    /// The kind of the descriptor's file.
    pub(crate) fn file_of(&self, fd: u64) -> File {
        self.state().files.find(&self.m, fd as u32)
    }

    /// A `read(2)` in the form that does not wait has returned `got` bytes.
    pub(crate) fn read_in_part(&self, call: &Call, got: isize) -> Tried {
        let [fd, _, len, ..] = call.args;
        if got as u64 >= len.min(MAX_RW_COUNT) {
            return Tried::Done(got);
        }
        match self.file_of(fd) {
            File::Endless => Tried::RestInHost(got, rest_of_read(call, got)),
            File::Stream | File::OnDisk | File::Empty => Tried::Done(got),
        }
    }

    /// The result of a read from a FIFO that nobody has opened for writing: end of file, which poll(2) reports only if
    /// there has been a writer (`pipe_poll`). `None`: it waits.
    ///
    /// Reads through another file description, which does not wait.
    pub(crate) fn read_without_writer(&self, call: &Call) -> Option<isize> {
        if !matches!(call.nr, nr::READ | nr::READV) || !facts::is_pipe(&self.m, call.args[0]) {
            return None;
        }
        let again = facts::open_again(&self.m, call.args[0], O_NONBLOCK)?;
        let result = self.host(&Call { nr: call.nr, args: with(&call.args, 0, again) });
        facts::close(&self.m, again);
        (result != Errno::EAGAIN.to_ret()).then_some(result)
    }

    /// `getrandom(2)` has returned `got` bytes.
    pub(crate) fn random_in_part(&self, call: &Call, got: isize) -> Tried {
        if got as u64 >= call.args[1].min(MAX_RW_COUNT) {
            return Tried::Done(got);
        }
        let [at, len, flags, ..] = call.args;
        let args = [at + got as u64, len - got as u64, flags, 0, 0, 0];
        Tried::RestInHost(got, Call { nr: call.nr, args })
    }

    /// The rest of a call that the carrier has made with tick and kick unblocked, if one of them may have cut it short.
    pub(crate) fn rest_of_disturbed(&self, call: &Call, got: isize) -> Option<Call> {
        let reads = matches!(call.nr, nr::READ | nr::PREAD64);
        let short = reads && got > 0 && (got as u64) < call.args[2].min(MAX_RW_COUNT);
        if short && self.file_of(call.args[0]) == File::Endless {
            return Some(rest_of_read(call, got));
        }
        self.rest_of_copy(call, got)
    }
}

/// One host call on behalf of a call that waits: all of it, or the rest of one that ends only when it has moved
/// everything.
#[derive(Clone, Copy, Debug)]
pub struct Portion {
    /// The call.
    pub call: Call,
    /// It is what remains of a `writev(2)`: also the pieces that follow it, their address and number.
    pieces: Option<(u64, u64)>,
}

impl Portion {
    /// All of it.
    pub fn whole(call: Call) -> Portion {
        Portion { call, pieces: None }
    }

    /// Whether it belongs to a `writev(2)`. No other call can move the rest of that.
    pub fn is_of_pieces(&self) -> bool {
        self.call.nr == nr::WRITEV || self.is_rest_of_pieces()
    }

    /// Whether it is what remains of a `writev(2)` that has moved a part.
    pub fn is_rest_of_pieces(&self) -> bool {
        self.pieces.is_some()
    }

    /// The next one after the host has moved `done` bytes. `None`: the call ends. `is_cut`: one of our signals may have
    /// cut the call short.
    ///
    /// A signal from outside may cut a write to a pipe short even if another host thread takes it (`pipe_write`,
    /// `complete_signal`). A non-blocking pipe takes a part of its own accord.
    #[must_use]
    pub fn next<M: Host>(&self, linux: Linux<'_, M>, done: isize, is_cut: bool) -> Option<Portion> {
        let [fd, at, len, flags, to, size] = self.call.args;
        let (done, len) = (u64::try_from(done).ok().filter(|&done| done > 0)?, len.min(MAX_RW_COUNT));
        match self.pieces {
            Some((at, count)) if done == len && count > 0 => {
                let call = Call { nr: nr::WRITEV, args: [fd, at, count, 0, 0, 0] };
                return Some(Portion { call, pieces: Some((0, 0)) });
            }
            _ if is_cut || self.may_be_short(done) && facts::is_blocking_pipe(&linux.m, fd) => {}
            _ => return None,
        }
        let moves_all = match self.call.nr {
            nr::WRITE => true,
            nr::WRITEV => {
                let (call, after) = linux.rest_of_pieces(&self.call, done)?;
                return Some(Portion { call, pieces: Some(after) });
            }
            nr::SENDTO => flags & MSG_DONTWAIT == 0,
            nr::RECVFROM => flags & (MSG_WAITALL | MSG_DONTWAIT) == MSG_WAITALL,
            _ => false,
        };
        let args = [fd, at.wrapping_add(done), len.wrapping_sub(done), flags, to, size];
        (moves_all && done < len).then_some(Portion { call: Call { nr: self.call.nr, args }, pieces: self.pieces })
    }

    fn may_be_short(&self, written: u64) -> bool {
        self.call.nr == nr::WRITE && written < self.call.args[2].min(MAX_RW_COUNT) || self.call.nr == nr::WRITEV
    }
}

/// The call for the rest after a part was moved. It moves no more than a single call would have.
fn rest_of_read(call: &Call, got: isize) -> Call {
    let [fd, at, len, offset, ..] = call.args;
    let (at, len) = (at + got as u64, len.min(MAX_RW_COUNT) - got as u64);
    let offset = if call.nr == nr::PREAD64 { offset + got as u64 } else { offset };
    Call { nr: call.nr, args: [fd, at, len, offset, 0, 0] }
}
