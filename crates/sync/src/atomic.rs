//! The processor's atomics: the one place that decides whose they are.
//!
//! With `--cfg shuttle` they are the model checker's, which then chooses who runs between
//! any two accesses.

#[cfg(not(shuttle))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};

/// Tells the processor that this is a spin loop.
#[inline(always)]
pub fn spin_hint() {
    #[cfg(not(shuttle))]
    core::hint::spin_loop();
    #[cfg(shuttle)]
    shuttle::hint::spin_loop();
}
