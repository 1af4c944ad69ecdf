//! EEVDF as Linux 6.12 has it, without groups.
//!
//! Virtual time is the weighted mean of the virtual run times. Beside the paper: a running thread that is owed time is not
//! preempted before it has run for its slice (RUN_TO_PARITY), except for a thread with a shorter one (PREEMPT_SHORT); a new
//! thread's first deadline is half a slice away (PLACE_DEADLINE_INITIAL); lag is limited to two slices, or a tick if that is
//! longer; and a thread that goes to sleep in debt stays in the competition until it would be chosen (DELAY_DEQUEUE). A slice
//! ends at the first update after its end: a tick, a wake-up or a sleep.

use super::{Fair, Luggage, Roams, Share, Thread, to_virtual};
use alloc::vec::Vec;
use ids::{Nanos, Policy};

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Away,
    Competes,
    /// It sleeps, and competes until its debt is paid (`sched_delayed`).
    PaysDebt,
}

#[derive(Debug)]
struct Task {
    policy: Policy,
    weight: u32,
    slice: i64,
    vruntime: i64,
    deadline: i64,
    /// While away: what it was owed, in virtual time.
    lag: i64,
    is_new: bool,
    place: Place,
}

impl Task {
    /// One that sleeps.
    fn new(share: Share, lag: i64, is_new: bool) -> Task {
        let (policy, weight, slice) = (share.policy, share.weight(), share.slice.0 as i64);
        Task { policy, weight, slice, vruntime: 0, deadline: 0, lag, is_new, place: Place::Away }
    }

    fn virtual_slice(&self) -> i64 {
        to_virtual(self.slice, self.weight)
    }
}

/// The design; see the module's source.
#[derive(Debug)]
pub struct Linux {
    tasks: Vec<Task>,
    /// Numbers of threads that have gone to other CPUs.
    free: Vec<Thread>,
    /// The time between two ticks, in ns.
    tick: i64,
    running: Option<Thread>,
    charged_until: Nanos,
    /// The deadline with which the running thread was chosen: while it has that one and is owed time, it is not preempted
    /// (kept in `vlag`).
    protected: Option<i64>,
    resched: bool,
    /// Virtual time when nobody competes.
    last_mean: i64,
}

impl Linux {
    /// With a tick of this length.
    #[must_use]
    pub fn new(tick: Nanos) -> Linux {
        Linux {
            tasks: Vec::new(),
            free: Vec::new(),
            tick: tick.0 as i64,
            running: None,
            charged_until: Nanos::ZERO,
            protected: None,
            resched: false,
            last_mean: 0,
        }
    }

    /// `update_curr` with `update_deadline` and `did_preempt_short`.
    fn charge(&mut self, now: Nanos) {
        let passed = (now.0 - self.charged_until.0) as i64;
        self.charged_until = now;
        let Some(thread) = self.running.filter(|_| passed > 0) else { return };
        let task = &mut self.tasks[thread];
        task.vruntime += to_virtual(passed, task.weight);
        let is_over = task.vruntime >= task.deadline;
        if is_over {
            task.deadline = task.vruntime + task.virtual_slice();
        }
        let competes = self.competing().nth(1).is_some();
        self.resched |= competes && (is_over || !self.is_protected(thread) && !self.is_eligible(thread));
    }

    fn is_protected(&self, running: Thread) -> bool {
        self.protected == Some(self.tasks[running].deadline)
    }

    fn competing(&self) -> impl Iterator<Item = Thread> + '_ {
        (0..self.tasks.len()).filter(|&thread| self.tasks[thread].place != Place::Away)
    }

    fn weight(&self) -> i128 {
        self.competing().map(|thread| i128::from(self.tasks[thread].weight)).sum()
    }

    /// V (`avg_vruntime`).
    fn mean(&self) -> i64 {
        let weight = self.weight();
        if weight == 0 {
            return self.last_mean;
        }
        let product = |thread: Thread| i128::from(self.tasks[thread].vruntime) * i128::from(self.tasks[thread].weight);
        self.competing().map(product).sum::<i128>().div_euclid(weight) as i64
    }

    fn is_eligible(&self, thread: Thread) -> bool {
        self.tasks[thread].vruntime <= self.mean()
    }

    /// `pick_eevdf`.
    fn pick(&self) -> Option<Thread> {
        let current = self.running.filter(|&thread| self.is_eligible(thread));
        if current.is_some_and(|thread| self.is_protected(thread)) {
            return current;
        }
        let mean = self.mean();
        let waiting = self.competing().filter(|&thread| Some(thread) != self.running);
        let eligible = waiting.filter(|&thread| self.tasks[thread].vruntime <= mean).chain(current);
        let earliest = eligible.min_by_key(|&thread| self.tasks[thread].deadline);
        earliest.or_else(|| self.competing().min_by_key(|&thread| self.tasks[thread].deadline))
    }

    /// `place_entity`.
    fn enter(&mut self, thread: Thread) {
        let (mean, others) = (self.mean(), self.weight());
        let task = &mut self.tasks[thread];
        let weight = i128::from(task.weight);
        // Joining moves the mean towards the thread: this much more makes its lag what it was.
        let lag = match others {
            0 => 0,
            _ => (i128::from(task.lag) * (others + weight) / others) as i64,
        };
        task.vruntime = mean - lag;
        task.deadline = task.vruntime + task.virtual_slice() / if task.is_new { 2 } else { 1 };
        task.is_new = false;
        task.place = Place::Competes;
    }

    /// `dequeue_entity`.
    fn leave(&mut self, thread: Thread, most: i64) {
        let mean = self.mean();
        let task = &mut self.tasks[thread];
        let limit = to_virtual((2 * task.slice).max(self.tick), task.weight);
        task.lag = (mean - task.vruntime).clamp(-limit, limit).min(most);
        task.place = Place::Away;
        self.last_mean = mean;
    }
}

