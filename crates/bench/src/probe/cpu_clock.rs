//! Reading the clocks of CPU time, beside few and many threads that wait.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use nix::time::{ClockId, clock_gettime};

use super::clock::{median_of, now_ns};
use super::pthread::{Attributes, Task, Thread};
use super::{Measured, futex, report};

/// Bytes of stack for each thread that waits.
const STACK: usize = 64 << 10;

/// Threads that wait for one word.
pub(super) struct Crowd {
    threads: Vec<Thread>,
    go: Arc<AtomicU32>,
}

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Waits as one of the crowd.
pub(super) fn wait_for(word: &AtomicU32) {
    WAITING.fetch_add(1, Ordering::Release);
    while word.load(Ordering::Acquire) == 0 {
        futex::wait(word, 0);
    }
}

impl Crowd {
    /// Makes this many threads that wait, or says why it cannot.
    pub(super) fn gather(size: usize) -> Result<Self, String> {
        Self::gather_for(size, wait_for)
    }

    /// As [`Crowd::gather`], for another task, which must begin with [`wait_for`] on the word that it gets.
    pub(super) fn gather_for(size: usize, task: Task) -> Result<Self, String> {
        WAITING.store(0, Ordering::Relaxed);
        let attributes = Attributes::with_stack(STACK);
        let mut crowd = Self { threads: Vec::with_capacity(size), go: Arc::new(AtomicU32::new(0)) };
        for at in 0..size {
            match Thread::on_word(&attributes, task, &crowd.go) {
                Ok(thread) => crowd.threads.push(thread),
                Err(why) => {
                    crowd.release();
                    crowd.join();
                    return Err(format!("pthread_create after {at} threads: {why}"));
                }
            }
            if at % 1_000 == 0 {
                report::progress(at, size, "threads created");
            }
        }
        while WAITING.load(Ordering::Acquire) < size {
            std::thread::yield_now();
        }
        Ok(crowd)
    }

    /// Lets all go.
    pub(super) fn release(&self) {
        self.go.store(1, Ordering::Release);
        for _ in &self.threads {
            futex::wake_one(&self.go);
        }
    }

    /// Waits for their end.
    pub(super) fn join(self) {
        for thread in self.threads {
            thread.join();
        }
    }
}

/// Nanoseconds a reading of this clock.
fn cost_of(clock: ClockId, quick: bool) -> f64 {
    const BATCHES: usize = 51;
    let reads = if quick { 2_000 } else { 10_000 };
    median_of(BATCHES, || {
        let start = now_ns();
        for _ in 0..reads {
            let _ = black_box(clock_gettime(clock));
        }
        (now_ns() - start) as f64 / f64::from(reads)
    })
}

/// Nanoseconds a reading with one thread and with a thousand.
pub(super) fn measure(quick: bool) -> Measured {
    report::figure("thread_clock", "ns", cost_of(ClockId::CLOCK_THREAD_CPUTIME_ID, quick));
    report::figure("process_clock_1", "ns", cost_of(ClockId::CLOCK_PROCESS_CPUTIME_ID, quick));
    beside(1_000, "process_clock_1k", quick)
}

/// As above with 100,000 threads.
pub(super) fn measure_many(quick: bool) -> Measured {
    beside(100_000, "process_clock_100k", quick)
}

fn beside(threads: usize, figure: &str, quick: bool) -> Measured {
    let crowd = Crowd::gather(threads - 1)?;
    report::figure(figure, "ns", cost_of(ClockId::CLOCK_PROCESS_CPUTIME_ID, quick));
    crowd.release();
    crowd.join();
    Ok(())
}
