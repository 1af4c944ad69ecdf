//! Programs that a process under Entresol executes but the image cannot enter. They run natively, and the user is
//! always told.
//!
//! The processes that descend from one `entresol run` are a *tree*. They share a file beside the image, to which each
//! such exec adds a byte. That lets one of them tell the user on the error stream and `--stats` count all of them, and
//! costs a process without such an exec nothing. The file is named after the tree's first process and its start time.
//! That process removes it when it ends; if it is killed, `entresol ps` removes it.
//!
//! | byte | meaning |
//! |---|---|
//! | `RAN` + reason | an exec that ran natively, or was refused (`--require`) |
//! | `SAID` + reason | the same, by a process that can tell the user. The first such process does |
//! | `BACK` + reason | the host refused such an exec: take one back |
//! | `CHANGED` | a process changed its user to one that may not read the image, so that it executes others natively |
//! | `STAYED` | it did not after all |
//!
//! No process keeps the file open or mapped, because a process that changes its user must keep nothing of the former
//! user's. A process that can no longer reach the file tells the user about its own execs itself.

use crate::base::os::{self, nr};
use crate::base::report::Text;
use abi::args::{CLOCK_BOOTTIME, O_APPEND, O_CREAT, O_NOFOLLOW, O_RDWR, R_OK, SEEK_CUR};
use alloc::vec::Vec;
use arch::syscall;
use core::fmt::Write;
use kernel::Call;
pub use patch::program::Reason;
use sync::atomic::{AtomicBool, Ordering::*};

const RAN: u8 = b'a';
const SAID: u8 = b'A';
const BACK: u8 = b'!';
const CHANGED: u8 = b'~';
const STAYED: u8 = b'-';

/// Counts of what a tree's processes have executed so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// How many execs ran natively or were refused, by [`Reason::ALL`].
    pub execs: [u32; Reason::ALL.len()],
    /// How many processes changed their user to one that may not read the image.
    pub changes: u32,
}

impl Counts {
    fn add(&mut self, byte: u8) {
        let of = |first: u8| byte.checked_sub(first).map(usize::from).filter(|&i| i < Reason::ALL.len());
        if let Some(reason) = of(RAN).or_else(|| of(SAID)) {
            self.execs[reason] = self.execs[reason].saturating_add(1);
        } else if let Some(reason) = of(BACK) {
            self.execs[reason] = self.execs[reason].saturating_sub(1);
        } else if byte == CHANGED {
            self.changes = self.changes.saturating_add(1);
        } else if byte == STAYED {
            self.changes = self.changes.saturating_sub(1);
        }
    }
}

/// A tree of processes; they find their file by these values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    /// The tree's first process.
    pub root: i32,
    /// When the first process began, in nanoseconds since the host's start.
    pub began: u64,
    /// The first process's error stream, by device and inode; zeroes: none.
    pub stream: [u64; 2],
}

impl Tree {
    /// The tree whose first process is this one.
    pub fn begin() -> Tree {
        let stream = os::file_of(2).unwrap_or_default();
        Tree { root: os::getpid(), began: os::clock_gettime(CLOCK_BOOTTIME).0, stream }
    }
}

/// How an exec that would run natively is treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wishes {
    /// The processes that these wishes apply to.
    pub tree: Tree,
    /// The user is told (`--no-note`).
    pub note: bool,
    /// The exec fails (`--require`).
    pub refuse: bool,
    /// It fails because the program would end at its first call (`--catch=seccomp`).
    pub by_filter: bool,
}

/// This process's part.
#[derive(Debug)]
pub struct Natives {
    wishes: Wishes,
    is_root: bool,
    /// The image's path, with a zero at its end.
    image: Vec<u8>,
    /// The process has changed its user.
    changed: AtomicBool,
    /// This process has told the user. Kept here because it may be unable to reach the file, or have removed it for an
    /// exec that failed.
    said: AtomicBool,
}

impl Natives {
    pub(crate) fn new(wishes: Wishes, loader: &[u8]) -> Natives {
        let image = loader.split(|&b| b == b'=').nth(1).unwrap_or(&[0]).to_vec();
        let is_root = wishes.tree.root == os::getpid();
        Natives { wishes, is_root, image, changed: AtomicBool::new(false), said: AtomicBool::new(false) }
    }

    /// Whether an exec that would run natively fails.
    pub fn are_refused(&self) -> bool {
        self.wishes.refuse || self.wishes.by_filter
    }

    /// Records that the exec of `file` is about to run natively, or fails for that reason.
    pub(crate) fn add(&self, reason: Reason, file: &[u8]) {
        let says = (self.wishes.note || self.are_refused()) && self.has_stream();
        let first = if says { SAID } else { RAN };
        let is_first = self.append(first + reason as u8);
        let mut line = Text::<1024>::default();
        let (name, why) = (Name(file), reason.words());
        if says && self.are_refused() {
            let cause = if self.wishes.by_filter { "--catch=seccomp" } else { "--require" };
            let _ = writeln!(line, "entresol: {name} is not executed ({cause}): {why}");
        } else if says && is_first.unwrap_or(true) && !self.said.swap(true, Relaxed) {
            // Whoever cannot reach the file says it although another process may have.
            let once = if is_first.is_some() { "said once; " } else { "" };
            let _ = writeln!(
                line,
                "entresol: {name} runs natively, not under Entresol: {why} ({once}--require forbids it, --no-note hides \
                 this)"
            );
        }
        let line = line.as_bytes();
        if !line.is_empty() {
            // SAFETY: the host reads the bytes.
            os::without_signals(|| unsafe { syscall!(nr::WRITE, 2, line.as_ptr(), line.len()) });
        }
    }

