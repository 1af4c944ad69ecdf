//! System calls to the host, made by our own instructions.
//!
//! These lie in the image's text, which is the one range that system-call dispatch lets
//! through. Errors come back as Linux gives them: `-errno` in `-4095 ..= -1`.

use core::arch::asm;

/// Makes a host call that either cannot wait or may be cut short by any signal.
///
/// # Safety
/// The call must not harm memory that Rust believes to own.
#[inline(always)]
pub unsafe fn syscall(nr: usize, a: [usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    #[cfg(feature = "planted")]
    return unsafe { crate::planted::syscall(nr, a) };
    // SAFETY: the caller's promise.
    #[cfg(not(feature = "planted"))]
    return unsafe { made(nr, a) };
}

/// # Safety
/// As for [`syscall`].
#[inline(always)]
pub(crate) unsafe fn made(nr: usize, a: [usize; 6]) -> isize {
    let ret: isize;
    // SAFETY: the instruction clobbers rcx and r11 only; what the call does is the caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") nr as isize => ret, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    ret
}

/// [`syscall`] with up to six arguments written out.
#[macro_export]
macro_rules! syscall {
    ($nr:expr $(, $a:expr)* $(,)?) => {
        $crate::raw::syscall($nr as usize, $crate::raw::pad([$($a as usize),*]))
    };
}

/// Fills the arguments up to six.
#[inline(always)]
pub fn pad<const N: usize>(a: [usize; N]) -> [usize; 6] {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&a);
    all
}
