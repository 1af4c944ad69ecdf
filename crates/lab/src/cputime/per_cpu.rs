//! Generation 1, 2008: totals per CPU, for every process of more than one thread, whether
//! a timer is armed or not. No lock and no shared line, but the memory of a slot per CPU,
//! an allocation at the second thread that can fail, and two traps:
//!
//! * a snapshot sums over *online* CPUs: what was consumed on a CPU that went offline is
//!   gone ([`PerCpu::sum_possible`] is the repair);
//! * the first thread's earlier time must be put into a slot when the totals are made,
//!   or the process's clock jumps back.

use crate::cputime::threads::Fields;
use crate::cputime::{Accounting, Kind, Threads, is_due};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{CpuId, Nanos};
use once_cell::race::OnceBox;
use sync::CachePadded;
use sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use time::OutOfMemory;
use time::cpu::{CpuClock, Cputime, ExpiryCache};

type Slots = Box<[CachePadded<Fields>]>;

/// Totals per CPU.
#[derive(Debug)]
pub struct PerCpu {
    threads: Threads,
    totals: OnceBox<Slots>,
    cpus: usize,
    online: AtomicU64,
    spawned: AtomicUsize,
    expires: ExpiryCache,
    /// For tests: the next allocation fails.
    memory_is_short: AtomicBool,
}

impl PerCpu {
    /// A process with room for `threads` threads on `cpus` CPUs (at most 64). With one CPU
    /// this is the uniprocessor variant: the totals are there from the start.
    pub fn new(threads: usize, cpus: usize) -> PerCpu {
        assert!((1..=64).contains(&cpus));
        let totals = if cpus == 1 { OnceBox::with_value(Box::new(slots(1))) } else { OnceBox::new() };
        PerCpu {
            threads: Threads::new(threads),
            totals,
            cpus,
            online: AtomicU64::new(u64::MAX >> (64 - cpus)),
            spawned: AtomicUsize::new(0),
            expires: ExpiryCache::new(),
            memory_is_short: AtomicBool::new(false),
        }
    }

    /// Makes the next allocation fail.
    pub fn run_short_of_memory(&self) {
        self.memory_is_short.store(true, Relaxed);
    }

    /// Takes a CPU off, or puts it back.
    pub fn set_online(&self, cpu: CpuId, online: bool) {
        let bit = 1 << cpu.index();
        if online {
            self.online.fetch_or(bit, Relaxed)
        } else {
            self.online.fetch_and(!bit, Relaxed)
        };
    }

    /// The memory of the totals, in bytes; nothing for a process of one thread.
    pub fn bytes(&self) -> usize {
        self.totals.get().map_or(0, |slots| size_of_val(&**slots))
    }

    /// The sum over all CPUs, online or not.
    pub fn sum_possible(&self) -> Cputime {
        self.sum(u64::MAX)
    }

    fn sum(&self, cpus: u64) -> Cputime {
        let Some(slots) = self.totals.get() else { return self.threads.walk() };
        let counted = slots.iter().enumerate().filter(|(cpu, _)| cpus >> cpu & 1 != 0);
        counted.fold(Cputime::ZERO, |sum, (_, slot)| sum + slot.read())
    }

    fn allocate(&self) -> Result<(), OutOfMemory> {
        if self.memory_is_short.swap(false, Relaxed) {
            return Err(OutOfMemory);
        }
        let slots = slots(self.cpus);
        slots[0].set(self.threads.walk());
        // Only the process's one thread gets here: it creates the second.
        let _ = self.totals.set(Box::new(slots));
        Ok(())
    }
}

fn slots(cpus: usize) -> Slots {
    (0..cpus).map(|_| CachePadded::default()).collect::<Vec<_>>().into_boxed_slice()
}

impl Accounting for PerCpu {
    fn name(&self) -> &'static str {
        if self.cpus == 1 { "per-cpu (UP)" } else { "per-cpu" }
    }

    fn spawn(&self, thread: usize) -> Result<(), OutOfMemory> {
        if self.spawned.load(Relaxed) > 0 && self.totals.get().is_none() {
            self.allocate()?;
        }
        self.spawned.fetch_add(1, Relaxed);
        self.threads.spawn(thread);
        Ok(())
    }

    fn account(&self, cpu: CpuId, thread: usize, kind: Kind, span: Nanos) {
        self.threads.add(thread, kind, span);
        if let Some(slots) = self.totals.get() {
            slots[cpu.index() % self.cpus].add(kind, span);
        }
    }

    fn exit(&self, _: CpuId, thread: usize) {
        self.threads.exit(thread);
    }

    fn start(&self) -> Cputime {
        self.snapshot()
    }

    fn stop(&self) {}

    fn snapshot(&self) -> Cputime {
        self.sum(self.online.load(Relaxed))
    }

    fn clock(&self) -> Cputime {
        self.snapshot()
    }

    fn arm(&self, clock: CpuClock, at: Nanos) {
        self.expires.set(clock, at);
    }

    fn tick(&self, _: CpuId, _: usize) -> bool {
        is_due(&self.expires, || self.snapshot())
    }
}
