//! The constant bandwidth server and its throttling, figure by figure: `next_event` says when a budget ends, `urgency`
//! what the deadline is.

use crate::scene::{C0, C1, Scene, t};
use core::cmp::Reverse;
use entresol_sched::{Attr, AttrError, DeadlineParams, Prev, Urgency};
use ids::{CpuId, CpuMask, Nanos, Policy, RtPriority};

/// Bandwidths are compared in units of 1024 ns: a multiple of that.
const U: u64 = 1024 * 1000;

fn reservation(runtime: u64, deadline: u64, period: u64) -> Attr {
    Attr::deadline(DeadlineParams { runtime: Nanos(runtime), deadline: Nanos(deadline), period: Nanos(period) })
}

/// A deadline thread that is runnable: attributes of a thread that has not run yet do not count.
fn start(m: &mut Scene, n: u32, attr: &Attr, from: CpuId) {
    m.start(n, Attr::DEFAULT, CpuMask::first(ids::CPUS_MAX), from);
    m.s.set_attr(t(n), attr, Nanos(m.now), &mut m.kicks).unwrap();
}

/// One CPU; deadline thread 0 runs, its job began just now; the time is round.
fn running(runtime: u64, deadline: u64, period: u64) -> Scene {
    let mut m = Scene::new(1);
    m.now = 100 * U;
    start(&mut m, 0, &reservation(runtime, deadline, period), C0);
    assert_eq!(m.s.schedule(C0, Nanos(m.now), Prev::Preempted, &mut m.kicks), Some(t(0)));
    m
}

fn at(m: &mut Scene, after: u64, prev: Prev) -> Option<u32> {
    m.now = after;
    if prev == Prev::Block {
        m.s.prepare_block(t(0));
    }
    m.s.schedule(C0, Nanos(m.now), prev, &mut m.kicks).map(|t| t.0)
}

fn wake_at(m: &mut Scene, time: u64) {
    m.now = time;
    assert!(m.s.wake(t(0), C0, Nanos(time), &mut m.kicks));
    assert_eq!(m.s.schedule(C0, Nanos(time), Prev::Preempted, &mut m.kicks), Some(t(0)));
}

fn budget_ends(m: &Scene) -> u64 {
    m.s.next_event(C0).expect("a budget runs").0
}

fn deadline(m: &Scene) -> u64 {
    match m.s.urgency(t(0)) {
        Urgency::Deadline(Reverse(at)) => at.0,
        other => panic!("{other:?}"),
    }
}

const T: u64 = 100 * U;

#[test]
fn a_job_begins_with_its_whole_budget() {
    let m = running(3 * U, 12 * U, 0);
    assert_eq!((budget_ends(&m), deadline(&m)), (T + 3 * U, T + 12 * U));
    assert!(m.s.tick_needed(C0), "a budget runs");
}

/// Used 1 of 3, so 2 are left: within 3/12 of a CPU until the deadline as long as 8 are left to it.
#[test]
fn a_budget_is_kept_as_long_as_using_it_up_stays_within_the_reservation() {
    for (woken, kept) in [(T + 2 * U, true), (T + 4 * U, true), (T + 4 * U + 1024, false), (T + 11 * U, false)] {
        let mut m = running(3 * U, 12 * U, 12 * U);
        assert_eq!(at(&mut m, T + U, Prev::Block), None);
        wake_at(&mut m, woken);
        let expected = if kept { (woken + 2 * U, T + 12 * U) } else { (woken + 3 * U, woken + 12 * U) };
        assert_eq!((budget_ends(&m), deadline(&m)), expected, "woken {} after", woken - T);
    }
}

#[test]
fn what_comes_after_its_deadline_begins_anew() {
    for woken in [T + 12 * U, T + 40 * U] {
        let mut m = running(3 * U, 12 * U, 0);
        let _ = at(&mut m, T + U, Prev::Block);
        wake_at(&mut m, woken);
        assert_eq!((budget_ends(&m), deadline(&m)), (woken + 3 * U, woken + 12 * U));
    }
}

