//! The processor's atomics: the one place that decides whose they are.

pub use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};

/// Tells the processor that this is a spin loop.
#[inline(always)]
pub fn spin_hint() {
    core::hint::spin_loop();
}
