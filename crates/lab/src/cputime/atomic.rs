//! Generation 3, 2015: three atomic words instead of the lock.
//!
//! Starting raises each word to *at least* the sum of all threads and only then reports
//! "running". Setting would be wrong: another thread may start at the same moment with a
//! larger sum, and an accounter that saw "running" in an earlier epoch may be adding right
//! now; the clock could fall below an expiry that the program has already seen. Raising
//! can only count too much: a thread adds to its own field, a starter's walk sees it, and
//! then the thread's add to the group is counted as well.

use crate::cputime::threads::Fields;
use crate::cputime::{Accounting, Kind, Threads, is_due};
use ids::{CpuId, Nanos};
use sync::CachePadded;
use sync::atomic::{AtomicBool, Ordering::Relaxed};
use time::OutOfMemory;
use time::cpu::{CpuClock, Cputime, ExpiryCache};

/// Three atomic words.
#[derive(Debug)]
pub struct Atomic {
    threads: Threads,
    running: AtomicBool,
    total: CachePadded<Fields>,
    expires: ExpiryCache,
}

impl Atomic {
    /// A process with room for `threads` threads.
    pub fn new(threads: usize) -> Atomic {
        Atomic {
            threads: Threads::new(threads),
            running: AtomicBool::new(false),
            total: CachePadded::default(),
            expires: ExpiryCache::new(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Relaxed)
    }
}

impl Accounting for Atomic {
    fn name(&self) -> &'static str {
        "atomics"
    }

    fn spawn(&self, thread: usize) -> Result<(), OutOfMemory> {
        self.threads.spawn(thread);
        Ok(())
    }

    fn account(&self, _: CpuId, thread: usize, kind: Kind, span: Nanos) {
        self.threads.add(thread, kind, span);
        if self.is_running() {
            self.total.of(kind).fetch_add(span.0, Relaxed);
        }
    }

    fn exit(&self, _: CpuId, thread: usize) {
        self.threads.exit(thread);
    }

    fn start(&self) -> Cputime {
        if !self.is_running() {
            self.total.raise(self.threads.walk());
            self.running.store(true, Relaxed);
        }
        self.snapshot()
    }

    fn stop(&self) {
        if self.expires.is_empty() {
            self.running.store(false, Relaxed);
        }
    }

    fn snapshot(&self) -> Cputime {
        self.total.read()
    }

    fn clock(&self) -> Cputime {
        self.threads.walk()
    }

    fn arm(&self, clock: CpuClock, at: Nanos) {
        self.start();
        self.expires.set(clock, at);
    }

    fn tick(&self, _: CpuId, _: usize) -> bool {
        self.is_running() && is_due(&self.expires, || self.snapshot())
    }
}
