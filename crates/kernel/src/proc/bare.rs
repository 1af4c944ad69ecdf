//! Files that the host knows by number only ([`super::files`]): opening, reading, and giving them what they lack.

use super::files::OpenFile;
use super::{F_DUPFD, F_DUPFD_CLOEXEC, O_CLOEXEC, SEEK_CUR, SEEK_SET};
use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::{Errno, nr};
use procfs::entries::{File, Is};

const F_GETFD: u64 = 1;
/// The blank lies above what programs usually have.
const BLANK_FROM: u64 = 1000;

impl<M: Machine> Kernel<M> {
    /// The lowest free descriptor, naming nothing yet. `None`: there is no blank to be had.
    pub(super) fn bare_descriptor(&self, close_on_exec: bool) -> Option<isize> {
        let how = if close_on_exec { F_DUPFD_CLOEXEC } else { F_DUPFD };
        let duplicate = |blank: i32| self.m.host(Call { nr: nr::FCNTL, args: [blank as u64, how, 0, 0, 0, 0] });
        match self.proc.files.blank().map(duplicate) {
            // The program has closed it, or has not got it yet.
            None => {}
            Some(fd) if fd == Errno::EBADF.to_ret() => {}
            Some(fd) => return Some(fd),
        }
        Some(duplicate(self.new_blank()?))
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
    /// so that a record is never put together from two.
    pub(super) fn read_bare(&self, fd: i32, file: &OpenFile, text: File, call: &Call) -> Out {
        let [_, to, count, offset, ..] = call.args;
        let positioned = call.nr == nr::PREAD64;
        if positioned && (offset as i64) < 0 {
            return Errno::EINVAL.into();
        }
        let at = if positioned { offset } else { file.cursor };
        if at != 0 && file.text.is_none() && file.end == Some(at) {
            return Out::Done(0);
        }
        let give = |bytes: &[u8]| {
            let from = (at as usize).min(bytes.len());
            let len = (bytes.len() - from).min(count as usize);
            match self.m.write(to, &bytes[from..from + len]) {
                Ok(()) => Ok((from + len, bytes.len(), len)),
                Err(_) => Err(Errno::EFAULT),
            }
        };
        let (given, rest) = match &file.text {
            Some(kept) if at != 0 => (give(kept), None),
            _ => {
                let made = self.proc_text(&file.node, text, |bytes| {
                    let given = give(bytes);
                    let is_short = given.is_ok_and(|(read, whole, _)| read < whole);
                    (given, is_short.then(|| bytes.to_vec()))
                });
                match made {
                    Ok((given, rest)) => (given, Some(rest)),
                    Err(e) => return e.into(),
                }
            }
        };
        match given {
            Err(e) => e.into(),
            Ok((read, whole, len)) => {
                self.proc.files.change(fd, |file| {
                    if let Some(rest) = rest {
                        file.text = rest;
                    }
                    if !positioned {
                        file.cursor = read as u64;
                    }
                    if read == whole {
                        file.end = Some(whole as u64);
                        file.text = None;
                    }
                });
                Out::Done(len as isize)
            }
        }
    }

    /// `lseek(2)` of a bare file: as of any sequence file, from the beginning or from here.
    pub(super) fn seek_bare(&self, fd: i32, file: &OpenFile, offset: u64, whence: u64) -> Out {
        let to = match whence {
            SEEK_SET => offset,
            SEEK_CUR => file.cursor.wrapping_add(offset),
            _ => return Errno::EINVAL.into(),
        };
        if (to as i64) < 0 {
            return Errno::EINVAL.into();
        }
        self.proc.files.change(fd, |file| file.cursor = to);
        Out::Done(to as isize)
    }

    /// Before a call that could show the host's side of a descriptor: all bare files get a file of the host with
    /// their text, and their place in it. There are no more than [`super::files::BARE_MAX`].
    #[cold]
    #[inline(never)]
    pub(crate) fn back_files(&self, call: &Call) {
        if shows_nothing(call) {
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

    pub(super) fn back_all(&self) {
        let mut after = -1;
        while let Some((fd, file)) = self.proc.files.next_bare(after) {
            self.back(fd, &file);
            after = fd;
        }
    }

    fn back(&self, fd: i32, file: &OpenFile) {
        let Some(Is::Ours(text)) = file.node.entry().map(|entry| entry.is) else { return };
        let own = self.host_memory_file(true);
        if own < 0 {
            return;
        }
        match &file.text {
            Some(kept) => drop(self.write_host(own as u64, kept)),
            // The text of a dead thread is empty, and not read anyway.
            None => drop(self.proc_fill(own as u64, &file.node, text)),
        }
        self.m.host(Call { nr: nr::LSEEK, args: [own as u64, file.cursor, SEEK_SET, 0, 0, 0] });
        let flags = self.m.host(Call { nr: nr::FCNTL, args: [fd as u64, F_GETFD, 0, 0, 0, 0] });
        let close = if flags & 1 != 0 { O_CLOEXEC } else { 0 };
        self.m.host(Call { nr: nr::DUP3, args: [own as u64, fd as u64, close, 0, 0, 0] });
        self.host_close(own as u64);
        self.proc.files.change(fd, |file| {
            file.backed = true;
            file.fresh = file.cursor == 0;
            file.text = None;
        });
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
        | nr::CLOSE_RANGE
        | nr::FSTAT
        | nr::OPEN
        | nr::OPENAT
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
