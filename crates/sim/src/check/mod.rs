//! The invariants of the design, as code: run after every event.
//!
//! | | what | where |
//! |---|---|---|
//! | 1 | a thread is in exactly one place, runs on one CPU, inside its mask | `picture.rs` |
//! | 2 | no real-time thread waits while an allowed CPU runs something less urgent | `order.rs` |
//! | 3 | order within a priority is kept | `fifo.rs` |
//! | 4 | no allowed CPU is idle while a thread waits for longer than stated | `idle.rs`, `order.rs` |
//! | 5 | a waiter runs only after its wake-up, and none is lost | `wakes.rs`, the end of the run |
//! | 6 | every nanosecond is accounted once; clocks are monotonic | [`Checker::time_on`], the end |
//! | 7 | nobody sleeps or waits with a time limit too short, or much too long | the step itself, [`Checker::sleepers`] |
//! | 8 | an event of a descriptor wakes one of the threads that read or write | `world/arrive.rs` |
//!
//! An event changes little. Checked after it are the CPUs that it can have changed: whose run queue was locked
//! ([`sched::Scheduler::take_touched`]) or whose simulated state was touched. What only time makes wrong is kept with the
//! time at which it will be. Sleepers and interrupted host calls are looked at after every 16th event, on large machines less
//! often. Now and then, and at the end, everything is looked at anew ([`Checker::compare`]): it must be
//! what is known already.

mod bits;
mod fifo;
mod idle;
mod order;
mod picture;
mod wakes;

use crate::config::Config;
use crate::machine::SimMachine;
use crate::memory::Map;
use crate::world::{SimCpu, SimThread, World};
pub(crate) use bits::CpuBits;
use fifo::Fifo;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::Kernel;
use kernel::wait::Wait;
use order::Order;
use picture::{Picture, Queue};
use wakes::Wakes;

/// State that the checks keep between events.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) bounds: Bounds,
    /// CPUs whose simulated state may have changed since the last check.
    pub(crate) touched: CpuBits,
    /// CPUs whose queue may have changed, and those where it has.
    locked: CpuBits,
    changed: CpuBits,
    picture: Picture,
    order: Order,
    fifo: Fifo,
    wakes: Wakes,
    /// Threads in the host with a signal: since when, and what they had used then.
    signalled: Map<u32, (Nanos, Nanos)>,
    rounds: u64,
    /// The number of rounds between looks at all threads, and between comparisons.
    threads_every: u64,
    compare_every: u64,
    last_now: Nanos,
    /// CPU time of threads that are gone.
    pub(crate) dead_time: Nanos,
}

/// The limits on delays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Until push and pull have settled: a kick, and the kernel work around it.
    pub settle: Nanos,
    /// Until an idle CPU has taken a fair thread that waits elsewhere.
    pub idle: Nanos,
    /// Until a sleeper whose time has come is runnable.
    pub late: Nanos,
}

impl Checker {
    pub(crate) fn new(config: &Config) -> Checker {
        let cost = &config.cost;
        let kick = cost.kick_most() + Nanos(config.faults.kick_late + cost.seat);
        // A CPU may be in the kernel, sending kicks, when the kick arrives.
        let kicks = config.cpus.max(64) as u64;
        let busy = Nanos(kicks * cost.kick_send + cost.interrupt + cost.tick + cost.migration + 20_000);
        let timer = Nanos(cost.timer[1] + config.faults.timer_late);
        let slack = if config.timer_slack { kernel::thread::TIMER_SLACK } else { Nanos::ZERO };
        Checker {
            bounds: Bounds {
                settle: Nanos(2 * (kick.0 + busy.0)),
                // A busy CPU wakes one parked CPU in each tick, perhaps in vain.
                idle: Nanos((4 + config.cpus as u64) * config.tick.0) + Nanos::from_millis(2) + kick + busy + timer,
                late: timer + slack + config.tick + kick + busy,
            },
            touched: CpuBits::all(config.cpus),
            locked: CpuBits::all(config.cpus),
            changed: CpuBits::new(config.cpus),
            picture: Picture::new(config.cpus),
            order: Order::new(config.cpus),
            fifo: Fifo::default(),
            wakes: Wakes::default(),
            signalled: Map::default(),
            rounds: 0,
            // These look at everything: less often where there is more.
            threads_every: 16 * (config.cpus as u64 * config.cpus as u64 / 1024).max(1),
            compare_every: 64 * config.cpus.max(4) as u64,
            last_now: Nanos::ZERO,
            dead_time: Nanos::ZERO,
        }
    }

