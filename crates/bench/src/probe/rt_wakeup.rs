//! A real-time thread is woken while ordinary threads spin on every CPU: how long until it runs?

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use super::clock::{now_ns, percentile};
use super::{Measured, futex, pthread, report};

/// A thread of middling priority, as an audio program would choose.
const PRIORITY: i32 = 50;
/// Time between wake-ups, spent spinning by the waker.
const PAUSE_NS: u64 = 300_000;

/// No event has happened.
const SILENT: u32 = 0;
/// An event has happened.
const RUNG: u32 = 1;
/// One of the two threads cannot take part.
const OVER: u32 = 2;

struct Bell {
    /// One of the three above.
    rung: AtomicU32,
    rung_at_ns: AtomicU64,
    answered: AtomicBool,
}

impl Bell {
    fn end(&self) {
        self.rung.store(OVER, Ordering::Release);
        futex::wake_one(&self.rung);
    }

    fn is_over(&self) -> bool {
        self.rung.load(Ordering::Acquire) == OVER
    }
}

/// Microseconds from just before the waker's futex call, on one CPU, to the real-time thread's first instruction on
/// another (on the same one where there is only one).
pub(super) fn measure(quick: bool) -> Measured {
    let samples = if quick { 1_000 } else { 3_000 };
    let cpus = pthread::cpus();
    let bell = Bell { rung: AtomicU32::new(SILENT), rung_at_ns: AtomicU64::new(0), answered: AtomicBool::new(true) };
    let finished = AtomicBool::new(false);
    let mut latencies_us = thread::scope(|scope| {
        let sleeper = scope.spawn(|| answer(&bell, cpus[0], samples));
        let (spinning, last) = cpus.split_at(cpus.len() - 1);
        for &cpu in spinning {
            let finished = &finished;
            scope.spawn(move || {
                let pinned = pthread::pin(cpu);
                while pinned.is_ok() && !finished.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let waker = scope.spawn(|| {
            let pinned = pthread::pin(last[0]);
            match &pinned {
                Ok(()) => ring(&bell, samples),
                Err(_) => bell.end(),
            }
            pinned
        });
        let rung = waker.join().expect("the waker does not panic");
        finished.store(true, Ordering::Relaxed);
        let latencies = sleeper.join().expect("the sleeper does not panic");
        rung.and(latencies)
    })?;
    report::figure("rt_wakeup_p50", "us", percentile(&mut latencies_us, 50));
    report::figure("rt_wakeup_p99", "us", percentile(&mut latencies_us, 99));
    report::figure("rt_wakeup_max", "us", percentile(&mut latencies_us, 100));
    Ok(())
}

/// The real-time thread.
fn answer(bell: &Bell, cpu: usize, samples: usize) -> Result<Vec<f64>, String> {
    pthread::pin(cpu).and_then(|()| pthread::become_fifo(PRIORITY)).inspect_err(|_| bell.end())?;
    let mut latencies_us = Vec::with_capacity(samples);
    while latencies_us.len() < samples {
        while bell.rung.load(Ordering::Acquire) == SILENT {
            futex::wait(&bell.rung, SILENT);
        }
        let now = now_ns();
        if bell.is_over() {
            return Err("the thread that wakes could not be placed".into());
        }
        bell.rung.store(SILENT, Ordering::Relaxed);
        latencies_us.push(now.saturating_sub(bell.rung_at_ns.load(Ordering::Relaxed)) as f64 / 1e3);
        bell.answered.store(true, Ordering::Release);
    }
    Ok(latencies_us)
}

/// The waker: an ordinary thread that spins between two wake-ups, and while the answer is not there.
fn ring(bell: &Bell, samples: usize) {
    for _ in 0..samples {
        while !bell.answered.swap(false, Ordering::Acquire) {
            if bell.is_over() {
                return;
            }
            hint::spin_loop();
        }
        let until = now_ns() + PAUSE_NS;
        while now_ns() < until {
            hint::spin_loop();
        }
        if bell.is_over() {
            return;
        }
        bell.rung_at_ns.store(now_ns(), Ordering::Relaxed);
        bell.rung.store(RUNG, Ordering::Release);
        futex::wake_one(&bell.rung);
    }
}
