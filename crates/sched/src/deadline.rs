//! The deadline class: constant bandwidth servers (Abeni and Buttazzo 1998) under
//! earliest deadline first (`kernel/sched/deadline.c`).
//!
//! A thread reserves `runtime` in every `period`. Each job has an absolute deadline and a
//! budget; when the budget is used up the thread is throttled until its next period, so it
//! can never take more than it reserved, whatever it does.

use crate::entity::Entity;
use crate::table::Table;
use crate::tree::Tree;
use ids::{Nanos, ThreadIdx};

/// The deadline threads of one CPU that do not run.
#[derive(Debug)]
pub(crate) struct DeadlineQueue {
    /// By absolute deadline.
    ready: Tree,
    /// Out of budget, by the time of their replenishment.
    throttled: Tree,
    /// Ready ones that may go elsewhere.
    movable: u32,
}

impl DeadlineQueue {
    pub(crate) const fn new() -> DeadlineQueue {
        DeadlineQueue { ready: Tree::new(), throttled: Tree::new(), movable: 0 }
    }

    /// How many could run.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> u32 {
        self.ready.len()
    }

    /// How many are out of budget.
    #[inline(always)]
    pub(crate) fn throttled(&self) -> u32 {
        self.throttled.len()
    }

    /// Whether there are none at all.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many there are, ready or throttled.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.ready.len() + self.throttled.len()
    }

    /// The most urgent ready one that may go elsewhere.
    pub(crate) fn first_movable(&self, table: &Table) -> Option<ThreadIdx> {
        if self.movable == 0 {
            return None;
        }
        self.ready.find_allowed(table, 0, MOST_LOOKS, |_, e| e.movable.get() != 0)
    }

    /// Any out of budget, to carry it away from a CPU that nobody serves.
    pub(crate) fn first_throttled(&self) -> Option<ThreadIdx> {
        self.throttled.first()
    }

    /// The one with the earliest deadline.
    pub(crate) fn first(&self) -> Option<ThreadIdx> {
        self.ready.first()
    }

    /// Adds `t`: ready, or throttled if it has no budget.
    pub(crate) fn insert(&mut self, table: &Table, t: ThreadIdx, now: Nanos) {
        let e = table.get(t);
        e.vruntime.set(0);
        if e.boosted_deadline().is_none() && e.dl.budget.get() <= 0 {
            if next_period(e) > now.0 {
                e.dl.throttled.set(1);
                e.key.set(clamp_key(next_period(e)));
                self.throttled.insert(table, t);
                return;
            }
            replenish(e, now);
        }
        e.key.set(clamp_key(deadline_of(e)));
        self.movable += u32::from(e.movable.get());
        self.ready.insert(table, t);
    }

    /// Removes `t`, wherever it is.
    pub(crate) fn remove(&mut self, table: &Table, t: ThreadIdx) {
        let e = table.get(t);
        if e.dl.throttled.get() != 0 {
            e.dl.throttled.set(0);
            self.throttled.remove(table, t);
        } else {
            self.movable -= u32::from(e.movable.get());
            self.ready.remove(table, t);
        }
    }

    /// When the next throttled thread gets a new budget.
    pub(crate) fn next_replenishment(&self, table: &Table) -> Option<Nanos> {
        self.throttled.first().map(|t| Nanos(table.get(t).key.get() as u64))
    }

    /// Gives one throttled thread whose time has come its new budget; says whether there was one.
    pub(crate) fn replenish_one(&mut self, table: &Table, now: Nanos) -> bool {
        match self.throttled.first() {
            Some(t) if table.get(t).key.get() as u64 <= now.0 => {
                self.remove(table, t);
                self.insert(table, t, now);
                true
            }
            _ => false,
        }
    }

    /// Visits all, ready or not.
    pub(crate) fn for_each(&self, table: &Table, mut visit: impl FnMut(ThreadIdx, &Entity)) {
        for tree in [&self.ready, &self.throttled] {
            let _ = tree.find_allowed(table, 0, u32::MAX, |t, e| {
                visit(t, e);
                false
            });
        }
    }

    /// Whether both trees and the count are in order.
    pub(crate) fn audit(&self, table: &Table) -> bool {
        let mut movable = 0;
        self.for_each(table, |_, e| movable += u32::from(e.movable.get() != 0 && e.dl.throttled.get() == 0));
        movable == self.movable && self.ready.is_sound(table) && self.throttled.is_sound(table)
    }

    /// The most urgent ready thread for which `wanted` holds.
    pub(crate) fn find(&self, table: &Table, wanted: impl FnMut(ThreadIdx, &Entity) -> bool) -> Option<ThreadIdx> {
        if self.movable == 0 { None } else { self.ready.find_allowed(table, 0, MOST_LOOKS, wanted) }
    }
}

