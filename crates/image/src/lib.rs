//! The image: the kernel as it is loaded into the program.
//!
//! An ordinary `no_std` library, so that tests and lints work as everywhere. What only a
//! final binary may have (panic handler, global allocator, constructor, exported symbols)
//! lives in [`image!`], which the command's build script invokes in a three-line crate of
//! type cdylib. The result, `libentresol.so`, keeps a diet: no libc, no std, no
//! thread-local storage, no wide vector registers. `.ci/check-image.sh` checks the built file.
//!
//! Start reading at [`init`] (the constructor) and [`audit`] (the dynamic linker's calls).
#![no_std]

extern crate alloc;

pub mod audit;
pub mod boot;
mod entry;
pub mod heap;
pub mod libraries;
mod limits;
mod memory;
pub mod options;
pub mod panic;
mod plans;
mod restart;
pub mod summary;

use core::ffi::{c_char, c_int};

/// The constructor: the dynamic linker calls it once, before the program's libraries are mapped.
///
/// # Safety
/// Called by the dynamic linker only, with the process's own argument and environment vectors.
pub unsafe extern "C" fn init(_argc: c_int, argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: forwarded from the dynamic linker.
    unsafe { boot::boot(argv, envp) }
}
