//! Files that the host knows by number only ([`super::files`]): opening, reading, and giving them what they lack.

use super::files::OpenFile;
use super::table::Returned;
use super::{F_DUPFD_CLOEXEC, O_CLOEXEC, SEEK_CUR, SEEK_SET};
use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::{Errno, nr};
use procfs::entries::{File, Is};

/// The blank lies above what programs usually have.
const BLANK_FROM: u64 = 1000;

impl<M: Machine> Kernel<M> {
    /// Opens a bare file: its descriptor, or the host's refusal. `None`: there is no blank to be had, or too many are
    /// bare.
    pub(super) fn open_bare(&self, file: OpenFile) -> Option<isize> {
        if self.proc.files.doubted() {
            self.give_back_above(0);
        }
        if let Some(fd) = self.proc.files.reuse(&file) {
            return Some(fd as isize);
        }
        if !self.proc.files.may_be_bare() {
            return None;
        }
        let mut since = self.proc.files.moment();
        let duplicate =
            |blank: i32| self.m.host(Call { nr: nr::FCNTL, args: [blank as u64, F_DUPFD_CLOEXEC, 0, 0, 0, 0] });
        let fd = match self.proc.files.blank().map(duplicate) {
            Some(fd) if fd != Errno::EBADF.to_ret() => fd,
            // The program has closed it, or has not got it yet. Until there is one, nobody says what is freed.
            _ => {
                since = None;
                duplicate(self.new_blank()?)
            }
        };
        if fd >= 0 {
            self.proc.files.insert_new(fd as i32, file, since);
        }
        Some(fd)
    }

    #[cold]
    fn new_blank(&self) -> Option<i32> {
        let low = self.host_memory_file(true);
        let args = [low as u64, F_DUPFD_CLOEXEC, BLANK_FROM, 0, 0, 0];
        if low < 0 {
            return None;
        }
        let high = self.m.host(Call { nr: nr::FCNTL, args });
        self.host_close(low as u64);
        if high < 0 {
            return None;
        }
        self.proc.files.set_blank(Some(high as i32));
        Some(high as i32)
    }

    /// `read(2)`, `pread64(2)` of a bare file. From its beginning the text is made anew; what a short read leaves is kept,
    /// so that a record is never put together from two. `None`: it is not bare.
    pub(super) fn read_bare(&self, call: &Call) -> Option<Out> {
        let [fd, to, count, offset, ..] = call.args;
        let mut file = self.proc.files.hold(fd as i32)?;
        let positioned = call.nr == nr::PREAD64;
        let at = if positioned { offset } else { file.cursor };
        let result = match file.node.entry().map(|entry| entry.is) {
            _ if positioned && (offset as i64) < 0 => Err(Errno::EINVAL),
            _ if !file.reads => Err(Errno::EBADF),
            Some(Is::Ours(text)) if self.proc_lives(&file.node) => {
                self.read_held(&mut file, text, at, to, count as usize)
            }
            _ => Err(Errno::ESRCH),
        };
        if let Ok(len) = result
            && !positioned
        {
            file.cursor = at + len as u64;
        }
        self.proc.files.put(fd as i32, file);
        Some(result.map_or_else(Errno::into, |len| Out::Done(len as isize)))
    }

    /// How much was read from there on.
    fn read_held(&self, file: &mut OpenFile, text: File, at: u64, to: u64, count: usize) -> Result<usize, Errno> {
        if at != 0 && file.text.is_none() && file.end == Some(at) {
            return Ok(0);
        }
        // How much is given, and what is left over and where it ends.
        let give = |bytes: &[u8]| {
            let from = (at as usize).min(bytes.len());
            let len = (bytes.len() - from).min(count);
            let is_all = from + len == bytes.len();
            self.m.write(to, &bytes[from..from + len]).map(|()| (len, is_all)).map_err(|_| Errno::EFAULT)
        };
        let (given, made, whole) = match &file.text {
            Some(kept) if at != 0 => (give(kept), None, kept.len()),
            _ => self.proc_text(&file.node, text, |bytes| {
                let given = give(bytes);
                let is_short = given.is_ok_and(|(_, is_all)| !is_all);
                (given, is_short.then(|| bytes.to_vec()), bytes.len())
            })?,
        };
        let (len, is_all) = given?;
        if made.is_some() {
            file.text = made;
        }
        if is_all {
            file.end = Some(whole as u64);
            file.text = None;
        }
        Ok(len)
    }

    /// `lseek(2)` of a bare file: as of any sequence file, from the beginning or from here. `None`: it is bare no longer.
    pub(super) fn seek_bare(&self, fd: i32, offset: u64, whence: u64) -> Option<Out> {
        let mut file = self.proc.files.hold(fd)?;
        let to = match whence {
            SEEK_SET => offset,
            SEEK_CUR => file.cursor.wrapping_add(offset),
            _ => u64::MAX,
        };
        let is_valid = to as i64 >= 0;
        if is_valid {
            file.cursor = to;
        }
        self.proc.files.put(fd, file);
        Some(if is_valid { Out::Done(to as isize) } else { Errno::EINVAL.into() })
    }

