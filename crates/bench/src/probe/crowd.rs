//! 100,000 threads with small stacks are created and wait, each for its own word.

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::clock::now_ns;
use super::pthread::{Attributes, Thread, Work};
use super::{Measured, futex, report};

/// How many threads.
pub(super) const THREADS: usize = 100_000;
/// Bytes of stack for each.
pub(super) const STACK: usize = 64 << 10;
/// Progress is reported every so many threads.
const STEP: usize = 1_000;

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Waits for its word.
struct Wait;

impl Work for Wait {
    fn run(word: &AtomicU32) {
        WAITING.fetch_add(1, Ordering::Release);
        while word.load(Ordering::Acquire) == 0 {
            futex::wait(word, 0);
        }
    }
}

/// Resident KiB and microseconds of creation for each thread: from the first pthread_create until all have run and
/// wait.
pub(super) fn measure() -> Measured {
    let words: &[AtomicU32] = (0..THREADS).map(|_| AtomicU32::new(0)).collect::<Vec<_>>().leak();
    let mut threads = Vec::with_capacity(THREADS);
    // Touched before memory is counted, so that they do not count.
    threads.resize_with(THREADS, || None);
    let attributes = Attributes::with_stack(STACK);
    let before = resident_bytes();
    let start = now_ns();
    let mut refusal = None;
    for (at, (word, slot)) in words.iter().zip(&mut threads).enumerate() {
        match Thread::on_static_word::<Wait>(&attributes, word) {
            Ok(thread) => *slot = Some(thread),
            Err(why) => {
                refusal = Some(format!("pthread_create after {at} threads: {why}"));
                break;
            }
        }
        if at % STEP == 0 {
            report::progress(at, THREADS, "threads created");
        }
    }
    let created = threads.iter().flatten().count();
    while WAITING.load(Ordering::Acquire) < created {
        std::thread::yield_now();
    }
    let took_ns = now_ns() - start;
    let resident = resident_bytes().saturating_sub(before);
    for (word, thread) in words.iter().zip(threads) {
        word.store(1, Ordering::Release);
        futex::wake_one(word);
        if let Some(thread) = thread {
            thread.join();
        }
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    report::figure("threads_100k_resident", "KiB", resident as f64 / 1024.0 / THREADS as f64);
    report::figure("threads_100k_create", "us", took_ns as f64 / 1e3 / THREADS as f64);
    Ok(())
}

/// Memory of this process that is resident (the second number of statm, see proc(5)).
pub(super) fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|number| number.parse::<usize>().ok()).unwrap_or(0);
    pages * 4096
}
