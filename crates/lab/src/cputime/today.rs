//! Today's Linux: the atomics of 2015, started and stopped under the process lock (an
//! unlocked start can race with stop and leave an armed timer without accounting: fixed in
//! 2021), one expirer at a time, and clocks that never start the accounting: reading
//! one while nothing is armed walks all threads.

use crate::cputime::{Accounting, Atomic, Kind};
use ids::{CpuId, Nanos};
use sync::Lock;
use sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use time::OutOfMemory;
use time::cpu::{CpuClock, Cputime};

/// The atomics of 2015 with today's protocol around them.
#[derive(Debug)]
pub struct Today {
    counters: Atomic,
    /// Linux's `sighand->siglock`.
    process: Lock<()>,
    expiring: AtomicBool,
}

impl Today {
    /// A process with room for `threads` threads.
    pub fn new(threads: usize) -> Today {
        Today { counters: Atomic::new(threads), process: Lock::new(()), expiring: AtomicBool::new(false) }
    }

    /// Runs `expire` unless another thread is expiring; returns whether it ran.
    pub fn expire(&self, expire: impl FnOnce()) -> bool {
        if self.expiring.swap(true, Acquire) {
            return false;
        }
        expire();
        self.expiring.store(false, Release);
        true
    }
}

impl Accounting for Today {
    fn name(&self) -> &'static str {
        "today"
    }

    fn spawn(&self, thread: usize) -> Result<(), OutOfMemory> {
        self.counters.spawn(thread)
    }

    fn account(&self, cpu: CpuId, thread: usize, kind: Kind, span: Nanos) {
        self.counters.account(cpu, thread, kind, span);
    }

    fn exit(&self, cpu: CpuId, thread: usize) {
        self.counters.exit(cpu, thread);
    }

    fn start(&self) -> Cputime {
        let _process = self.process.lock();
        self.counters.start()
    }

    fn stop(&self) {
        let _process = self.process.lock();
        self.counters.stop();
    }

    fn snapshot(&self) -> Cputime {
        self.counters.snapshot()
    }

    fn clock(&self) -> Cputime {
        if self.counters.is_running() { self.counters.snapshot() } else { self.counters.clock() }
    }

    fn arm(&self, clock: CpuClock, at: Nanos) {
        let _process = self.process.lock();
        self.counters.arm(clock, at);
    }

    fn tick(&self, cpu: CpuId, thread: usize) -> bool {
        !self.expiring.load(Acquire) && self.counters.tick(cpu, thread)
    }
}
