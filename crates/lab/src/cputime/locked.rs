//! Generation 2, 2009 to 2015: one structure, one spinlock, kept only while a timer is
//! armed ("running"). Three lock round trips per thread and tick: on 16 sockets more than
//! 30 % of all time was spent at this lock.

use crate::cputime::{Accounting, Kind, Threads, is_due};
use ids::{CpuId, Nanos};
use sync::Lock;
use sync::atomic::{AtomicBool, Ordering::Relaxed};
use time::OutOfMemory;
use time::cpu::{CpuClock, Cputime, ExpiryCache};

/// One structure and one lock.
#[derive(Debug)]
pub struct Locked {
    threads: Threads,
    running: AtomicBool,
    total: Lock<Cputime>,
    expires: ExpiryCache,
}

impl Locked {
    /// A process with room for `threads` threads.
    pub fn new(threads: usize) -> Locked {
        Locked {
            threads: Threads::new(threads),
            running: AtomicBool::new(false),
            total: Lock::new(Cputime::ZERO),
            expires: ExpiryCache::new(),
        }
    }
}

impl Accounting for Locked {
    fn name(&self) -> &'static str {
        "spinlock"
    }

    fn spawn(&self, thread: usize) -> Result<(), OutOfMemory> {
        self.threads.spawn(thread);
        Ok(())
    }

    fn account(&self, _: CpuId, thread: usize, kind: Kind, span: Nanos) {
        self.threads.add(thread, kind, span);
        if self.running.load(Relaxed) {
            kind.add(&mut self.total.lock(), span);
        }
    }

    fn exit(&self, _: CpuId, thread: usize) {
        self.threads.exit(thread);
    }

    fn start(&self) -> Cputime {
        if self.running.load(Relaxed) {
            return *self.total.lock();
        }
        // The walk comes first and without the lock. An accounter of an earlier epoch may add in between, so the totals
        // are raised, not set.
        let sum = self.threads.walk();
        let mut total = self.total.lock();
        self.running.store(true, Relaxed);
        *total = Cputime {
            utime: total.utime.max(sum.utime),
            stime: total.stime.max(sum.stime),
            exec: total.exec.max(sum.exec),
        };
        *total
    }

    fn stop(&self) {
        let _total = self.total.lock();
        if self.expires.is_empty() {
            self.running.store(false, Relaxed);
        }
    }

    fn snapshot(&self) -> Cputime {
        *self.total.lock()
    }

    fn clock(&self) -> Cputime {
        self.threads.walk()
    }

    fn arm(&self, clock: CpuClock, at: Nanos) {
        self.start();
        self.expires.set(clock, at);
    }

    fn tick(&self, _: CpuId, _: usize) -> bool {
        self.running.load(Relaxed) && is_due(&self.expires, || self.snapshot())
    }
}
