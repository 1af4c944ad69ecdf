//! Checks from outside, while everything runs, what push and pull promise: the most urgent threads have the CPUs.
//!
//! One sample proves nothing, because a thread may be on its way: a kick is in flight, or a CPU is in the kernel. A
//! sampler therefore checks repeatedly; a situation that persists over several ticks of its CPU is a violation.

use crate::Scheduler;
use crate::entity::Class;
use crate::rank::Rank;
use ids::{CpuId, Nanos, ThreadIdx};

/// A real-time thread that waits while something less urgent runs where it may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misplaced {
    /// The thread.
    pub thread: ThreadIdx,
    /// Since when it has been waiting. With the thread and its CPU, this identifies the wait.
    pub since: Nanos,
    /// The CPU that runs something less urgent: the one where the thread waits, or another.
    pub instead: CpuId,
}

impl Scheduler {
    /// A real-time thread that waits on `cpu` but should not: the most urgent one, if something less urgent runs here,
    /// or the first pushable one, if something less urgent runs where it could go (only the head is pushed). `None`
    /// also if the queue is locked.
    pub fn misplaced(&self, cpu: CpuId) -> Option<Misplaced> {
        let h = self.at(cpu).try_lock()?;
        let (rq, table) = (&h.rq, &self.table);
        if rq.absent {
            return None;
        }
        let is = |t: ThreadIdx, instead| Misplaced { thread: t, since: Nanos(table.get(t).queued_at.get()), instead };
        let running = rq.running_rank(h.current());
        let waits = |t, e: &crate::entity::Entity| t != rq.current && e.class() == Class::Rt;
        let first = rq.rt.active.find(table, 2, waits);
        if let Some(t) = first.filter(|&t| Rank::of(table.get(t)) < running) {
            return Some(is(t, cpu));
        }
        if rq.deadline.first_movable(table).is_some() {
            return None;
        }
        let head = rq.rt.pushable.first()?;
        let e = table.get(head);
        let crowded = self.domains.is_crowded();
        let less_urgent = |c: &CpuId| {
            if crowded && !self.domains.is_urgent(*c) {
                return false;
            }
            let seen = &self.cpus[c.index()].seen;
            // A thread that is about to run there counts as well.
            Rank(seen.running.get()) > Rank::of(e) && Rank(seen.best.get()) > Rank::of(e)
        };
        let others = (0..self.cpus.len()).map(|i| CpuId(i as u16)).filter(|&c| c != cpu && self.suits(head, e, c));
        others.filter(less_urgent).map(|c| is(head, c)).next()
    }

    /// Plants a fault in a scheduler that was made without one.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, fault: crate::Fault) {
        self.table.fault = Some(fault);
    }
}
