//! A thread that computes next to others that wait, and reports for each line of the input how much it computed in a
//! span.

use std::hint::black_box;
use std::io::stdin;

use super::clock::now_ns;
use super::cpu_clock::Crowd;
use super::{Measured, report};

/// Threads that wait, to be shown.
const OTHERS: usize = 100;
const SPAN_NS: u64 = 300_000_000;

/// A figure for each line of the input: rounds in a span.
pub(super) fn measure() -> Measured {
    let crowd = Crowd::gather(OTHERS)?;
    for _ in stdin().lines() {
        report::figure("watched_rounds", "rounds", compute());
    }
    crowd.release();
    crowd.join();
    Ok(())
}

fn compute() -> f64 {
    let (mut rounds, mut state, end) = (0_u32, 1_u64, now_ns() + SPAN_NS);
    while now_ns() < end {
        for _ in 0..1_000 {
            state ^= black_box(state) << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        rounds += 1;
    }
    black_box(state);
    f64::from(rounds)
}