/// The revised wake-up rule: the deadline stays, and the budget is what the rest of the time allows.
#[test]
fn a_constrained_deadline_is_kept_and_the_budget_shrinks() {
    let mut m = running(3 * U, 6 * U, 12 * U);
    let _ = at(&mut m, T + U, Prev::Block);
    wake_at(&mut m, T + 4 * U);
    assert_eq!((budget_ends(&m), deadline(&m)), (T + 4 * U + U, T + 6 * U));
    let mut m = running(3 * U, 6 * U, 12 * U);
    let _ = at(&mut m, T + U, Prev::Block);
    wake_at(&mut m, T + 7 * U);
    assert_eq!((budget_ends(&m), deadline(&m)), (T + 10 * U, T + 13 * U), "it is over: a new job");
}

/// Runs until the tick at `end`, and is throttled there.
fn run_out(m: &mut Scene, end: u64) {
    m.now = end;
    m.s.tick(C0, Nanos(end), &mut m.kicks);
    assert!(m.s.need_resched(C0), "its budget is used up");
    assert_eq!(m.s.schedule(C0, Nanos(end), Prev::Preempted, &mut m.kicks), None);
    assert!(m.s.tick_needed(C0), "somebody waits for a budget");
}

#[test]
fn an_overrun_is_paid_from_the_next_budgets() {
    for (ran, periods, left) in [(3 * U, 1, 3 * U), (3 * U + U / 2, 1, 5 * U / 2), (7 * U, 2, 2 * U), (9 * U, 3, 3 * U)]
    {
        let mut m = running(3 * U, 12 * U, 12 * U);
        run_out(&mut m, T + ran);
        assert_eq!(m.s.next_event(C0), Some(Nanos(T + 12 * U)), "replenished at the end of the period");
        m.now = T + 12 * U;
        m.s.tick(C0, Nanos(m.now - 1), &mut m.kicks);
        assert!(!m.s.need_resched(C0));
        m.s.tick(C0, Nanos(m.now), &mut m.kicks);
        assert_eq!(at(&mut m, T + 12 * U, Prev::Preempted), Some(0));
        assert_eq!((budget_ends(&m), deadline(&m)), (m.now + left, T + (periods + 1) * 12 * U), "after {ran}");
    }
}

#[test]
fn who_is_replenished_long_after_the_period_begins_anew() {
    let mut m = running(3 * U, 12 * U, 12 * U);
    run_out(&mut m, T + 3 * U);
    let late = T + 50 * U;
    m.now = late;
    m.s.tick(C0, Nanos(late), &mut m.kicks);
    assert_eq!(at(&mut m, late, Prev::Preempted), Some(0));
    assert_eq!((budget_ends(&m), deadline(&m)), (late + 3 * U, late + 12 * U));
}

/// A constrained one waits for the end of its period, not for its deadline.
#[test]
fn budgets_come_with_periods() {
    let mut m = running(3 * U, 6 * U, 12 * U);
    run_out(&mut m, T + 3 * U);
    assert_eq!(m.s.next_event(C0), Some(Nanos(T + 12 * U)));
}

#[test]
fn a_yield_gives_the_rest_of_the_budget_away() {
    let mut m = running(3 * U, 12 * U, 12 * U);
    m.start(1, Attr::DEFAULT, CpuMask::first(1), C0);
    assert!(!m.s.need_resched(C0), "a fair thread does not preempt a deadline thread");
    assert_eq!(at(&mut m, T + U, Prev::Yield), Some(1));
    assert_eq!(m.s.next_event(C0), Some(Nanos(T + 12 * U)));
    m.s.tick(C0, Nanos(T + 12 * U), &mut m.kicks);
    assert!(m.s.need_resched(C0));
    assert_eq!(at(&mut m, T + 12 * U, Prev::Preempted), Some(0));
}

