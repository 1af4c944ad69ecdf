//! A system call that only the host can answer and that never waits.

use super::clock::{median_of, now_ns};
use super::{Measured, report};

/// Nanoseconds a getppid.
pub(super) fn measure(quick: bool) -> Measured {
    const BATCHES: usize = 51;
    let calls = if quick { 5_000 } else { 20_000 };
    let value = median_of(BATCHES, || {
        let start = now_ns();
        for _ in 0..calls {
            // SAFETY: has no effect. The C library does not cache the answer.
            std::hint::black_box(unsafe { libc::getppid() });
        }
        (now_ns() - start) as f64 / f64::from(calls)
    });
    report::figure("passthrough_getppid", "ns", value);
    Ok(())
}
