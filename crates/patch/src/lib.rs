//! Patching: turns the `syscall` instructions of x86-64 code into jumps.
//!
//! A trapped system call costs a signal, about a microsecond; a patched one costs a few nanoseconds. So the system calls of
//! the C library, the dynamic linker and the vDSO become jumps to stubs of ours before the program's main function runs.
//!
//! **May touch:** byte slices. Mapping and protecting memory is the image's business.
//!
//! **Start reading at** [`plan`], in this order:
//! 1. [`elf`]: the parts of an object that is already in memory.
//! 2. [`plan`]: which `syscall`s can be replaced, and by how many bytes.
//! 3. [`emit_stub`], [`emit_jump`]: the bytes to write; [`Stubs`]: those of a whole piece of code.
//! 4. [`point`]: jumps and breakpoints that make scheduling points of other code; [`operand()`]: what is accessed there.
//! 5. [`Places`]: the program counter that the program would have while it is in a stub.
//!
//! [`program`] is the rule for which programs the image can enter at all.
//!
//! [`record`] and [`recall`] keep a plan in a file, so that an object is analysed once and not at every start;
//! [`make_ready`] keeps a whole library with its plan carried out, so that it is not even patched at every start.
//!
//! A site that cannot be proven safe is left alone: an unpatched `syscall` still reaches us through Syscall User Dispatch,
//! only slower. `int $0x80` and `sysenter` are never touched.
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
mod fixed;
mod lanes;
mod liveness;
mod operand;
mod places;
mod plan;
pub mod point;
pub mod program;
mod ready;
mod recorded;
mod site;
mod stub;
mod stubs;
mod vector;

pub use code::{Code, Function, Functions, Trust};
pub use fixed::{RANGE as FIXED_RANGE, at_fixed_addresses};
pub use operand::{Operand, operand};
pub use places::Places;
pub use plan::{Census, plan};
pub use ready::{NUMBER, Part, Ready, TRAILER_LEN, is_kept_ready, make_ready, ready_suffix};
pub use recorded::{is_c_library, plan_suffix, recall, record};
pub use site::{Form, SYSCALL_LEN, Site};
pub use stub::{EmitError, STUB_LEN_MAX, Slots, Stub, emit_jump, emit_stub};
pub use stubs::{Replacement, Stubs};
