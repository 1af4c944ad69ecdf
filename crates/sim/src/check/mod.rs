//! The invariants of the design, as code: run after events on everything there is.
//!
//! | | what | where |
//! |---|---|---|
//! | 1 | a thread is in exactly one place, runs on one CPU, inside its mask | [`Checker::places`] |
//! | 2 | no real-time thread waits while an allowed CPU runs something less urgent | `order.rs` |
//! | 3 | order within a priority is kept | `fifo.rs` |
//! | 4 | no allowed CPU is idle while a thread waits for longer than stated | `order.rs` |
//! | 5 | a waiter runs only after its wake-up, and none is lost | `wakes.rs`, the end of the run |
//! | 6 | every nanosecond is accounted once; clocks are monotonic | [`Checker::times`], the end |
//! | 7 | nobody sleeps or waits with a time limit too short, or much too long | the step itself, [`Checker::sleepers`] |
//! | 8 | an event of a descriptor wakes one of the threads that read or write | `world/arrive.rs` |

mod fifo;
mod order;
mod wakes;

use crate::config::Config;
use crate::machine::SimMachine;
use crate::memory::Map;
use crate::world::{Mode, SimCpu, World};
use fifo::Fifo;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::Kernel;
use kernel::wait::Wait;
use order::Order;
use sched::Place;
use sync::atomic::Ordering::Relaxed;
use wakes::Wakes;

/// A runnable thread, as the scheduler's audit met it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Met {
    pub cpu: CpuId,
    pub thread: ThreadIdx,
    pub place: Place,
}

/// State that the checks keep between events.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) bounds: Bounds,
    /// Everybody runnable, queue by queue in order: now, and at the check before.
    met: Vec<Met>,
    before: Vec<Met>,
    /// By thread: where in `met`, plus one.
    index: Vec<u32>,
    order: Order,
    fifo: Fifo,
    wakes: Wakes,
    /// Threads in the host with a signal: since when, and what they had used then.
    signalled: Map<u32, (Nanos, Nanos)>,
    /// Nothing happens unseen between two checks.
    every_event: bool,
    rounds: u64,
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
        Checker {
            bounds: Bounds {
                settle: Nanos(2 * (kick.0 + busy.0)),
                // A busy CPU wakes one parked CPU in each tick, perhaps in vain.
                idle: Nanos((4 + config.cpus as u64) * config.tick.0) + Nanos::from_millis(2) + kick + busy + timer,
                late: timer + config.tick + kick + busy,
            },
            met: Vec::new(),
            before: Vec::new(),
            index: Vec::new(),
            order: Order::default(),
            fifo: Fifo::default(),
            wakes: Wakes::default(),
            signalled: Map::default(),
            every_event: config.check_every == 1,
            rounds: 0,
            last_now: Nanos::ZERO,
            dead_time: Nanos::ZERO,
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
        self.collect(w)?;
        self.places(w)?;
        if self.every_event {
            self.fifo.check(w, &self.before, &self.met, &self.index)?;
        }
        self.order.check(w, &self.met, &self.bounds)?;
        self.rounds += 1;
        if self.rounds.is_multiple_of(16) {
            self.times(w)?;
            self.sleepers(w)?;
        }
        Ok(())
    }

    fn collect(&mut self, w: &Look<'_>) -> Result<(), String> {
        std::mem::swap(&mut self.met, &mut self.before);
        self.met.clear();
        let met = &mut self.met;
        w.kernel
            .sched
            .audit(|cpu, thread, place| met.push(Met { cpu, thread, place }))
            .map_err(|d| format!("the scheduler's state on {:?}: {}", d.cpu, d.what))?;
        self.index.iter_mut().for_each(|i| *i = 0);
        for (i, m) in self.met.iter().enumerate() {
            if self.index.len() <= m.thread.index() {
                self.index.resize(m.thread.index() + 1, 0);
            }
            let slot = &mut self.index[m.thread.index()];
            if *slot != 0 {
                let other = self.met[*slot as usize - 1];
                return Err(format!("{:?} is in two places: {other:?} and {m:?}", m.thread));
            }
            *slot = i as u32 + 1;
        }
        Ok(())
    }

    /// Invariant 1 as far as the audit does not know it: the machine and the scheduler agree.
    fn places(&mut self, w: &Look<'_>) -> Result<(), String> {
        for (i, &on) in w.running.iter().enumerate() {
            let cpu = CpuId(i as u16);
            let chosen = w.kernel.sched.current(cpu);
            if chosen != on {
                return Err(format!("{cpu:?} runs {on:?}, but the scheduler has {chosen:?} there"));
            }
        }
        for m in &self.met {
            if m.place != Place::Running && !w.kernel.sched.affinity(m.thread).contains(m.cpu) {
                return Err(format!("{m:?} is outside its mask"));
            }
            if w.kernel.thread(m.thread).tid.load(Relaxed) == 0 {
                return Err(format!("{m:?} is dead"));
            }
        }
        Ok(())
    }

    /// Invariant 6: the scheduler accounts exactly the time for which a thread had a CPU.
    fn times(&mut self, w: &Look<'_>) -> Result<(), String> {
        let now = w.kernel.now();
        if now < self.last_now {
            return Err(format!("scheduling time went back from {:?} to {now:?}", self.last_now));
        }
        self.last_now = now;
        for &(t, on_cpu) in w.on_cpu {
            let said = w.kernel.sched.runtime(t, now);
            if said != on_cpu {
                return Err(format!("{t:?} had a CPU for {on_cpu:?}, but is charged {said:?}"));
            }
        }
        Ok(())
    }

    fn is_runnable(&self, t: ThreadIdx) -> bool {
        self.index.get(t.index()).is_some_and(|&i| i != 0)
    }

    /// Invariant 7: a sleeper is woken soon after its time.
    fn sleepers(&mut self, w: &Look<'_>) -> Result<(), String> {
        for &(t, _) in w.on_cpu {
            let wait = &w.kernel.thread(t).wait;
            self.interruptible(w, t)?;
            if matches!(wait.kind(), Wait::Sleep | Wait::Host)
                && let Some(due) = wait.armed()
                && !self.is_runnable(t)
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
        let woken = thread.parked.is_parked() && self.is_runnable(t);
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
    /// By CPU: the thread it runs.
    pub running: &'a [Option<ThreadIdx>],
    /// By CPU: if its carrier sleeps or is away in the host, how often it was there so far.
    pub away: &'a [Option<u32>],
    /// Living threads and how long each has had a CPU.
    pub on_cpu: &'a [(ThreadIdx, Nanos)],
}

impl World {
    /// Checks everything now.
    pub(crate) fn check(&mut self) {
        let running: Vec<_> = self.cpus.iter().map(|c| c.thread).collect();
        let away = |c: &SimCpu| matches!(c.mode, Mode::Parked | Mode::Host(_)).then_some(c.generation);
        let away: Vec<_> = self.cpus.iter().map(away).collect();
        let mut on_cpu = Vec::new();
        if self.checker.rounds % 16 == 15 {
            let alive = self.threads.iter().enumerate();
            on_cpu.extend(alive.filter_map(|(i, t)| Some((ThreadIdx(i as u32), t.as_ref()?.on_cpu))));
            for c in &self.cpus {
                if let Some(t) = c.thread
                    && let Some(entry) = on_cpu.iter_mut().find(|e| e.0 == t)
                {
                    entry.1 += self.now.since(c.since);
                }
            }
        }
        let look = Look { kernel: &self.kernel, now: self.now, running: &running, away: &away, on_cpu: &on_cpu };
        if let Err(what) = self.checker.run(&look) {
            self.fail(what);
        }
    }
}
