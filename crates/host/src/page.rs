//! The state page of this process: a file in the user's runtime folder, for `entresol ps` and its kin.
//!
//! At its start a process leaves a header there, with five host calls. Nothing more happens until somebody wants to
//! know more: a signal asks the service thread, and it makes a snapshot ([`kernel::Kernel::snapshot`]), in a file
//! that has room for all threads by then. So traps, switches and wake-ups know nothing of the page, and a process that
//! is not watched pays nothing. A file goes with its process; what a killed process leaves, readers recognise and remove.
//!
//! The file belongs to the user that the process has. A process that changes its rights takes the page away first and
//! leaves one anew, so that a program that gave up a user cannot write to what that user's tools read.
//!
//! The file is mapped, so that no descriptor of the program's table is held, and written by labelled stores: somebody may
//! cut it short, and the file system may be full.

use crate::machine::kernel;
use crate::os::{self, nr};
use crate::report::Text;
use abi::SigInfo;
use arch::{syscall, user};
use core::fmt::Write;
use ids::{Nanos, THREADS_MAX};
use kernel::snapshot_rest;
use state::{Full, Header, Memory, Writer, page_words};
use sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

/// The longest folder.
const FOLDER_MAX: usize = 120;
type Path = Text<160>;

/// XDG_RUNTIME_DIR as the process found it, ended by a zero.
static RUNTIME: [AtomicU8; FOLDER_MAX] = [const { AtomicU8::new(0) }; FOLDER_MAX];
/// Which of the folders holds the file: one more than its number; 0: none does.
static FOLDER: AtomicU8 = AtomicU8::new(0);
/// The owner of that folder.
static USER: AtomicU64 = AtomicU64::new(0);
/// When the process left its header, by CLOCK_BOOTTIME.
static CREATED: AtomicU64 = AtomicU64::new(0);
/// The namespace of its id.
static NAMESPACE: AtomicU64 = AtomicU64::new(0);
/// The folders that are tried. The last is the one that the image lies in, because that may be on a disk.
const FOLDERS: u8 = 4;
/// The one of them whose parent is everybody's.
const SHARED_MEMORY: u8 = 2;

const AT_FDCWD: isize = -100;
const AT_SYMLINK_NOFOLLOW: usize = 0x100;
/// RDWR | CREAT | EXCL | NOFOLLOW
const O_NEW: usize = 0o2 | 0o100 | 0o200 | 0o400000;
const CLOCK_BOOTTIME: i32 = 7;
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;

/// Remembers the user's runtime folder. Called before there is a second host thread.
pub fn set_runtime_folder(folder: Option<&[u8]>) {
    let folder = folder.filter(|f| f.first() == Some(&b'/') && f.len() < FOLDER_MAX).unwrap_or(b"");
    for (i, to) in RUNTIME.iter().enumerate() {
        to.store(folder.get(i).copied().unwrap_or(0), Relaxed);
    }
}

/// The path of one of the folders, without the zero at its end: its parent's, or all of it.
fn folder(number: u8, user: u64, parent: bool) -> Option<Path> {
    let mut path = Path::default();
    let name = if parent { "" } else { "/entresol" };
    let _ = match number {
        0 if RUNTIME[0].load(Relaxed) == 0 => return None,
        0 => {
            let bytes = RUNTIME.iter().map(|b| b.load(Relaxed)).take_while(|&b| b != 0);
            bytes.for_each(|b| path.push(b));
            path.write_str(name)
        }
        1 => write!(path, "/run/user/{user}{name}"),
        // Anybody may make folders there: the parent's owner says nothing.
        SHARED_MEMORY => write!(path, "/dev/shm/entresol-{user}"),
        _ => {
            image_folder()?.iter().for_each(|&b| path.push(b));
            Ok(())
        }
    };
    Some(path)
}

/// The folder that the image was put into.
fn image_folder() -> Option<&'static [u8]> {
    let loader = &kernel().m.handover.loader;
    let path = loader.split(|&b| b == b'=').nth(1)?.split(|&b| b == b':').next()?;
    let end = path.iter().rposition(|&b| b == b'/').filter(|&end| end < FOLDER_MAX)?;
    path.get(..end)
}

