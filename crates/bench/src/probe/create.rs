//! A thread that does nothing is created and joined.

use super::clock::{median_of, now_ns};
use super::pthread::Thread;
use super::{Measured, report};

/// Microseconds for pthread_create and pthread_join together.
pub(super) fn measure(quick: bool) -> Measured {
    const BATCHES: usize = 21;
    let pairs = if quick { 200 } else { 1_000 };
    let value = median_of(BATCHES, || {
        let start = now_ns();
        for _ in 0..pairs {
            Thread::running(|| {}).expect("a second thread is allowed").join();
        }
        (now_ns() - start) as f64 / f64::from(pairs) / 1e3
    });
    report::figure("create_join", "us", value);
    Ok(())
}
