//! Run queues of real-time threads, and what it costs to look at them.

use super::{Move, Thread};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use ids::{CpuId, CpuMask};

/// Real-time priority, 1 to 99; higher is more urgent.
pub type Rank = u8;

/// Waiting threads, most urgent first, then in order of arrival.
type Waiting = BTreeMap<(u8, i64), Thread>;

#[derive(Clone, Debug, Default)]
struct Queue {
    running: Option<Thread>,
    waiting: Waiting,
}

#[derive(Clone, Debug)]
struct Entry {
    rank: Rank,
    mask: CpuMask,
    /// The queue it is in, and its key there; or the CPU it was on last.
    cpu: CpuId,
    key: Option<(u8, i64)>,
}

/// All run queues of a machine.
#[derive(Clone, Debug)]
pub struct Queues {
    cpus: Vec<Queue>,
    threads: Vec<Entry>,
    /// CPUs where more than one thread is runnable (`rto_mask`).
    overloaded: CpuMask,
    arrivals: i64,
    /// Run queues of other CPUs that were looked at.
    looks: u64,
    /// Run queues whose locks were taken, in order.
    locked: Vec<CpuId>,
    /// CPUs that were called to do an errand.
    called: Vec<CpuId>,
}

impl Queues {
    /// `cpus` CPUs, all idle.
    pub fn new(cpus: usize) -> Queues {
        Queues {
            cpus: vec![Queue::default(); cpus],
            threads: Vec::new(),
            overloaded: CpuMask::empty(),
            arrivals: 0,
            looks: 0,
            locked: Vec::new(),
            called: Vec::new(),
        }
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// A new thread that may run everywhere and waits; its last CPU is `cpu`.
    pub fn spawn(&mut self, rank: Rank, cpu: CpuId) -> Thread {
        self.threads.push(Entry { rank, mask: CpuMask::first(self.cpus.len()), cpu, key: None });
        self.threads.len() - 1
    }

    /// Its priority.
    pub fn rank(&self, t: Thread) -> Rank {
        self.threads[t].rank
    }

    /// The CPU it is on, or was on last.
    pub fn cpu_of(&self, t: Thread) -> CpuId {
        self.threads[t].cpu
    }

    /// Whether it may run there.
    pub fn allows(&self, t: Thread, cpu: CpuId) -> bool {
        self.threads[t].mask.contains(cpu)
    }

    /// Whether it may run on one CPU only.
    pub fn is_pinned(&self, t: Thread) -> bool {
        self.threads[t].mask.count() == 1
    }

    /// Changes its mask; the caller moves it if it must.
    pub fn set_mask(&mut self, t: Thread, mask: CpuMask) {
        self.threads[t].mask = mask;
    }

    /// The running thread.
    pub fn running(&self, cpu: CpuId) -> Option<Thread> {
        self.cpus[cpu.index()].running
    }

    /// The rank of the running thread.
    pub fn running_rank(&self, cpu: CpuId) -> Option<Rank> {
        self.running(cpu).map(|t| self.rank(t))
    }

    /// The most urgent runnable thread's rank: running or waiting (`rt.highest_prio`).
    pub fn best_rank(&self, cpu: CpuId) -> Option<Rank> {
        self.running_rank(cpu).max(self.waiting(cpu).next().map(|t| self.rank(t)))
    }

    /// The threads that wait there, most urgent first.
    pub fn waiting(&self, cpu: CpuId) -> impl Iterator<Item = Thread> + '_ {
        self.cpus[cpu.index()].waiting.values().copied()
    }

    /// How many are runnable there.
    pub fn load(&self, cpu: CpuId) -> usize {
        let q = &self.cpus[cpu.index()];
        q.waiting.len() + usize::from(q.running.is_some())
    }

    /// The CPUs with more than one runnable thread.
    pub fn overloaded(&self) -> &CpuMask {
        &self.overloaded
    }

    /// Notes that this many other run queues were looked at.
    pub fn look(&mut self, queues: u64) {
        self.looks += queues;
    }

    /// How many were looked at since this was asked last.
    pub fn take_looks(&mut self) -> u64 {
        core::mem::take(&mut self.looks)
    }

    /// Notes that the lock of `cpu`'s queue was taken.
    pub fn lock(&mut self, cpu: CpuId) {
        self.locked.push(cpu);
    }

    /// The CPUs whose locks were taken since the last call.
    pub fn take_locked(&mut self) -> Vec<CpuId> {
        core::mem::take(&mut self.locked)
    }

    /// Interrupts `cpu`: there [`super::RtBalance::called`] follows.
    pub fn call(&mut self, cpu: CpuId) {
        self.called.push(cpu);
    }

    /// The CPUs that were kicked since the last call.
    pub fn take_called(&mut self) -> Vec<CpuId> {
        core::mem::take(&mut self.called)
    }

    /// Queues a thread that waits nowhere: behind its equals, or before them if it was preempted.
    pub fn enqueue(&mut self, t: Thread, cpu: CpuId, preempted: bool) {
        self.arrivals += 1;
        let order = if preempted { -self.arrivals } else { self.arrivals };
        let key = (u8::MAX - self.threads[t].rank, order);
        self.threads[t].cpu = cpu;
        self.threads[t].key = Some(key);
        self.cpus[cpu.index()].waiting.insert(key, t);
        self.update(cpu);
    }

    /// Takes a waiting thread out.
    pub fn dequeue(&mut self, t: Thread) {
        if let Some(key) = self.threads[t].key.take() {
            let cpu = self.threads[t].cpu;
            self.cpus[cpu.index()].waiting.remove(&key);
            self.update(cpu);
        }
    }

    /// The CPU's thread goes: it waits for something, or will be queued.
    pub fn vacate(&mut self, cpu: CpuId) -> Option<Thread> {
        let t = self.cpus[cpu.index()].running.take();
        self.update(cpu);
        t
    }

    /// The most urgent waiting thread gets the CPU, which nobody has.
    pub fn choose(&mut self, cpu: CpuId) -> Option<Thread> {
        let t = self.waiting(cpu).next()?;
        self.dequeue(t);
        self.cpus[cpu.index()].running = Some(t);
        self.update(cpu);
        Some(t)
    }

    /// Moves a waiting thread.
    pub fn shift(&mut self, t: Thread, to: CpuId, moves: &mut Vec<Move>) {
        let from = self.threads[t].cpu;
        // Both locks are held for a move; the mover may have noted that of the source already.
        if self.locked.last() != Some(&from) {
            self.lock(from);
        }
        self.lock(to);
        self.dequeue(t);
        self.enqueue(t, to, false);
        moves.push(Move { thread: t, from, to });
    }

    fn update(&mut self, cpu: CpuId) {
        if self.load(cpu) > 1 {
            self.overloaded.insert(cpu);
        } else {
            self.overloaded.remove(cpu);
        }
    }
}
