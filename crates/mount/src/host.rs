//! The host's `/proc`.

use procfs::text::stat::{Field, Stat as Line};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A process (or another thread by its own name): the id, and when it began, in ticks since the machine's start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Field 22 of its `stat`.
    pub began: i64,
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: rustix::fs::FileType,
}

/// The host's tree, by a descriptor of its root.
#[derive(Debug)]
pub struct Host {
    root: OwnedFd,
    /// Directories of processes: what is opened in one is that process's, or refused.
    folders: Mutex<HashMap<Process, Arc<OwnedFd>>>,
}

/// The number of directories kept open; beyond it all are closed.
const FOLDERS_MAX: usize = 256;
/// A line of `stat` is shorter.
const LINE: usize = 2048;
const LINK_MAX: usize = 4096;

impl Host {
    /// The tree that is mounted there now.
    ///
    /// # Errors
    /// The host's.
    pub fn open(path: &Path) -> Result<Host, Errno> {
        let root = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Host { root, folders: Mutex::default() })
    }

    /// The process that has this id now.
    ///
    /// # Errors
    /// ENOENT if there is none.
    pub fn process(&self, pid: i32) -> Result<Process, Errno> {
        let line = self.read_line(self.root.as_fd(), &format!("{pid}/stat"))?;
        let began = Line::parse(&line).ok_or(Errno::NOENT)?.get(Field::StartTime);
        Ok(Process { pid, began })
    }

    /// Its directory, if it is still there.
    fn folder(&self, process: Process) -> Result<Arc<OwnedFd>, Errno> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(&process) {
            return Ok(folder.clone());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.root, process.pid.to_string(), flags, Mode::empty())?;
        // The descriptor always denotes one process: is it the right one?
        let line = self.read_line(folder.as_fd(), "stat")?;
        if Line::parse(&line).is_none_or(|stat| stat.get(Field::StartTime) != process.began) {
            return Err(Errno::SRCH);
        }
        if folders.len() >= FOLDERS_MAX {
            folders.clear();
        }
        let folder = Arc::new(folder);
        folders.insert(process, folder.clone());
        Ok(folder)
    }

    /// Does something with a place below a process's directory, or below the root.
    ///
    /// # Errors
    /// ESRCH or ENOENT if the process is gone; the host's.
    pub fn at<R>(
        &self,
        process: Option<Process>,
        path: &[u8],
        act: impl FnOnce(BorrowedFd<'_>, &Path) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let path = Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }));
        match process {
            None => act(self.root.as_fd(), path),
            Some(process) => act(self.folder(process)?.as_fd(), path),
        }
    }

    /// The result of `lstat(2)`.
    ///
    /// # Errors
    /// As [`Host::at`].
    pub fn attributes(&self, process: Option<Process>, path: &[u8]) -> Result<Stat, Errno> {
        self.at(process, path, attributes)
    }

    /// The inode of the target of a link below the root.
    ///
    /// # Errors
    /// As [`Host::at`].
    pub fn number(&self, path: &[u8]) -> Result<u64, Errno> {
        self.at(None, path, |folder, path| Ok(rustix::fs::statat(folder, path, AtFlags::NO_AUTOMOUNT)?.st_ino))
    }

    /// The whole text of a small file.
    ///
    /// # Errors
    /// As [`Host::at`].
    pub fn read(&self, process: Option<Process>, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.at(process, path, read)
    }

    fn read_line(&self, folder: BorrowedFd<'_>, path: &str) -> Result<Vec<u8>, Errno> {
        let file = rustix::fs::openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut line = vec![0; LINE];
        let read = rustix::io::pread(&file, &mut line, 0)?;
        line.truncate(read);
        Ok(line)
    }
}

/// The result of `lstat(2)`.
///
/// # Errors
/// The host's.
pub fn attributes(folder: BorrowedFd<'_>, path: &Path) -> Result<Stat, Errno> {
    rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

/// Opens a file or directory; neither opening nor reading it blocks.
///
/// # Errors
/// The host's.
pub fn open(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::openat(folder, path, flags, Mode::empty())
}

/// A link's text.
///
/// # Errors
/// The host's.
pub fn link(folder: BorrowedFd<'_>, path: &Path) -> Result<Vec<u8>, Errno> {
    Ok(rustix::fs::readlinkat(folder, path, Vec::with_capacity(LINK_MAX))?.into_bytes())
}

/// The whole text of a small file.
///
/// # Errors
/// The host's.
pub fn read(folder: BorrowedFd<'_>, path: &Path) -> Result<Vec<u8>, Errno> {
    let file = open(folder, path, OFlags::RDONLY)?;
    let mut text = Vec::new();
    loop {
        let at = text.len();
        text.resize(at + 2 * LINE, 0);
        let read = rustix::io::pread(&file, &mut text[at..], at as u64)?;
        text.truncate(at + read);
        if read == 0 {
            return Ok(text);
        }
    }
}

/// The entries of a directory, in the host's order.
///
/// # Errors
/// The host's.
pub fn list(folder: BorrowedFd<'_>, path: &Path) -> Result<Vec<Entry>, Errno> {
    let folder = open(folder, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut listing = RawDir::new(&folder, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        entries.push(Entry { name: entry.file_name().to_bytes().to_vec(), kind: entry.file_type() });
    }
    Ok(entries)
}
