//! The scheduler: which thread runs on which CPU, and when that changes.
//!
//! Classes, most urgent first: *stop* (work the kernel must finish), *deadline* (reserved bandwidth, earliest deadline
//! first), *real time* (priorities 99 to 1, FIFO or round robin), *fair* (a share by weight), *idle*.
//!
//! The crate is pure: time comes in as an argument, decisions go out as return values, and CPUs that must look at their
//! run queues are named to a [`Kick`]. It does not allocate after [`Scheduler::attach`].
//!
//! **May touch:** its own tables. It knows threads by [`ThreadIdx`] only.
//!
//! **Start reading at** `README.md` (the protocol of waiting and waking), then `schedule.rs`, `wake.rs`, `push_pull.rs`. The
//! classes are `rt.rs`, `fair.rs` and `deadline.rs`; `queue.rs` has the steps they share.
//!
//! # The caller's duties
//! * Call [`Scheduler::schedule`] on a CPU when [`Scheduler::need_resched`] says so (check it on the way out of every trap),
//!   when its thread gives up the CPU, and when it is idle and [`Scheduler::idle_pull`] or `need_resched` says so.
//! * `wake` kicks remote CPUs only; for the waker's own CPU `need_resched` is enough. The other methods may name any CPU to
//!   the [`Kick`], the caller's own included.
//! * Answer a kick by checking `need_resched` and `tick_needed`, which may have become true. A CPU whose running thread has
//!   no competition needs no tick, and is kicked when that changes.
//! * A polling idle CPU is not kicked for fair threads: it must check `need_resched`. Before it parks it calls
//!   [`Scheduler::idle_state`], and stays awake if that returns false.
//! * Ticks serve slices, balancing and lost kicks. [`Scheduler::slice_end`] says when a fair thread's slice ends, so that a
//!   tick can come exactly there. [`Scheduler::next_event`] says when a budget (deadline threads, fair server) ends or
//!   begins; an idle CPU must be awake for that, too.
//! * Announce a CPU that nobody serves with [`Scheduler::set_absent`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admission;
mod attr;
mod audit;
mod balance;
mod change;
mod config;
mod cpu;
mod cpuset;
mod deadline;
mod domain;
mod elect;
mod entity;
mod fair;
mod few_cores;
mod field;
mod finger;
mod help;
mod index;
mod life;
mod node;
mod order;
mod planted;
mod presence;
mod push_pull;
mod queue;
mod rank;
mod rt;
mod schedule;
mod server;
mod table;
mod tick;
mod tree;
mod wake;
#[cfg(feature = "watched")]
mod watched;
mod weight;

pub use attr::{Attr, AttrError, DeadlineParams, Urgency};
pub use audit::{Damage, Place};
pub use config::Config;
pub use cpu::{CpuStats, Idle, RtLatency};
pub use elect::Electorate;
pub use order::Misplaced;
#[cfg(feature = "planted")]
pub use planted::Fault;
pub use sync::OutOfMemory;
pub use weight::weight;

use admission::Admission;
use alloc::boxed::Box;
use cpu::Cpu;
use domain::Domains;
use entity::Entity;
use ids::{CpuId, CpuMask, Nanos, Policy, ThreadIdx};
use queue::Held;
use server::FairServer;
use sync::atomic::{AtomicBool, Ordering};
use table::Table;

/// Receives the CPUs that must check their run queue again. Called with no run-queue lock held.
pub trait Kick {
    /// `cpu` must call [`Scheduler::schedule`] or, if it is parked, look for work.
    fn kick(&mut self, cpu: CpuId);

    /// The caller's CPU `cpu` is about to run a thread, and has this core ([`Scheduler::core`]), or may run anywhere.
    /// Only called if there are more CPUs than the host runs at the same time.
    fn serves(&mut self, cpu: CpuId, core: Option<usize>) {
        let _ = (cpu, core);
    }
}

impl<K: Kick> Kick for &mut K {
    #[inline]
    fn kick(&mut self, cpu: CpuId) {
        K::kick(self, cpu);
    }

    #[inline]
    fn serves(&mut self, cpu: CpuId, core: Option<usize>) {
        K::serves(self, cpu, core);
    }
}