impl Fair for Linux {
    fn name(&self) -> &'static str {
        "EEVDF, Linux 6.12"
    }

    fn attach(&mut self, share: Share) {
        self.tasks.push(Task::new(share, 0, true));
    }

    fn wake(&mut self, thread: Thread, now: Nanos) {
        self.charge(now);
        match self.tasks[thread].place {
            // `requeue_delayed_entity`: time that it was owed since its debt was paid is not its own (DELAY_ZERO).
            Place::PaysDebt if self.tasks[thread].vruntime < self.mean() => {
                self.leave(thread, 0);
                self.enter(thread);
            }
            Place::PaysDebt => self.tasks[thread].place = Place::Competes,
            Place::Away | Place::Competes => self.enter(thread),
        }
        let Some(current) = self.running else { return };
        let (woken, running) = (&self.tasks[thread], &self.tasks[current]);
        if !Share::preempts(woken.policy, running.policy) {
            return;
        }
        if woken.slice < running.slice && woken.deadline < running.deadline && self.is_eligible(thread) {
            self.protected = None;
        }
        self.resched |= self.pick() == Some(thread);
    }

    fn block(&mut self, now: Nanos) {
        self.charge(now);
        let Some(thread) = self.running.take() else { return };
        if self.is_eligible(thread) {
            self.leave(thread, i64::MAX);
        } else {
            self.tasks[thread].place = Place::PaysDebt;
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.charge(now);
    }

    fn choose(&mut self, now: Nanos) -> Option<Thread> {
        self.charge(now);
        if self.running.is_some() && !self.resched {
            return self.running;
        }
        self.resched = false;
        let last = self.running;
        let next = loop {
            match self.pick() {
                Some(thread) if self.tasks[thread].place == Place::PaysDebt => self.leave(thread, 0),
                other => break other,
            }
        };
        self.running = next;
        if let Some(thread) = next.filter(|_| next != last) {
            self.protected = Some(self.tasks[thread].deadline);
        }
        next
    }
}

impl Roams for Linux {
    fn must_choose(&self) -> bool {
        self.resched || self.running.is_none()
    }

    /// `yield_task_fair`: as if its slice were over.
    fn give_way(&mut self, now: Nanos) {
        self.charge(now);
        if let Some(thread) = self.running {
            let task = &mut self.tasks[thread];
            task.deadline += task.virtual_slice();
            self.resched = true;
        }
    }

    fn pays_debt(&self, thread: Thread) -> bool {
        self.tasks[thread].place == Place::PaysDebt
    }

    fn depart(&mut self, thread: Thread, now: Nanos) -> Luggage {
        self.charge(now);
        let place = self.tasks[thread].place;
        if place != Place::Away {
            self.leave(thread, i64::MAX);
        }
        self.free.push(thread);
        let Task { lag, weight, is_new, .. } = self.tasks[thread];
        Luggage { virtual_time: lag, weight, is_new, waits: place == Place::Competes }
    }

    /// The time that it is owed stays the same with another weight (`reweight_entity`).
    fn arrive(&mut self, share: Share, luggage: Luggage, now: Nanos) -> Thread {
        self.charge(now);
        let thread = self.free.pop().unwrap_or_else(|| {
            self.attach(share);
            self.tasks.len() - 1
        });
        let lag = i128::from(luggage.virtual_time) * i128::from(luggage.weight) / i128::from(share.weight());
        self.tasks[thread] = Task::new(share, lag as i64, luggage.is_new);
        thread
    }
}
