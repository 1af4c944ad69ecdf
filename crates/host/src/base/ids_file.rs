//! Blocks of thread ids that no two of a user's processes share.
//!
//! A small file lists for each of the 16,128 blocks in [`Tid::OURS`] the process that took it. A block is reused when
//! its process is gone. The list also tells other processes whether the owner of a lock that they wait for is gone.
//!
//! The file is mapped writable only while a block is taken, and read-only otherwise: a program that gives up its rights
//! must not be able to change what the processes of its former user rely on. Every access is labelled, because the file
//! may be truncated and the file system may be full.

use crate::base::os::{self, nr};
use crate::base::report::Text;
use crate::base::task;
use abi::Errno;
use abi::args::{MAP_SHARED, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR, PROT_READ, PROT_READ_WRITE};
use arch::{syscall, user};
use core::fmt::Write;
use ids::Tid;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

const FIRST: u32 = Tid::OURS.start as u32;
/// Ids in a block.
const BLOCK: u32 = 1 << 14;
const BLOCKS: u32 = (Tid::OURS.end as u32 - FIRST) / BLOCK;
/// A counter of the blocks that were taken, and for each block the process that took it last.
const SIZE: usize = (4 * (1 + BLOCKS as usize)).next_multiple_of(4096);

/// NOFOLLOW | NONBLOCK
const O_CAREFUL: u64 = O_NOFOLLOW | O_NONBLOCK;

/// The file as this process has it.
#[derive(Debug, Default)]
pub(crate) struct IdsFile {
    /// The address of the read-only mapping, made when the first block is taken; 0: none.
    at: AtomicU64,
    /// The user who owns that file.
    user: AtomicU32,
    /// Some block of this process is missing from the mapped file, so the file cannot tell whose an id is.
    unlisted: AtomicBool,
    /// The number of blocks of this process that are not listed.
    taken: AtomicU32,
}

impl IdsFile {
    /// A forked child inherits its parent's mapping.
    pub fn for_child(&self) -> IdsFile {
        IdsFile {
            at: AtomicU64::new(self.at.load(Relaxed)),
            user: AtomicU32::new(self.user.load(Relaxed)),
            unlisted: AtomicBool::new(self.unlisted.load(Relaxed)),
            taken: AtomicU32::new(0),
        }
    }

    /// The first of `n` new ids; `None` if all blocks are taken.
    pub fn claim(&self, n: i32, uid: u32) -> Option<i32> {
        assert!(n as u32 <= BLOCK);
        let pid = os::getpid() as u32;
        let listed = Mapped::open(uid, true).and_then(|file| {
            self.keep_readable(uid);
            file.take(pid)
        });
        let block = listed.or_else(|| self.claim_unlisted(pid))?;
        Some((FIRST + block * BLOCK) as i32)
    }

    /// Claims a block without the file. The block is derived from the process id, which no other living process has,
    /// and each is used once.
    fn claim_unlisted(&self, pid: u32) -> Option<u32> {
        self.unlisted.store(true, Relaxed);
        let next = |taken: u32| (taken < BLOCKS).then_some(taken + 1);
        Some(nth_unlisted(pid, self.taken.fetch_update(Relaxed, Relaxed, next).ok()?))
    }

    /// Whether the process that has that thread is known to be gone.
    pub fn is_gone(&self, tid: u32, uid: u32) -> bool {
        if !Tid(tid as i32).is_ours() {
            return has_ended(tid);
        }
        self.owner(tid, uid).is_some_and(has_ended)
    }

    /// The process that has taken this id; `None` if it is not known.
    pub fn owner(&self, tid: u32, uid: u32) -> Option<u32> {
        self.keep_readable(uid);
        let list = self.at.load(Acquire);
        if list == 0 || self.unlisted.load(Relaxed) {
            return None;
        }
        user::load_u32(process_at(list, (tid - FIRST) / BLOCK)).ok().filter(|&pid| pid != 0)
    }

    /// Maps the user's file to be read, unless one is mapped already.
    fn keep_readable(&self, uid: u32) {
        if self.at.load(Acquire) == 0
            && let Some(file) = Mapped::open(uid, false)
        {
            self.user.store(uid, Relaxed);
            if self.at.compare_exchange(0, file.at, AcqRel, Acquire).is_ok() {
                core::mem::forget(file);
            }
        } else if self.user.load(Relaxed) != uid {
            self.unlisted.store(true, Relaxed);
        }
    }
}

fn nth_unlisted(pid: u32, nth: u32) -> u32 {
    /// Coprime to the number of blocks, so that every block is used in turn.
    const STEP: u64 = 7919;
    ((u64::from(pid) + u64::from(nth) * STEP) % u64::from(BLOCKS)) as u32
}

/// Whether no process has this id. 0 has no owner.
fn is_dead(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    pid != 0 && unsafe { syscall!(nr::KILL, pid, 0) } == Errno::ESRCH.to_ret()
}