/// For tests that look at the queues themselves.
#[cfg(test)]
pub(crate) struct NoKick;

#[cfg(test)]
impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

/// The present time, or a clock to read. Reading overlaps with taking a lock, and a caller that waited for the lock
/// does not use an old time.
pub trait Clock {
    /// The present time.
    fn read(self) -> Nanos;
}

impl Clock for Nanos {
    #[inline(always)]
    fn read(self) -> Nanos {
        self
    }
}

/// Why a CPU enters the scheduler: what becomes of its thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prev {
    /// The thread is still runnable.
    Preempted,
    /// The thread yields to its equals (`sched_yield(2)`).
    Yield,
    /// The thread blocks, unless a wake-up has revoked its [`Scheduler::prepare_block`].
    Block,
    /// The thread has exited.
    Exit,
}

/// A thread's counters of waits and switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadCounts {
    /// How long it has waited for a CPU.
    pub queued: Nanos,
    /// How often it left its CPU while runnable: preempted or yielding. Wraps after 2^32.
    pub involuntary: u32,
    /// How often it moved to another CPU. Wraps after 2^32.
    pub migrations: u32,
    /// The thread's virtual run time, in weighted nanoseconds.
    pub vruntime: i64,
    /// The thread's weight: 1,024 at nice 0.
    pub weight: u32,
}

/// The scheduler of one set of CPUs.
#[derive(Debug)]
pub struct Scheduler {
    cpus: Box<[Cpu]>,
    table: Table,
    domains: Domains,
    admission: Admission,
    config: Config,
    /// Some thread has been a real-time or deadline thread.
    urgent: AtomicBool,
    #[cfg(feature = "watched")]
    touched: watched::Touched,
}

/// One CPU of a scheduler, looked up once for several questions in a row.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    s: &'a Scheduler,
    id: CpuId,
    cpu: &'a Cpu,
}

impl<'a> At<'a> {
    /// The thread that has the CPU.
    #[inline(always)]
    pub fn current(self) -> Option<ThreadIdx> {
        self.cpu.current()
    }

    /// [`Scheduler::need_resched`].
    #[inline(always)]
    pub fn need_resched(self) -> bool {
        self.cpu.need_resched()
    }

    #[inline(always)]
    pub(crate) fn lock(self) -> Held<'a> {
        #[cfg(feature = "watched")]
        self.s.touched.note(self.id);
        self.lock_to_read()
    }

    /// [`At::lock`] for callers that change nothing.
    #[inline(always)]
    pub(crate) fn lock_to_read(self) -> Held<'a> {
        self.held(self.cpu.queue.lock())
    }

    /// `None` if the queue is locked. For callers that change nothing.
    pub(crate) fn try_lock(self) -> Option<Held<'a>> {
        self.cpu.queue.try_lock().map(|rq| self.held(rq))
    }

    #[inline(always)]
    fn held(self, rq: sync::Guard<'a, cpu::RunQueue>) -> Held<'a> {
        Held { s: self.s, id: self.id, cpu: self.cpu, rq }
    }
}

impl Scheduler {
    /// A scheduler with all CPUs present and idle.
    pub fn new(config: &Config) -> Result<Scheduler, OutOfMemory> {
        let mut config = config.clone();
        config.cpus = config.cpus.clamp(1, ids::CPUS_MAX);
        #[cfg_attr(not(feature = "planted"), allow(unused_mut, reason = "nothing is planted then"))]
        let mut table = Table::new(config.cpus)?;
        #[cfg(feature = "planted")]
        {
            table.fault = config.fault;
        }
        let domains = Domains::new(config.cpus, &config.domains, config.at_once)?;
        let admission = Admission::new(&config, &domains)?;
        #[cfg(feature = "watched")]
        let touched = watched::Touched::new(config.cpus)?;
        Ok(Scheduler {
            cpus: sync::boxed_slice(config.cpus, |_| Cpu::new(FairServer::new(&config)))?,
            table,
            domains,
            admission,
            config,
            urgent: AtomicBool::new(false),
            #[cfg(feature = "watched")]
            touched,
        })
    }

