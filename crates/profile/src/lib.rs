//! Where a program's threads spend CPU time, or wall time: a profile of the samples that its image has written.
//!
//! - [`collect`](mod@collect) makes one [`Profile`](collect::Profile) of all records: equal stacks of one thread are one
//!   entry.
//! - `stacks` unwinds; [`modules`] tells which file's code lay where, and what a function there is called.
//! - [`own`] tells which of a program's code is not its toolchain's.
//! - [`variables`] tells what the variable at an address is called.
//! - [`pprof`] and [`flame`] write the profile.
//!
//! The command `entresol profile` (crate `cli`) runs the program and names the files.
//!
//! **May touch:** the programs' files, for their symbols and unwind tables. **Start reading at** [`collect`](mod@collect).

pub mod collect;
pub mod flame;
pub mod modules;
pub mod own;
pub mod pprof;
mod stacks;
pub mod variables;

/// How often threads are sampled, and by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Samples in a second.
    pub hz: u32,
    /// By the wall clock, all threads.
    pub wall: bool,
}
