//! The `entresol` command: everything is in the library part.
//!
//! `main` is C's, not Rust's: the standard library's start-up would ignore SIGPIPE and open /dev/null in place
//! of closed standard streams, and the program that `run` executes would inherit both.
#![no_main]

/// Called by the C library's start-up code. Rust's standard library has the arguments already: on glibc it reads
/// them in a constructor.
#[unsafe(no_mangle)]
extern "C" fn main(_argc: core::ffi::c_int, _argv: *const *const core::ffi::c_char) -> core::ffi::c_int {
    entresol_cli::main()
}