    /// Before a call that could show the host's side of a descriptor: all bare files get a file of the host with
    /// their text, and their place in it. There are no more than [`super::files::BARE_MAX`].
    #[cold]
    #[inline(never)]
    pub(crate) fn back_files(&self, call: &Call) {
        // The host knows best what to say of a number that is closed.
        if shows_nothing(call) && !self.proc.files.is_vacant(call.args[0]) {
            return;
        }
        self.back_all();
        if matches!(call.nr, nr::FORK | nr::VFORK | nr::CLONE | nr::CLONE3)
            && let Some(blank) = self.proc.files.set_blank(None)
        {
            // The child would not know what it has there.
            self.host_close(blank as u64);
        }
    }

    #[inline(never)]
    pub(super) fn back_all(&self) {
        self.close_vacant(self.proc.files.take_vacant(0, i32::MAX));
        self.proc.files.await_given_back();
        let mut after = -1;
        while let Some(fd) = self.proc.files.next_bare(after) {
            if let Some(mut file) = self.proc.files.hold(fd) {
                self.back(fd, &mut file);
                self.proc.files.put(fd, file);
            }
            after = fd;
        }
    }

    /// Gives numbers back that were kept.
    fn close_vacant(&self, first: Returned<'_>) {
        self.proc.files.give_back(first, |fd| self.host_close_only(fd));
    }

    pub(super) fn host_close_only(&self, fd: i32) {
        self.m.host(Call { nr: nr::CLOSE, args: [fd as u64, 0, 0, 0, 0, 0] });
    }

    /// The host has closed a number, so others may not be the lowest any longer.
    #[inline]
    pub(crate) fn number_freed(&self, fd: u64) {
        if self.proc.files.was_used() {
            self.give_back_above(fd as i32);
        }
    }

    /// As [`Kernel::number_freed`], where that cannot be told and nothing be done about it.
    pub(crate) fn numbers_may_be_free(&self) {
        if self.proc.files.was_used() {
            self.proc.files.doubt();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back_above(&self, fd: i32) {
        if let Some(above) = self.proc.files.freed(fd) {
            self.close_vacant(above);
        }
    }

    fn back(&self, fd: i32, file: &mut OpenFile) {
        let Some(Is::Ours(text)) = file.node.entry().map(|entry| entry.is) else { return };
        let own = self.host_memory_file(true);
        if own < 0 {
            return;
        }
        match file.text.take() {
            Some(kept) => drop(self.write_host(own as u64, &kept)),
            // The text of a dead thread is empty, and not read anyway.
            None => drop(self.proc_fill(own as u64, &file.node, text)),
        }
        self.m.host(Call { nr: nr::LSEEK, args: [own as u64, file.cursor, SEEK_SET, 0, 0, 0] });
        let close = if file.close_on_exec { O_CLOEXEC } else { 0 };
        self.m.host(Call { nr: nr::DUP3, args: [own as u64, fd as u64, close, 0, 0, 0] });
        self.host_close(own as u64);
        file.backed = true;
        file.fresh = file.cursor == 0;
    }
}

/// Whether a call cannot show what the host has behind a descriptor: it names none, or is answered here for those.
/// What is not known to be harmless is not.
fn shows_nothing(call: &Call) -> bool {
    match call.nr {
        nr::MMAP => call.args[4] as i32 == -1,
        nr::READ
        | nr::PREAD64
        | nr::WRITE
        | nr::LSEEK
        | nr::CLOSE
        | nr::FSTAT
        | nr::OPEN
        | nr::OPENAT
        | nr::OPENAT2
        | nr::STAT
        | nr::LSTAT
        | nr::NEWFSTATAT
        | nr::STATX
        | nr::ACCESS
        | nr::FACCESSAT
        | nr::FACCESSAT2
        | nr::READLINK
        | nr::READLINKAT
        | nr::GETDENTS64
        | nr::MUNMAP
        | nr::MPROTECT
        | nr::MADVISE
        | nr::BRK
        | nr::RT_SIGPROCMASK
        | nr::RT_SIGACTION
        | nr::RT_SIGRETURN
        | nr::NANOSLEEP
        | nr::CLOCK_NANOSLEEP
        | nr::CLOCK_GETTIME
        | nr::SCHED_YIELD
        | nr::SCHED_SETAFFINITY
        | nr::SCHED_GETAFFINITY
        | nr::TGKILL
        | nr::EXIT
        | nr::GETRANDOM
        | nr::SET_ROBUST_LIST
        | nr::RSEQ => true,
        _ => false,
    }
}
