//! Host calls that go wrong on purpose: one of them fails, or all of a kind are made wrongly. Only with the feature
//! `planted`.

use crate::base;
use crate::context::reg;
use crate::raw::made;
use abi::{Errno, nr};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// A way to make host calls wrongly.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Twist {
    /// No fault.
    Nothing,
    /// `munmap` does nothing and succeeds.
    MunmapKept,
    /// `mprotect` that takes all rights away does nothing and succeeds.
    ProtectionIgnored,
    /// `madvise` that throws pages away does nothing and succeeds.
    AdviceIgnored,
    /// EBADF becomes EINVAL.
    WrongError,
    /// Real-time signals for other processes are not sent.
    SignalLost,
    /// `close_range` forgets its flags.
    CloseRangeFlags,
}

const MADV_DONTNEED: usize = 4;
const MAP_SHARED: usize = 1;
const PAGE: usize = 4096;

static TWIST: AtomicU32 = AtomicU32::new(0);
static FAIL_AT: AtomicU64 = AtomicU64::new(0);
static FAIL_WITH: AtomicU32 = AtomicU32::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);
/// 1 + the page that is missing in each shared file; 0: none.
static MISSING: AtomicU64 = AtomicU64::new(0);

/// From now on host calls are made in this way.
pub fn twist(twist: Twist) {
    TWIST.store(twist as u32, Relaxed);
}

/// Makes the `nth` host call from now fail with `errno`; if that is 0, the call is made. Either way its number is
/// written to the error stream. Calls that are only passed on do not count: the program sees their failure.
pub fn fail(nth: u64, errno: u32) {
    MADE.store(0, Relaxed);
    FAIL_WITH.store(errno, Relaxed);
    FAIL_AT.store(nth, Relaxed);
}

/// Files that the image maps shared have no such page from now on, as if they had been cut short: an access raises SIGBUS.
pub fn miss_page(page: u64) {
    MISSING.store(page + 1, Relaxed);
}

/// Makes the call, or does not.
///
/// # Safety
/// As for [`crate::raw::syscall`].
pub(crate) unsafe fn syscall(nr: usize, mut a: [usize; 6]) -> isize {
    let at = FAIL_AT.load(Relaxed);
    if at != 0 && !is_passed_on(nr, &a) && MADE.fetch_add(1, Relaxed) + 1 == at {
        tell(nr);
        let errno = FAIL_WITH.load(Relaxed);
        if errno != 0 {
            return -(errno as isize);
        }
    }
    if leaves_out(nr, &a) {
        return 0;
    }
    if nr == nr::CLOSE_RANGE && is(Twist::CloseRangeFlags) {
        a[2] = 0;
    }
    // SAFETY: the caller's promise.
    let result = unsafe { made(nr, a) };
    if nr == nr::MMAP && a[3] == MAP_SHARED && result > 0 && MISSING.load(Relaxed) != 0 && !is_passed_on(nr, &a) {
        lose_page(result as usize, a[1], a[2]);
    }
    if is(Twist::WrongError) && result == Errno::EBADF.to_ret() { Errno::EINVAL.to_ret() } else { result }
}

/// Whether this fault is planted.
fn is(kind: Twist) -> bool {
    TWIST.load(Relaxed) == kind as u32
}

/// Whether the planted fault is that this call is not made but seems to have succeeded.
pub(crate) fn leaves_out(nr: usize, a: &[usize; 6]) -> bool {
    match nr {
        nr::MUNMAP => is(Twist::MunmapKept),
        nr::MPROTECT => is(Twist::ProtectionIgnored) && a[2] == 0,
        nr::MADVISE => is(Twist::AdviceIgnored) && a[2] == MADV_DONTNEED,
        nr::KILL | nr::RT_SIGQUEUEINFO => is(Twist::SignalLost) && a[1] > 33,
        nr::TGKILL => is(Twist::SignalLost) && a[2] > 33,
        _ => false,
    }
}

/// Whether the call is the one that the current thread asks for.
fn is_passed_on(nr: usize, args: &[usize; 6]) -> bool {
    if !base::has_gs() {
        return false;
    }
    // SAFETY: this host thread has a block; its context, if there is one, lives for ever, and a torn word is of no consequence.
    unsafe {
        let context = (*base::gs()).context;
        let word = |register: usize| (&raw const (*context).r[register]).read_volatile() as usize;
        let asked = [reg::RDI, reg::RSI, reg::RDX];
        !context.is_null()
            && word(reg::RAX) == nr
            && asked.iter().zip(args).all(|(&register, &arg)| word(register) == arg)
    }
}

fn tell(nr: usize) {
    let mut line = *b"planted: host call 0000\n";
    for (i, digit) in line[19..23].iter_mut().rev().enumerate() {
        *digit = b'0' + (nr / 10usize.pow(i as u32) % 10) as u8;
    }
    // SAFETY: the host only reads the line.
    unsafe { made(nr::WRITE, [2, line.as_ptr() as usize, line.len(), 0, 0, 0]) };
}

/// Puts a page of an empty file there.
fn lose_page(at: usize, len: usize, protection: usize) {
    const MAP_FIXED: usize = 0x10;
    let page = (MISSING.load(Relaxed) as usize - 1) * PAGE;
    if page >= len {
        return;
    }
    // SAFETY: the caller has just mapped these pages, and each access of the image to them is a labelled one.
    unsafe {
        let file = made(nr::MEMFD_CREATE, [c"missing".as_ptr() as usize, 1, 0, 0, 0, 0]);
        if file >= 0 {
            made(nr::MMAP, [at + page, PAGE, protection, MAP_SHARED | MAP_FIXED, file as usize, 0]);
            made(nr::CLOSE, [file as usize, 0, 0, 0, 0, 0]);
        }
    }
}
