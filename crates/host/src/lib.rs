//! The real machine: what the kernel stands on when it runs inside a program on Linux.
//!
//! - [`carrier`]: the host threads that lend themselves to CPUs, and those that wait to; `alarms`: their
//!   host timers.
//! - [`seat`]: who serves which CPU; kicks; giving a CPU away before a host call that waits.
//! - `run`: from a trap to the kernel and from its [`kernel::Next`] to a resumed thread.
//! - [`handlers`]: the host's signals: dispatch, tick and kick, interrupt, faults.
//! - [`machine`]: the kernel's `trait Machine`, piece by piece; `states`: registers of threads that do not run.
//! - [`process`]: exit, fork, vfork, exec.
//! - `identity`: whose rights each host thread has, and that a thread runs with its own.
//! - [`service`]: the service thread; [`watch`]: what it does while threads compete; [`page`]: what it publishes.
//! - `delegate`: a spare makes a host call that waits; [`takeover`]: how a CPU is taken from a carrier that the host keeps.
//! - [`recorder`]: what is written down for a profile.
//! - [`sites`]: where the program believes to be when it is in a stub of ours.
//! - [`survey`]: who is where, for the last words.
//!
//! No rule of scheduling, time or signals lives here (law 1); what the scheduler decided is
//! checked here (law 2).
#![no_std]

extern crate alloc;

pub mod ahead;
mod alarms;
mod bounds;
pub mod carrier;
mod clock;
mod contexts;
mod debugger;
mod delegate;
pub mod exec;
pub mod handlers;
mod identity;
mod ids_file;
mod left;
pub mod machine;
pub mod order;
pub mod os;
pub mod page;
pub mod place;
#[cfg(feature = "planted")]
pub mod planted;
pub mod process;
pub mod recorder;
pub mod report;
mod request;
mod run;
mod scarce;
pub mod seat;
pub mod service;
pub mod sites;
mod states;
mod stops;
pub mod survey;
pub mod takeover;
mod terminal;
mod times;
pub mod watch;

pub use machine::{Host, kernel};
