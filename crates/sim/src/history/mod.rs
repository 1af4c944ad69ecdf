//! The simulated machine under other schedulers than ours: a [`design::Design`] decides, this module advances time.
//!
//! The product's kernel has one scheduler, which cannot be exchanged. This machine knows the minimum that workloads need:
//! threads that compute, sleep, wait for futexes and meet at barriers, with the programs, costs, seeds and records of
//! [`crate::world`]. A CPU handles everything that arrives at one instant and then stays in the kernel for as long as that
//! costs. The waiters of a futex or barrier are woken one by one, so that events can fall between the first and the last.
//!
//! The designs: real-time threads as Linux balanced them in and after 2007 (`realtime`), and its fair schedulers (`fair`).

mod cpu;
mod design;
mod fair;
mod realtime;
mod steps;

use crate::config::Config;
use crate::event::{Event, Events};
use crate::hardware;
use crate::machine::SimMachine;
use crate::rng::Rng;
use crate::trace::{Record, Trace, What};
use crate::user::env::{Children, Owners};
use crate::user::{Op, Program, Step};
use crate::workload::Policy;
use crate::world::{End, Outcome, Setup, Violation};
use abi::Errno;
use fair::Fair;
use ids::{CpuId, Nanos, ThreadIdx, Tid};
use kernel::Call;
use lab::fair::Many;
use lab::rt_balance::{Active, Both, Passive, Roaming, Thread};
use realtime::RealTime;
use sched::Attr;
use std::collections::{BTreeMap, VecDeque};

/// Ids of the threads, from this one.
const FIRST_TID: i32 = 1;

/// The generation of kicks that the balance sends.
const ERRAND: u32 = u32::MAX;

pub(crate) use design::{Design, Effects};

/// The programs of all threads, each with the attributes of its thread.
pub(crate) type Programs = Vec<(Attr, Box<dyn Program>)>;

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
    /// Those that its thread still has to wake.
    to_wake: VecDeque<Thread>,
}

/// A thread's use of its CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Goes on with its step, or asks its program for the next; the input is the result of the last call.
    Next(isize),
    /// Uses this much more, then makes the call if there is one.
    Run(Nanos, Option<Call>),
    Until(Nanos),
    /// Waits.
    Asleep,
    Gone,
}

struct Actor {
    program: Box<dyn Program>,
    attr: Attr,
    work: Work,
    /// The step it is in, if that has several parts.
    op: Option<Op>,
    /// The cost of memory accesses that it has not spent yet.
    debt: u64,
    result: isize,
    /// The futex or barrier that it waits for.
    waits_for: Option<u64>,
    /// CPU time in user mode, and what it was when the present step began.
    used: Nanos,
    used_before: Nanos,
    /// The CPU it ran on last.
    ran_on: Option<CpuId>,
    generation: u32,
}

/// A machine with another scheduler.
pub(crate) struct History {
    config: Config,
    design: Box<dyn Design>,
    effects: Effects,
    machine: SimMachine,
    now: Nanos,
    events: Events,
    cpus: Vec<Cpu>,
    actors: Vec<Actor>,
    /// By address of the futex or barrier, in the order of arrival.
    waiters: BTreeMap<u64, VecDeque<Thread>>,
    children: Children,
    owners: Owners,
    /// Every CPU is as far from every other one.
    flat: hardware::State,
    rng: Rng,
    user_rng: Rng,
    trace: Trace,
    /// By CPU: until when the lock of its queue is held.
    locked_until: Vec<Nanos>,
    /// The total time that CPUs waited for locks.
    pub lock_waits: Nanos,
    stats: kernel::stats::Stats,
    handled: u64,
    alive: usize,
    broken: Option<String>,
}

impl Policy {
    /// The scheduler of that name for a machine like this; `None`: ours.
    pub(crate) fn design(self, config: &Config) -> Option<Box<dyn Design>> {
        let real_time = |balance| Some(Box::new(RealTime::new(balance, config.cpus)) as Box<dyn Design>);
        match self {
            Policy::Entresol => None,
            Policy::Passive => real_time(Box::new(Passive)),
            Policy::Active => real_time(Box::new(Active)),
            Policy::Both => real_time(Box::new(Both)),
            Policy::Roaming => real_time(Box::<Roaming>::default()),
            Policy::Cfs => Some(Box::new(Fair(Many::cfs(config.cpus)))),
            Policy::Eevdf => Some(Box::new(Fair(Many::eevdf(config.cpus, config.tick)))),
        }
    }
}

