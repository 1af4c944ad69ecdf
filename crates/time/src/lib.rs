//! Time: when something shall happen, and how much CPU time was used until then.
//!
//! The room knows no host and no clock of its own: every function is told what time it
//! is, so that the simulator and the program run the same rules. Nothing here sends a
//! signal or wakes a thread; a function answers *what* is due and the kernel does it.
//!
//! * [`timeouts`]: the sleeps and futex timeouts of one CPU's threads.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod error;
pub mod timeouts;

pub use error::OutOfMemory;
pub use timeouts::TimeoutQueue;