#[test]
fn the_earliest_deadline_runs_before_real_time_and_later_ones() {
    let mut m = running(U, 50 * U, 50 * U);
    m.start(1, Attr::fifo(99), CpuMask::first(1), C0);
    assert!(!m.s.need_resched(C0), "priority 99 does not preempt it");
    start(&mut m, 2, &reservation(U, 20 * U, 20 * U), C0);
    assert!(m.s.need_resched(C0), "an earlier deadline does");
    assert_eq!(at(&mut m, T + 1, Prev::Preempted), Some(2));
    m.s.prepare_block(t(2));
    assert_eq!(m.s.schedule(C0, Nanos(T + 2), Prev::Block, &mut m.kicks), Some(t(0)));
    m.s.prepare_block(t(0));
    assert_eq!(m.s.schedule(C0, Nanos(T + 3), Prev::Block, &mut m.kicks), Some(t(1)));
    assert_eq!(m.s.rr_interval(t(0)), Nanos::ZERO);
}

/// Deadline threads 0 and 1, both woken on CPU 0 while CPU 1 has something even more urgent.
fn two_on_one() -> Scene {
    let mut m = Scene::new(2);
    m.now = T;
    m.start(9, Attr::DEFAULT, CpuMask::only(C1), C1);
    m.s.set_boost(t(9), Some(Urgency::Stop), Nanos(m.now), &mut m.kicks);
    assert_eq!(m.run(C1, Prev::Preempted), Some(9));
    start(&mut m, 0, &reservation(U, 10 * U, 10 * U), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    start(&mut m, 1, &reservation(U, 20 * U, 20 * U), C0);
    assert!(!m.s.need_resched(C0));
    assert_eq!((m.s.queued(C0), m.s.cpu_of(t(1))), (1, C0));
    m
}

#[test]
fn a_cpu_whose_urgency_drops_fetches_a_deadline_thread() {
    let mut m = two_on_one();
    m.s.set_boost(t(9), None, Nanos(m.now), &mut m.kicks);
    assert_eq!(m.run(C1, Prev::Preempted), Some(1));
    assert_eq!((m.s.queued(C0), m.s.stats(C1).migrations_in, m.s.counts(t(1), Nanos(m.now)).migrations), (0, 1, 1));
}

/// Where all CPUs run deadline threads, one goes to that with the latest deadline.
#[test]
fn a_woken_deadline_thread_goes_where_the_latest_deadline_runs() {
    let mut m = Scene::new(3);
    m.now = T;
    let settle = |m: &mut Scene| {
        while let Some(c) = (0..3).map(CpuId).find(|&c| m.s.need_resched(c)) {
            let _ = m.run(c, Prev::Preempted);
        }
    };
    start(&mut m, 3, &reservation(U, 20 * U, 20 * U), C0);
    settle(&mut m);
    let first = m.s.cpu_of(t(3));
    assert_eq!(m.block(first), None);
    for (n, length) in [(0, 15 * U), (1, 50 * U), (2, 40 * U)] {
        start(&mut m, n, &reservation(U, length, length), CpuId(n as u16));
        settle(&mut m);
    }
    let running = |m: &Scene, n| (0..3).map(CpuId).find(|&c| m.current(c) == Some(n)).expect("it runs");
    let (earliest, latest) = (running(&m, 0), running(&m, 1));
    assert_eq!(earliest, first, "it cannot go back");
    assert!(m.wake(3, earliest));
    assert_eq!(m.s.cpu_of(t(3)), latest);
    assert!(m.s.need_resched(latest));
}

#[test]
fn a_throttled_thread_leaves_a_cpu_that_nobody_serves() {
    let mut m = Scene::new(2);
    m.now = T;
    start(&mut m, 0, &reservation(U, 10 * U, 10 * U), C0);
    let cpu = m.s.cpu_of(t(0));
    assert_eq!(m.s.schedule(cpu, Nanos(T), Prev::Preempted, &mut m.kicks), Some(t(0)));
    m.s.tick(cpu, Nanos(T + 2 * U), &mut m.kicks);
    assert_eq!(m.s.schedule(cpu, Nanos(T + 2 * U), Prev::Preempted, &mut m.kicks), None);
    m.s.set_absent(cpu, true, Nanos(T + 2 * U), &mut m.kicks);
    let other = if cpu == C0 { C1 } else { C0 };
    assert_eq!(m.s.cpu_of(t(0)), other);
    assert_eq!(m.s.next_event(other), Some(Nanos(T + 10 * U)), "it takes its replenishment along");
}

/// An inherited deadline counts while it is earlier than the thread's own, or while that has no budget; nothing is charged
/// for it.
#[test]
fn an_inherited_deadline_runs_on_somebody_elses_budget() {
    let mut m = running(3 * U, 12 * U, 12 * U);
    let boost = |at| Some(Urgency::Deadline(Reverse(Nanos(at))));
    m.s.set_boost(t(0), boost(T + 40 * U), Nanos(T), &mut m.kicks);
    assert_eq!((deadline(&m), m.s.next_event(C0)), (T + 12 * U, Some(Nanos(T + 3 * U))), "a later one changes nothing");
    m.s.set_boost(t(0), boost(T + 5 * U), Nanos(T), &mut m.kicks);
    assert_eq!((deadline(&m), m.s.next_event(C0)), (T + 5 * U, None));
    m.s.tick(C0, Nanos(T + 4 * U), &mut m.kicks);
    assert_eq!(at(&mut m, T + 4 * U, Prev::Preempted), Some(0), "it is not throttled");
    m.s.set_boost(t(0), None, Nanos(T + 4 * U), &mut m.kicks);
    assert_eq!(at(&mut m, T + 4 * U, Prev::Preempted), Some(0));
    assert_eq!(m.s.next_event(C0).map(|at| at.0 > T + 4 * U), Some(true), "its own budget was not charged");
}

fn boost(m: &mut Scene, n: u32, deadline: u64) {
    m.s.set_boost(t(n), Some(Urgency::Deadline(Reverse(Nanos(deadline)))), Nanos(m.now), &mut m.kicks);
}

/// Its own budget is used up, and by the deadline that it inherits it is less urgent than what waits.
#[test]
fn who_goes_on_by_a_later_inherited_deadline_lets_earlier_ones_in() {
    for (inherited, waits_until, gives_way) in [(20, 16, true), (20, 22, false), (14, 16, false)] {
        let mut m = Scene::new(2);
        m.now = T;
        start(&mut m, 0, &reservation(3 * U, 12 * U, 12 * U), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(0));
        m.start(1, Attr::DEFAULT, CpuMask::only(C1), C1);
        boost(&mut m, 1, T + U);
        assert_eq!(m.run(C1, Prev::Preempted), Some(1));
        start(&mut m, 2, &reservation(U, waits_until * U, waits_until * U), C0);
        m.settle();
        boost(&mut m, 0, T + inherited * U);
        m.settle();
        assert_eq!((m.current(C0), m.current(C1)), (Some(0), Some(1)));
        m.s.tick(C0, Nanos(T + 4 * U), &mut m.kicks);
        assert!(m.s.need_resched(C0), "it is less urgent than before");
        m.now = T + 4 * U;
        m.settle();
        assert_eq!(m.current(C0), Some(if gives_way { 2 } else { 0 }), "{inherited} {waits_until}");
    }
}

/// Where the new budget comes something more urgent runs.
#[test]
fn who_is_replenished_goes_at_once_where_it_can_run() {
    let mut m = Scene::new(2);
    m.now = T;
    start(&mut m, 0, &reservation(U, 20 * U, 20 * U), C0);
    let home = m.s.cpu_of(t(0));
    assert_eq!(m.run(home, Prev::Preempted), Some(0));
    m.now = T + 2 * U;
    assert_eq!(m.run(home, Prev::Preempted), None, "it is throttled");
    m.start(1, Attr::DEFAULT, CpuMask::only(home), home);
    boost(&mut m, 1, T + 21 * U);
    assert_eq!(m.run(home, Prev::Preempted), Some(1));
    m.s.tick(home, Nanos(T + 20 * U), &mut m.kicks);
    assert_ne!(m.s.cpu_of(t(0)), home);
    m.now = T + 20 * U;
    m.settle();
    assert_eq!((m.current(C0).max(m.current(C1)), m.current(home)), (Some(1), Some(1)));
    assert!([C0, C1].iter().any(|&cpu| m.current(cpu) == Some(0)));
}

#[test]
fn boosts_come_back_as_they_were_given() {
    let mut m = Scene::new(1);
    m.start(0, Attr::fair(Policy::Other, 0), CpuMask::first(1), C0);
    for urgency in [
        Urgency::Rt(RtPriority(1)),
        Urgency::Rt(RtPriority(42)),
        Urgency::Rt(RtPriority(99)),
        Urgency::Deadline(Reverse(Nanos(128))),
        Urgency::Deadline(Reverse(Nanos(u64::MAX - 1))),
        Urgency::Deadline(Reverse(Nanos(T))),
        Urgency::Stop,
    ] {
        m.s.set_boost(t(0), Some(urgency), Nanos(m.now), &mut m.kicks);
        assert_eq!(m.s.urgency(t(0)), urgency);
    }
    m.s.set_boost(t(0), Some(Urgency::Deadline(Reverse(Nanos::MAX))), Nanos(m.now), &mut m.kicks);
    assert_eq!(m.s.urgency(t(0)), Urgency::Deadline(Reverse(Nanos(u64::MAX - 1))), "the last moment is taken for Stop");
    m.s.set_boost(t(0), Some(Urgency::Fair), Nanos(m.now), &mut m.kicks);
    assert_eq!(m.s.urgency(t(0)), Urgency::Fair);
    assert!(m.s.is_fair(t(0)));
    m.s.set_boost(t(0), Some(Urgency::Rt(RtPriority(1))), Nanos(m.now), &mut m.kicks);
    assert!(!m.s.is_fair(t(0)));
}

/// 95 % of each CPU may be reserved, and what is given back may be reserved again.
#[test]
fn reservations_are_admitted_up_to_the_limit() {
    let mut m = Scene::new(2);
    (0..4).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::first(2), C0));
    let ask = |m: &mut Scene, n: u32, part: u64| {
        m.s.set_attr(t(n), &reservation(part * U, 100 * U, 0), Nanos(m.now), &mut m.kicks)
    };
    assert_eq!(ask(&mut m, 0, 90), Ok(()));
    assert_eq!(ask(&mut m, 1, 90), Ok(()));
    assert_eq!(ask(&mut m, 2, 11), Err(AttrError::Busy));
    assert_eq!(ask(&mut m, 2, 9), Ok(()));
    assert_eq!(ask(&mut m, 2, 10), Ok(()), "its own old reservation makes room for its new one");
    assert_eq!(ask(&mut m, 3, 1), Err(AttrError::Busy));
    assert_eq!(m.s.set_affinity(t(0), CpuMask::only(C0), Nanos(m.now), &mut m.kicks), Err(AttrError::Busy));
    m.s.set_attr(t(0), &Attr::DEFAULT, Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.s.set_affinity(t(0), CpuMask::only(C0), Nanos(m.now), &mut m.kicks), Ok(()));
    assert_eq!(ask(&mut m, 0, 1), Err(AttrError::NotPermitted), "it may not run everywhere");
    assert_eq!(ask(&mut m, 3, 90), Ok(()));
    m.s.detach(t(1));
    assert_eq!(ask(&mut m, 2, 90), Ok(()), "who is gone reserves nothing");
}

