//! The simulated machine under historic schedulers: [`lab::rt_balance`] decides, this module advances time.
//!
//! The product's kernel has one scheduler, which cannot be exchanged for a historic one. This is the minimum that the
//! workload needs: real-time threads that compute, sleep and meet at barriers, with the programs, costs, seeds and
//! records of [`crate::world`]. A CPU handles everything that arrives at one instant and then stays in the kernel for
//! as long as that costs. A barrier's waiters are woken one by one, as by `futex_wake`, so that events can fall between
//! the first and the last.

mod cpu;
mod steps;

use crate::config::Config;
use crate::event::{Event, Events};
use crate::machine::SimMachine;
use crate::rng::Rng;
use crate::trace::{Record, Trace, What};
use crate::user::{Program, Step};
use crate::world::{End, Outcome, Violation};
use ids::{CpuId, Nanos, ThreadIdx, Tid};
use lab::rt_balance::{Move, Queues, RtBalance, Thread};
use std::collections::{BTreeMap, VecDeque};

/// Ids of the threads, from this one.
const FIRST_TID: i32 = 1;

/// The generation of kicks that the balance sends.
const ERRAND: u32 = u32::MAX;

/// The state of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Idle,
    Kernel,
    User,
}

#[derive(Debug)]
struct Cpu {
    mode: Mode,
    /// Makes older events void.
    generation: u32,
    kick_flying: bool,
    /// A kick or tick came while it was in the kernel.
    pending: bool,
    /// The time since which it is in user mode.
    since: Nanos,
    last: Option<Thread>,
    ticks: u64,
    /// Those that its thread still has to wake, and the result of that call.
    to_wake: VecDeque<Thread>,
}

/// A thread's use of its CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Asks its program.
    Next,
    Run(Nanos),
    Until(Nanos),
    /// Waits.
    Asleep,
    Gone,
}

struct Actor {
    program: Box<dyn Program>,
    work: Work,
    result: isize,
    /// CPU time in user mode, and what it was when the present step began.
    used: Nanos,
    used_before: Nanos,
    /// The CPU it ran on last.
    ran_on: Option<CpuId>,
    generation: u32,
}

/// A machine with one historic scheduler.
pub(crate) struct History {
    config: Config,
    balance: Box<dyn RtBalance>,
    q: Queues,
    machine: SimMachine,
    now: Nanos,
    events: Events,
    cpus: Vec<Cpu>,
    actors: Vec<Actor>,
    barriers: BTreeMap<u64, Vec<Thread>>,
    rng: Rng,
    user_rng: Rng,
    trace: Trace,
    moves: Vec<Move>,
    /// By CPU: until when the lock of its queue is held.
    locked_until: Vec<Nanos>,
    /// The total time that CPUs waited for locks.
    pub lock_waits: Nanos,
    stats: kernel::stats::Stats,
    handled: u64,
    alive: usize,
    broken: Option<String>,
}

