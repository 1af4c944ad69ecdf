//! The deadline class: constant bandwidth servers (Abeni and Buttazzo 1998) under
//! earliest deadline first (`kernel/sched/deadline.c`).
//!
//! A thread reserves `runtime` in every `period`. Each job has an absolute deadline and a budget; when the budget is
//! used up, the thread is throttled until its next period, so it can never take more than it reserved.

use crate::entity::Entity;
use crate::node::KEY_MAX;
use crate::table::Table;
use crate::tree::Tree;
use ids::{Nanos, ThreadIdx};

/// The deadline threads of one CPU, except the running one.
#[derive(Debug)]
pub(crate) struct DeadlineQueue {
    /// Runnable threads, ordered by absolute deadline.
    ready: Tree,
    /// Out of budget, by the time of their replenishment.
    throttled: Tree,
    /// Ready threads that may run elsewhere.
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

    /// How many are throttled.
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

    /// The most urgent ready thread that may run elsewhere.
    pub(crate) fn first_movable(&self, table: &Table) -> Option<ThreadIdx> {
        if self.movable == 0 {
            return None;
        }
        self.ready.find_allowed(table, 0, MOST_LOOKS, |_, e| e.movable.get() != 0)
    }

    /// Any throttled thread, to move it away from an unserved CPU.
    pub(crate) fn first_throttled(&self, table: &Table) -> Option<ThreadIdx> {
        self.throttled.first(table)
    }

    /// The ready thread with the earliest deadline.
    pub(crate) fn first(&self, table: &Table) -> Option<ThreadIdx> {
        self.ready.first(table)
    }

    /// Adds `t`: ready, or throttled if it has no budget.
    pub(crate) fn insert(&mut self, table: &Table, t: ThreadIdx, now: Nanos) {
        let e = table.get(t);
        e.vruntime.set(0);
        if e.boosted_deadline().is_none() && e.dl.budget.get() <= 0 {
            if e.next_period() > now.0 {
                e.dl.throttled.set(1);
                e.key.set(clamp_key(e.next_period()));
                self.throttled.insert(table, t, e);
                return;
            }
            replenish(e, now);
        }
        e.key.set(clamp_key(deadline_of(e)));
        self.movable += u32::from(e.movable.get());
        self.ready.insert(table, t, e);
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
        self.throttled.first(table).map(|t| Nanos(table.get(t).key.get() as u64))
    }