/// It need not wait for a tick: who chooses looks at the clock.
#[test]
fn a_new_budget_is_seen_when_the_cpu_chooses() {
    let mut m = running(3 * U, 12 * U, 12 * U);
    run_out(&mut m, T + 3 * U);
    assert_eq!(at(&mut m, T + 12 * U - 1, Prev::Preempted), None);
    assert_eq!(at(&mut m, T + 12 * U, Prev::Preempted), Some(0));
    assert_eq!((budget_ends(&m), deadline(&m)), (m.now + 3 * U, T + 24 * U));
}

/// A throttled thread that gets another mask goes on waiting for its budget, and does not preempt.
#[test]
fn a_throttled_thread_preempts_nobody() {
    let mut m = running(3 * U, 12 * U, 12 * U);
    run_out(&mut m, T + 3 * U);
    m.start(1, Attr::DEFAULT, CpuMask::first(1), C0);
    assert_eq!(at(&mut m, T + 4 * U, Prev::Preempted), Some(1));
    m.s.set_affinity(t(0), CpuMask::first(1), Nanos(T + 5 * U), &mut m.kicks).unwrap();
    assert!(!m.s.need_resched(C0));
    assert_eq!(m.s.next_event(C0), Some(Nanos(T + 12 * U)));
    m.s.set_affinity(t(0), CpuMask::first(1), Nanos(T + 12 * U), &mut m.kicks).unwrap();
    assert!(m.s.need_resched(C0), "its new budget came with the change");
    assert_eq!(at(&mut m, T + 12 * U, Prev::Preempted), Some(0));
}