    /// Records that the host has refused that exec.
    pub(crate) fn take_back(&self, reason: Reason) {
        self.append(BACK + reason as u8);
    }

    /// Makes a call that may change this thread's user. The change is recorded before, because the file may be out of
    /// reach afterwards, and once for all threads of the process.
    pub(crate) fn around_change<T>(&self, call: &Call, change: impl FnOnce() -> T) -> T {
        const KEEP: u32 = u32::MAX;
        let changes = matches!(call.nr, nr::SETUID | nr::SETREUID | nr::SETRESUID)
            && ![KEEP, os::getuid()].contains(&(call.args[0] as u32));
        if !changes || self.changed.swap(true, Relaxed) {
            return change();
        }
        self.append(CHANGED);
        let result = change();
        if self.can_read_image() {
            self.append(STAYED);
            self.changed.store(false, Relaxed);
        }
        result
    }

    fn can_read_image(&self) -> bool {
        // SAFETY: the path ends with a zero.
        unsafe { syscall!(nr::ACCESS, self.image.as_ptr(), R_OK) == 0 }
    }

    /// Counts of what the tree has executed so far.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let Ok(fd) = os::open(self.file().as_bytes(), O_NOFOLLOW, 0) else { return counts };
        let mut bytes = [0; 512];
        loop {
            let len = os::read(fd, &mut bytes);
            bytes[..len].iter().for_each(|&byte| counts.add(byte));
            if len == 0 {
                break;
            }
        }
        os::close(fd);
        counts
    }

    /// The tree's first process ends, or is replaced by a native program.
    pub(crate) fn end(&self) {
        if self.is_root {
            // SAFETY: the path is a string of ours.
            unsafe { syscall!(nr::UNLINK, self.file().as_bytes().as_ptr()) };
        }
    }

    /// The file's path, with a zero at its end.
    fn file(&self) -> Text<256> {
        let mut path = Text::default();
        let folder = self.image.iter().rposition(|&b| b == b'/').map_or(&[][..], |slash| &self.image[..slash]);
        folder.iter().for_each(|&b| path.push(b));
        let _ = write!(path, "/natives-{}-{:x}\0", self.wishes.tree.root, self.wishes.tree.began);
        path
    }

    /// Appends a byte. Returns whether the user has not been told by an earlier one; `None` if the file cannot be
    /// reached.
    fn append(&self, byte: u8) -> Option<bool> {
        let fd = os::open(self.file().as_bytes(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600).ok()?;
        // SAFETY: the host reads one byte of ours.
        let written = os::without_signals(|| unsafe { syscall!(nr::WRITE, fd, &raw const byte, 1) });
        // SAFETY: only asks for the file's offset behind that byte.
        let end = unsafe { syscall!(nr::LSEEK, fd, 0, SEEK_CUR) };
        let is_first = (written == 1).then(|| !has_said(fd, end - 1));
        os::close(fd);
        is_first
    }

    /// Whether descriptor 2 is the error stream that the tree began with, and can take a line without blocking.
    fn has_stream(&self) -> bool {
        let stream = self.wishes.tree.stream;
        stream != [0; 2] && os::file_of(2) == Some(stream) && os::becomes_ready(2, true, 0)
    }
}

/// Whether a byte before that offset says that the user was told.
fn has_said(fd: i32, end: isize) -> bool {
    let (mut at, mut bytes) = (0, [0u8; 512]);
    while at < end {
        let len = bytes.len().min((end - at) as usize);
        // SAFETY: the buffer is ours and as long as said.
        let read = unsafe { syscall!(nr::PREAD64, fd, bytes.as_mut_ptr(), len, at) };
        if read <= 0 {
            break;
        }
        if bytes[..read as usize].iter().any(u8::is_ascii_uppercase) {
            return true;
        }
        at += read;
    }
    false
}

/// A file's name in a line of text.
struct Name<'a>(&'a [u8]);

impl core::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for part in self.0.utf8_chunks() {
            part.valid().chars().try_for_each(|c| f.write_char(if c.is_control() { '?' } else { c }))?;
            if !part.invalid().is_empty() {
                f.write_char('?')?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_and_taken_back() {
        let mut counts = Counts::default();
        let none = Reason::ALL.len() as u8;
        let bytes =
            [RAN, SAID + 5, RAN + 5, BACK + 5, CHANGED, CHANGED, STAYED, BACK + 7, RAN + none, SAID + none, 0, 255];
        bytes.iter().for_each(|&byte| counts.add(byte));
        let mut execs = [0; Reason::ALL.len()];
        (execs[0], execs[5]) = (1, 1);
        assert_eq!(counts, Counts { execs, changes: 1 });
    }

    #[test]
    fn reasons_are_numbered_as_they_are_listed() {
        assert!(Reason::ALL.into_iter().enumerate().all(|(number, reason)| number == reason as usize));
        assert!(Reason::ALL.len() <= usize::from(STAYED - BACK), "no two bytes are the same");
    }

    #[test]
    fn a_name_is_one_line() {
        use alloc::format;
        assert_eq!(format!("{}", Name(b"a\nb\x1b[1m\xffc\xc3\xa9")), "a?b?[1m?c\u{e9}");
    }
}
