//! The world: CPUs, threads and an event loop around one kernel.
//!
//! One trap at a time. A trap is handled at one instant of virtual time; then its CPU stays
//! "in the kernel" for as long as the costs say. Kicks and timers that arrive in that time
//! are handled as it leaves, as on the host.
//!
//! ```text
//!          resume                    UserEnd: a call            Idle            looks used up
//!  Kernel ────────► User ─────────────────► Kernel     Kernel ──────► Looking ─────────────► Parked
//!                    └── Timer, Kick ─────►                              └── work ► Kernel ◄── Kick, Timer
//!
//!  Kernel ──Next::Host──► Host (the carrier keeps the seat)  or  Kernel(Seat): a spare takes over
//! ```
//! Where to start reading: `traps.rs` (into the kernel and out), `user.rs` (what threads do),
//! `arrive.rs` (kicks, timers, idle CPUs), `host.rs`.

mod arrive;
mod build;
mod host;
mod outcome;
mod patience;
mod traps;
mod user;

use crate::check::Checker;
use crate::config::{Bug, Config};
use crate::event::{Event, Events};
use crate::hardware;
use crate::linux::Waiting;
use crate::machine::SimMachine;
use crate::rng::Rng;
use crate::trace::{Record, Trace, What};
use crate::user::env::{Children, Owners};
use crate::user::{Op, Program};
use ids::{CpuId, Nanos, ThreadIdx, Tid};
use kernel::{Call, Kernel, Next};
use std::sync::Arc;

pub(crate) use build::PID;
pub use build::{Setup, start_and_join};
pub use outcome::{End, Outcome, Violation};

/// The state of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// In the kernel; leaves it as said.
    Kernel(Exit),
    /// Its thread runs since then.
    User(Nanos),
    /// Idle, and polls for work this many more times.
    Looking { left: u32, until: Option<Nanos> },
    /// Idle, asleep.
    Parked,
    /// Idle; its carrier is in a host call for that thread and keeps the seat.
    Host(ThreadIdx),
}

/// How a CPU leaves the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// As the kernel said.
    Next(Next),
    /// Another carrier is about to sit down.
    Seat,
}

/// One CPU.
#[derive(Debug)]
pub(crate) struct SimCpu {
    pub mode: Mode,
    /// The scheduler's current thread, and since when.
    pub thread: Option<ThreadIdx>,
    pub since: Nanos,
    /// The thread that ran last.
    pub last: Option<ThreadIdx>,
    /// Makes older events of this CPU void.
    pub generation: u32,
    pub kick_flying: bool,
    pub kick_generation: u32,
    pub kick_pending: bool,
    /// Planted: kicks get lost until it traps by itself.
    pub deaf: bool,
    pub timer_pending: bool,
    pub timer_generation: u32,
    /// How often it has woken up from the poller.
    pub poll_generation: u32,
    /// The poller wakes it.
    pub called: bool,
    /// Idle time up to now, and since when it is idle.
    pub idle: Nanos,
}

/// A thread's use of its CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Uses this much more, then continues.
    Run { left: Nanos, then: Then },
    /// Runs until then, however much CPU time it gets.
    Until(Nanos),
    /// Is in this system call.
    Called(Call),
    /// Goes on with its step.
    Next(isize),
}

/// The continuation after some computation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Next,
    Call(Call),
}

/// A thread as the simulated processor sees it.
pub(crate) struct SimThread {
    pub tid: Tid,
    pub program: Box<dyn Program>,
    pub op: Option<Op>,
    pub work: Work,
    pub result: isize,
    /// State that signal handlers have interrupted.
    pub frames: Vec<(Option<Op>, Work, isize)>,
    pub scratch: u64,
    /// CPU time in user mode.
    pub used: Nanos,
    /// Time as some CPU's current thread, up to the last switch.
    pub on_cpu: Nanos,
    /// Cost of memory accesses that it has not spent yet.
    pub debt: u64,
    pub last_cpu: CpuId,
    /// Its host call: generation, and the CPU it was made from.
    pub host: Option<(u32, CpuId)>,
    pub host_generation: u32,
    /// And what it waits for.
    pub waiting: Option<Waiting>,
}

/// The simulated machine with its kernel and program.
pub struct World {
    /// The kernel, the very one that runs on the host.
    pub kernel: Arc<Kernel<SimMachine>>,
    pub(crate) config: Config,
    pub(crate) now: Nanos,
    pub(crate) events: Events,
    pub(crate) cpus: Vec<SimCpu>,
    /// By slot.
    pub(crate) threads: Vec<Option<SimThread>>,
    pub(crate) children: Children,
    pub(crate) owners: Owners,
    /// Delays.
    pub(crate) rng: Rng,
    /// The program's.
    pub(crate) user_rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) checker: Checker,
    pub(crate) hardware: hardware::State,
    patience: Option<patience::Patience>,
    pub(crate) handled: u64,
    pub(crate) plant_left: Option<(Bug, u64)>,
    pub(crate) planted: bool,
    pub(crate) end: Option<End>,
    pub(crate) broken: Option<String>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now).field("cpus", &self.cpus).finish_non_exhaustive()
    }
}