    /// The limits from now on.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        let Bounds { settle, idle, late } = std::mem::replace(&mut self.bounds, bounds);
        if bounds.settle < settle || bounds.idle < idle || bounds.late < late {
            self.order.tighten();
        }
    }

    /// `caller` is about to make this call.
    pub(crate) fn note_call(&mut self, k: &Kernel<SimMachine>, caller: Option<ThreadIdx>, call: &kernel::Call) {
        if let Some(t) = caller {
            self.fifo.note_call(k, t, call);
            self.wakes.note_call(k, t, call);
        }
    }

    /// A call that let its caller wait has returned to it.
    pub(crate) fn note_end(&mut self, t: ThreadIdx, call: &kernel::Call, result: isize) -> Result<(), String> {
        self.wakes.note_end(t, call, result)
    }

    fn run(&mut self, w: &Look<'_>) -> Result<(), String> {
        let none = || CpuBits::new(0);
        let [mut touched, mut locked, mut changed] =
            [&mut self.touched, &mut self.locked, &mut self.changed].map(|set| std::mem::replace(set, none()));
        locked.add(w.kernel.sched.take_touched());
        touched.add(locked.words());
        let result = self.check_changed(w, &touched, &locked, &mut changed);
        [&mut touched, &mut locked, &mut changed].into_iter().for_each(CpuBits::clear);
        (self.touched, self.locked, self.changed) = (touched, locked, changed);
        result?;
        self.rounds += 1;
        if self.rounds.is_multiple_of(self.threads_every) {
            self.times(w)?;
            self.sleepers(w)?;
        }
        if self.rounds.is_multiple_of(self.compare_every) { self.compare(w) } else { Ok(()) }
    }

    fn check_changed(
        &mut self,
        w: &Look<'_>,
        touched: &CpuBits,
        locked: &CpuBits,
        changed: &mut CpuBits,
    ) -> Result<(), String> {
        let now = w.kernel.now();
        if now < self.last_now {
            return Err(format!("scheduling time went back from {:?} to {now:?}", self.last_now));
        }
        self.last_now = now;
        touched.iter().try_for_each(|cpu| agrees(w, cpu))?;
        self.picture.refresh(w, locked, changed)?;
        touched.iter().try_for_each(|cpu| self.time_on(w, cpu))?;
        changed.iter().try_for_each(|cpu| self.time_before(w, cpu))?;
        self.fifo.check(w, &self.picture, changed)?;
        self.order.check(w, &self.picture, touched, changed, &self.bounds)
    }

    /// Whether what is known is what there is.
    fn compare(&mut self, w: &Look<'_>) -> Result<(), String> {
        w.every_cpu().try_for_each(|cpu| agrees(w, cpu))?;
        self.picture.compare(w)?;
        self.order.compare(w, &self.picture)?;
        self.times(w)
    }

    /// Invariant 6: the scheduler accounts exactly the time for which a thread had a CPU. It passes for those only that
    /// have one.
    fn time_on(&self, w: &Look<'_>, cpu: CpuId) -> Result<(), String> {
        let c = &w.cpus[cpu.index()];
        c.thread.map_or(Ok(()), |t| self.time_of(w, t, w.now.since(c.since)))
    }

    /// And for the one that had the CPU before its queue changed.
    fn time_before(&self, w: &Look<'_>, cpu: CpuId) -> Result<(), String> {
        match Queue::running(&self.picture.queues[cpu.index()].before) {
            Some(t) if !self.picture.is_running(t) => self.time_of(w, t, Nanos::ZERO),
            _ => Ok(()),
        }
    }

    fn time_of(&self, w: &Look<'_>, t: ThreadIdx, running: Nanos) -> Result<(), String> {
        let Some(thread) = &w.threads[t.index()] else { return Ok(()) };
        let on_cpu = thread.on_cpu + running;
        let said = w.kernel.sched.runtime(t, w.kernel.now());
        if said == on_cpu {
            return Ok(());
        }
        Err(format!("{t:?} had a CPU for {on_cpu:?}, but is charged {said:?}"))
    }

    /// All threads' times.
    fn times(&self, w: &Look<'_>) -> Result<(), String> {
        let waits = |t: &ThreadIdx| !self.picture.is_running(*t);
        w.alive().filter(waits).try_for_each(|t| self.time_of(w, t, Nanos::ZERO))?;
        w.every_cpu().try_for_each(|cpu| self.time_on(w, cpu))
    }

    /// Invariant 7: a sleeper is woken soon after its time.
    fn sleepers(&mut self, w: &Look<'_>) -> Result<(), String> {
        for t in w.alive() {
            let wait = &w.kernel.thread(t).wait;
            self.interruptible(w, t)?;
            if matches!(wait.kind(), Wait::Sleep | Wait::Host)
                && let Some(due) = wait.armed()
                && !self.picture.is_runnable(t)
                && w.now.since(due) > self.bounds.late
            {
                return Err(format!("{t:?} should have been woken at {due:?}"));
            }
        }
        Ok(())
    }
}

