//! x86-64: how a thread's state is laid out, how a trap enters the kernel, how a thread is resumed, and how user memory is
//! accessed without crashing.
//!
//! Mechanism only: nothing here decides anything. `host` calls it, and the kernel never sees it.
//!
//! **May touch:** registers and user memory. No function touches thread-local storage, because the FS base always belongs
//! to the program.
//!
//! **Start reading at** [`entry`]: it draws the two stacks and the two windows in which a host signal needs care. Then
//! [`context`] (the two structures that assembly knows) and [`user`] (labelled accesses to user memory).
#![no_std]

pub mod base;
pub mod context;
pub mod entry;
pub mod frame;
#[cfg(feature = "planted")]
pub mod planted;
pub mod raw;
pub mod user;
pub mod xstate;

pub use context::{Context, Gs, Kind};
