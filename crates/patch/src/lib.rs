//! Patching: turns the `syscall` instructions of x86-64 code into jumps.
//!
//! A trapped system call costs a signal, about a microsecond; a patched one a few
//! nanoseconds. So, before the program's main function, the system calls of the C
//! library, the dynamic loader and the vDSO are replaced by jumps to stubs of ours.
//!
//! This room only reads bytes and writes bytes; who maps and protects them is not its
//! business. In order:
//! 1. [`elf`]: what lies where in an object that is already in memory.
//! 2. [`plan`]: which `syscall`s can be replaced, and by how many bytes.
//! 3. [`emit_stub`], [`emit_jump`]: the bytes to write.
//! 4. [`Places`]: where the program believes to be while it is in a stub.
//!
//! [`record`] and [`recall`] keep a plan in a file, so that an object is analysed once and not at every start.
//!
//! What cannot be proven is left alone: an unpatched `syscall` still reaches us through
//! Syscall User Dispatch, only slower. `int $0x80` and `sysenter` are never touched.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod branches;
mod code;
mod decode;
#[cfg(test)]
mod differential;
pub mod elf;
mod lanes;
mod liveness;
mod places;
mod plan;
mod recorded;
mod site;
mod stub;
mod vector;

pub use code::{Code, Function, Functions, Trust};
pub use places::Places;
pub use plan::{Census, plan};
pub use recorded::{is_c_library, plan_suffix, recall, record};
pub use site::{Form, Site};
pub use stub::{EmitError, STUB_LEN_MAX, Slots, Stub, emit_jump, emit_stub};