impl Checker {
    /// Invariant 9 as far as the machine has a part in it: a host call does not outlast a
    /// signal that its thread can take.
    fn interruptible(&mut self, w: &Look<'_>, t: ThreadIdx) -> Result<(), String> {
        let thread = w.kernel.thread(t);
        // A parked thread that has been woken checks for signals when it is chosen.
        let woken = thread.parked.is_parked() && self.picture.is_runnable(t);
        let waits = thread.wait.kind() == Wait::Host && !thread.wait.done() && !woken;
        if !waits || !w.kernel.host_interrupted(t) {
            self.signalled.remove(&t.0);
            return Ok(());
        }
        // If it has run since the last look, this is another call.
        let used = w.kernel.sched.runtime(t, w.now);
        let seen = self.signalled.entry(t.0).or_insert((w.now, used));
        if seen.1 != used {
            *seen = (w.now, used);
        }
        let since = seen.0;
        if w.now.since(since) > self.bounds.settle {
            return Err(format!("{t:?} is in the host, though it could take a signal since {since:?}"));
        }
        Ok(())
    }
}

/// The state that the checks examine.
pub(crate) struct Look<'a> {
    pub kernel: &'a Kernel<SimMachine>,
    pub now: Nanos,
    pub cpus: &'a [SimCpu],
    pub threads: &'a [Option<SimThread>],
}

impl Look<'_> {
    fn every_cpu(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus.len()).map(|i| CpuId(i as u16))
    }

    fn alive(&self) -> impl Iterator<Item = ThreadIdx> {
        let alive = self.threads.iter().enumerate().filter(|(_, thread)| thread.is_some());
        alive.map(|(i, _)| ThreadIdx(i as u32))
    }
}

/// Invariant 1: the CPU runs what the scheduler has chosen.
fn agrees(w: &Look<'_>, cpu: CpuId) -> Result<(), String> {
    let (chosen, on) = (w.kernel.sched.current(cpu), w.cpus[cpu.index()].thread);
    if chosen == on { Ok(()) } else { Err(format!("{cpu:?} runs {on:?}, but the scheduler has {chosen:?} there")) }
}

impl World {
    /// Checks what has changed.
    pub(crate) fn check(&mut self) {
        self.with_checker(Checker::run);
    }

    /// Checks what has changed, and whether that was all.
    pub(crate) fn check_all(&mut self) {
        self.with_checker(Checker::run);
        self.with_checker(Checker::compare);
    }

    fn with_checker(&mut self, check: impl Fn(&mut Checker, &Look<'_>) -> Result<(), String>) {
        let look = Look { kernel: &self.kernel, now: self.now, cpus: &self.cpus, threads: &self.threads };
        if let Err(what) = check(&mut self.checker, &look) {
            self.fail(what);
        }
    }
}
