//! The actions of one thread of an rt-app file in order, and what is measured of it.
//!
//! Times count from the beginning of the run. The executor of the actions supplies the time, so the same script drives
//! a simulated thread and a real one.

use super::{Event, Task, Thread, mask};
use crate::report::Samples;
use ids::{CpuMask, Nanos};
use sched::Attr;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No thread forks more (rt-app's `FORKS_LIMIT`).
const FORKS_MOST: usize = 1024;

/// An action of a thread. Objects and tasks are numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Changes its policy and priority.
    SetPolicy(Attr),
    /// Changes the CPUs that it may use.
    SetAffinity(CpuMask),
    /// Computes for this long.
    Run(Nanos),
    /// Computes until then.
    RunUntil(Nanos),
    /// Sleeps for this long.
    Sleep(Nanos),
    /// Sleeps until then.
    SleepUntil(Nanos),
    /// Takes a mutex.
    Lock(usize),
    /// Releases a mutex.
    Unlock(usize),
    /// Waits for a condition variable with a mutex that it holds.
    Wait {
        /// The condition variable.
        cond: usize,
        /// The mutex.
        mutex: usize,
    },
    /// Wakes one thread that waits for a condition variable.
    Signal(usize),
    /// Wakes all of them.
    Broadcast(usize),
    /// Waits at a barrier.
    Barrier(usize),
    /// Decrements a semaphore as soon as it is above zero.
    SemaphoreWait(usize),
    /// Increments it.
    SemaphorePost(usize),
    /// Waits at a gate until it is resumed.
    Suspend(usize),
    /// Resumes all threads at a gate.
    Resume(usize),
    /// Writes so many bytes of memory.
    Memory(u64),
    /// Writes so many bytes to `/dev/null`.
    Write(u64),
    /// Starts a thread of a task: [`Script::fork`].
    Fork(usize),
    /// Gives way.
    Yield,
    /// Ends.
    Exit,
}

/// Measurements of one thread.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Loops that are done.
    pub loops: u64,
    /// From when a sleep or timer was over until the thread ran, in nanoseconds.
    pub wakeup: Samples,
    /// From then until it waited for the next, in nanoseconds.
    pub response: Samples,
    /// Periods that had already passed when it asked for the next.
    pub missed: u64,
    /// When its last loop was over.
    pub ended: Nanos,
    /// A change of policy or CPUs was refused: the negative error number.
    pub refused: Option<isize>,
    /// A thread could not be forked: the negative error number.
    pub no_thread: Option<isize>,
}

/// Facts and state that all threads of a run share.
#[derive(Debug)]
pub(super) struct Common {
    pub tasks: Arc<[Task]>,
    pub timers: Timers,
    /// The size of a thread's buffer, in bytes.
    pub buffer: u64,
    pub end: Option<Nanos>,
    /// How many threads begin with the run.
    pub threads: usize,
    /// The tasks that are forked.
    pub forked: Vec<usize>,
}

/// All timers of a file.
#[derive(Debug)]
pub(super) struct Timers {
    /// An absolute one catches up after a delay, a relative one starts over.
    absolute: Arc<[bool]>,
    /// When each is due next that threads share; 0 for an unused one. Two threads that use one at the same moment may
    /// both get the same period, as in rt-app.
    due: Box<[AtomicU64]>,
}

