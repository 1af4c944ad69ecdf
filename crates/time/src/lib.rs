//! Time: when something is due, and how much CPU time has been used.
//!
//! The caller passes the time to every function, so the simulator and the program run the same rules. Nothing here
//! sends a signal or wakes a thread: a function returns *what* is due, and the kernel acts on it.
//!
//! **May touch:** its own tables; time is an argument.
//!
//! **Start reading at** [`heap`] (the queue under everything), then [`cpu`] and [`posix`].
//!
//! | module | subject |
//! |---|---|
//! | [`timeouts`] | sleeps and futex timeouts of one CPU's threads |
//! | [`cpu`] | CPU time of threads and processes, its timers and limits |
//! | [`posix`] | POSIX timers: ids, slots, expiry queues |
//! | [`ClockId`] | which clocks exist and what each can do |
//! | [`heap`] | the priority queue under all of them |
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
pub mod timeouts;

pub use clock_id::{ClockId, CpuClockId, CpuTarget, Who};
pub use cpu::CpuClock;
pub use error::Error;
pub use heap::{Heap, Places};
pub use sync::OutOfMemory;
pub use timeouts::TimeoutQueue;
