//! Two threads wake each other by the C library's mutex and condition variable, on whatever CPUs they run.

use std::thread;

use super::clock::{median_of, now_ns};
use super::pthread::Monitor;
use super::{Measured, report};

const BATCHES: usize = 21;

/// Nanoseconds a hand-over: half a round trip.
pub(super) fn measure(quick: bool) -> Measured {
    let rounds = if quick { 2_000 } else { 5_000 };
    // The number of the thread whose turn it is.
    let turn = Monitor::new(0);
    let value = thread::scope(|scope| {
        scope.spawn(|| (0..BATCHES * rounds).for_each(|_| turn.exchange(1, 0)));
        median_of(BATCHES, || {
            let start = now_ns();
            (0..rounds).for_each(|_| turn.exchange(0, 1));
            (now_ns() - start) as f64 / (2 * rounds) as f64
        })
    });
    report::figure("condvar_handover", "ns", value);
    Ok(())
}