impl History {
    /// A machine of `config` with these threads and their priorities, placed on the CPUs round robin.
    pub fn new(config: Config, balance: Box<dyn RtBalance>, threads: Vec<(u8, Box<dyn Program>)>) -> History {
        let seed = Rng::new(config.seed);
        let cpus = config.cpus;
        let cpu = |_| Cpu {
            mode: Mode::Idle,
            generation: 0,
            kick_flying: false,
            pending: false,
            since: Nanos::ZERO,
            last: None,
            ticks: 0,
            to_wake: VecDeque::new(),
        };
        let mut history = History {
            balance,
            q: Queues::new(cpus),
            machine: SimMachine::new(&Rng::new(0)),
            now: Nanos::ZERO,
            events: Events::new(seed.fork(1)),
            cpus: (0..cpus).map(cpu).collect(),
            actors: Vec::new(),
            barriers: BTreeMap::new(),
            rng: seed.fork(2),
            user_rng: seed.fork(3),
            trace: Trace::new(config.record),
            moves: Vec::new(),
            locked_until: vec![Nanos::ZERO; cpus],
            lock_waits: Nanos::ZERO,
            stats: kernel::stats::Stats::default(),
            handled: 0,
            alive: threads.len(),
            broken: None,
            config,
        };
        history.stats.threads_started = threads.len() as u64;
        for (i, (rank, program)) in threads.into_iter().enumerate() {
            let t = history.q.spawn(rank, CpuId((i % cpus) as u16));
            let (work, result) = (Work::Next, 0);
            let [used, used_before] = [Nanos::ZERO; 2];
            history.actors.push(Actor { program, work, result, used, used_before, ran_on: None, generation: 0 });
            history.enqueue_woken(t);
        }
        for c in 0..cpus {
            // Ticks of one machine come spread over the period.
            let first = Nanos(history.config.tick.0 * c as u64 / cpus as u64 + 1);
            history.events.at(first, Event::Timer(CpuId(c as u16), 0));
            history.send_kick(CpuId(c as u16), 0);
        }
        history
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Outcome {
        let mut end = End::Exited(0);
        while self.alive > 0 && self.broken.is_none() {
            let Some((time, event)) = self.events.next() else {
                end = End::Quiet;
                break;
            };
            if time > self.config.limit {
                end = End::Limit;
                break;
            }
            self.now = time;
            self.machine.set_now(time);
            self.handled += 1;
            self.handle(event);
        }
        if self.alive > 0 && self.broken.is_none() {
            self.broken = Some(format!("{end:?}, but {} threads have not ended", self.alive));
        }
        let at = self.now;
        let tail = self.trace.tail();
        Outcome {
            end,
            time: at,
            events: self.handled,
            hash: self.trace.hash(),
            violation: self.broken.take().map(|what| Violation { what, at, scene: String::new(), tail }),
            planted: false,
            stats: self.stats,
            hardware: None,
            records: self.trace.take_records(),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::UserEnd(cpu, n) if self.cpus[cpu.index()].generation == n => self.user_end(cpu),
            Event::KernelExit(cpu, n) if self.cpus[cpu.index()].generation == n => self.kernel_exit(cpu),
            Event::Kick(cpu, ERRAND) => self.errand(cpu),
            Event::Kick(cpu, _) => self.kick_arrives(cpu),
            Event::Timer(cpu, _) => self.tick(cpu),
            Event::HostDone(t, n) if self.actors[t.index()].generation == n => self.sleep_ends(t.index()),
            _ => {}
        }
    }

    fn note(&mut self, cpu: CpuId, what: What, who: i64, priority: i16) {
        self.trace.note(Record { at: self.now, cpu, what, who, priority });
    }

    fn tid(t: Thread) -> i64 {
        i64::from(FIRST_TID) + t as i64
    }

    /// Queues a woken thread on its last CPU, or on one that it may use.
    fn enqueue_woken(&mut self, t: Thread) -> CpuId {
        let last = self.q.cpu_of(t);
        let cpu = if self.q.allows(t, last) {
            last
        } else {
            let mut all = (0..self.q.cpus() as u16).map(CpuId);
            all.find(|&c| self.q.allows(t, c)).unwrap_or(last)
        };
        self.actors[t].work = Work::Next;
        self.q.enqueue(t, cpu, false);
        cpu
    }

    fn send_kick(&mut self, to: CpuId, after: u64) {
        let c = &mut self.cpus[to.index()];
        if std::mem::replace(&mut c.kick_flying, true) {
            return;
        }
        let [low, high] = if c.mode == Mode::Idle { self.config.cost.kick_parked } else { self.config.cost.kick };
        let delay = self.rng.between(low, high);
        self.events.at(self.now + Nanos(after + delay), Event::Kick(to, 0));
    }

    /// Interrupts a CPU so that it does what the balance wants there.
    fn send_errand(&mut self, to: CpuId, after: u64) {
        let [low, high] = match self.cpus[to.index()].mode {
            Mode::Idle => self.config.cost.kick_parked,
            _ => self.config.cost.kick,
        };
        let delay = self.rng.between(low, high);
        self.events.at(self.now + Nanos(after + delay), Event::Kick(to, ERRAND));
    }

    fn sleep_ends(&mut self, t: Thread) {
        let cpu = self.enqueue_woken(t);
        self.stats.wakeups += 1;
        // The timer's interrupt comes on the CPU where it was set.
        match self.cpus[cpu.index()].mode {
            Mode::Kernel => self.cpus[cpu.index()].pending = true,
            _ => self.interrupt(cpu, self.config.cost.interrupt),
        }
    }

    fn sleep(&mut self, t: Thread, until: Nanos) {
        let [low, high] = self.config.cost.timer;
        let late = self.rng.between(low, high);
        self.actors[t].generation += 1;
        let event = Event::HostDone(ThreadIdx(t as u32), self.actors[t].generation);
        self.events.at(until.max(self.now) + Nanos(late), event);
    }

    fn tid_of(t: Thread) -> Tid {
        Tid(Self::tid(t) as i32)
    }

    fn fail_at(&mut self, step: &Step) {
        self.broken.get_or_insert(format!("{step:?} is not known to the historic machine"));
    }
}

#[cfg(test)]
mod tests;