impl History {
    /// A machine with these threads and their attributes, placed on the CPUs round robin.
    pub fn new(setup: Setup, design: Box<dyn Design>, threads: Programs) -> History {
        let (machine, config) = setup.into_parts();
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
            design,
            effects: Effects::default(),
            machine,
            now: Nanos::ZERO,
            events: Events::new(seed.fork(1)),
            cpus: (0..cpus).map(cpu).collect(),
            actors: Vec::new(),
            waiters: BTreeMap::new(),
            children: Children::default(),
            owners: Owners::default(),
            flat: hardware::State::default(),
            rng: seed.fork(2),
            user_rng: seed.fork(3),
            trace: Trace::new(config.record),
            locked_until: vec![Nanos::ZERO; cpus],
            lock_waits: Nanos::ZERO,
            stats: kernel::stats::Stats::default(),
            handled: 0,
            alive: 0,
            broken: None,
            config,
        };
        for (i, (attr, program)) in threads.into_iter().enumerate() {
            if let Some(t) = history.spawn(attr, program, CpuId((i % cpus) as u16)) {
                history.enqueue_woken(t, None);
            }
        }
        // Every CPU is kicked.
        history.effects = Effects::default();
        for c in 0..cpus {
            // Ticks of one machine come spread over the period.
            let first = Nanos(history.config.tick.0 * c as u64 / cpus as u64 + 1);
            history.events.at(first, Event::Timer(CpuId(c as u16), 0));
            history.send_kick(CpuId(c as u16), 0);
        }
        history
    }

    /// A new thread, which sleeps. `None`: the design knows no such thread, which ends the run.
    fn spawn(&mut self, attr: Attr, program: Box<dyn Program>, cpu: CpuId) -> Option<Thread> {
        match self.design.spawn(&attr, cpu, self.now) {
            Ok(t) => {
                debug_assert_eq!(t, self.actors.len(), "designs number threads from 0");
                self.actors.push(Actor::new(attr, program));
                self.alive += 1;
                self.stats.threads_started += 1;
                Some(t)
            }
            Err(why) => {
                self.broken.get_or_insert(why);
                None
            }
        }
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
        if self.alive > 0 && self.broken.is_none() && self.config.must_end {
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

    /// A thread is runnable again. Says on which CPU; the effects are not carried out yet.
    fn enqueue_woken(&mut self, t: Thread, waker: Option<CpuId>) -> CpuId {
        let actor = &mut self.actors[t];
        actor.waits_for = None;
        // Its time limit, if it had one, is void.
        actor.generation += 1;
        if actor.work == Work::Asleep {
            actor.work = Work::Next(0);
        }
        self.design.wake(t, waker, self.now, &mut self.effects)
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

    /// A sleep, or the time limit of a wait, is over.
    fn sleep_ends(&mut self, t: Thread) {
        let here = self.actors[t].ran_on;
        if let Some(addr) = self.actors[t].waits_for.take() {
            self.waiters.entry(addr).or_default().retain(|&waiter| waiter != t);
            self.actors[t].work = Work::Next(Errno::ETIMEDOUT.to_ret());
        }
        let cpu = self.enqueue_woken(t, None);
        self.effects = Effects::default();
        self.stats.wakeups += 1;
        // The timer's interrupt comes on the CPU where it was set.
        if here.is_some_and(|here| here != cpu) {
            return self.send_kick(cpu, 0);
        }
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
        self.broken.get_or_insert(format!("{step:?} is not known to the machine of this policy"));
    }
}

impl Actor {
    fn new(attr: Attr, program: Box<dyn Program>) -> Actor {
        let [used, used_before] = [Nanos::ZERO; 2];
        Actor {
            program,
            attr,
            work: Work::Next(0),
            op: None,
            debt: 0,
            result: 0,
            waits_for: None,
            used,
            used_before,
            ran_on: None,
            generation: 0,
        }
    }
}

#[cfg(test)]
mod tests;