impl Timers {
    pub fn new(absolute: &Arc<[bool]>) -> Timers {
        Timers { absolute: absolute.clone(), due: absolute.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    fn due(&self, timer: usize) -> Option<Nanos> {
        Some(Nanos(self.due[timer].load(Relaxed))).filter(|&due| due != Nanos::ZERO)
    }

    fn set(&self, timer: usize, due: Nanos) {
        self.due[timer].store(due.0, Relaxed);
    }
}

/// The script of a thread.
#[derive(Clone, Debug)]
pub struct Script {
    delay: Option<Nanos>,
    loops_left: Option<u32>,
    /// Where it is: phase, loops of it that are done, event.
    at: (usize, u32, usize),
    /// The mask outside of phases with one of their own, and the present one.
    mask: CpuMask,
    now_on: CpuMask,
    narrowed: bool,
    /// How many threads it has forked.
    forks: usize,
    /// When each of its own timers is due.
    due: Vec<Option<Nanos>>,
    /// The mutexes that it holds.
    held: Vec<usize>,
    /// When its first phase began.
    began: Option<Nanos>,
    /// It waits for this time; what it is late then is its wake-up latency.
    waits_for: Option<Nanos>,
    /// The moment from which its present response time counts.
    job: Option<Nanos>,
    actions: VecDeque<Action>,
    task: usize,
    common: Arc<Common>,
}

impl Script {
    /// The script of a thread that may use these CPUs.
    pub(super) fn new(number: usize, mask: CpuMask, common: Arc<Common>) -> Script {
        let task = &common.tasks[number];
        Script {
            delay: Some(task.delay),
            loops_left: task.loops,
            at: (0, 0, 0),
            now_on: mask.clone(),
            mask,
            narrowed: false,
            forks: 0,
            due: vec![None; common.timers.due.len()],
            held: Vec::new(),
            began: None,
            waits_for: None,
            job: None,
            actions: VecDeque::new(),
            task: number,
            common,
        }
    }

    /// The thread that [`Action::Fork`] starts. A task that names no CPUs has those of the thread that forks it.
    pub fn fork(&self, task: usize) -> Thread {
        let place = self.common.forked.iter().position(|&forked| forked == task);
        Thread::new(self.common.threads + place.unwrap_or(0), task, &self.now_on, &self.common)
    }

    /// The thread's next action, at this time; measurements since the last one go into `seen`.
    pub fn next(&mut self, now: Nanos, seen: &mut Measured) -> Action {
        if let Some(delay) = self.delay.take().filter(|&d| d > Nanos::ZERO) {
            return Action::Sleep(delay);
        }
        if self.actions.is_empty()
            && let Some(due) = self.waits_for.take()
        {
            seen.wakeup.add(now.since(due).0);
            self.job = Some(due);
        }
        loop {
            if let Some(action) = self.actions.pop_front() {
                return action;
            }
            if self.is_over(now) {
                return Action::Exit;
            }
            let Some(event) = self.advance(now, seen) else { return Action::Exit };
            self.expand(event, now, seen);
        }
    }

    fn is_over(&self, now: Nanos) -> bool {
        self.loops_left == Some(0) || self.common.end.is_some_and(|end| now >= end)
    }

    /// The next event, and what a new phase changes; `None` at the end of the thread.
    fn advance(&mut self, now: Nanos, seen: &mut Measured) -> Option<Event> {
        loop {
            if self.loops_left == Some(0) {
                return None;
            }
            let (p, done, e) = self.at;
            let phases = &self.common.tasks[self.task].phases;
            let phase = &phases[p];
            if self.began.is_none() {
                (self.began, self.job) = (Some(now), Some(now));
            }
            if let (Some(attr), (0, 0)) = (phase.attr, (done, e)) {
                self.actions.push_back(Action::SetPolicy(attr));
            }
            if (done, e) == (0, 0) && (self.narrowed || !phase.cpus.is_empty()) {
                self.narrowed = !phase.cpus.is_empty();
                self.now_on = if self.narrowed { mask(&phase.cpus) } else { self.mask.clone() };
                self.actions.push_back(Action::SetAffinity(self.now_on.clone()));
            }
            if let Some(event) = phase.events.get(e) {
                self.at.2 += 1;
                return Some(event.clone());
            }
            // One without end counts up to a number that it stays at; one without events is over at once.
            let goes_on = !phase.events.is_empty() && phase.loops.is_none_or(|loops| done + 1 < loops);
            self.at = if goes_on { (p, done.saturating_add(1), 0) } else { (p + 1, 0, 0) };
            if self.at.0 == phases.len() {
                self.at = (0, 0, 0);
                (seen.loops, seen.ended) = (seen.loops + 1, now);
                self.loops_left = self.loops_left.map(|n| n - 1);
            }
        }
    }

    fn expand(&mut self, event: Event, now: Nanos, seen: &mut Measured) {
        let action = match event {
            Event::Run(n) => Action::Run(n),
            Event::RunFor(n) => Action::RunUntil(now + n),
            Event::Sleep(n) => {
                self.job_is_done(now, seen);
                self.waits_for = Some(now + n);
                Action::SleepUntil(now + n)
            }
            Event::Timer { timer, unique, period } => return self.timer(timer, unique, period, now, seen),
            Event::Lock(m) => {
                self.held.push(m);
                Action::Lock(m)
            }
            Event::Unlock(m) => {
                self.held.retain(|&held| held != m);
                Action::Unlock(m)
            }
            Event::Wait(cond, mutex) => Action::Wait { cond, mutex },
            // rt-app's manual has it take the mutex itself, its examples take it around the event.
            Event::Sync(cond, mutex) if self.held.contains(&mutex) => {
                self.actions.push_back(Action::Signal(cond));
                Action::Wait { cond, mutex }
            }
            Event::Sync(cond, mutex) => {
                let wait = Action::Wait { cond, mutex };
                self.actions.extend([Action::Lock(mutex), Action::Signal(cond), wait]);
                Action::Unlock(mutex)
            }
            Event::Signal(c) => Action::Signal(c),
            Event::Broadcast(c) => Action::Broadcast(c),
            Event::Barrier(b) => Action::Barrier(b),
            Event::SemaphoreWait(s) => Action::SemaphoreWait(s),
            Event::SemaphorePost(s) => Action::SemaphorePost(s),
            Event::Suspend(gate) => Action::Suspend(gate),
            Event::Resume(gate) => Action::Resume(gate),
            Event::Memory(bytes) => Action::Memory(bytes),
            Event::Write(bytes) => Action::Write(bytes),
            Event::Fork { .. } if self.forks == FORKS_MOST => {
                seen.no_thread.get_or_insert(abi::Errno::EAGAIN.to_ret());
                Action::Yield
            }
            Event::Fork { task, .. } => {
                self.forks += 1;
                Action::Fork(self.number_of(&task))
            }
            Event::Yield => Action::Yield,
        };
        self.actions.push_back(action);
    }

    fn number_of(&self, task: &str) -> usize {
        self.common.tasks.iter().position(|t| t.name == task).unwrap_or(self.task)
    }

    fn job_is_done(&mut self, now: Nanos, seen: &mut Measured) {
        if let Some(began) = self.job.take() {
            seen.response.add(now.since(began).0);
        }
    }

    /// The first period of a timer begins with the thread's first phase, even if another phase is the first to use it.
    fn timer(&mut self, timer: usize, unique: bool, period: Nanos, now: Nanos, seen: &mut Measured) {
        let before = if unique { self.due[timer] } else { self.common.timers.due(timer) };
        let mut due = before.or(self.began).unwrap_or(now) + period;
        let absolute = self.common.timers.absolute[timer];
        if period == Nanos::ZERO {
            // It is over, and no period is missed. Time must pass, or a thread that does nothing else never ends.
            due = if absolute { due } else { now };
            self.actions.push_back(Action::Run(Nanos::ZERO));
            return self.set_due(timer, unique, due);
        }
        self.job_is_done(now, seen);
        if due > now {
            self.waits_for = Some(due);
            self.actions.push_back(Action::SleepUntil(due));
        } else {
            seen.missed += 1;
            if !absolute {
                due = now;
            }
            self.job = Some(due);
        }
        self.set_due(timer, unique, due);
    }

    fn set_due(&mut self, timer: usize, unique: bool, due: Nanos) {
        if unique {
            self.due[timer] = Some(due);
        } else {
            self.common.timers.set(timer, due);
        }
    }
}
