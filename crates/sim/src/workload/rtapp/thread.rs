//! A simulated thread of an rt-app file.

use super::Shared;
use super::script::{Action, Measured, Script};
use crate::user::{Program, Step, View, Who};
use std::cell::RefCell;
use std::rc::Rc;

/// All waiters.
const ALL: u32 = i32::MAX as u32;

pub(super) struct Simulated {
    script: Script,
    /// The last step changed policy or CPUs; its creator has just set its policy.
    changed: bool,
    shared: Rc<Shared>,
    seen: Rc<RefCell<Measured>>,
}

impl Simulated {
    pub fn new(script: Script, shared: Rc<Shared>, seen: Rc<RefCell<Measured>>) -> Simulated {
        Simulated { script, changed: true, shared, seen }
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
            Action::Wait { cond, mutex } => Step::CondWait(s.conds[cond], s.mutexes[mutex]),
            Action::Signal(c) => Step::CondSignal(s.conds[c]),
            Action::Broadcast(c) => Step::CondBroadcast(s.conds[c]),
            Action::Barrier(b) => Step::Barrier(s.barriers[b]),
            Action::Suspend(task) => {
                let addr = s.suspended[task];
                Step::FutexWait { addr, value: v.load(addr), timeout: None }
            }
            Action::Resume(task) => {
                let word = s.suspended[task];
                v.store(word, v.load(word).wrapping_add(1));
                Step::FutexWake { addr: word, count: ALL }
            }
            Action::Yield => Step::Yield,
            Action::Exit => Step::Exit,
        }
    }
}

impl Program for Simulated {
    fn next(&mut self, v: &mut View<'_>) -> Step {
        let action = {
            let mut seen = self.seen.borrow_mut();
            if std::mem::take(&mut self.changed) && v.result < 0 {
                seen.refused.get_or_insert(v.result);
            }
            self.script.next(v.now(), &mut seen)
        };
        self.changed = matches!(action, Action::SetPolicy(_) | Action::SetAffinity(_));
        self.step(action, v)
    }
}
