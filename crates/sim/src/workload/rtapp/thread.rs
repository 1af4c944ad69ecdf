//! A simulated thread of an rt-app file.

use super::script::{Action, Measured, Script};
use super::{Shared, Thread};
use crate::user::{Program, Step, View, Who, with};
use ids::Nanos;
use std::cell::RefCell;
use std::rc::Rc;

/// All waiters.
const ALL: u32 = i32::MAX as u32;

pub(super) struct Simulated {
    script: Script,
    /// The last step is one that may be refused. At the beginning the thread has just set its policy.
    last: Last,
    shared: Rc<Shared>,
    seen: Rc<RefCell<Measured>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It changed policy or CPUs.
    Changed,
    /// It started a thread.
    Forked,
    Other,
}

impl Simulated {
    /// The code of this thread.
    pub fn program(thread: Thread, shared: &Rc<Shared>) -> Box<dyn Program> {
        let Thread { row, attr, cpus, script, .. } = thread;
        let seen = shared.seen[row].clone();
        with(attr, cpus, Box::new(Simulated { script, last: Last::Changed, shared: shared.clone(), seen }))
    }

    fn step(&self, action: Action, v: &View<'_>) -> Step {
        let s = &self.shared;
        match action {
            Action::SetPolicy(attr) => Step::SetPolicy(Who::Me, attr),
            Action::SetAffinity(mask) => Step::SetAffinity(Who::Me, mask),
            Action::Run(n) => Step::Compute(n),
            Action::RunUntil(at) => Step::ComputeUntil(at),
            Action::Sleep(n) => Step::Sleep(n),
            Action::SleepUntil(at) => Step::SleepUntil(at),
            Action::Lock(m) if s.pi => Step::LockPi(s.mutexes[m]),
            Action::Lock(m) => Step::Lock(s.mutexes[m]),
            Action::Unlock(m) if s.pi => Step::UnlockPi(s.mutexes[m]),
            Action::Unlock(m) => Step::Unlock(s.mutexes[m]),
            Action::Wait { cond, mutex } if s.pi => Step::CondWaitPi(s.conds[cond], s.mutexes[mutex]),
            Action::Wait { cond, mutex } => Step::CondWait(s.conds[cond], s.mutexes[mutex]),
            Action::Signal(c) => Step::CondSignal(s.conds[c]),
            Action::Broadcast(c) => Step::CondBroadcast(s.conds[c]),
            Action::Barrier(b) => Step::Barrier(s.barriers[b]),
            Action::SemaphoreWait(n) => Step::SemaphoreWait(s.semaphores[n]),
            Action::SemaphorePost(n) => Step::SemaphorePost(s.semaphores[n]),
            Action::Suspend(gate) => {
                let addr = s.gates[gate];
                Step::FutexWait { addr, value: v.load(addr), timeout: None }
            }
            Action::Resume(gate) => {
                let word = s.gates[gate];
                v.store(word, v.load(word).wrapping_add(1));
                Step::FutexWake { addr: word, count: ALL }
            }
            Action::Memory(bytes) => Step::Compute(Nanos(bytes.saturating_mul(s.cost.memory) / 1024)),
            // Nothing is copied.
            Action::Write(bytes) => Step::Compute(Nanos(bytes.div_ceil(s.buffer).saturating_mul(s.cost.call))),
            Action::Fork(task) => Step::Clone(Simulated::program(self.script.fork(task), s)),
            Action::Yield => Step::Yield,
            Action::Exit => Step::Exit,
        }
    }
}

impl Program for Simulated {
    fn next(&mut self, v: &mut View<'_>) -> Step {
        let action = {
            let mut seen = self.seen.borrow_mut();
            let Measured { refused, no_thread, .. } = &mut *seen;
            let refusal = match self.last {
                Last::Changed => Some(refused),
                Last::Forked => Some(no_thread),
                Last::Other => None,
            };
            if let Some(refusal) = refusal.filter(|_| v.result < 0) {
                refusal.get_or_insert(v.result);
            }
            self.script.next(v.now(), &mut seen)
        };
        self.last = match action {
            Action::SetPolicy(_) | Action::SetAffinity(_) => Last::Changed,
            Action::Fork(_) => Last::Forked,
            _ => Last::Other,
        };
        self.step(action, v)
    }
}
