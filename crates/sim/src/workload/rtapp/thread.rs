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
    /// The next of its own timer.
    due: Option<Nanos>,
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
            due: None,
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
            Event::Timer { shared, period, absolute } => return self.timer(shared, period, absolute, v.now()),
            Event::Lock(m) if s.pi => Step::LockPi(s.mutexes[m]),
            Event::Lock(m) => Step::Lock(s.mutexes[m]),
            Event::Unlock(m) if s.pi => Step::UnlockPi(s.mutexes[m]),
            Event::Unlock(m) => Step::Unlock(s.mutexes[m]),
            Event::Wait(c, m) => Step::CondWait(s.conds[c], s.mutexes[m]),
            Event::Signal(c) => Step::CondSignal(s.conds[c]),
            Event::Broadcast(c) => Step::CondBroadcast(s.conds[c]),
            Event::Barrier(b) => Step::Barrier(s.barriers[b]),
            Event::Suspend => Step::FutexWait { addr: self.word, value: v.load(self.word), timeout: None },
            Event::Resume(task) => {
                let word = s.suspended.iter().find(|t| t.0 == task).map_or(self.word, |t| t.1);
                v.store(word, v.load(word).wrapping_add(1));
                Step::FutexWake { addr: word, count: ALL }
            }
            Event::Yield => Step::Yield,
        };
        self.steps.push_back(step);
    }

    /// The first period begins with the first use.
    fn timer(&mut self, shared: Option<usize>, period: Nanos, absolute: bool, now: Nanos) {
        let before = match shared {
            Some(n) => self.shared.timers[n].get(),
            None => self.due,
        };
        let mut due = before.unwrap_or(now) + period;
        if due > now {
            self.waits_for = Some(due);
            self.steps.push_back(Step::SleepUntil(due));
        } else {
            self.seen.borrow_mut().missed += 1;
            if !absolute {
                due = now;
            }
        }
        match shared {
            Some(n) => self.shared.timers[n].set(Some(due)),
            None => self.due = Some(due),
        }
    }
}

impl Program for Thread {
    fn next(&mut self, v: &mut View<'_>) -> Step {
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
