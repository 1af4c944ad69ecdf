//! x86-64, and nothing but x86-64: how a thread's state is laid out, how a trap enters
//! the kernel and how a thread is resumed, how user memory is touched without dying.
//!
//! Mechanism only. Nothing in here decides anything; the machine (`host`) calls it, and
//! the kernel never sees it. Start reading at [`entry`]: it draws the two stacks and the
//! two windows in which a signal of the host must be careful.
//!
//! No function here touches thread-local storage, the FS base is the user's at all times.
#![no_std]

pub mod base;
pub mod context;
pub mod entry;
pub mod frame;
pub mod raw;
pub mod user;
pub mod xstate;

pub use context::{Context, Gs, Kind};