impl World {
    /// Runs to the end: no threads, no events, or the time limit.
    pub fn run(&mut self) -> Outcome {
        while self.end.is_none() && self.broken.is_none() {
            let Some((time, event)) = self.events.next() else {
                self.end = Some(End::Quiet);
                break;
            };
            if time > self.config.limit {
                self.end = Some(End::Limit);
                break;
            }
            debug_assert!(time >= self.now);
            self.now = time;
            self.kernel.m.set_now(self.machine_time(time));
            self.handle(event);
        }
        self.finish()
    }

    /// Whether the trace is kept; before [`World::run`].
    pub fn record(&mut self, keep: bool) {
        self.trace = Trace::new(keep);
    }

    /// Whether the invariants are checked; before [`World::run`].
    pub fn set_checked(&mut self, checked: bool) {
        self.config.check = checked;
    }

    /// How many CPUs it has.
    pub fn cpus(&self) -> usize {
        self.config.cpus
    }

    fn handle(&mut self, event: Event) {
        if let Some(end) = self.stolen_until(event) {
            return self.events.at(end, event);
        }
        let live = |w: &World, cpu: CpuId, n: u32| w.cpus[cpu.index()].generation == n;
        match event {
            Event::UserEnd(cpu, n) if live(self, cpu, n) => self.user_end(cpu),
            Event::KernelExit(cpu, n) if live(self, cpu, n) => self.kernel_exit(cpu),
            Event::Look(cpu, n) if live(self, cpu, n) => self.look(cpu),
            Event::SleptEnough(cpu, n) if live(self, cpu, n) => self.wake_parked(cpu, true, false),
            Event::Kick(cpu, n) if self.cpus[cpu.index()].kick_generation == n => self.kick_arrives(cpu),
            Event::Timer(cpu, n) if self.cpus[cpu.index()].timer_generation == n => self.timer_arrives(cpu),
            Event::HostDone(t, n) => self.host_advances(t, n),
            Event::ChildExit(child) => self.child_exits(child),
            Event::Message(mailbox) => self.kernel.m.with_linux(|inner| inner.linux.send(mailbox)),
            Event::Polled(cpu, n) if self.cpus[cpu.index()].poll_generation == n => self.wake_parked(cpu, false, false),
            Event::CpuWanted(t, n) => self.cpu_wanted(t, n),
            Event::Interrupt(t) => self.host_interrupt(t),
            _ => return,
        }
        self.handled += 1;
        self.strikes(Bug::ClockBack);
        self.look_at_waiting();
        self.call_sleepers();
        if let Some(what) = self.owners.broken.take() {
            self.fail(what);
        }
        if self.config.check && self.broken.is_none() {
            self.be_patient();
            self.check();
        }
    }

    /// Until when what happens must wait, because a hypervisor has taken its CPU.
    fn stolen_until(&mut self, event: Event) -> Option<Nanos> {
        if !self.hardware.steals() {
            return None;
        }
        let in_host = |t: ThreadIdx| {
            let (_, cpu) = self.threads.get(t.index())?.as_ref()?.host?;
            // Without its CPU's seat, a carrier has a CPU that is not simulated.
            (self.cpus[cpu.index()].mode == Mode::Host(t)).then_some(cpu)
        };
        let cpu = event.place().map_or_else(|t| t.and_then(in_host), Some)?;
        self.hardware.stolen_until(cpu, self.now)
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.broken.get_or_insert(what.into());
    }

    pub(crate) fn note(&mut self, cpu: CpuId, what: What, who: i64) {
        self.trace.note(Record { at: self.now, cpu, what, who, priority: 0 });
    }

    /// A CPU, to be changed.
    pub(crate) fn cpu(&mut self, cpu: CpuId) -> &mut SimCpu {
        self.checker.touched.insert(cpu);
        &mut self.cpus[cpu.index()]
    }

    pub(crate) fn thread(&mut self, t: ThreadIdx) -> &mut SimThread {
        self.threads[t.index()].as_mut().unwrap_or_else(|| panic!("{t:?} has no simulated thread"))
    }

    /// Schedules the next event of a CPU and makes its older ones void.
    pub(crate) fn cpu_event(&mut self, cpu: CpuId, at: Nanos, make: fn(CpuId, u32) -> Event) {
        let c = self.cpu(cpu);
        c.generation += 1;
        let event = make(cpu, c.generation);
        self.events.at(at, event);
    }

    /// Whether the planted bug strikes here; it strikes once.
    pub(crate) fn strikes(&mut self, bug: Bug) -> bool {
        match &mut self.plant_left {
            Some((planted, left)) if *planted == bug => match left {
                0 => {
                    self.plant_left = None;
                    self.planted = true;
                    true
                }
                n => {
                    *n -= 1;
                    false
                }
            },
            _ => false,
        }
    }

    /// Whether it has struck.
    pub(crate) fn has_struck(&self, bug: Bug) -> bool {
        self.planted && self.config.plant.is_some_and(|p| p.bug == bug)
    }

    fn machine_time(&self, time: Nanos) -> Nanos {
        if self.has_struck(Bug::ClockBack) { Nanos(time.0.saturating_sub(100_000)) } else { time }
    }
}
