//! Ours ([`time::cpu`]), behind the laboratory's trait.
//!
//! The trait says "this much was consumed", but our accounting takes moments. So each CPU has
//! its own clock here, which every accounting advances.

use crate::cputime::{Accounting, Kind};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{CpuId, Nanos};
use sync::CachePadded;
use sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use time::OutOfMemory;
use time::cpu::{CpuClock, Cputime, Mode, ProcessCputime, ThreadCputime};

/// A CPU as the trait's caller drives it.
#[derive(Debug)]
struct Cpu {
    now: AtomicU64,
    /// The running thread, `usize::MAX` if none.
    current: AtomicUsize,
}

/// One word per CPU.
#[derive(Debug)]
pub struct Ours {
    process: ProcessCputime,
    threads: Box<[CachePadded<ThreadCputime>]>,
    cpus: Box<[CachePadded<Cpu>]>,
}

impl Ours {
    /// A process with room for `threads` threads on `cpus` CPUs.
    pub fn new(threads: usize, cpus: usize) -> Result<Ours, OutOfMemory> {
        let cpu = || CachePadded(Cpu { now: AtomicU64::new(0), current: AtomicUsize::new(usize::MAX) });
        Ok(Ours {
            process: ProcessCputime::new(cpus)?,
            threads: (0..threads).map(|_| CachePadded::default()).collect::<Vec<_>>().into_boxed_slice(),
            cpus: (0..cpus).map(|_| cpu()).collect::<Vec<_>>().into_boxed_slice(),
        })
    }

    /// Switches the CPU to `to`, at its present moment.
    fn switch(&self, cpu: CpuId, to: Option<usize>) {
        let this = &self.cpus[cpu.index()];
        let from = this.current.load(Relaxed);
        if from != to.unwrap_or(usize::MAX) {
            let from = self.threads.get(from).map(|t| &**t);
            self.process.switch(cpu, from, to.map(|t| &*self.threads[t]), Nanos(this.now.load(Relaxed)));
            this.current.store(to.unwrap_or(usize::MAX), Relaxed);
        }
    }

    /// The sum as a reader sees it whose moment is, for each CPU, that CPU's own.
    fn read(&self) -> Cputime {
        // Each CPU has its own clock here, so each running thread is read at the time of its CPU. The product has one
        // clock for all and uses `ProcessCputime::sample`.
        self.process.sample_each(|cpu| Nanos(self.cpus[cpu.index()].now.load(Acquire)))
    }
}

impl Accounting for Ours {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn spawn(&self, thread: usize) -> Result<(), OutOfMemory> {
        self.threads[thread].reset();
        Ok(())
    }

    fn account(&self, cpu: CpuId, thread: usize, kind: Kind, span: Nanos) {
        self.switch(cpu, Some(thread));
        let this = &self.cpus[cpu.index()];
        let now = this.now.load(Relaxed);
        match kind {
            Kind::Exec => this.now.store(now + span.0, Release),
            Kind::User => self.process.tick(cpu, &self.threads[thread], Mode::User, Nanos(now)),
            Kind::System => self.process.tick(cpu, &self.threads[thread], Mode::System, Nanos(now)),
        }
    }

    fn exit(&self, cpu: CpuId, thread: usize) {
        let this = &self.cpus[cpu.index()];
        self.process.exit(cpu, &self.threads[thread], Nanos(this.now.load(Relaxed)));
        self.switch(cpu, None);
    }

    fn start(&self) -> Cputime {
        self.read()
    }

    fn stop(&self) {}

    fn snapshot(&self) -> Cputime {
        self.read()
    }

    fn clock(&self) -> Cputime {
        self.read()
    }

    fn arm(&self, clock: CpuClock, at: Nanos) {
        self.process.expiry.lower(clock, at);
    }

    fn tick(&self, cpu: CpuId, _: usize) -> bool {
        self.process.is_due(Nanos(self.cpus[cpu.index()].now.load(Relaxed)), |_| Nanos::MAX)
    }
}