    /// Replenishes one throttled thread whose time has come; returns whether there was one.
    pub(crate) fn replenish_one(&mut self, table: &Table, now: Nanos) -> bool {
        match self.throttled.first(table) {
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
            tree.visit(table, &mut |t| visit(t, table.get(t)));
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

/// The most threads that a search examines.
const MOST_LOOKS: u32 = 64;

/// A job begins or continues after a wait: the rule of the constant bandwidth server (`update_dl_entity`). The old
/// budget and deadline are kept if using them up would not exceed the reserved bandwidth.
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

/// The job of a thread whose attributes or boost have changed: continues, unless its deadline has passed
/// (`enqueue_dl_entity` with ENQUEUE_RESTORE).
pub(crate) fn go_on(e: &Entity, now: Nanos) {
    let absolute = e.dl.absolute.get();
    if absolute == 0 || e.dl.budget.get() > 0 && absolute < now.0 {
        begin_job(e, now);
    }
}

/// Charges the running thread for `delta` nanoseconds; true when its budget is used up.
pub(crate) fn charge(e: &Entity, delta: u64) -> bool {
    if e.boosted_deadline().is_some() {
        return false;
    }
    e.dl.budget.set(e.dl.budget.get().saturating_sub_unsigned(delta));
    e.dl.budget.get() <= 0
}

/// Makes the running thread forfeit the rest of its budget (`yield_task_dl`).
pub(crate) fn give_way(e: &Entity) {
    if e.boosted_deadline().is_none() {
        e.dl.budget.set(0);
    }
}

/// The sort key of a thread that may run.
pub(crate) fn deadline_of(e: &Entity) -> u64 {
    e.boosted_deadline().map_or(e.dl.absolute.get(), |d| d.0)
}

/// Starts a new period: advances the deadline until there is budget. If that is still in the past, the job starts
/// afresh.
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
    nanos.min(KEY_MAX as u64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Attr, DeadlineParams, Urgency};
    use core::cmp::Reverse;

    /// The unit in which bandwidths are compared.
    const U: u64 = 1024;

    fn entity(runtime: u64, deadline: u64, period: u64, budget: i64, absolute: u64) -> Entity {
        let e = Entity::new();
        let params = DeadlineParams { runtime: Nanos(runtime), deadline: Nanos(deadline), period: Nanos(period) };
        e.set_attr(&Attr::deadline(params), 700_000, Nanos(1));
        e.dl.budget.set(budget);
        e.dl.absolute.set(absolute);
        e
    }

    fn state(e: &Entity) -> (i64, u64) {
        (e.dl.budget.get(), e.dl.absolute.get())
    }

    /// 3 of 12: a budget of 2 may be used up within 8, one of 3 within 12.
    #[test]
    fn a_job_keeps_what_does_not_exceed_its_bandwidth() {
        let u = |n: u64| n * U;
        for (budget, absolute, now, kept) in [
            (2 * U as i64, u(108), u(100), true),
            (2 * U as i64, u(108) - 1, u(100), false),
            (3 * U as i64 - 1, u(108), u(100), true),
            (3 * U as i64, u(112), u(100), true),
            (3 * U as i64, u(111), u(100), false),
            (0, u(100), u(100), true),
            (-5, u(100), u(100), true),
            (0, u(100), u(100) + 1, false),
            (U as i64, u(100), u(100), false),
            (0, 0, 0, false),
        ] {
            let e = entity(u(3), u(12), u(12), budget, absolute);
            begin_job(&e, Nanos(now));
            let expected = if kept { (budget, absolute) } else { (3 * U as i64, now + u(12)) };
            assert_eq!(state(&e), expected, "{budget} until {absolute} at {now}");
        }
    }

    /// The revised rule: what is left of the time, times runtime by deadline.
    #[test]
    fn a_constrained_job_gets_the_part_of_its_budget_that_the_time_left_allows() {
        let u = |n: u64| n * U;
        for (absolute, now, expected) in [
            (u(104), u(100), (2 * U as i64, u(104))),
            (u(101), u(100), (U as i64 / 2, u(101))),
            (u(100), u(100), (3 * U as i64, u(106))),
            (u(99), u(100), (3 * U as i64, u(106))),
        ] {
            let e = entity(u(3), u(6), u(12), 3 * U as i64, absolute);
            begin_job(&e, Nanos(now));
            assert_eq!(state(&e), expected, "until {absolute}");
        }
    }

    #[test]
    fn who_only_inherits_a_deadline_has_no_job() {
        let e = Entity::new();
        e.set_boost(Some(Urgency::Deadline(Reverse(Nanos(500)))));
        begin_job(&e, Nanos(100));
        assert_eq!((state(&e), deadline_of(&e)), ((0, 0), 500));
        assert!(!charge(&e, 50));
        give_way(&e);
        assert_eq!(state(&e), (0, 0), "it runs on somebody else's budget");
        let own = entity(3 * U, 12 * U, 12 * U, 0, 0);
        own.set_boost(Some(Urgency::Deadline(Reverse(Nanos(500)))));
        begin_job(&own, Nanos(100));
        assert_eq!((state(&own), deadline_of(&own)), ((3 * U as i64, 100 + 12 * U), 500), "its own begins beside it");
        give_way(&own);
        assert_eq!(state(&own).0, 3 * U as i64);
    }

    #[test]
    fn a_budget_is_charged_and_given_away() {
        let e = entity(100, 1_000, 1_000, 100, 5_000);
        assert!(!charge(&e, 99));
        assert_eq!(e.dl.budget.get(), 1);
        assert!(charge(&e, 1) && charge(&e, 40));
        assert_eq!(e.dl.budget.get(), -40);
        e.dl.budget.set(60);
        give_way(&e);
        assert_eq!((state(&e), deadline_of(&e)), ((0, 5_000), 5_000));
    }

    /// A period begins where the deadline minus its relative length is, and ends a period later.
    #[test]
    fn a_new_budget_comes_at_the_end_of_the_period() {
        for (deadline, period, absolute, next) in [
            (1_000, 1_000, 5_000, 5_000),
            (400, 1_000, 5_000, 5_600),
            (400, 1_000, 100, 1_000),
            (400, 1_000, u64::MAX, u64::MAX),
        ] {
            assert_eq!(
                entity(100, deadline, period, 0, absolute).next_period(),
                next,
                "{deadline} of {period}, {absolute}"
            );
        }
    }

    #[test]
    fn debts_are_paid_by_whole_periods() {
        for (budget, now, expected) in [
            (0, 5_000, (100, 6_000)),
            (-1, 5_000, (99, 6_000)),
            (-99, 5_000, (1, 6_000)),
            (-100, 5_000, (100, 7_000)),
            (-250, 5_000, (50, 8_000)),
            (0, 6_000, (100, 6_000)),
            (0, 6_001, (100, 7_001)),
            (-50, 9_000, (100, 10_000)),
            (30, 5_000, (130, 6_000)),
        ] {
            let e = entity(100, 1_000, 1_000, budget, 5_000);
            replenish(&e, Nanos(now));
            assert_eq!(state(&e), expected, "{budget} at {now}");
        }
    }

    #[test]
    fn keys_do_not_become_negative() {
        assert_eq!((clamp_key(7), clamp_key(u64::MAX), clamp_key(1 << 63)), (7, KEY_MAX, KEY_MAX));
        assert_eq!((clamp_key(KEY_MAX as u64 - 1), clamp_key((1 << 63) - 1)), (KEY_MAX - 1, KEY_MAX));
    }

    /// Threads 0 and 2 may go elsewhere; thread 1 is first, and thread 3 out of budget until 9,000.
    #[test]
    fn the_ready_are_in_order_and_the_throttled_apart() {
        let table = Table::new(2).unwrap();
        let mut q = DeadlineQueue::new();
        assert!(q.is_empty() && q.first(&table).is_none() && q.first_throttled(&table).is_none());
        for (i, absolute, movable, budget) in [(0, 3_000, 1, 5), (1, 2_000, 0, 5), (2, 4_000, 1, 1), (3, 9_000, 1, 0)] {
            let t = ThreadIdx(i);
            table.reserve(t).unwrap();
            let e = table.get(t);
            let params = DeadlineParams { runtime: Nanos(5), deadline: Nanos(1_000), period: Nanos(1_000) };
            e.set_attr(&Attr::deadline(params), 700_000, Nanos(1));
            e.dl.budget.set(budget);
            e.dl.absolute.set(absolute);
            e.movable.set(movable);
            q.insert(&table, t, Nanos(1_000));
        }
        let t = |i| Some(ThreadIdx(i));
        assert_eq!((q.waiting(), q.throttled(), q.count(), q.movable, q.is_empty()), (3, 1, 4, 2, false));
        assert_eq!((q.first(&table), q.first_movable(&table), q.first_throttled(&table)), (t(1), t(0), t(3)));
        assert_eq!(q.find(&table, |_, e| e.movable.get() == 0), t(1));
        assert_eq!(q.next_replenishment(&table), Some(Nanos(9_000)));
        assert!(q.audit(&table));
        assert!(!q.replenish_one(&table, Nanos(8_999)));
        assert!(q.replenish_one(&table, Nanos(9_000)) && !q.replenish_one(&table, Nanos(9_000)));
        assert_eq!(
            (q.waiting(), q.throttled(), q.movable, table.get(ThreadIdx(3)).dl.absolute.get()),
            (4, 0, 3, 10_000)
        );
        q.remove(&table, ThreadIdx(0));
        assert_eq!((q.waiting(), q.movable, q.first_movable(&table)), (3, 2, t(2)));
        [2, 3].iter().for_each(|&i| q.remove(&table, ThreadIdx(i)));
        assert_eq!((q.first(&table), q.first_movable(&table)), (t(1), None));
        assert_eq!(q.find(&table, |_, _| true), None, "none may go elsewhere");
        assert!(q.audit(&table));
        q.movable = 1;
        assert!(!q.audit(&table), "a count that is wrong");
    }
}
