//! Invariant 3: order within a priority.
//!
//! Between two checks, threads that wait at the same level of the same CPU keep their order. A preempted thread
//! stands before those that waited already, because it keeps its place. An arriving thread stands behind them.
//!
//! Some threads are not compared until they next wait: threads that yielded; threads with new attributes
//! (`sched_setscheduler(2)` moves them behind or before their new equals); round-robin threads that ran (their slice
//! may be over); threads that may run on one CPU only (`check_preempt_equal_prio` may let them through); threads that
//! hold or have held a boost; parked threads whose call has just been tried.

use super::picture::{Met, Picture};
use super::{CpuBits, Look};
use crate::machine::SimMachine;
use abi::futex::{FUTEX_CMD_MASK, FUTEX_LOCK_PI, FUTEX_TID_MASK};
use ids::{Policy, ThreadIdx, Tid};
use kernel::wait::Wait;
use kernel::{Call, Kernel};
use sched::{Place, Urgency};

/// No program here makes longer chains of owners that wait for owners.
const CHAIN_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Fifo {
    /// By thread: its order is not compared until it waits.
    exempt: Vec<bool>,
    /// Threads that have been exempted since the last check.
    noted: Vec<ThreadIdx>,
}

impl Fifo {
    pub(super) fn note_call(&mut self, k: &Kernel<SimMachine>, t: ThreadIdx, call: &Call) {
        use abi::nr;
        match call.nr {
            nr::SCHED_YIELD => self.noted.push(t),
            nr::SCHED_SETATTR | nr::SCHED_SETSCHEDULER | nr::SCHED_SETPARAM => {
                let tid = call.args[0] as i32;
                self.noted.push(if tid == 0 { t } else { k.threads().find(Tid(tid)).unwrap_or(t) });
            }
            nr::FUTEX if call.args[1] as u32 & FUTEX_CMD_MASK == FUTEX_LOCK_PI => self.note_lock(k, t, call.args[0]),
            _ => {}
        }
    }

    /// `t` is about to wait for this lock: it raises the owner. If a signal is pending, the wait ends in the same event, and
    /// with it the boost, which no check sees then.
    fn note_lock(&mut self, k: &Kernel<SimMachine>, t: ThreadIdx, mut lock: u64) {
        for _ in 0..CHAIN_MAX {
            let Ok(word) = k.load_u32(lock) else { return };
            let Some(owner) = k.threads().find(Tid((word & FUTEX_TID_MASK) as i32)) else { return };
            if k.sched.urgency(t) <= k.sched.urgency(owner) {
                return;
            }
            self.noted.push(owner);
            if k.thread(owner).wait.kind() != Wait::FutexPi {
                return;
            }
            lock = k.thread(owner).node.address();
        }
    }

    /// Compares the queues that have changed with what they were. In any other, all are where they were.
    pub(super) fn check(&mut self, w: &Look<'_>, picture: &Picture, changed: &CpuBits) -> Result<(), String> {
        for i in 0..self.noted.len() {
            self.exempt(self.noted[i], true);
        }
        for queue in changed.iter().map(|cpu| &picture.queues[cpu.index()]) {
            for level in queue.met.chunk_by(|a, b| a.place == b.place) {
                if let Place::Level(_) = level[0].place
                    && level.len() > 1
                {
                    self.check_level(w, &queue.before, level)?;
                }
            }
        }
        self.update(w, picture, changed);
        Ok(())
    }

    /// A place in line that was got in another way is kept until the thread waits for something. A boost may end in the
    /// same event in which its holder goes to another CPU, where it stands before its new equals then.
    fn update(&mut self, w: &Look<'_>, picture: &Picture, changed: &CpuBits) {
        for queue in changed.iter().map(|cpu| &picture.queues[cpu.index()]) {
            for m in &queue.met {
                let let_through = matches!(m.place, Place::Level(_)) && !m.is_movable;
                if let_through || is_boosted(w, m) {
                    self.exempt(m.thread, true);
                }
            }
            for m in queue.before.iter().filter(|m| !picture.is_runnable(m.thread)) {
                self.exempt(m.thread, false);
            }
        }
        while let Some(t) = self.noted.pop() {
            if !picture.is_runnable(t) {
                self.exempt(t, false);
            }
        }
    }

    fn exempt(&mut self, t: ThreadIdx, is: bool) {
        if self.exempt.len() <= t.index() {
            self.exempt.resize(t.index() + 1, false);
        }
        self.exempt[t.index()] = is;
    }

    fn check_level(&self, w: &Look<'_>, old: &[Met], level: &[Met]) -> Result<(), String> {
        // A place in line at the check before: the runner first, then the waiting ones.
        let place_before = |m: &Met| {
            let i = old.iter().position(|o| o.thread == m.thread)?;
            match old[i].place {
                Place::Running => Some(0),
                p if p == m.place => Some(i + 1),
                _ => None,
            }
        };
        let mut last: Option<(usize, &Met)> = None;
        for m in level.iter().filter(|m| !self.is_exempt(w, m, old)) {
            // A thread that has just arrived stands last.
            let place = place_before(m).unwrap_or(usize::MAX);
            if let Some((before, other)) = last
                && before > place
            {
                return Err(format!("{:?} has lost its place to {:?} at {:?}", m.thread, other.thread, m.place));
            }
            last = Some((place, m));
        }
        Ok(())
    }

    fn is_exempt(&self, w: &Look<'_>, m: &Met, old: &[Met]) -> bool {
        let before = old.iter().find(|o| o.thread == m.thread);
        // The end of a boost: a demoted thread stands before its new equals (`rt_mutex_setprio`).
        let fell = before.is_some_and(|o| matches!(o.place, Place::Level(_)) && o.place != m.place);
        let ran = before.is_some_and(|o| o.place == Place::Running);
        let rotated = || ran && w.kernel.sched.attr(m.thread).policy == Policy::RoundRobin;
        let noted = self.exempt.get(m.thread.index()).is_some_and(|exempt| *exempt);
        noted || fell || rotated() || !m.is_movable || is_boosted(w, m) || waited_anew(w, m)
    }
}

/// Whether priority inheritance makes it more urgent than its own policy.
fn is_boosted(w: &Look<'_>, m: &Met) -> bool {
    m.urgency != Urgency::Fair && m.urgency != Urgency::Rt(w.kernel.sched.attr(m.thread).rt)
}

/// A parked thread that tried its call in this event, found nothing and was then woken by an event that came at the
/// same time: it is queued last, though it was runnable before.
fn waited_anew(w: &Look<'_>, m: &Met) -> bool {
    w.kernel.thread(m.thread).parked.is_parked() && w.kernel.m.with(m.thread, |c| c.tried) == w.now
}
