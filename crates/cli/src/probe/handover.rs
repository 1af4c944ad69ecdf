//! Two threads on one CPU hand it to each other: by sched_yield and by a futex.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use super::clock::{median_of, now_ns};
use super::{Measured, futex, pthread, report};

const BATCHES: usize = 21;

fn rounds(quick: bool) -> usize {
    if quick { 5_000 } else { 20_000 }
}

/// Runs `first` and `second` as two threads on one CPU; the first one's answer is the figure.
fn on_one_cpu(first: impl FnOnce() -> f64 + Send, second: impl FnOnce() + Send) -> Result<f64, String> {
    // Threads inherit their creator's CPUs.
    pthread::pin(pthread::cpus()[0])?;
    Ok(thread::scope(|scope| {
        scope.spawn(second);
        scope.spawn(first).join().expect("the measuring thread does not panic")
    }))
}

/// Nanoseconds from one thread's yield until the other runs. Counted are yields after which the other thread has
/// run, not calls: a yield that comes back at once has switched nothing.
pub(super) fn by_yield(quick: bool) -> Measured {
    const FIRST: u32 = 1;
    const SECOND: u32 = 2;
    let last_to_run = AtomicU32::new(0);
    let finished = AtomicBool::new(false);
    let rounds = rounds(quick);
    let batch = || {
        let start = now_ns();
        let mut turns = 0;
        for _ in 0..rounds {
            thread::yield_now();
            if last_to_run.load(Ordering::Relaxed) != FIRST {
                last_to_run.store(FIRST, Ordering::Relaxed);
                turns += 1;
            }
        }
        // Between two turns of this thread there were two switches.
        (now_ns() - start) as f64 / f64::from(2 * turns)
    };
    let value = on_one_cpu(
        || {
            let value = median_of(BATCHES, batch);
            finished.store(true, Ordering::Relaxed);
            value
        },
        || {
            while !finished.load(Ordering::Relaxed) {
                last_to_run.store(SECOND, Ordering::Relaxed);
                thread::yield_now();
            }
        },
    )?;
    report::figure("yield_same_cpu", "ns", value);
    Ok(())
}

/// A word that one thread sets and another waits for.
#[derive(Default)]
struct Token(AtomicU32);

impl Token {
    fn give(&self) {
        self.0.store(1, Ordering::Release);
        futex::wake_one(&self.0);
    }

    fn take(&self) {
        while self.0.swap(0, Ordering::Acquire) == 0 {
            futex::wait(&self.0, 0);
        }
    }
}

/// Nanoseconds from one thread's wake-up call until the other runs: half a round trip.
pub(super) fn by_futex(quick: bool) -> Measured {
    let (there, back) = (Token::default(), Token::default());
    let rounds = rounds(quick);
    let value = on_one_cpu(
        || {
            median_of(BATCHES, || {
                let start = now_ns();
                for _ in 0..rounds {
                    there.give();
                    back.take();
                }
                (now_ns() - start) as f64 / (2 * rounds) as f64
            })
        },
        || {
            for _ in 0..BATCHES * rounds {
                there.take();
                back.give();
            }
        },
    )?;
    report::figure("futex_handover_same_cpu", "ns", value);
    Ok(())
}
