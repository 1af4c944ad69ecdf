//! Locks and shared words for a kernel that has no operating system under it.
//!
//! Every room takes its atomics from [`atomic`], so that a model checker can stand in
//! for the processor. [`Lock`] never sleeps in the common case; when its holder has been
//! descheduled by the host, it waits through the hook of [`set_relax`].
#![no_std]

extern crate alloc;

pub mod atomic;
mod lock;
mod pad;
mod zeroed;

pub use lock::{Guard, Lock, Relax, relax, set_relax};
pub use pad::CachePadded;
pub use zeroed::{Zeroed, zeroed_slice};
