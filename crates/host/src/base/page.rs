//! The state page of this process: a file in the user's runtime folder, for `entresol ps` and similar commands.
//!
//! At its start a process writes a header there, with six host calls. A reader that wants more sends a signal to the
//! service thread, which writes a snapshot ([`kernel::Kernel::snapshot`]) to a file with room for all threads. So
//! traps, switches and wake-ups do nothing for the page, and a process that nobody watches pays nothing. A process
//! removes its file when it ends; readers recognise and remove the file of a killed process.
//!
//! The file belongs to the process's user. A process removes the page before it changes its rights and makes a new one
//! afterwards, so that a program that has given up a user cannot write to what that user's tools read.
//!
//! A file is made under another name and renamed, so that readers find it complete. The maker holds [`Page::making`]
//! and increments `made`, from which the service thread learns that its mapped file was replaced.
//!
//! The file is mapped, so that it occupies no descriptor of the program. Stores to it are labelled, because the file may be
//! truncated and the file system may be full.

use crate::base::os::{self, nr};
use crate::base::report::Text;
use crate::base::request;
use abi::args::{
    AT_FDCWD, AT_SYMLINK_NOFOLLOW, CLOCK_BOOTTIME, CLOCK_THREAD_CPUTIME_ID, MADV_DONTFORK, MAP_SHARED, O_CREAT, O_EXCL,
    O_NOFOLLOW, O_RDWR, PROT_READ_WRITE, RLIMIT_FSIZE, S_IFDIR, S_IFMT,
};
use abi::{Errno, SigInfo};
use alloc::vec::Vec;
use arch::{syscall, user};
use core::fmt::Write;
use ids::{Nanos, THREADS_MAX, ThreadIdx};
use kernel::{Kernel, snapshot_rest};
use state::{Full, Header, Memory, Writer, page_words};
use sync::Lock;
use sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

/// The longest folder name, in bytes.
const FOLDER_MAX: usize = 120;
type Path = Text<160>;

/// Where a process publishes its page.
#[derive(Debug)]
pub(crate) struct Page {
    pid: i32,
    cpus: usize,
    /// XDG_RUNTIME_DIR as the command found it, and the folder that the image was put into.
    runtime: Vec<u8>,
    image: Vec<u8>,
    /// The folder that holds the file: its number plus one; 0: none.
    folder: AtomicU8,
    /// The owner of that folder.
    user: AtomicU64,
    /// When the process published its header, by CLOCK_BOOTTIME.
    created: AtomicU64,
    /// The pid namespace of its id.
    namespace: AtomicU64,
    making: Lock<()>,
    /// How many headers the process has published.
    made: AtomicU64,
}

/// How many folders are tried. The image's folder is the last, because it may be on a disk.
const FOLDERS: u8 = 4;
/// The folder in /dev/shm, whose parent every user can write to.
const SHARED_MEMORY: u8 = 2;

/// RDWR | CREAT | EXCL | NOFOLLOW
const O_NEW: u64 = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;

impl Page {
    /// The page of the process `pid`, not yet published. `loader` names the image (`exec`).
    pub fn new(pid: i32, cpus: usize, runtime: &[u8], loader: &[u8]) -> Page {
        let is_usable = |folder: &&[u8]| folder.first() == Some(&b'/') && folder.len() < FOLDER_MAX;
        Page {
            pid,
            cpus,
            runtime: Some(runtime).filter(is_usable).unwrap_or(b"").to_vec(),
            image: image_folder(loader).filter(is_usable).unwrap_or(b"").to_vec(),
            folder: AtomicU8::new(0),
            user: AtomicU64::new(0),
            created: AtomicU64::new(0),
            namespace: AtomicU64::new(0),
            making: Lock::new(()),
            made: AtomicU64::new(0),
        }
    }

    /// The page of a forked child.
    pub fn for_child(&self, pid: i32) -> Page {
        let mut page = Page::new(pid, self.cpus, &self.runtime, b"");
        page.image.clone_from(&self.image);
        page
    }

    /// The path of a folder, or of its parent, without a final zero.
    fn folder(&self, number: u8, user: u64, parent: bool) -> Option<Path> {
        let mut path = Path::default();
        let name = if parent { "" } else { "/entresol" };
        let _ = match number {
            0 if self.runtime.is_empty() => return None,
            0 => {
                self.runtime.iter().for_each(|&b| path.push(b));
                path.write_str(name)
            }
            1 => write!(path, "/run/user/{user}{name}"),
            // Every user may create folders there, so the parent's owner proves nothing.
            SHARED_MEMORY => write!(path, "/dev/shm/entresol-{user}"),
            _ if self.image.is_empty() => return None,
            _ => {
                self.image.iter().for_each(|&b| path.push(b));
                Ok(())
            }
        };
        Some(path)
    }

