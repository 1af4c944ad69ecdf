//! A look at everything at once, for tests and simulators: is the scheduler's state whole?

use crate::Scheduler;
use crate::entity::{Class, Entity, ON_RQ};
use crate::queue::Held;
use crate::rank::Rank;
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
    /// Checks every run queue's structure, and names each thread that is running or queued to `meet`, each
    /// queue in its order. Takes one lock at a time: complete only while nobody else schedules.
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
        let current = self.current();
        if let Some(e) = current {
            self.audit_thread(self.rq.current, e)?;
            meet(self.id, self.rq.current, Place::Running);
        }
        let mut load = current.filter(|e| e.is_fair()).map_or((0, 0), |e| self.rq.fair.audit_share(e));
        let mut counts = [0u32; 3];
        let mut broken = Ok(());
        let mut note = |t: ThreadIdx, e: &Entity, place: Place, count: &mut u32| {
            *count += 1;
            broken = broken.and(self.audit_thread(t, e));
            meet(self.id, t, place);
        };
        let _ = self.rq.fair.find_allowed(table, 0, u32::MAX, |t, e| {
            let (sum, weight) = self.rq.fair.audit_share(e);
            load = (load.0 + sum, load.1 + weight);
            note(t, e, Place::Fair, &mut counts[0]);
            false
        });
        let _ = self.rq.rt.active.find(table, u32::MAX, |t, e| {
            if t != self.rq.current {
                note(t, e, Place::Level(e.level.get()), &mut counts[1]);
            }
            false
        });
        self.rq.deadline.for_each(table, |t, e| {
            let throttled = e.dl.throttled.get() != 0;
            let place = if throttled { Place::Throttled } else { Place::Deadline };
            let mut out = 0;
            note(t, e, place, if throttled { &mut out } else { &mut counts[2] });
        });
        broken?;
        let sound = self.rq.fair.audit_tree(table) && self.rq.deadline.audit(table);
        check(sound, "a tree's order or what is kept per subtree")?;
        check(load == self.rq.fair.audit_sums(), "the sums of the fair queue")?;
        check(counts[0] == self.rq.fair.waiting(), "the number of waiting fair threads")?;
        check(counts.iter().sum::<u32>() == self.cpu.seen.queued.get(), "the published number of waiting threads")?;
        self.audit_published(current)
    }

    fn audit_thread(&self, t: ThreadIdx, e: &Entity) -> Result<(), &'static str> {
        check(e.home.load(Ordering::Relaxed) == u32::from(self.id.0) | ON_RQ, "a member's home")?;
        check(e.life.fits_member(t == self.rq.current), "a member's life")?;
        check(self.s.table.allows(t, e, self.id) || (t == self.rq.current && self.rq.exile), "a member's mask")
    }

    fn audit_published(&self, current: Option<&Entity>) -> Result<(), &'static str> {
        let (rq, seen, table) = (&self.rq, &self.cpu.seen, &self.s.table);
        check(seen.current.load(Ordering::Relaxed) == rq.current.0, "the published running thread")?;
        let mut pushable = 0;
        let _ = rq.rt.pushable.find(table, u32::MAX, |_, _| {
            pushable += 1;
            false
        });
        let mut movable = 0;
        let _ = rq.rt.active.find(table, u32::MAX, |t, e| {
            movable += u32::from(t != rq.current && e.movable.get() != 0 && e.class() == Class::Rt);
            false
        });
        check(pushable == movable, "the pushable list")?;
        let first = rq.first_pushable(table).map_or(Rank::IDLE, |t| Rank::of(table.get(t)));
        check(seen.pushable.get() == first.0, "the published best pushable thread")?;
        check(rq.overloaded == (first < Rank::IDLE), "the overload flag")?;
        let best = rq.running_rank(current).min(rq.best_rank(table, current));
        check(rq.vector == best.vector(), "the priority vector")?;
        check(self.s.domain.is_in_vector(self.id, rq.vector), "the priority vectors' sets")?;
        check(rq.overloaded == self.s.domain.is_overloaded(self.id), "the overload mask")
    }
}

fn check(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}
