//! Time: when something shall happen, and how much CPU time was used until then.
//!
//! The room knows no host and no clock of its own: every function is told what time it
//! is, so that the simulator and the program run the same rules. Nothing here sends a
//! signal or wakes a thread; a function answers *what* is due and the kernel does it.
//!
//! * [`timeouts`]: the sleeps and futex timeouts of one CPU's threads.
//! * [`cpu`]: CPU time of threads and processes, and its timers and limits.
//! * [`posix`]: POSIX timers.
//! * [`real`]: ITIMER_REAL and `alarm`.
//! * [`ClockId`]: which clocks there are and what each can do.
//! * [`heap`]: the queue under all of them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod chunked;
mod clock_id;
pub mod cpu;
mod error;
pub mod heap;
mod planted;
pub mod posix;
pub mod real;
pub mod timeouts;

pub use clock_id::{ClockId, CpuClockId, CpuTarget, Who};
pub use cpu::CpuClock;
pub use error::{Error, OutOfMemory};
pub use heap::{Heap, Places};
pub use timeouts::TimeoutQueue;
