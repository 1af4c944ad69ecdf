//! Generation 0, before 2008: nothing is kept for the process. A timer's remaining time is divided among the threads
//! in equal shares. A thread that uses up its share adds up all threads and, if the timer is not due, divides again
//! ("rebalancing"), for each clock.
//!
//! With many threads a share is shorter than a tick, so *every* tick walks all threads up to four times. Once that
//! takes longer than a tick, the program makes no progress: "Weird hang with NPTL and SIGPROF" (Linux bug 9906).

use crate::cputime::{Accounting, Kind, Threads};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{CpuId, Nanos};
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{CachePadded, Lock};
use time::OutOfMemory;
use time::cpu::{CpuClock, Cputime, ExpiryCache};

/// The walk of all threads.
#[derive(Debug)]
pub struct Walk {
    threads: Threads,
    /// Each thread's share: the reading of its own clock at which it must look.
    shares: Box<[CachePadded<ExpiryCache>]>,
    expires: ExpiryCache,
    /// The tick's work is done under locks that stop every other tick of the process.
    tasklist: Lock<()>,
    visits: AtomicU64,
}

impl Walk {
    /// A process with room for `threads` threads.
    pub fn new(threads: usize) -> Walk {
        Walk {
            threads: Threads::new(threads),
            shares: (0..threads).map(|_| CachePadded::default()).collect::<Vec<_>>().into_boxed_slice(),
            expires: ExpiryCache::new(),
            tasklist: Lock::new(()),
            visits: AtomicU64::new(0),
        }
    }

    /// How many threads were visited by walks so far.
    pub fn visits(&self) -> u64 {
        self.visits.load(Relaxed)
    }

    fn visit(&self, threads: usize) {
        self.visits.fetch_add(threads as u64, Relaxed);
    }

    fn sum(&self) -> Cputime {
        self.visit(self.threads.slots());
        self.threads.walk()
    }

    /// Distributes what is left on `clock` among the living (`process_timer_rebalance`).
    fn rebalance(&self, clock: CpuClock, sum: &Cputime) {
        self.visit(2 * self.threads.slots());
        let living = (0..self.threads.slots()).filter(|&t| self.threads.is_alive(t));
        let share = self.expires.next(clock).since(sum.of(clock)).0 / (living.clone().count() as u64).max(1);
        for thread in living {
            self.shares[thread].set(clock, self.threads.read(thread).of(clock) + Nanos(share));
        }
    }

    fn rebalance_armed(&self, sum: &Cputime) {
        for clock in CpuClock::ALL {
            if self.expires.next(clock) != Nanos::MAX {
                self.rebalance(clock, sum);
            }
        }
    }
}

impl Accounting for Walk {
    fn name(&self) -> &'static str {
        "walk"
    }

    fn spawn(&self, thread: usize) -> Result<(), OutOfMemory> {
        self.threads.spawn(thread);
        self.shares[thread].clear();
        if !self.expires.is_empty() {
            let _all = self.tasklist.lock();
            self.rebalance_armed(&self.sum());
        }
        Ok(())
    }

    fn account(&self, _: CpuId, thread: usize, kind: Kind, span: Nanos) {
        self.threads.add(thread, kind, span);
    }

    fn exit(&self, _: CpuId, thread: usize) {
        self.threads.exit(thread);
    }

    fn start(&self) -> Cputime {
        self.sum()
    }

    fn stop(&self) {
        self.shares.iter().for_each(|share| share.clear());
    }

    fn snapshot(&self) -> Cputime {
        self.sum()
    }

    fn clock(&self) -> Cputime {
        self.sum()
    }

    fn arm(&self, clock: CpuClock, at: Nanos) {
        let _all = self.tasklist.lock();
        self.expires.set(clock, at);
        self.rebalance(clock, &self.sum());
    }

    fn tick(&self, _: CpuId, thread: usize) -> bool {
        if !self.shares[thread].is_due(&self.threads.read(thread)) {
            return false;
        }
        let _all = self.tasklist.lock();
        let sum = self.sum();
        if self.expires.is_due(&sum) {
            return true;
        }
        self.rebalance_armed(&sum);
        false
    }
}
