//! Blocks of thread ids that no two of a user's processes share.
//!
//! A counter in a small file that all of them map. The ids lie above every id the host gives
//! (2^22) and below what an encoded CPU clock has room for (2^28, `MAKE_THREAD_CPUCLOCK` of the C library and the
//! host), which is also below the bits that futex words keep for themselves (2^30); the blocks come round after
//! 16,128 of them. Behind the counter stands for each block which process took it last, so that
//! others can tell whether the owner of a lock that they wait for is gone.

use crate::os::{self, nr};
use arch::syscall;
use sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

const FIRST: u32 = 1 << 22;
const END: u32 = 1 << 28;
/// Ids in a block.
const BLOCK: u32 = 1 << 14;
const BLOCKS: usize = ((END - FIRST) / BLOCK) as usize;
const O_RDWR_CREAT_NOFOLLOW: usize = 0o2 | 0o100 | 0o400000;

#[repr(C)]
struct Registry {
    taken: AtomicU32,
    processes: [AtomicU32; BLOCKS],
}

/// The file, once it has been mapped: a process that gives its rights up keeps it.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(core::ptr::null_mut());

/// The first of `n` ids.
pub fn claim(n: i32, uid: u32) -> i32 {
    assert!(n as u32 <= BLOCK);
    let pid = os::getpid();
    // Without the file: a block by the process id, which is unique among the living.
    let turn = registry(uid).map_or(pid as u32, |r| r.taken.fetch_add(1, Relaxed));
    let block = turn as usize % BLOCKS;
    if let Some(registry) = registry(uid) {
        registry.processes[block].store(pid as u32, Relaxed);
    }
    (FIRST + block as u32 * BLOCK) as i32
}

/// Whether ids like this are given out here.
pub fn is_ours(tid: u32) -> bool {
    (FIRST..END).contains(&tid)
}

/// Whether the process with that thread is known to be gone.
pub fn is_gone(tid: u32, uid: u32) -> bool {
    let pid = if is_ours(tid) {
        registry(uid).map_or(0, |r| r.processes[((tid - FIRST) / BLOCK) as usize].load(Relaxed))
    } else {
        tid
    };
    // SAFETY: signal 0 only asks.
    pid != 0 && unsafe { syscall!(nr::KILL, pid, 0) } == abi::Errno::ESRCH.to_ret()
}

fn registry(uid: u32) -> Option<&'static Registry> {
    if REGISTRY.load(Acquire).is_null() {
        REGISTRY.store(map(uid)?, Release);
    }
    // SAFETY: mapped for ever; all of it is atomic.
    Some(unsafe { &*REGISTRY.load(Acquire) })
}

fn map(uid: u32) -> Option<*mut Registry> {
    let mut path = *b"/dev/shm/entresol-tids-0000000000\0";
    let end = path.len() - 1;
    let mut left = uid;
    for digit in path[end - 10..end].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let size = size_of::<Registry>().next_multiple_of(4096);
    let fd = os::open(&path, O_RDWR_CREAT_NOFOLLOW, 0o600).ok()?;
    // SAFETY: the descriptor is ours; the host chooses the place.
    let page = unsafe {
        let mine = owned_by(fd, uid) && syscall!(nr::FTRUNCATE, fd, size) == 0;
        if mine { syscall!(nr::MMAP, 0, size, 3, 1, fd, 0) } else { -1 }
    };
    os::close(fd);
    (page > 0).then_some(page as *mut Registry)
}

/// Somebody else's file in that place is not trusted.
fn owned_by(fd: i32, uid: u32) -> bool {
    // Mode and owner, st_uid at byte 28.
    os::status(fd).is_some_and(|stat| (stat[3] >> 32) as u32 == uid)
}