/// Whether the process has ended, even if its parent has not waited for it yet.
fn has_ended(pid: u32) -> bool {
    is_dead(pid) || has_no_memory(pid) && is_zombie(pid)
}

/// Whether the process's main thread has ended, or the host does not say. One host call.
fn has_no_memory(pid: u32) -> bool {
    let mut path = Text::<32>::default();
    let _ = write!(path, "/proc/{pid}/exe\0");
    // SAFETY: the buffer is ours; one byte of the name is enough.
    let got = unsafe { syscall!(nr::READLINK, path.as_bytes().as_ptr(), [0u8; 1].as_mut_ptr(), 1) };
    got == Errno::ENOENT.to_ret()
}

/// Whether the process waits for its parent. A main thread that has ended while others live is a zombie, too.
fn is_zombie(pid: u32) -> bool {
    const THREADS: usize = 17;
    let mut path = Text::<32>::default();
    let _ = write!(path, "/proc/{pid}/stat\0");
    let mut bytes = [0; 512];
    let fields = task::after_name(os::read_file(path.as_bytes(), &mut bytes));
    let mut fields = fields.unwrap_or_default().split_ascii_whitespace();
    let state = fields.next();
    let threads = fields.nth(THREADS - 1).and_then(|threads| threads.parse().ok());
    matches!(state, Some("Z" | "X")) && threads.unwrap_or(0) <= 1
}

/// The address in the file of the process that has taken the block.
fn process_at(file: u64, block: u32) -> u64 {
    file + 4 * (1 + u64::from(block))
}

/// A mapping of the file, unmapped on drop.
struct Mapped {
    at: u64,
}

impl Mapped {
    /// Maps the user's file. For writing, creates it if it is missing.
    fn open(uid: u32, writable: bool) -> Option<Mapped> {
        let (flags, rights) = if writable { (O_RDWR | O_CREAT, PROT_READ_WRITE) } else { (0, PROT_READ) };
        let fd = os::open(&path(uid), flags | O_CAREFUL, 0o600).ok()?;
        // SAFETY: the descriptor is ours; the host chooses the place.
        let at = unsafe {
            let whole = is_private(fd, uid) && (has_size(fd) || writable && syscall!(nr::FTRUNCATE, fd, SIZE) == 0);
            if whole { syscall!(nr::MMAP, os::hint(SIZE), SIZE, rights, MAP_SHARED, fd, 0) } else { -1 }
        };
        os::close(fd);
        (at > 0).then_some(Mapped { at: at as u64 })
    }

    /// Takes a block that belongs to no living process, in turn, so that ids are reused late.
    fn take(&self, pid: u32) -> Option<u32> {
        (0..BLOCKS).find_map(|_| self.take_next(pid).transpose())?.ok()
    }

    /// Takes the next block, if its last owner is gone.
    fn take_next(&self, pid: u32) -> Result<Option<u32>, user::Fault> {
        let turn = user::load_u32(self.at)?;
        if user::cas_u32(self.at, turn, turn.wrapping_add(1))? != turn {
            return Ok(None);
        }
        let block = turn % BLOCKS;
        let at = process_at(self.at, block);
        let owner = user::load_u32(at)?;
        let free = owner == 0 || is_dead(owner);
        Ok((free && user::cas_u32(at, owner, pid)? == owner).then_some(block))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing else refers to it.
        unsafe { syscall!(nr::MUNMAP, self.at, SIZE) };
    }
}

/// The user's file, with a final zero.
fn path(uid: u32) -> [u8; 34] {
    let mut path = *b"/dev/shm/entresol-tids-0000000000\0";
    let mut left = uid;
    for digit in path[23..33].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    path
}

/// Whether it is a file of the user's that nobody else can have written to.
fn is_private(fd: i32, uid: u32) -> bool {
    const REGULAR_0600: u32 = 0o100_600;
    // Mode and owner, st_mode at byte 24 and st_uid at byte 28.
    os::status(fd).is_some_and(|stat| stat[3] as u32 == REGULAR_0600 && (stat[3] >> 32) as u32 == uid)
}

fn has_size(fd: i32) -> bool {
    // st_size, at byte 48.
    os::status(fd).is_some_and(|stat| stat[6] >= SIZE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_file_no_block_is_given_twice() {
        let mut given = [false; BLOCKS as usize];
        for nth in 0..BLOCKS {
            let block = nth_unlisted(4_000_000, nth);
            assert!(!core::mem::replace(&mut given[block as usize], true));
        }
    }

    #[test]
    fn a_process_comes_to_the_end_of_them() {
        let file = IdsFile::default();
        let first = file.claim_unlisted(7).unwrap();
        assert_ne!(file.claim_unlisted(7).unwrap(), first);
        assert_eq!((2..BLOCKS).filter_map(|_| file.claim_unlisted(7)).count() as u32, BLOCKS - 2);
        assert_eq!(file.claim_unlisted(7), None);
        assert!(file.for_child().claim_unlisted(8).is_some());
    }
}
