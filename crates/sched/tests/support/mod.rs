//! A machine of virtual CPUs for the scheduler under test, and the checks of what must hold.
//!
//! The model keeps its own books (who runs, who waits, who is blocked) from what the calls
//! return, and compares them with the scheduler's after every event.

#![allow(dead_code, reason = "each test file uses its own part")]

mod checks;
pub mod clockwork;
pub mod events;
pub mod lives;
pub mod scenes;

use entresol_sched::{Attr, Config, Damage, Idle, Kick, Place, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use std::collections::BTreeSet;

/// What the model believes of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    Running(CpuId),
    Ready,
    Blocked,
    Dead,
}

/// A small fast generator (splitmix64): the same seed gives the same run.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent as usize
    }
}

/// Kicks that were sent and not yet acted upon.
#[derive(Default, Debug)]
pub struct Kicks(pub BTreeSet<CpuId>);

impl Kick for Kicks {
    fn kick(&mut self, cpu: CpuId) {
        self.0.insert(cpu);
    }
}

/// One virtual CPU.
#[derive(Clone, Debug)]
pub struct VirtualCpu {
    pub current: Option<ThreadIdx>,
    pub idle: Idle,
    pub absent: bool,
    pub last_tick: u64,
}

/// One thread as the model sees it.
#[derive(Clone, Debug)]
pub struct VirtualThread {
    pub life: Life,
    pub mask: CpuMask,
    /// Since when it could run and did not.
    pub since: u64,
}

/// The virtual machine.
pub struct Machine {
    pub s: Scheduler,
    pub now: u64,
    pub cpus: Vec<VirtualCpu>,
    pub threads: Vec<VirtualThread>,
    pub kicks: Kicks,
    /// Its root domains, if there are several: masks are drawn within one.
    pub domains: Vec<CpuMask>,
    /// How many CPUs run at the same time; zero: all.
    pub at_once: usize,
    pub rng: Rng,
    /// Whether the fair server is on: then a real-time thread may wait for a fair one.
    pub throttles: bool,
    /// The order of every queue after the last event, and who was moved on purpose since.
    pub order: Vec<(CpuId, ThreadIdx, Place)>,
    pub reordered: BTreeSet<ThreadIdx>,
    /// Threads that were pinned when they were queued, which may stand before an equal that ran there.
    pub came_pinned: BTreeSet<ThreadIdx>,
    /// What happened lately, for the message of a failure.
    pub story: Vec<String>,
}

/// A check that failed: what did not hold.
#[derive(Debug)]
pub struct Violation(pub String);

impl From<Damage> for Violation {
    fn from(d: Damage) -> Violation {
        Violation(format!("{:?}: {} broken", d.cpu, d.what))
    }
}

pub type Checked = Result<(), Violation>;

pub fn t(n: usize) -> ThreadIdx {
    ThreadIdx(n as u32)
}

impl Machine {
    pub fn new(config: &Config, seed: u64) -> Machine {
        let cpu = VirtualCpu { current: None, idle: Idle::Spinning, absent: false, last_tick: 0 };
        Machine {
            s: Scheduler::new(config).unwrap(),
            now: 1_000_000,
            cpus: vec![cpu; config.cpus],
            threads: Vec::new(),
            kicks: Kicks::default(),
            domains: config.domains.clone(),
            at_once: config.at_once,
            rng: Rng(seed),
            throttles: false,
            order: Vec::new(),
            reordered: BTreeSet::new(),
            came_pinned: BTreeSet::new(),
            story: Vec::new(),
        }
    }

    pub fn tell(&mut self, what: String) {
        self.story.push(format!("{:>12} {what}", self.now));
    }

    /// Everything, in words.
    pub fn picture(&self) -> String {
        let mut lines = Vec::new();
        let result = self.s.audit(|cpu, x, place| {
            lines.push(format!("  {cpu:?} {x:?} {place:?} {:?} {:?}", self.s.urgency(x), self.s.affinity(x)));
        });
        let absent: Vec<_> = self.ids().filter(|c| self.cpus[c.index()].absent).collect();
        format!("{}\n  absent {absent:?}, audit {result:?}", lines.join("\n"))
    }

