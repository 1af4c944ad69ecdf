//! Two threads on one CPU hand it to each other: by sched_yield and by a futex.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::clock::{median_of, now_ns};
use super::{Measured, futex, pthread, report};

const BATCHES: usize = 21;

fn rounds(quick: bool) -> usize {
    if quick { 5_000 } else { 20_000 }
}

/// Runs the same code, `player`, as `0` and `1` in two threads on one CPU, and returns the figure of player 0. If the
/// code differed, the processor's return predictions would fail after each switch, and that would be measured too.
fn on_one_cpu(player: impl Fn(u32) -> f64 + Sync) -> Result<f64, String> {
    // Threads inherit their creator's CPUs.
    pthread::pin(pthread::cpus()[0])?;
    Ok(thread::scope(|scope| {
        scope.spawn(|| player(1));
        scope.spawn(|| player(0)).join().expect("a player does not panic")
    }))
}

/// Nanoseconds from one thread's yield until the other runs. Counted are yields after which the other thread has
/// run, not calls: a yield that comes back at once has switched nothing.
pub(super) fn by_yield(quick: bool) -> Measured {
    let last_to_run = AtomicU32::new(u32::MAX);
    let rounds = rounds(quick);
    let batch = |me: u32| {
        let start = now_ns();
        let mut turns = 0;
        for _ in 0..rounds {
            thread::yield_now();
            if last_to_run.load(Ordering::Relaxed) != me {
                last_to_run.store(me, Ordering::Relaxed);
                turns += 1;
            }
        }
        // Between two turns of this thread there were two switches.
        (now_ns() - start) as f64 / f64::from(2 * turns)
    };
    let value = on_one_cpu(|me| median_of(BATCHES, || batch(me)))?;
    report::figure("yield_same_cpu", "ns", value);
    Ok(())
}

/// Nanoseconds from one thread's wake-up call until the other runs: half a round trip. One word holds the thread whose
/// turn it is.
pub(super) fn by_futex(quick: bool) -> Measured {
    let turn = AtomicU32::new(0);
    let rounds = rounds(quick);
    let batch = |me: u32| {
        let other = 1 - me;
        let start = now_ns();
        for _ in 0..rounds {
            while turn.load(Ordering::Acquire) != me {
                futex::wait(&turn, other);
            }
            turn.store(other, Ordering::Release);
            futex::wake_one(&turn);
        }
        (now_ns() - start) as f64 / (2 * rounds) as f64
    };
    let value = on_one_cpu(|me| median_of(BATCHES, || batch(me)))?;
    report::figure("futex_handover_same_cpu", "ns", value);
    Ok(())
}
