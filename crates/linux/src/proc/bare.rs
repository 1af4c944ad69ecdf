//! Bare files ([`super::files`]): opening, reading and backing them.

use super::files::OpenFile;
use super::{O_CLOEXEC, SEEK_CUR, SEEK_SET};
use crate::facts;
use crate::machine::Arg::Word;
use crate::{Host, Linux};
use abi::args::F_DUPFD_CLOEXEC;
use abi::{Errno, nr};
use kernel::machine::Call;
use kernel::trap::Out;
use procfs::entries::{File, Is};

/// The blank's number is above those that programs usually use.
const BLANK_FROM: u64 = 1000;

impl<M: Host> Linux<'_, M> {
    /// Opens a bare file: its descriptor, or the host's error. `None` if the blank cannot be made or too many files are
    /// bare.
    pub(super) fn open_bare(&self, file: OpenFile) -> Option<isize> {
        if !self.state().proc.files.may_be_bare() {
            return None;
        }
        let duplicate = |blank: i32| self.ask(nr::FCNTL, &mut [Word(blank as u64), Word(F_DUPFD_CLOEXEC), Word(0)]);
        let fd = match self.state().proc.files.blank().map(duplicate) {
            Some(fd) if fd != Errno::EBADF.to_ret() => fd,
            // The blank does not exist yet, or the program has closed it.
            _ => duplicate(self.new_blank()?),
        };
        if fd >= 0 {
            self.state().proc.files.insert(fd as i32, file);
        }
        Some(fd)
    }

    #[cold]
    fn new_blank(&self) -> Option<i32> {
        let low = self.host_memory_file(true);
        if low < 0 {
            return None;
        }
        let high = facts::duplicate_above(&self.m, low as u32, BLANK_FROM).map(|fd| fd as i32);
        facts::close(&self.m, low as u64);
        self.state().proc.files.set_blank(Some(high?));
        high
    }

    /// `read(2)`, `pread64(2)` of a bare file. A read at offset 0 generates the text anew; the rest after a short read
    /// is kept, so that a record never mixes two texts. `None`: the file is not bare.
    pub(super) fn read_bare(&self, call: &Call) -> Option<Out> {
        let [fd, to, count, offset, ..] = call.args;
        let mut file = self.state().proc.files.hold(fd as i32)?;
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
        self.state().proc.files.put(fd as i32, file);
        Some(result.map_or_else(Errno::into, |len| Out::Done(len as isize)))
    }

    /// Reads from offset `at`; returns the number of bytes.
    fn read_held(&self, file: &mut OpenFile, text: File, at: u64, to: u64, count: usize) -> Result<usize, Errno> {
        if at != 0 && file.text.is_none() && file.end == Some(at) {
            return Ok(0);
        }
        // Copies a part of the text; returns its length and whether that was all.
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

    /// `lseek(2)` of a bare file: as for any sequence file, from the beginning or relative. `None`: the file is not
    /// bare any more.
    pub(super) fn seek_bare(&self, fd: i32, offset: u64, whence: u64) -> Option<Out> {
        let mut file = self.state().proc.files.hold(fd)?;
        let to = match whence {
            SEEK_SET => offset,
            SEEK_CUR => file.cursor.wrapping_add(offset),
            _ => u64::MAX,
        };
        let is_valid = to as i64 >= 0;
        if is_valid {
            file.cursor = to;
        }
        self.state().proc.files.put(fd, file);
        Some(if is_valid { Out::Done(to as isize) } else { Errno::EINVAL.into() })
    }

    /// Called before a call that could reveal the host's side of a descriptor: gives every bare file a host file with
    /// its text and position.
    #[inline]
    pub(crate) fn back_files(&self) {
        if self.state().proc.files.has_bare() {
            self.back_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn back_all(&self) {
        let mut after = -1;
        while let Some(fd) = self.state().proc.files.next_bare(after) {
            if let Some(mut file) = self.state().proc.files.hold(fd) {
                let is_ours = self.back(fd, &mut file);
                self.state().proc.files.put(fd, file);
                if !is_ours {
                    self.state().proc.files.remove(fd);
                }
            }
            after = fd;
        }
    }

    /// Called before a process is made that has these descriptors but not our table: it could not recognise the blank.
    pub(crate) fn back_files_for_child(&self) {
        self.back_files();
        if let Some(blank) = self.state().proc.files.set_blank(None) {
            facts::close(&self.m, blank as u64);
        }
    }

    /// False: the descriptor now refers to the host's own file, because ours may not be written (RLIMIT_FSIZE).
    fn back(&self, fd: i32, file: &mut OpenFile) -> bool {
        let Some(Is::Ours(text)) = file.node.entry().map(|entry| entry.is) else { return true };
        let mut own = self.host_memory_file(true);
        if own < 0 {
            return true;
        }
        let filled = match file.text.take() {
            Some(kept) => self.write_host(own as u64, &kept),
            // A dead thread's text is empty, and is not read anyway.
            None => self.proc_fill(own as u64, &file.node, text),
        };
        let is_ours = filled != Err(Errno::EFBIG);
        if !is_ours {
            facts::close(&self.m, own as u64);
            own = self.open_hosts(&file.node, O_CLOEXEC);
            if own < 0 {
                return true;
            }
        }
        self.ask(nr::LSEEK, &mut [Word(own as u64), Word(file.cursor), Word(SEEK_SET)]);
        let close = if file.close_on_exec { O_CLOEXEC } else { 0 };
        self.ask(nr::DUP3, &mut [Word(own as u64), Word(fd as u64), Word(close)]);
        facts::close(&self.m, own as u64);
        file.backed = true;
        file.fresh = file.cursor == 0;
        is_ours
    }
}
