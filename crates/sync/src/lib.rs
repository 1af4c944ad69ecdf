//! Locks and shared words for a kernel that has no operating system under it.
//!
//! Every room takes its atomics from [`atomic`], so that a model checker can stand in
//! for the processor. [`Lock`] never sleeps in the common case; when its holder has been
//! descheduled by the host, it waits through the hook of [`set_relax`].
//!
//! For what is read far more often than written: [`SeqCount`] (copies that are whole), [`rcu`] (slots that
//! are not used again under a reader), and for what cannot do without references, [`LockRef`].
#![no_std]

extern crate alloc;
#[cfg(counting)]
extern crate std;

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

pub use lock::{Guard, Lock, Relax, relax, set_relax};
pub use lockref::LockRef;
pub use pad::CachePadded;
pub use prefetch::prefetch;
pub use seq::{SeqCount, Writing};
pub use zeroed::{Zeroed, zeroed_slice};