    /// The path of the file or of its replacement, with a final zero.
    fn file(&self, successor: bool) -> Option<Path> {
        let folder = self.folder.load(Relaxed).checked_sub(1)?;
        let mut path = self.folder(folder, self.user.load(Relaxed), false)?;
        let _ = write!(path, "/state-{}{}\0", self.pid, if successor { "~" } else { "" });
        Some(path)
    }

    /// Whether only `user` can write to the folder. It is created if its parent allows that.
    fn is_ours(&self, number: u8, user: u64) -> bool {
        let Some(mut path) = self.folder(number, user, false) else { return false };
        path.push(0);
        match owner(&path) {
            Ok(found) => found == Some(user),
            Err(_) => {
                let parent = self.folder(number, user, true).map(|mut path| {
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

    fn header(&self, capacity: usize, service: i32) -> Header {
        Header {
            pid: self.pid,
            namespace: self.namespace.load(Relaxed),
            service,
            created: Nanos(self.created.load(Relaxed)),
            cpus: self.cpus,
            capacity,
        }
    }

    /// Publishes the header, which names the host thread that answers requests.
    pub fn announce(&self, service: i32) {
        self.announce_once(|| service);
    }

    /// Publishes the header after `start` has returned the host thread that answers. No request is served before.
    pub fn announce_once(&self, start: impl FnOnce() -> i32) {
        let _making = self.making.lock();
        let service = start();
        self.made.fetch_add(1, Relaxed);
        if self.leave(service).is_none() {
            self.folder.store(0, Relaxed);
        }
    }

    fn leave(&self, service: i32) -> Option<()> {
        // SAFETY: has no effect.
        let user = unsafe { syscall!(nr::GETEUID) } as u64;
        let number = (0..FOLDERS).find(|&number| self.is_ours(number, user))?;
        self.user.store(user, Relaxed);
        self.folder.store(number + 1, Relaxed);
        let (path, new) = (self.file(false)?, self.file(true)?);
        let fd = create(&new)?;
        self.created.store(os::clock_gettime(CLOCK_BOOTTIME).0, Relaxed);
        self.namespace.store(namespace(), Relaxed);
        let words = self.header(0, service).encode();
        let written = os::without_signals(|| {
            // SAFETY: the descriptor and the words are ours.
            unsafe { syscall!(nr::PWRITE64, fd, words.as_ptr(), size_of_val(&words), 0) }
        });
        os::close(fd);
        if written != size_of_val(&words) as isize {
            remove(&new);
            return None;
        }
        rename(&new, &path).then_some(())
    }

    /// Removes the file until it is published again; returns whether there was one.
    pub fn withdraw(&self) -> bool {
        self.remove();
        self.folder.swap(0, Relaxed) != 0
    }

    /// Removes the file, because the process ends or its rights are about to change.
    pub fn remove(&self) {
        if let Some(path) = self.file(false) {
            remove(&path);
        }
    }
}

/// The folder that the image was put into.
fn image_folder(loader: &[u8]) -> Option<&[u8]> {
    let path = loader.split(|&b| b == b'=').nth(1)?.split(|&b| b == b':').next()?;
    path.get(..path.iter().rposition(|&b| b == b'/')?)
}

/// The only user that can write to a folder; `None` if it is no folder or others can write to it.
fn owner(path: &Path) -> Result<Option<u64>, isize> {
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

/// Renames the new file over the old one; removes the new one if that fails.
fn rename(new: &Path, old: &Path) -> bool {
    // SAFETY: the paths are strings of ours.
    let done = unsafe { syscall!(nr::RENAME, new.as_bytes().as_ptr(), old.as_bytes().as_ptr()) } == 0;
    if !done {
        remove(new);
    }
    done
}

fn remove(path: &Path) {
    // SAFETY: the path is a string of ours.
    unsafe { syscall!(nr::UNLINK, path.as_bytes().as_ptr()) };
}

/// Creates a file, in place of one that an earlier process with this id, or this process before its exec, has left.
fn create(path: &Path) -> Option<i32> {
    let open = || os::open(path.as_bytes(), O_NEW, 0o600);
    let made = open().or_else(|why| {
        if why != Errno::EEXIST.to_ret() {
            return Err(why);
        }
        remove(path);
        open()
    });
    made.ok()
}

/// The pid namespace of the process's id; 0: `/proc` does not say.
fn namespace() -> u64 {
    let mut stat = [0u64; 18];
    // SAFETY: `struct stat` has 144 bytes.
    let r = unsafe { syscall!(nr::NEWFSTATAT, AT_FDCWD, c"/proc/self/ns/pid".as_ptr(), stat.as_mut_ptr(), 0) };
    // st_ino, at byte 8.
    if r == 0 { stat[1] } else { 0 }
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
    /// The value of `made` when it was mapped.
    made: u64,
    /// A snapshot was requested.
    asked: bool,
    /// The earliest time for the next snapshot.
    next: Nanos,
}

impl Publisher {
    /// Whether a signal asks for a snapshot.
    pub(crate) fn is_request(info: &SigInfo) -> bool {
        request::is_one(info) && info.value() == Header::REQUEST
    }

    /// The process's rights are about to change: unmaps the file, and removes it while it can.
    pub(crate) fn withdraw(&mut self, page: &Page) {
        self.page = None;
        page.remove();
    }

    /// Requests a snapshot.
    pub(crate) fn ask(&mut self) {
        self.asked = true;
    }

    /// How long the service thread may sleep.
    pub(crate) fn sleep(&self) -> Option<Nanos> {
        self.asked.then(|| self.next.since(os::clock_gettime(1)))
    }

    /// Makes the requested snapshot, if it is due.
    pub(crate) fn look(
        &mut self,
        k: &Kernel<impl linux::Host>,
        page: &Page,
        service: i32,
        position: impl Fn(ThreadIdx) -> [u64; 3],
    ) {
        if !self.asked || os::clock_gettime(1) < self.next {
            return;
        }
        self.asked = false;
        let _making = page.making.lock();
        let made = page.made.load(Relaxed);
        if made != self.made {
            self.page = None;
            self.made = made;
        }
        let before = os::clock_gettime(CLOCK_THREAD_CPUTIME_ID);
        let living = k.threads().live() as usize;
        if self.page.as_ref().is_none_or(|page| page.capacity() < living) {
            // A quarter more than now, because threads may be created during the snapshot.
            let capacity = (living + living / 4 + 1).next_multiple_of(64).min(THREADS_MAX);
            self.page = map(k, page, page.header(capacity, service)).or(self.page.take());
        }
        if let Some(page) = &mut self.page
            && k.snapshot(page, linux::Linux(k).process_usage(), position).is_err()
        {
            // The file system is full, or the file was truncated: start again at the next request.
            self.page = None;
        }
        let spent = os::clock_gettime(CLOCK_THREAD_CPUTIME_ID).since(before);
        self.next = os::clock_gettime(1) + snapshot_rest(spent);
    }
}

/// Replaces the old file by a new one with this header.
fn map(k: &Kernel<impl linux::Host>, page: &Page, header: Header) -> Option<Writer<Mapping>> {
    let (path, new) = (page.file(false)?, page.file(true)?);
    let words = page_words(header.cpus, header.capacity);
    // Beyond this limit the host would send the program SIGXFSZ.
    if linux::facts::soft_limit(&k.m, RLIMIT_FSIZE) < 8 * words as u64 {
        return None;
    }
    let fd = create(&new)?;
    // SAFETY: the descriptor is ours and closed again; a child must not write to its parent's page.
    let at = unsafe {
        let sized = syscall!(nr::FTRUNCATE, fd, 8 * words) == 0;
        let at = if sized {
            syscall!(nr::MMAP, os::hint(8 * words), 8 * words, PROT_READ_WRITE, MAP_SHARED, fd, 0)
        } else {
            -1
        };
        syscall!(nr::CLOSE, fd);
        at
    };
    let mapping = (at > 0).then_some(Mapping { at: at as u64, words });
    if at > 0 {
        // SAFETY: the mapping is ours.
        unsafe { syscall!(nr::MADVISE, at, 8 * words, MADV_DONTFORK) };
    }
    let page = mapping.and_then(|mapping| Writer::new(mapping, header).ok());
    if page.is_none() {
        remove(&new);
    }
    page.filter(|_| rename(&new, &path))
}
