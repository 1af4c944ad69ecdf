//! A look at everything at once, for tests and simulators: is the scheduler's state whole?

use crate::Scheduler;
use crate::entity::{Class, ON_RQ};
use crate::queue::Held;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering;

/// Where the audit met a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It has the CPU.
    Running,
    /// It waits in the real-time queue at this level (100 − priority; 0 is the stop class).
    Level(u8),
    /// It waits in the fair queue.
    Fair,
    /// It waits in the deadline queue.
    Deadline,
    /// It waits for a new budget.
    Throttled,
}

/// What an audit found wrong, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The CPU whose queue is damaged.
    pub cpu: CpuId,
    /// What does not hold.
    pub what: &'static str,
}

impl Scheduler {
    /// Names each thread that is running or queued to `meet`, each queue in its order. Takes one
    /// lock at a time: complete only while nobody else schedules.
    pub fn audit(&self, mut meet: impl FnMut(CpuId, ThreadIdx, Place)) -> Result<(), Damage> {
        for cpu in (0..self.cpus.len()).map(|c| CpuId(c as u16)) {
            let h = self.lock(cpu);
            h.audit(&mut meet).map_err(|what| Damage { cpu, what })?;
        }
        Ok(())
    }
}

impl Held<'_> {
    fn audit(&self, meet: &mut impl FnMut(CpuId, ThreadIdx, Place)) -> Result<(), &'static str> {
        let table = &self.s.table;
        let mut homes = true;
        let mut note = |t: ThreadIdx, place: Place| {
            homes &= table.get(t).home.load(Ordering::Relaxed) == u32::from(self.id.0) | ON_RQ;
            meet(self.id, t, place);
        };
        if self.current().is_some() {
            note(self.rq.current, Place::Running);
        }
        let _ = self.rq.fair.find_allowed(table, 0, u32::MAX, |t, _| {
            note(t, Place::Fair);
            false
        });
        let _ = self.rq.rt.active.find(table, u32::MAX, |t, e| {
            if t != self.rq.current {
                note(t, Place::Level(e.level.get()));
            }
            false
        });
        let _ = self.rq.deadline.find_allowed(table, 0, u32::MAX, |t, e| {
            if e.class() == Class::Deadline {
                note(t, Place::Deadline);
            }
            false
        });
        if homes { Ok(()) } else { Err("a member's home") }
    }
}
