//! Blocks of thread ids that no two of a user's processes share.
//!
//! A counter in a small file that all of them map. The ids lie above every id the host gives
//! (2^22) and below the bits that futex words keep for themselves (2^30); the blocks come
//! round after 65,280 of them.

use crate::os::{self, nr};
use arch::syscall;
use sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

const FIRST: i64 = 1 << 22;
const END: i64 = 1 << 30;
const PAGE: usize = 4096;
const O_RDWR_CREAT_CLOEXEC_NOFOLLOW: usize = 0o2 | 0o100 | 0o2000000 | 0o400000;
const AT_FDCWD: isize = -100;

/// The counter, once it has been mapped: a process that gives its rights up keeps it.
static COUNTER: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// The first of `n` ids.
pub fn claim(n: i32, uid: u32) -> i32 {
    let blocks = (END - FIRST) / i64::from(n);
    // Without the file: a block by the process id, which is unique among the living.
    let turn = shared_counter(uid).map_or(i64::from(os::getpid()), i64::from);
    (FIRST + turn.rem_euclid(blocks) * i64::from(n)) as i32
}

fn shared_counter(uid: u32) -> Option<u32> {
    if COUNTER.load(Acquire).is_null() {
        COUNTER.store(map_counter(uid)?, Release);
    }
    // SAFETY: mapped for ever.
    Some(unsafe { (*COUNTER.load(Acquire)).fetch_add(1, Relaxed) })
}

fn map_counter(uid: u32) -> Option<*mut AtomicU32> {
    let mut path = *b"/dev/shm/entresol-ids-0000000000\0";
    let end = path.len() - 1;
    let mut left = uid;
    for digit in path[end - 10..end].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    // SAFETY: the path is a string of ours; the descriptor and the mapping is closed again.
    unsafe {
        let fd = syscall!(nr::OPENAT, AT_FDCWD, path.as_ptr(), O_RDWR_CREAT_CLOEXEC_NOFOLLOW, 0o600);
        if fd < 0 {
            return None;
        }
        let mine = owned_by(fd, uid) && syscall!(nr::FTRUNCATE, fd, PAGE) == 0;
        let page = if mine { syscall!(nr::MMAP, 0, PAGE, 3, 1, fd, 0) } else { -1 };
        syscall!(nr::CLOSE, fd);
        if page <= 0 {
            return None;
        }
        Some(page as *mut AtomicU32)
    }
}

/// Somebody else's file in that place is not trusted.
fn owned_by(fd: isize, uid: u32) -> bool {
    let mut stat = [0u32; 36];
    // SAFETY: `struct stat` has 144 bytes; st_uid is the word at byte 28.
    unsafe { syscall!(nr::FSTAT, fd, stat.as_mut_ptr()) == 0 && stat[7] == uid }
}
