//! The initial stack, which the host has made for the image and which becomes the program's.

use super::{Loaded, NotDone};
use arch::syscall;
use core::ffi::c_char;

/// An entry: kind and value. Kind 0 ends the vector.
pub(super) type Entry = [u64; 2];

/// Finds the auxiliary vector, which follows the environment.
///
/// # Safety
/// `envp` is the process's environment vector as the host has made it.
pub(super) unsafe fn find(envp: *const *const c_char) -> *mut Entry {
    // SAFETY: the caller's promise; the environment ends with a null.
    unsafe { end(envp).cast_mut().cast() }
}

/// The address behind the null that ends an environment.
unsafe fn end(envp: *const *const c_char) -> *const *const c_char {
    let mut at = envp;
    // SAFETY: as the caller promises.
    unsafe {
        while !(*at).is_null() {
            at = at.add(1);
        }
        at.add(1)
    }
}

/// Moves the vector behind the environment, which has become shorter: programs only find it there.
///
/// # Safety
/// `envp` is the process's environment vector, and `vector` was found behind it when it was longer.
pub(super) unsafe fn follow(envp: *const *const c_char, vector: *const Entry) {
    // SAFETY: the caller's promise; it moves down, within what was environment.
    unsafe {
        let mut len = 1;
        while (*vector.add(len - 1))[0] != 0 {
            len += 1;
        }
        core::ptr::copy(vector, find(envp), len);
    }
}

/// Names the program and its interpreter in the vector, where the host has named the image. All other entries describe
/// the machine and the user, and remain correct.
///
/// # Safety
/// `vector` is the process's; `file` is the address of a string that stays.
pub(super) unsafe fn write(vector: *mut Entry, loaded: &Loaded, file: u64) {
    const AT_PHDR: u64 = 3;
    const AT_PHNUM: u64 = 5;
    const AT_BASE: u64 = 7;
    const AT_ENTRY: u64 = 9;
    const AT_EXECFN: u64 = 31;
    let program = &loaded.program;
    // SAFETY: the caller's promise; the host ends it with zero.
    unsafe {
        let mut pair = vector;
        while (*pair)[0] != 0 {
            let value = &mut (*pair)[1];
            match (*pair)[0] {
                AT_PHDR => *value = program.headers(),
                AT_PHNUM => *value = program.layout.header_count.into(),
                AT_BASE => *value = loaded.loader.as_ref().map_or(0, |loader| loader.bias),
                AT_ENTRY => *value = program.entry(),
                AT_EXECFN => *value = file,
                _ => {}
            }
            pair = pair.add(1);
        }
    }
}

/// Makes the stack executable, including the part that it will grow into.
///
/// # Safety
/// `within` is an address on the stack.
pub(super) unsafe fn make_stack_executable(within: u64) -> Result<(), NotDone> {
    const PAGE: u64 = 4096;
    const ALL: u64 = 7;
    const PROT_GROWSDOWN: u64 = 0x0100_0000;
    // SAFETY: the stack's pages stay what they are otherwise.
    match unsafe { syscall!(abi::nr::MPROTECT, within & !(PAGE - 1), PAGE, ALL | PROT_GROWSDOWN) } {
        0 => Ok(()),
        why => Err(NotDone { what: "its stack cannot be made executable", why }),
    }
}
