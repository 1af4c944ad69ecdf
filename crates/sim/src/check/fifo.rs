//! Invariant 3: order within a priority.
//!
//! Between two checks, threads that wait at the same level of the same CPU keep their order. A preempted thread
//! stands before those that waited already, because it keeps its place. An arriving thread stands behind them.
//!
//! Some threads are not compared until they next wait: threads that yielded; threads with new attributes
//! (`sched_setscheduler(2)` moves them behind or before their new equals); round-robin threads that ran (their slice
//! may be over); threads that may run on one CPU only (`check_preempt_equal_prio` may let them through); threads that
//! hold or have held a boost; parked threads whose call has just been tried.

use super::{Look, Met};
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
    /// Threads whose order is not compared at the next check.
    exempt: Vec<ThreadIdx>,
}

impl Fifo {
    pub(super) fn note_call(&mut self, k: &Kernel<SimMachine>, t: ThreadIdx, call: &Call) {
        use abi::nr;
        match call.nr {
            nr::SCHED_YIELD => self.exempt.push(t),
            nr::SCHED_SETATTR | nr::SCHED_SETSCHEDULER | nr::SCHED_SETPARAM => {
                let tid = call.args[0] as i32;
                self.exempt.push(if tid == 0 { t } else { k.threads().find(Tid(tid)).unwrap_or(t) });
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
            self.exempt.push(owner);
            if k.thread(owner).wait.kind() != Wait::FutexPi {
                return;
            }
            lock = k.thread(owner).node.address();
        }
    }

    pub(super) fn check(&mut self, w: &Look<'_>, old: &[Met], new: &[Met], index: &[u32]) -> Result<(), String> {
        let mut from = 0;
        for queue in new.chunk_by(|a, b| a.cpu == b.cpu && a.place == b.place) {
            if let Place::Level(_) = queue[0].place
                && queue.len() > 1
            {
                // Both lists are ordered by CPU.
                while old.get(from).is_some_and(|m| m.cpu < queue[0].cpu) {
                    from += 1;
                }
                let to = from + old[from..].iter().take_while(|m| m.cpu == queue[0].cpu).count();
                self.check_level(w, &old[from..to], queue)?;
            }
        }
        // A place in line that was got in another way is kept until the thread waits for something. A boost may end
        // in the same event in which its holder goes to another CPU, where it stands before its new equals then.
        let s = &w.kernel.sched;
        let let_through = |m: &Met| matches!(m.place, Place::Level(_)) && s.affinity(m.thread).count() == 1;
        self.exempt.extend(new.iter().filter(|m| let_through(m) || is_boosted(w, m.thread)).map(|m| m.thread));
        self.exempt.retain(|t| index.get(t.index()).is_some_and(|&i| i != 0));
        self.exempt.sort_unstable();
        self.exempt.dedup();
        Ok(())
    }

    fn check_level(&self, w: &Look<'_>, old: &[Met], queue: &[Met]) -> Result<(), String> {
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
        for m in queue.iter().filter(|m| !self.is_exempt(w, m, old)) {
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
        let s = &w.kernel.sched;
        let attr = s.attr(m.thread);
        let ran = before(old, m).is_some_and(is_running);
        let rotated = attr.policy == Policy::RoundRobin && ran;
        let pinned = s.affinity(m.thread).count() == 1;
        // The end of a boost: a demoted thread stands before its new equals (`rt_mutex_setprio`).
        let level = |o: &Met| matches!(o.place, Place::Level(_)) && o.place != m.place;
        let fell = before(old, m).is_some_and(level);
        is_boosted(w, m.thread) || fell || rotated || pinned || waited_anew(w, m) || self.exempt.contains(&m.thread)
    }
}

/// Whether priority inheritance makes it more urgent than its own policy.
fn is_boosted(w: &Look<'_>, t: ThreadIdx) -> bool {
    let (s, urgency) = (&w.kernel.sched, w.kernel.sched.urgency(t));
    urgency != Urgency::Fair && urgency != Urgency::Rt(s.attr(t).rt)
}

/// A parked thread that tried its call in this event, found nothing and was then woken by an event that came at the
/// same time: it is queued last, though it was runnable before.
fn waited_anew(w: &Look<'_>, m: &Met) -> bool {
    w.kernel.thread(m.thread).parked.is_parked() && w.kernel.m.with(m.thread, |c| c.tried) == w.now
}

fn is_running(m: &Met) -> bool {
    m.place == Place::Running
}

fn before<'a>(old: &'a [Met], m: &Met) -> Option<&'a Met> {
    old.iter().find(|o| o.thread == m.thread)
}
