//! A thread of an rt-app file.

use super::{Event, Phase, Seen, Shared, Task, mask};
use crate::user::{Program, Step, View, Who};
use ids::{CpuMask, Nanos};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Everybody who waits.
const ALL: u32 = i32::MAX as u32;

pub(super) struct Thread {
    phases: Vec<Phase>,
    delay: Option<Nanos>,
    loops_left: Option<u32>,
    /// Where it is: phase, loops of it that are done, event.
    at: (usize, u32, usize),
    /// The mask outside of phases with one of their own.
    mask: CpuMask,
    narrowed: bool,
    /// When each timer of its own is due.
    due: Vec<Option<Nanos>>,
    /// When its first phase began, and when the present round of a phase did.
    began: Option<Nanos>,
    round_began: Nanos,
    /// The last step changed policy or CPUs.
    changed: bool,
    /// It waits for this time; what it is late then is its wake-up latency.
    waits_for: Option<Nanos>,
    steps: VecDeque<Step>,
    /// The word that it is suspended on.
    word: u64,
    shared: Rc<Shared>,
    seen: Rc<RefCell<Seen>>,
}

impl Thread {
    pub fn new(task: &Task, shared: Rc<Shared>, seen: Rc<RefCell<Seen>>, cpus: usize) -> Thread {
        let word = shared.suspended.iter().find(|s| s.0 == task.name).map_or(0, |s| s.1);
        Thread {
            phases: task.phases.clone(),
            delay: Some(task.delay),
            loops_left: task.loops,
            at: (0, 0, 0),
            mask: if task.cpus.is_empty() { CpuMask::first(cpus) } else { mask(&task.cpus) },
            narrowed: false,
            due: vec![None; shared.timers.len()],
            began: None,
            round_began: Nanos::ZERO,
            // The creator has just set its policy.
            changed: true,
            waits_for: None,
            steps: VecDeque::new(),
            word,
            shared,
            seen,
        }
    }

    fn is_over(&self, now: Nanos) -> bool {
        self.loops_left == Some(0) || self.shared.end.is_some_and(|end| now >= end)
    }

    /// The next event, and what a new phase changes; `None` at the end of the thread.
    fn advance(&mut self, now: Nanos) -> Option<Event> {
        loop {
            if self.loops_left == Some(0) {
                return None;
            }
            let (p, done, e) = self.at;
            let phase = &self.phases[p];
            if e == 0 {
                self.round_began = now;
                self.began.get_or_insert(now);
            }
            if let (Some(attr), (0, 0)) = (phase.attr, (done, e)) {
                self.steps.push_back(Step::SetPolicy(Who::Me, attr));
            }
            if (done, e) == (0, 0) && (self.narrowed || !phase.cpus.is_empty()) {
                self.narrowed = !phase.cpus.is_empty();
                let mask = if self.narrowed { mask(&phase.cpus) } else { self.mask.clone() };
                self.steps.push_back(Step::SetAffinity(Who::Me, mask));
            }
            if let Some(event) = phase.events.get(e) {
                self.at.2 += 1;
                return Some(event.clone());
            }
            self.at = if done + 1 < phase.loops { (p, done + 1, 0) } else { (p + 1, 0, 0) };
            if self.at.0 == self.phases.len() {
                self.at = (0, 0, 0);
                let mut seen = self.seen.borrow_mut();
                (seen.loops, seen.ended) = (seen.loops + 1, now);
                self.loops_left = self.loops_left.map(|n| n - 1);
            }
        }
    }

    fn expand(&mut self, event: Event, v: &View<'_>) {
        let s = &self.shared;
        let step = match event {
            Event::Run(n) => Step::Compute(n),
            Event::RunFor(n) => Step::ComputeUntil(v.now() + n),
            Event::Sleep(n) => {
                self.waits_for = Some(v.now() + n);
                Step::SleepUntil(v.now() + n)
            }
            Event::Timer { timer, unique, period, absolute } => {
                return self.timer(timer, unique, period, absolute, v.now());
            }
            Event::Lock(m) if s.pi => Step::LockPi(s.mutexes[m]),
            Event::Lock(m) => Step::Lock(s.mutexes[m]),
            Event::Unlock(m) if s.pi => Step::UnlockPi(s.mutexes[m]),
            Event::Unlock(m) => Step::Unlock(s.mutexes[m]),
            Event::Wait(c, m) => Step::CondWait(s.conds[c], s.mutexes[m]),
            Event::Sync(c, m) => {
                let (cond, mutex) = (s.conds[c], s.mutexes[m]);
                self.steps.extend([Step::Lock(mutex), Step::CondSignal(cond), Step::CondWait(cond, mutex)]);
                Step::Unlock(mutex)
            }
            Event::Signal(c) => Step::CondSignal(s.conds[c]),
            Event::Broadcast(c) => Step::CondBroadcast(s.conds[c]),
            Event::Barrier(b) => Step::Barrier(s.barriers[b]),
            Event::Suspend(task) => {
                let addr = task.map_or(self.word, |task| self.word_of(&task));
                Step::FutexWait { addr, value: v.load(addr), timeout: None }
            }
            Event::Resume(task) => {
                let word = self.word_of(&task);
                v.store(word, v.load(word).wrapping_add(1));
                Step::FutexWake { addr: word, count: ALL }
            }
            Event::Yield => Step::Yield,
        };
        self.steps.push_back(step);
    }

    fn word_of(&self, task: &str) -> u64 {
        self.shared.suspended.iter().find(|t| t.0 == task).map_or(self.word, |t| t.1)
    }

    /// The first period of an absolute timer begins with the thread's first phase, that of a relative one with the
    /// round of the phase in which it is used.
    fn timer(&mut self, timer: usize, unique: bool, period: Nanos, absolute: bool, now: Nanos) {
        let first = if absolute { self.began.unwrap_or(now) } else { self.round_began };
        let before = if unique { self.due[timer] } else { self.shared.timers[timer].get() };
        let mut due = before.unwrap_or(first) + period;
        if due > now {
            self.waits_for = Some(due);
            self.steps.push_back(Step::SleepUntil(due));
        } else {
            self.seen.borrow_mut().missed += 1;
            if !absolute {
                due = now;
            }
        }
        if unique {
            self.due[timer] = Some(due);
        } else {
            self.shared.timers[timer].set(Some(due));
        }
    }
}

impl Program for Thread {
    fn next(&mut self, v: &mut View<'_>) -> Step {
        if std::mem::take(&mut self.changed) && v.result < 0 {
            self.seen.borrow_mut().refused.get_or_insert(v.result);
        }
        if let Some(delay) = self.delay.take().filter(|&d| d > Nanos::ZERO) {
            return Step::Sleep(delay);
        }
        if self.steps.is_empty()
            && let Some(due) = self.waits_for.take()
        {
            self.seen.borrow_mut().wakeup.add(v.now().since(due).0);
        }
        loop {
            if let Some(step) = self.steps.pop_front() {
                self.changed = matches!(step, Step::SetPolicy(..) | Step::SetAffinity(..));
                return step;
            }
            if self.is_over(v.now()) {
                return Step::Exit;
            }
            let Some(event) = self.advance(v.now()) else { return Step::Exit };
            self.expand(event, v);
        }
    }
}