/// The file's path, or that of its successor in the making, as the host wants it.
fn file(successor: bool) -> Option<Path> {
    let mut path = folder(FOLDER.load(Relaxed).checked_sub(1)?, USER.load(Relaxed), false)?;
    let _ = write!(path, "/state-{}{}\0", kernel().m.pid, if successor { "~" } else { "" });
    Some(path)
}

/// Whether the folder is one that nobody else can put anything into; it is made if its parent is ours.
fn is_ours(number: u8, user: u64) -> bool {
    let Some(mut path) = folder(number, user, false) else { return false };
    path.push(0);
    match owner(&path) {
        Ok(found) => found == Some(user),
        Err(_) => {
            let parent = folder(number, user, true).map(|mut path| {
                path.push(0);
                path
            });
            let by_parent = number < SHARED_MEMORY && parent.is_some_and(|path| owner(&path) == Ok(Some(user)));
            let allowed = number == SHARED_MEMORY || by_parent;
            // SAFETY: the path is a string of ours.
            let made = allowed && unsafe { syscall!(nr::MKDIR, path.as_bytes().as_ptr(), 0o700) } == 0;
            (made || allowed) && owner(&path) == Ok(Some(user))
        }
    }
}

/// The only user who can write to a folder; none if it is no folder or others can.
fn owner(path: &Path) -> Result<Option<u64>, isize> {
    const S_IFMT: u32 = 0o170000;
    const S_IFDIR: u32 = 0o040000;
    let mut stat = [0u32; 36];
    // SAFETY: `struct stat` has 144 bytes; st_mode and st_uid are the words at bytes 24 and 28.
    let r = unsafe {
        let path = path.as_bytes().as_ptr();
        syscall!(nr::NEWFSTATAT, AT_FDCWD, path, stat.as_mut_ptr(), AT_SYMLINK_NOFOLLOW)
    };
    if r < 0 {
        return Err(r);
    }
    Ok((stat[6] & S_IFMT == S_IFDIR && stat[6] & 0o022 == 0).then_some(u64::from(stat[7])))
}

/// A new file; what a process with the same id, or this one before its exec, has left there gives way.
fn create(path: &Path) -> Option<i32> {
    let path = path.as_bytes();
    let made = os::open(path, O_NEW, 0o600).or_else(|why| {
        if why != abi::Errno::EEXIST.to_ret() {
            return Err(why);
        }
        // SAFETY: the path is a string of ours.
        unsafe { syscall!(nr::UNLINK, path.as_ptr()) };
        os::open(path, O_NEW, 0o600)
    });
    made.ok()
}

fn header(capacity: usize) -> Header {
    let k = kernel();
    Header {
        pid: k.m.pid,
        namespace: NAMESPACE.load(Relaxed),
        service: crate::service::tid(),
        created: Nanos(CREATED.load(Relaxed)),
        cpus: k.config().cpus,
        capacity,
    }
}

/// Leaves the header. The service thread has been started, and no page is mapped.
pub fn announce() {
    FOLDER.store(0, Relaxed);
    // SAFETY: has no effect.
    let user = unsafe { syscall!(nr::GETEUID) } as u64;
    let Some(number) = (0..FOLDERS).find(|&number| is_ours(number, user)) else { return };
    USER.store(user, Relaxed);
    FOLDER.store(number + 1, Relaxed);
    let Some(fd) = file(false).and_then(|path| create(&path)) else { return FOLDER.store(0, Relaxed) };
    CREATED.store(os::clock_gettime(CLOCK_BOOTTIME).0, Relaxed);
    NAMESPACE.store(namespace(), Relaxed);
    let words = header(0).encode();
    // SAFETY: the descriptor is ours, the words are.
    unsafe {
        syscall!(nr::PWRITE64, fd, words.as_ptr(), size_of_val(&words), 0);
        syscall!(nr::CLOSE, fd);
    }
}

/// The pid namespace of the process's id; 0: there is no `/proc` that says so.
fn namespace() -> u64 {
    let mut stat = [0u64; 18];
    // SAFETY: `struct stat` has 144 bytes.
    let r = unsafe { syscall!(nr::NEWFSTATAT, AT_FDCWD, c"/proc/self/ns/pid".as_ptr(), stat.as_mut_ptr(), 0) };
    // st_ino, at byte 8.
    if r == 0 { stat[1] } else { 0 }
}

