//! The image: the kernel as it is loaded into the program.
//!
//! **May touch:** everything in the process it is in, but no libc, no standard library, no thread-local storage and no wide
//! vector registers. `.ci/check-image.sh` checks the built file.
//!
//! **Start reading at** [`init`] (the constructor), then [`audit`] (the dynamic linker's calls), and [`loader`].
//!
//! This is an ordinary `no_std` library, so that tests and lints work as everywhere. The parts that only a final binary may
//! have (panic handler, global allocator, constructor, exported symbols) are in [`image!`], which the command's build script
//! invokes in a three-line crate of type cdylib. The result is `libentresol.so`.
//!
//! # How a program is entered
//! `LD_AUDIT` makes the dynamic linker load the image before any library. The constructor (`boot`) hides our variables,
//! makes the only host thread the first carrier, adopts the main thread with its registrations (robust list, rseq, tid
//! word), and patches the dynamic linker and the vDSO. `la_objopen` replaces the C library's code by a copy that is
//! already patched (`ready`), or patches it in memory (`text`), before it runs.
//!
//! If glibc's dynamic linker does not load a program, the image does: it is executed in the program's place
//! ([`loader`]).
//!
//! The linker sizes the main thread's static thread-local storage before it loads an auditing library. If a program's
//! libraries need more (libtsan needs 768 KiB), the process execs itself once with a larger reserve (`restart`). `LD_PRELOAD`
//! would not have that problem, but it loads after the C library, which then could not be patched in time. So it is left to
//! programs that do not work otherwise: those with a library that provides `malloc` and has storage for which it calls
//! `malloc`.
#![no_std]

extern crate alloc;

pub mod audit;
mod auxv;
pub mod boot;
mod chaos;
mod entry;
pub mod heap;
pub mod libraries;
pub mod limits;
pub mod link_map;
pub mod loader;
mod memory;
mod objects;
pub mod options;
pub mod panic;
mod plans;
mod points;
mod ready;
mod restart;
mod shortage;
mod stub_area;
pub mod summary;
mod text;

use core::ffi::{c_char, c_int};

/// The constructor: the dynamic linker calls it once, before the program's libraries are mapped.
///
/// # Safety
/// Called by the dynamic linker only, with the process's own argument and environment vectors.
pub unsafe extern "C" fn init(_argc: c_int, argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: forwarded from the dynamic linker.
    unsafe { boot::boot(argv, envp, None) }
}
