//! Locks and shared words for a kernel that has no operating system below it.
//!
//! **May touch:** memory words. Unsafe code is allowed, because this is where exclusive access is made.
//!
//! **Start reading at** [`Lock`]; then [`SeqCount`] (consistent copies of data that is read far more often than written),
//! [`rcu`] (slots that are not reused under a reader), [`LockRef`] (reference counts with a lock) and [`Arena`].
//!
//! Every crate takes its atomics from [`atomic`], so that a model checker (loom, shuttle) can stand in for the processor.
//! [`Lock`] does not sleep in the common case; when the host has preempted its holder, it waits through the hook of
//! [`set_relax`].
#![no_std]

extern crate alloc;
#[cfg(counting)]
extern crate std;

mod arena;
pub mod atomic;
#[cfg(counting)]
pub mod counting;
mod lock;
pub mod lockref;
mod pad;
mod prefetch;
pub mod rcu;
mod seq;
mod zeroed;

pub use arena::{Arena, OutOfMemory, boxed_array, boxed_slice};
pub use lock::{Guard, Lock, Relax, relax, set_relax};
pub use lockref::LockRef;
pub use pad::CachePadded;
pub use prefetch::prefetch;
pub use seq::{SeqCount, Writing};
pub use zeroed::{Zeroed, zeroed_slice};
