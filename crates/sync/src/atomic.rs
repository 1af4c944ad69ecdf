//! The one place that decides whose atomics are used.
//!
//! Built with `--cfg loom` or `--cfg shuttle`, every crate's atomics are that model checker's, and a spinning thread
//! lets the checker run another one. Built with `--cfg counting`, each write is recorded by address.

#[cfg(loom)]
use loom::sync::atomic as whose;
#[cfg(shuttle)]
use shuttle::sync::atomic as whose;

#[cfg(not(any(loom, shuttle, counting)))]
use core::sync::atomic as whose;

#[cfg(counting)]
use crate::counting as whose;

pub use whose::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};

/// Tells the processor that this is a spin loop.
#[inline(always)]
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    core::hint::spin_loop();
}