/// Takes the file away: the process ends, or its rights are about to change.
pub fn remove() {
    if let Some(path) = file(false) {
        // SAFETY: the path is a string of ours.
        unsafe { syscall!(nr::UNLINK, path.as_bytes().as_ptr()) };
    }
}

/// The mapped file.
#[derive(Debug)]
struct Mapping {
    at: u64,
    words: usize,
}

impl Memory for Mapping {
    fn write(&mut self, at: usize, words: &[u64]) -> Result<(), Full> {
        if at + words.len() > self.words {
            return Err(Full);
        }
        let to = (self.at + 8 * at as u64..).step_by(8);
        words.iter().zip(to).try_for_each(|(&word, to)| user::store_u64(to, word)).map_err(|_| Full)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing else refers to it.
        unsafe { syscall!(nr::MUNMAP, self.at, self.words * 8) };
    }
}

/// The service thread's state of the page.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    page: Option<Writer<Mapping>>,
    /// A snapshot was requested.
    asked: bool,
    /// No other is made before.
    next: Nanos,
}

impl Publisher {
    /// Whether a signal asks for a snapshot.
    pub(crate) fn is_request(info: &SigInfo) -> bool {
        crate::request::is_one(info) && info.value() == Header::REQUEST
    }

    /// The process's rights are about to change: what is mapped is let go, and the file is removed while it can be.
    pub(crate) fn withdraw(&mut self) {
        self.page = None;
        remove();
    }

    /// Requests a snapshot.
    pub(crate) fn ask(&mut self) {
        self.asked = true;
    }

    /// How long the service thread may sleep.
    pub(crate) fn sleep(&self) -> Option<Nanos> {
        self.asked.then(|| self.next.since(os::clock_gettime(1)))
    }

    /// Makes the snapshot that was asked for, if it is time to.
    pub(crate) fn look(&mut self) {
        if !self.asked || os::clock_gettime(1) < self.next {
            return;
        }
        self.asked = false;
        let before = os::clock_gettime(CLOCK_THREAD_CPUTIME_ID);
        let living = kernel().threads().live() as usize;
        if self.page.as_ref().is_none_or(|page| page.capacity() < living) {
            // A quarter more than now, because threads are created while they are described.
            let capacity = (living + living / 4 + 1).next_multiple_of(64).min(THREADS_MAX);
            self.page = map(capacity).or(self.page.take());
        }
        if let Some(page) = &mut self.page
            && kernel().snapshot(page).is_err()
        {
            // The file system is full, or the file was truncated: start again at the next request.
            self.page = None;
        }
        let spent = os::clock_gettime(CLOCK_THREAD_CPUTIME_ID).since(before);
        self.next = os::clock_gettime(1) + snapshot_rest(spent);
    }
}

/// Replaces the old file by one for this many threads.
fn map(capacity: usize) -> Option<Writer<Mapping>> {
    const RLIMIT_FSIZE: u64 = 1;
    const MADV_DONTFORK: usize = 10;
    const SHARED: usize = 1;
    const READ_WRITE: usize = 3;
    let (path, new) = (file(false)?, file(true)?);
    let header = header(capacity);
    let words = page_words(header.cpus, capacity);
    // Beyond it the host would send the program a signal.
    if linux::facts::soft_limit(&kernel().m, RLIMIT_FSIZE) < 8 * words as u64 {
        return None;
    }
    let fd = create(&new)?;
    // SAFETY: the descriptor is ours and closed again; a child must not write to its parent's page.
    let at = unsafe {
        let sized = syscall!(nr::FTRUNCATE, fd, 8 * words) == 0;
        let at = if sized { syscall!(nr::MMAP, 0, 8 * words, READ_WRITE, SHARED, fd, 0) } else { -1 };
        syscall!(nr::CLOSE, fd);
        at
    };
    let mapping = (at > 0).then_some(Mapping { at: at as u64, words });
    let page = mapping.and_then(|mapping| Writer::new(mapping, header).ok());
    let (old, new) = (path.as_bytes().as_ptr(), new.as_bytes().as_ptr());
    // SAFETY: the paths are strings of ours, the mapping is ours.
    unsafe {
        if at > 0 {
            syscall!(nr::MADVISE, at, 8 * words, MADV_DONTFORK);
        }
        let done = page.is_some() && syscall!(nr::RENAME, new, old) == 0;
        if !done {
            syscall!(nr::UNLINK, new);
        }
        page.filter(|_| done)
    }
}
