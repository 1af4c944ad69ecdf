//! A thread that waits in `read(2)` on a pipe is woken while ordinary threads spin on every CPU: how long until it runs?

use std::fs::File;
use std::hint;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::clock::{now_ns, percentile};
use super::{Measured, pthread, report};

/// How long the writer spins between wake-ups: longer than a slice, so that the reader is entitled to run.
const PAUSE_NS: u64 = 1_000_000;

/// Microseconds from just before the write, by one of as many ordinary threads as there are CPUs, all of which spin, to
/// the reader's return from its call. No thread is bound to a CPU.
pub(super) fn measure(quick: bool) -> Measured {
    let samples = if quick { 300 } else { 1_000 };
    let (mut from, mut to) = pipe()?;
    let (answered, finished) = (AtomicUsize::new(0), AtomicBool::new(false));
    let spinning = pthread::cpus().len() - 1;
    let mut latencies_us = thread::scope(|scope| {
        for _ in 0..spinning {
            scope.spawn(|| {
                while !finished.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let reader = scope.spawn(|| {
            let mut latencies_us = Vec::with_capacity(samples);
            let mut written_at = [0; 8];
            while from.read_exact(&mut written_at).is_ok() {
                latencies_us.push(now_ns().saturating_sub(u64::from_ne_bytes(written_at)) as f64 / 1e3);
                answered.fetch_add(1, Ordering::Release);
            }
            latencies_us
        });
        for sample in 0..samples {
            let until = now_ns() + PAUSE_NS;
            while now_ns() < until {
                hint::spin_loop();
            }
            if to.write_all(&now_ns().to_ne_bytes()).is_err() {
                break;
            }
            while answered.load(Ordering::Acquire) <= sample {
                hint::spin_loop();
            }
        }
        finished.store(true, Ordering::Relaxed);
        drop(to);
        reader.join().expect("the reader does not panic")
    });
    report::figure("pipe_wakeup_p50", "us", percentile(&mut latencies_us, 50));
    report::figure("pipe_wakeup_p99", "us", percentile(&mut latencies_us, 99));
    Ok(())
}

fn pipe() -> Result<(File, File), String> {
    let mut ends = [0; 2];
    // SAFETY: fills both.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err("no pipe".into());
    }
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}