    /// Allocates the scheduling state of `t` with these attributes, which must be valid, and this mask. The thread
    /// waits until `wake_new`. Deadline attributes are accepted by [`Scheduler::set_attr`] only.
    pub fn attach(&self, t: ThreadIdx, attr: &Attr, mask: CpuMask) -> Result<(), OutOfMemory> {
        self.table.reserve(t)?;
        let e = self.table.get(t);
        let attr = if attr.is_valid() && attr.policy != Policy::Deadline { *attr } else { Attr::DEFAULT };
        e.reset();
        e.set_attr(&attr, self.config.base_slice(), self.config.rr_slice);
        self.note_urgency(e);
        let all = CpuMask::first(self.cpus.len());
        let mask = mask.and(&all);
        let mask = if mask.is_empty() { all } else { mask };
        e.set_home(mask.lowest().unwrap_or(CpuId(0)), false);
        self.table.set_mask(t, &mask);
        e.life.attach();
        Ok(())
    }

    fn note_urgency(&self, e: &Entity) {
        if !e.is_fair() {
            self.urgent.store(true, Ordering::Relaxed);
        }
    }

    /// Whether any thread has ever been a real-time or deadline thread.
    pub fn has_been_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed)
    }

    /// Releases `t`, which has exited or never run.
    pub fn detach(&self, t: ThreadIdx) {
        if let Some(e) = self.table.find(t) {
            self.admission.release(e);
            e.life.detach();
        }
    }

    /// This CPU, looked up.
    #[inline(always)]
    pub fn at(&self, cpu: CpuId) -> At<'_> {
        At { s: self, id: cpu, cpu: &self.cpus[cpu.index()] }
    }

    /// The thread that has `cpu`.
    #[inline]
    pub fn current(&self, cpu: CpuId) -> Option<ThreadIdx> {
        self.at(cpu).current()
    }

    /// Whether `cpu` must call `schedule`. One load.
    #[inline(always)]
    pub fn need_resched(&self, cpu: CpuId) -> bool {
        self.at(cpu).need_resched()
    }

    /// Whether the last thread that had `cpu` before it was idle was a real-time or deadline thread. One load.
    #[inline]
    pub fn was_urgent(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].seen.was_urgent.get() != 0
    }

    /// With more CPUs than the host runs at the same time ([`Config::at_once`]): the host core that `cpu` has for its
    /// real-time and deadline threads, or had for its last ones if it is idle. A carrier that is woken to serve `cpu`
    /// should be bound to it first.
    pub fn core(&self, cpu: CpuId) -> Option<usize> {
        (self.cpus[cpu.index()].seen.bound.get() as usize).checked_sub(1)
    }

    /// Whether there are more CPUs than the host runs at the same time.
    pub fn is_limited(&self) -> bool {
        self.domains.is_limited()
    }

    /// Whether as many CPUs have real-time or deadline threads as the host runs at the same time, and there are more
    /// CPUs.
    pub fn is_crowded(&self) -> bool {
        self.domains.is_crowded()
    }

    /// How many runnable threads wait on `cpu`. Lock-free.
    #[inline]
    pub fn queued(&self, cpu: CpuId) -> u32 {
        self.cpus[cpu.index()].seen.queued.get()
    }

    /// The idle CPUs: those that poll for work and those that are parked. Lock-free, a hint.
    pub fn idle_cpus(&self) -> impl Iterator<Item = CpuId> + '_ {
        let d = &self.domains;
        (0..self.cpus.len()).map(|c| CpuId(c as u16)).filter(|&c| d.spinning.contains(c) || d.parked.contains(c))
    }

    /// The attributes of `t`.
    pub fn attr(&self, t: ThreadIdx) -> Attr {
        self.table.get(t).attr()
    }

    /// Whether `t` runs before all fair threads.
    #[inline]
    pub fn is_real_time(&self, t: ThreadIdx) -> bool {
        !self.table.get(t).is_fair()
    }

    /// The words of the affinity mask of `t`, lowest CPUs first: as many as there are for all CPUs.
    pub fn affinity_words(&self, t: ThreadIdx) -> impl Iterator<Item = u64> + '_ {
        self.table.mask_words(t)
    }

    /// The affinity mask of `t`.
    pub fn affinity(&self, t: ThreadIdx) -> CpuMask {
        self.table.mask(t)
    }

    /// The result of `sched_rr_get_interval(2)` for `t`: zero for FIFO, otherwise its slice.
    pub fn rr_interval(&self, t: ThreadIdx) -> Nanos {
        let e = self.table.get(t);
        match e.policy() {
            Policy::Fifo | Policy::Deadline => Nanos::ZERO,
            Policy::RoundRobin => self.config.rr_slice,
            _ => Nanos(u64::from(e.slice.get())),
        }
    }

    /// Whether `t` has left its CPU to wait and has not been woken. Lock-free.
    pub fn is_blocked(&self, t: ThreadIdx) -> bool {
        self.table.get(t).life.is_blocked()
    }

    /// Whether `t` is in the fair class now.
    #[inline(always)]
    pub fn is_fair(&self, t: ThreadIdx) -> bool {
        self.table.get(t).is_fair()
    }

    /// The CPU `t` is on, or was on last.
    #[inline(always)]
    pub fn cpu_of(&self, t: ThreadIdx) -> CpuId {
        self.table.get(t).cpu()
    }

    /// The CPU time of `t` up to `now`. Exact unless its CPU schedules at the same moment.
    pub fn runtime(&self, t: ThreadIdx, now: Nanos) -> Nanos {
        let e = self.table.get(t);
        let cpu = e.cpu();
        if self.current(cpu) != Some(t) {
            return Nanos(e.runtime.get());
        }
        let h = self.at(cpu).lock_to_read();
        let running = if h.rq.current == t { now.0.saturating_sub(h.rq.accounted) } else { 0 };
        Nanos(e.runtime.get() + running)
    }

    /// How long the current thread of `cpu` has run since it was last accounted: since it was chosen, or since the last
    /// tick.
    pub fn unaccounted(&self, cpu: CpuId, now: Nanos) -> Nanos {
        let h = self.at(cpu).lock_to_read();
        if h.rq.current == ThreadIdx::NONE { Nanos::ZERO } else { Nanos(now.0.saturating_sub(h.rq.accounted)) }
    }

    /// The counters of `t`. Lock-free: each figure may be slightly out of date.
    pub fn counts(&self, t: ThreadIdx, now: Nanos) -> ThreadCounts {
        let e = self.table.get(t);
        let waits = e.home.load(Ordering::Relaxed) & entity::ON_RQ != 0 && self.current(e.cpu()) != Some(t);
        let present = if waits { now.since(Nanos(e.queued_at.get())) } else { Nanos::ZERO };
        ThreadCounts {
            queued: Nanos(e.waited.get()) + present,
            involuntary: e.involuntary.get(),
            migrations: e.migrations.get(),
            vruntime: e.vruntime.get(),
            weight: e.weight.get(),
        }
    }

    /// How long `t`, if it is a real-time thread, has run since it last woke up. Preemption and yielding do not reset
    /// it (`watchdog` in `kernel/sched/rt.c`).
    pub fn run_since_wake(&self, t: ThreadIdx, now: Nanos) -> Option<Nanos> {
        let e = self.table.get(t);
        (e.class() == entity::Class::Rt).then(|| self.runtime(t, now) - Nanos(e.runtime_at_wake.get()))
    }

    /// The counters of `cpu`.
    pub fn stats(&self, cpu: CpuId) -> CpuStats {
        let h = self.at(cpu).lock_to_read();
        CpuStats { nudges: h.cpu.nudges.count.get(), ..h.rq.stats }
    }

    #[inline(always)]
    pub(crate) fn lock(&self, id: CpuId) -> Held<'_> {
        self.at(id).lock()
    }

    /// Both run queues, locked in the order of their ids.
    pub(crate) fn lock_two(&self, a: CpuId, b: CpuId) -> (Held<'_>, Held<'_>) {
        if a < b {
            let a = self.lock(a);
            (a, self.lock(b))
        } else {
            let b = self.lock(b);
            (self.lock(a), b)
        }
    }
}
