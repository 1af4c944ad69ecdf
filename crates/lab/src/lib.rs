//! The laboratory: designs that kernels have had, side by side with ours, behind one
//! trait each, so that they can be raced, modelled and broken.
//!
//! Nothing that runs programs depends on this room; the simulator lets its schedulers run. The old designs are rebuilt from what
//! their authors wrote about them, with the traps they had; each says which.
//!
//! * [`cost`]: a model of machines larger than the one at hand.
//! * [`cputime`]: five ways to know how much CPU time a process has consumed.
//! * [`posix_timers`]: five ways to find a POSIX timer by its id.
//! * [`procfs`]: five ways to look a name up in `/proc`.
//! * [`rt_balance`]: three ways to move real-time threads between CPUs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cost;
pub mod cputime;
pub mod posix_timers;
pub mod procfs;
pub mod rt_balance;
