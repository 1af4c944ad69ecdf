//! A scheduler driven by hand, one call after the other.

use entresol_sched::{Attr, Config, Kick, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};

pub const MS: u64 = 1_000_000;

/// Who was kicked.
#[derive(Default)]
pub struct Kicks(pub Vec<CpuId>);

impl Kick for Kicks {
    fn kick(&mut self, cpu: CpuId) {
        self.0.push(cpu);
    }
}

/// A scheduler and its clock.
pub struct Scene {
    pub s: Scheduler,
    pub now: u64,
    pub kicks: Kicks,
}

pub const C0: CpuId = CpuId(0);
pub const C1: CpuId = CpuId(1);

pub fn t(n: u32) -> ThreadIdx {
    ThreadIdx(n)
}

impl Scene {
    pub fn new(cpus: usize) -> Scene {
        let config = Config { cpus, rt_throttle: false, ..Config::default() };
        Scene { s: Scheduler::new(&config).unwrap(), now: MS, kicks: Kicks::default() }
    }

    /// A new runnable thread.
    pub fn start(&mut self, n: u32, attr: Attr, mask: CpuMask, from: CpuId) {
        self.s.attach(t(n), &attr, mask).unwrap();
        self.s.wake_new(t(n), from, Nanos(self.now), &mut self.kicks);
    }

    pub fn run(&mut self, cpu: CpuId, prev: Prev) -> Option<u32> {
        self.now += 10;
        self.s.schedule(cpu, Nanos(self.now), prev, &mut self.kicks).map(|t| t.0)
    }

    pub fn block(&mut self, cpu: CpuId) -> Option<u32> {
        self.s.prepare_block(self.s.current(cpu).unwrap());
        self.run(cpu, Prev::Block)
    }

    pub fn wake(&mut self, n: u32, from: CpuId) -> bool {
        self.now += 10;
        self.s.wake(t(n), from, Nanos(self.now), &mut self.kicks)
    }

    pub fn tick(&mut self, cpu: CpuId, after: u64) -> bool {
        self.now += after;
        self.s.tick(cpu, Nanos(self.now), &mut self.kicks);
        self.s.need_resched(cpu)
    }

    /// Lets every CPU that was asked to schedule do so.
    pub fn settle(&mut self) {
        let n = 2;
        while let Some(c) = (0..n).map(CpuId).find(|&c| self.s.need_resched(c)) {
            let _ = self.run(c, Prev::Preempted);
        }
    }

    pub fn current(&self, cpu: CpuId) -> Option<u32> {
        self.s.current(cpu).map(|t| t.0)
    }
}
