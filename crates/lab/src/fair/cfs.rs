//! The Completely Fair Scheduler as of Linux 6.5, the last with it, with the values of one CPU.
//!
//! The thread with the least virtual run time runs, for its share of a period in which all are to run once. A thread that
//! wakes keeps its virtual run time, but is placed no more than half a period before the others: a debt stays until they have
//! caught up, and a long sleep earns a small credit (`place_entity` with GENTLE_FAIR_SLEEPERS).

use super::{Fair, Luggage, Roams, Share, Thread, to_virtual};
use alloc::vec::Vec;
use ids::{Nanos, Policy};

/// The period in which up to [`MOST_IN_A_PERIOD`] threads run once (`sysctl_sched_latency`).
pub(super) const PERIOD: i64 = 6_000_000;
const MOST_IN_A_PERIOD: i64 = 8;
/// The least time that a thread runs before a tick preempts it (`sysctl_sched_min_granularity`).
pub(super) const LEAST: i64 = 750_000;
/// How much less virtual time a woken thread must have than the running one (`sysctl_sched_wakeup_granularity`).
const WAKEUP: i64 = 1_000_000;

#[derive(Debug)]
struct Task {
    policy: Policy,
    weight: u32,
    vruntime: i64,
    is_new: bool,
    competes: bool,
    /// It waited on another CPU, and competes at its place as soon as it is here.
    waited: bool,
}

/// The design; see the module's source.
#[derive(Debug, Default)]
pub struct Cfs {
    tasks: Vec<Task>,
    /// Numbers of threads that have gone to other CPUs.
    free: Vec<Thread>,
    running: Option<Thread>,
    /// Real time since the running thread was chosen.
    ran: i64,
    charged_until: Nanos,
    /// The least virtual run time of those that compete; does not decrease (`min_vruntime`).
    least: i64,
    /// Whether the running thread is to be compared with the others.
    resched: bool,
    /// It has asked to be passed over.
    gives_way: bool,
}

impl Task {
    /// One that does not compete.
    fn new(share: Share, vruntime: i64, is_new: bool, waited: bool) -> Task {
        Task { policy: share.policy, weight: share.weight(), vruntime, is_new, competes: false, waited }
    }
}

impl Cfs {
    fn charge(&mut self, now: Nanos) {
        let passed = (now.0 - self.charged_until.0) as i64;
        self.charged_until = now;
        if let Some(thread) = self.running {
            let task = &mut self.tasks[thread];
            task.vruntime += to_virtual(passed, task.weight);
            self.ran += passed;
        }
        let least = self.competing().map(|thread| self.tasks[thread].vruntime).min();
        self.least = self.least.max(least.unwrap_or(self.least));
    }

    fn competing(&self) -> impl Iterator<Item = Thread> + '_ {
        (0..self.tasks.len()).filter(|&thread| self.tasks[thread].competes)
    }

    /// The waiting thread with the least virtual run time.
    fn first(&self) -> Option<Thread> {
        let waiting = self.competing().filter(|&thread| Some(thread) != self.running);
        waiting.min_by_key(|&thread| self.tasks[thread].vruntime)
    }

    /// The thread's part of the period, in real time (`sched_slice` with BASE_SLICE).
    fn slice(&self, thread: Thread) -> i64 {
        let count = self.competing().count() as i64;
        let period = if count > MOST_IN_A_PERIOD { count * LEAST } else { PERIOD };
        let weight: i64 = self.competing().map(|thread| i64::from(self.tasks[thread].weight)).sum();
        (period * i64::from(self.tasks[thread].weight) / weight).max(LEAST)
    }
}

impl Fair for Cfs {
    fn name(&self) -> &'static str {
        "CFS, Linux 6.5"
    }

    fn attach(&mut self, share: Share) {
        self.tasks.push(Task::new(share, 0, true, false));
    }

    fn wake(&mut self, thread: Thread, now: Nanos) {
        self.charge(now);
        self.tasks[thread].competes = true;
        let slice = to_virtual(self.slice(thread), self.tasks[thread].weight);
        let task = &mut self.tasks[thread];
        // A new one waits for its first turn (START_DEBIT).
        let place = if task.is_new { self.least + slice } else { self.least - PERIOD / 2 };
        task.is_new = false;
        if !core::mem::take(&mut task.waited) {
            task.vruntime = task.vruntime.max(place);
        }
        let (vruntime, weight) = (task.vruntime, task.weight);
        let policy = task.policy;
        if let Some(current) = self.running
            && Share::preempts(policy, self.tasks[current].policy)
        {
            self.resched |= self.tasks[current].vruntime - vruntime > to_virtual(WAKEUP, weight);
        }
    }

    fn block(&mut self, now: Nanos) {
        self.charge(now);
        if let Some(thread) = self.running.take() {
            self.tasks[thread].competes = false;
        }
    }

    /// `check_preempt_tick`.
    fn tick(&mut self, now: Nanos) {
        self.charge(now);
        let (Some(current), Some(first)) = (self.running, self.first()) else { return };
        let slice = self.slice(current).min(PERIOD);
        let behind = self.tasks[current].vruntime - self.tasks[first].vruntime;
        self.resched |= self.ran > slice || self.ran >= LEAST && behind > slice;
    }

    fn choose(&mut self, now: Nanos) -> Option<Thread> {
        self.charge(now);
        if self.running.is_some() && !self.resched {
            return self.running;
        }
        // On a tie the waiting thread runs (`wakeup_preempt_entity` for one that gives way).
        let allowance = if core::mem::take(&mut self.gives_way) { WAKEUP } else { 0 };
        let key = |&thread: &Thread| {
            let task = &self.tasks[thread];
            let passed_over = Some(thread) == self.running;
            task.vruntime + if passed_over { to_virtual(allowance, task.weight) } else { 0 }
        };
        let next = self.first().into_iter().chain(self.running).min_by_key(key);
        self.resched = false;
        // A thread that is chosen again has not begun a new slice: the next tick compares it again.
        if next != self.running {
            self.running = next;
            self.ran = 0;
        }
        next
    }
}

impl Roams for Cfs {
    fn must_choose(&self) -> bool {
        self.resched || self.running.is_none()
    }

    /// The skip buddy: the next one runs if that is not too unfair.
    fn give_way(&mut self, now: Nanos) {
        self.charge(now);
        self.gives_way = true;
        self.resched = true;
    }

    fn pays_debt(&self, _thread: Thread) -> bool {
        false
    }

    /// `migrate_task_rq_fair`: virtual run times of two CPUs cannot be compared, only their distances from the least one.
    fn depart(&mut self, thread: Thread, now: Nanos) -> Luggage {
        self.charge(now);
        self.free.push(thread);
        let task = &mut self.tasks[thread];
        let waits = core::mem::take(&mut task.competes);
        let (virtual_time, weight) = (task.vruntime - self.least, task.weight);
        Luggage { virtual_time, weight, is_new: task.is_new, waits }
    }

    fn arrive(&mut self, share: Share, luggage: Luggage, now: Nanos) -> Thread {
        self.charge(now);
        let thread = self.free.pop().unwrap_or_else(|| {
            self.attach(share);
            self.tasks.len() - 1
        });
        let Luggage { virtual_time, is_new, waits, .. } = luggage;
        self.tasks[thread] = Task::new(share, self.least + virtual_time, is_new, waits);
        thread
    }
}