    pub fn ids(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus.len()).map(|c| CpuId(c as u16))
    }

    /// A new thread that can run.
    pub fn start(&mut self, attr: Attr, mask: CpuMask, from: CpuId) -> ThreadIdx {
        let dead = self.threads.iter().position(|v| v.life == Life::Dead);
        let slot = dead.unwrap_or(self.threads.len());
        let thread = VirtualThread { life: Life::Ready, mask: mask.clone(), since: self.now };
        if slot == self.threads.len() {
            self.threads.push(thread);
        } else {
            self.threads[slot] = thread;
        }
        self.s.attach(t(slot), &attr, mask).unwrap();
        self.s.wake_new(t(slot), from, Nanos(self.now), &mut self.kicks);
        self.reordered.insert(t(slot));
        t(slot)
    }

    pub fn wake(&mut self, thread: ThreadIdx, from: CpuId) -> Checked {
        let woken = self.s.wake(thread, from, Nanos(self.now), &mut self.kicks);
        let v = &mut self.threads[thread.index()];
        if woken != (v.life == Life::Blocked) {
            return Err(Violation(format!("wake of {thread:?} returned {woken}, it was {:?}", v.life)));
        }
        if woken {
            v.life = Life::Ready;
            v.since = self.now;
            self.reordered.insert(thread);
        }
        Ok(())
    }

    /// Calls `schedule` and keeps the books.
    pub fn schedule(&mut self, cpu: CpuId, prev: Prev) {
        let before = self.cpus[cpu.index()].current;
        let next = self.s.schedule(cpu, Nanos(self.now), prev, &mut self.kicks);
        if let Some(b) = before {
            self.threads[b.index()].life = match prev {
                Prev::Block => Life::Blocked,
                Prev::Exit => Life::Dead,
                _ => Life::Ready,
            };
            self.threads[b.index()].since = self.now;
            if prev == Prev::Yield {
                self.reordered.insert(b);
            }
        }
        self.takes(cpu, next);
    }

    /// `cpu` runs `next` from now on.
    pub fn takes(&mut self, cpu: CpuId, next: Option<ThreadIdx>) {
        self.cpus[cpu.index()].current = next;
        match next {
            Some(n) => {
                self.threads[n.index()].life = Life::Running(cpu);
                self.came_pinned.remove(&n);
            }
            None => self.cpus[cpu.index()].idle = Idle::Spinning,
        }
    }

    pub fn tick(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].last_tick = self.now;
        let before: Vec<_> = self.s.attr_of_running(cpu);
        self.s.tick(cpu, Nanos(self.now), &mut self.kicks);
        self.reordered.extend(before);
    }

    /// An idle CPU looks for work.
    pub fn look(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].current.is_none() && !self.cpus[cpu.index()].absent {
            let found = self.s.idle_pull(cpu, Nanos(self.now), &mut self.kicks);
            if found.is_some() {
                self.takes(cpu, found);
            }
        }
    }

    pub fn park(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].current.is_none() && self.s.idle_state(cpu, Idle::Parked) {
            self.cpus[cpu.index()].idle = Idle::Parked;
        }
    }

    /// Handles one pending request or kick, if there is one.
    pub fn handle_one(&mut self, cpu: CpuId) -> bool {
        let kicked = self.kicks.0.remove(&cpu);
        let c = &self.cpus[cpu.index()];
        if self.s.need_resched(cpu) && !(c.absent && c.current.is_none()) {
            self.schedule(cpu, Prev::Preempted);
            return true;
        }
        if kicked && c.current.is_none() && c.idle == Idle::Parked && !c.absent {
            let _ = self.s.idle_state(cpu, Idle::Spinning);
            self.cpus[cpu.index()].idle = Idle::Spinning;
            self.look(cpu);
            self.park(cpu);
        }
        kicked
    }

    /// Handles requests and kicks until there are none; says whether it came to an end.
    pub fn settle(&mut self) -> bool {
        for _ in 0..200 * self.cpus.len() {
            let start = self.rng.below(self.cpus.len());
            let n = self.cpus.len();
            let any = (0..n).any(|i| self.handle_one(CpuId(((start + i) % n) as u16)));
            if !any {
                return true;
            }
        }
        false
    }
}

/// A convenience on the scheduler for the books.
trait Running {
    fn attr_of_running(&self, cpu: CpuId) -> Vec<ThreadIdx>;
}

impl Running for Scheduler {
    /// The running thread if a tick may move it within its queue.
    fn attr_of_running(&self, cpu: CpuId) -> Vec<ThreadIdx> {
        self.current(cpu).filter(|&t| self.attr(t).policy == ids::Policy::RoundRobin).into_iter().collect()
    }
}