/// A change of the reservation, or of the nice value alone, is no way to a fresh budget: it counts from the next job
/// (`__setparam_dl`).
#[test]
fn a_new_reservation_begins_with_the_next_job() {
    let others = [reservation(3 * U, 12 * U, 12 * U), reservation(5 * U, 20 * U, 20 * U)];
    for attr in others.map(|attr| Attr { nice: ids::Nice(7), ..attr }) {
        let next = attr.deadline.unwrap();
        let mut m = running(3 * U, 12 * U, 12 * U);
        m.s.set_attr(t(0), &attr, Nanos(T + U), &mut m.kicks).unwrap();
        assert_eq!((budget_ends(&m), deadline(&m)), (T + 3 * U, T + 12 * U));
        run_out(&mut m, T + 3 * U);
        // Neither does it end the wait for a budget.
        m.s.set_attr(t(0), &attr, Nanos(T + 4 * U), &mut m.kicks).unwrap();
        assert!(!m.s.need_resched(C0));
        assert_eq!(at(&mut m, T + 5 * U, Prev::Preempted), None);
        let period = T + next.period.0;
        m.s.tick(C0, Nanos(period), &mut m.kicks);
        assert_eq!(at(&mut m, period, Prev::Preempted), Some(0));
        assert_eq!(budget_ends(&m), period + next.runtime.0);
    }
}

