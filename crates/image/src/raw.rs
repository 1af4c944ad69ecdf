//! The three system calls that the scaffold itself needs.

use core::arch::asm;

const MMAP: usize = 9;
const WRITE: usize = 1;
const EXIT_GROUP: usize = 231;

/// One system call with up to six arguments; the kernel's raw answer.
///
/// # Safety
/// As the call itself demands.
unsafe fn syscall6(number: usize, a: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the kernel keeps every register but rax, rcx and r11; the caller answers for the call.
    unsafe {
        asm!("syscall", inlateout("rax") number => answer, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// Fresh private pages, or null.
pub fn map_pages(len: usize) -> *mut u8 {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let answer = unsafe { syscall6(MMAP, [0, len, 3, 0x22, usize::MAX, 0]) };
    if (-4095..0).contains(&answer) { core::ptr::null_mut() } else { answer as *mut u8 }
}

/// Writes to standard error; a failure has nobody to be told to.
pub fn write_stderr(bytes: &[u8]) {
    // SAFETY: the slice is readable for its length.
    unsafe { syscall6(WRITE, [2, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) };
}

/// Ends the process.
pub fn exit_group(status: u8) -> ! {
    loop {
        // SAFETY: ends the process; nothing runs after it.
        unsafe { syscall6(EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}
