//! The laboratory: designs that kernels have had, beside ours, behind one trait each, so that they can be raced, modelled
//! and broken.
//!
//! The old designs are rebuilt from what their authors wrote about them, including their faults; each module cites its
//! source.
//!
//! **May touch:** its own tables. Nothing that runs programs depends on this crate; the simulator runs its schedulers.
//!
//! **Start reading at** one subject:
//! * [`cputime`]: five ways to know how much CPU time a process has consumed.
//! * [`posix_timers`]: five ways to find a POSIX timer by its id.
//! * [`procfs`]: five ways to look a name up in `/proc`.
//! * [`fair`]: four ways to share a CPU fairly.
//! * [`rt_balance`]: three ways to move real-time threads between CPUs.
//! * [`cost`]: a model of machines larger than the one at hand.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cost;
pub mod cputime;
pub mod fair;
pub mod posix_timers;
pub mod procfs;
pub mod rt_balance;
