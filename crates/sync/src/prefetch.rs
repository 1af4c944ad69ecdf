//! Asking for memory before it is needed.

/// Prefetches the first `lines` cache lines of `what`, 64 bytes each. Changes only when later accesses complete.
#[inline(always)]
pub fn prefetch<T>(what: &T, lines: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for i in 0..lines.min(size_of::<T>().div_ceil(64)) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = core::ptr::from_ref(what).cast::<i8>().wrapping_add(i * 64);
        // SAFETY: a prefetch is a hint for any address whatever; it reads nothing that the program could see and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (what, lines);
}