/// A search looks at no more threads than this.
const MOST_LOOKS: u32 = 64;

/// A job begins (or goes on) after a wait: the rule of the constant bandwidth server
/// (`update_dl_entity`). The old budget and deadline are kept if using them up would not
/// exceed the reserved bandwidth.
pub(crate) fn begin_job(e: &Entity, now: Nanos) {
    if e.boosted_deadline().is_some() && e.dl.runtime.get() == 0 {
        return;
    }
    let (runtime, relative) = (e.dl.runtime.get(), e.dl.relative.get());
    let absolute = e.dl.absolute.get();
    let left = absolute.saturating_sub(now.0);
    let budget = e.dl.budget.get().max(0) as u64;
    // budget / left > runtime / relative, in units of 1024 ns as Linux does.
    let too_much =
        u128::from(budget >> 10) * u128::from(relative >> 10) > u128::from(left >> 10) * u128::from(runtime >> 10);
    if absolute >= now.0 && absolute != 0 && !too_much {
        return;
    }
    if absolute > now.0 && relative != e.dl.period.get() {
        // The revised wake-up rule for constrained deadlines: keep the deadline, shrink the budget.
        e.dl.budget.set((u128::from(left) * u128::from(runtime) / u128::from(relative.max(1))) as i64);
    } else {
        e.dl.absolute.set(now.0.saturating_add(relative));
        e.dl.budget.set(runtime as i64);
    }
}

/// The running thread has used `delta` nanoseconds; true when its budget is used up.
pub(crate) fn charge(e: &Entity, delta: u64) -> bool {
    if e.boosted_deadline().is_some() {
        return false;
    }
    e.dl.budget.set(e.dl.budget.get().saturating_sub_unsigned(delta));
    e.dl.budget.get() <= 0
}

/// The running thread gives the rest of its budget away (`yield_task_dl`).
pub(crate) fn give_way(e: &Entity) {
    if e.boosted_deadline().is_none() {
        e.dl.budget.set(0);
    }
}

/// The key by which a thread that may run is compared.
pub(crate) fn deadline_of(e: &Entity) -> u64 {
    e.boosted_deadline().map_or(e.dl.absolute.get(), |d| d.0)
}

/// When a thread without budget gets a new one: when its deadline's period ends.
fn next_period(e: &Entity) -> u64 {
    e.dl.absolute.get().saturating_sub(e.dl.relative.get()).saturating_add(e.dl.period.get())
}

/// A new period: deadlines move on until there is budget; one that is late all the same begins afresh.
fn replenish(e: &Entity, now: Nanos) {
    let (runtime, period) = (e.dl.runtime.get() as i64, e.dl.period.get());
    let periods = (-e.dl.budget.get()).max(0) / runtime.max(1) + 1;
    e.dl.budget.set(e.dl.budget.get() + periods * runtime);
    e.dl.absolute.set(e.dl.absolute.get().saturating_add(periods as u64 * period));
    if e.dl.absolute.get() < now.0 {
        e.dl.absolute.set(now.0.saturating_add(e.dl.relative.get()));
        e.dl.budget.set(runtime);
    }
}

fn clamp_key(nanos: u64) -> i64 {
    nanos.min(i64::MAX as u64) as i64
}