/// A change while it waits for a budget does not shorten that wait, whatever the new reservation.
#[test]
fn a_new_reservation_waits_for_the_old_period() {
    for attr in [reservation(3 * U, 12 * U, 12 * U), reservation(3 * U, 9 * U, 30 * U), reservation(U, 6 * U, 7 * U)] {
        let next = attr.deadline.unwrap();
        let mut m = running(3 * U, 6 * U, 12 * U);
        run_out(&mut m, T + 3 * U);
        m.s.set_attr(t(0), &attr, Nanos(T + 4 * U), &mut m.kicks).unwrap();
        assert_eq!(m.s.next_event(C0), Some(Nanos(T + 12 * U)));
        m.s.tick(C0, Nanos(T + 12 * U), &mut m.kicks);
        assert_eq!(at(&mut m, T + 12 * U, Prev::Preempted), Some(0));
        assert_eq!((budget_ends(&m), deadline(&m)), (m.now + next.runtime.0, m.now + next.deadline.0));
    }
}

/// Neither a tick nor somebody else's wake-up changes what is left.
#[test]
fn a_budget_is_charged_whoever_looks() {
    let mut m = running(3 * U, 12 * U, 12 * U);
    m.s.tick(C0, Nanos(T + U), &mut m.kicks);
    assert!(!m.s.need_resched(C0), "two thirds are left");
    m.now = T + 2 * U;
    m.start(1, Attr::DEFAULT, CpuMask::first(1), C0);
    assert_eq!(budget_ends(&m), T + 3 * U);
    assert_eq!(m.s.runtime(t(0), Nanos(m.now)), Nanos(2 * U));
}
