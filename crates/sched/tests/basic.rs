//! What each call promises, one small scene each.

use crate::scene::{C0, C1, MS, Scene, t};
use entresol_sched::{Attr, Idle, Prev, Urgency};
use ids::{CpuId, CpuMask, Nanos, Policy};

#[test]
fn fifo_keeps_order_and_a_preempted_thread_keeps_its_place() {
    let mut m = Scene::new(1);
    let all = CpuMask::first(1);
    (0..3).for_each(|n| m.start(n, Attr::fifo(10), all.clone(), C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.start(9, Attr::fifo(20), all, C0);
    assert!(m.s.need_resched(C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(9));
    assert_eq!(m.block(C0), Some(0), "it was preempted, not sent to the tail");
    assert_eq!(m.run(C0, Prev::Yield), Some(1), "a yield goes behind its equals");
    assert_eq!(m.block(C0), Some(2));
    assert_eq!(m.block(C0), Some(0));
}

#[test]
fn round_robin_rotates_only_at_the_end_of_its_slice() {
    let mut m = Scene::new(1);
    (0..2).for_each(|n| m.start(n, Attr::round_robin(5), CpuMask::first(1), C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert!(!m.tick(C0, 60 * MS));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0), "a preemption does not rotate");
    assert!(m.tick(C0, 50 * MS));
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    assert_eq!(m.s.rr_interval(t(0)), Nanos::from_millis(100));
}

#[test]
fn classes_come_in_order() {
    let mut m = Scene::new(1);
    let all = CpuMask::first(1);
    m.start(0, Attr::DEFAULT, all.clone(), C0);
    m.start(1, Attr::fifo(1), all.clone(), C0);
    m.start(2, Attr::fifo(99), all, C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(2));
    m.s.set_boost(t(0), Some(Urgency::Stop), Nanos(m.now), &mut m.kicks);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.s.set_boost(t(0), None, Nanos(m.now), &mut m.kicks);
    assert!(m.s.need_resched(C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(2));
    assert_eq!(m.block(C0), Some(1));
    assert_eq!(m.block(C0), Some(0));
    assert_eq!(m.block(C0), None);
}

#[test]
fn one_of_two_wakers_wins_and_an_early_wake_keeps_the_thread_running() {
    let mut m = Scene::new(1);
    (0..2).for_each(|n| m.start(n, Attr::fifo(3), CpuMask::first(1), C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert!(!m.wake(0, C0), "it does not wait");
    m.s.prepare_block(t(0));
    assert!(m.wake(0, C0));
    assert!(!m.wake(0, C0));
    assert_eq!(m.run(C0, Prev::Block), Some(0), "woken before it had gone");
    assert_eq!(m.block(C0), Some(1));
    assert!(m.wake(0, C0));
    assert!(!m.wake(0, C0));
    m.s.prepare_block(t(1));
    m.s.cancel_block(t(1));
    assert_eq!(m.run(C0, Prev::Block), Some(1), "the mark was taken back");
}

#[test]
fn a_woken_real_time_thread_is_pushed_where_it_can_run() {
    let mut m = Scene::new(2);
    let all = CpuMask::first(2);
    m.start(0, Attr::fifo(50), CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.start(1, Attr::DEFAULT, CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(1));
    m.start(2, Attr::fifo(10), all, C0);
    assert_eq!(m.s.cpu_of(t(2)), C1);
    assert_eq!(m.kicks.0, [C1], "and thread 1's start, on the starter's own CPU, kicks nobody");
}

#[test]
fn a_preempted_real_time_thread_is_pushed_after_the_switch() {
    let mut m = Scene::new(2);
    let all = CpuMask::first(2);
    m.start(0, Attr::fifo(10), all.clone(), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.start(1, Attr::fifo(50), CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    assert_eq!(m.s.cpu_of(t(0)), C1);
    assert!(m.s.need_resched(C1));
    assert_eq!(m.run(C1, Prev::Preempted), Some(0));
}

#[test]
fn a_cpu_whose_priority_drops_pulls() {
    let mut m = Scene::new(2);
    let all = CpuMask::first(2);
    for (n, p) in [(0, 50), (1, 40)] {
        m.start(n, Attr::fifo(p), CpuMask::only(CpuId(n as u16)), CpuId(n as u16));
        assert_eq!(m.run(CpuId(n as u16), Prev::Preempted), Some(n));
    }
    m.start(2, Attr::fifo(30), all.clone(), C0);
    m.start(3, Attr::fifo(20), all, C0);
    assert_eq!(m.s.queued(C0) + m.s.queued(C1), 2);
    assert_eq!(m.block(C1), Some(2));
    assert_eq!(m.block(C1), Some(3));
}

/// Where both CPUs run fair threads, the one that wakes makes way: no CPU is kicked.
#[test]
fn an_urgent_thread_preempts_its_waker() {
    let mut m = Scene::new(2);
    let all = CpuMask::first(2);
    m.start(2, Attr::fifo(50), all, C1);
    m.settle();
    let last = m.s.cpu_of(t(2));
    let waker = if last == C0 { C1 } else { C0 };
    assert_eq!(m.block(last), None);
    for cpu in [C0, C1] {
        m.start(cpu.0.into(), Attr::DEFAULT, CpuMask::only(cpu), cpu);
        assert_eq!(m.run(cpu, Prev::Preempted), Some(cpu.0.into()));
    }
    m.kicks.0.clear();
    assert!(m.s.wake(t(2), waker, Nanos(m.now), &mut m.kicks));
    assert_eq!(m.s.cpu_of(t(2)), waker);
    assert!(m.s.need_resched(waker) && !m.s.need_resched(last));
    assert!(!m.kicks.0.contains(&last));
    assert_eq!(m.run(waker, Prev::Preempted), Some(2));
}

/// A signal from outside wakes it, and its last CPU has something more urgent.
#[test]
fn an_urgent_thread_that_nobody_with_a_cpu_wakes_goes_where_it_can_run() {
    let mut m = Scene::new(2);
    m.start(2, Attr::fifo(10), CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(2));
    assert_eq!(m.block(C0), None);
    m.s.set_affinity(t(2), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
    m.start(0, Attr::fifo(20), CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.start(1, Attr::DEFAULT, CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(1));
    m.kicks.0.clear();
    assert!(m.wake(2, CpuId::NONE));
    assert_eq!((m.s.cpu_of(t(2)), m.kicks.0.as_slice()), (C1, &[C1][..]));
    assert_eq!(m.run(C1, Prev::Preempted), Some(2));
}

#[test]
fn an_idle_cpu_takes_what_has_waited_long_enough() {
    let mut m = Scene::new(2);
    let all = CpuMask::first(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert!(m.s.idle_state(C1, Idle::Parked));
    m.start(1, Attr::DEFAULT, CpuMask::only(C0), C0);
    m.s.set_affinity(t(1), all, Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.s.queued(C0), 1);
    assert_eq!(m.s.idle_pull(C1, Nanos(m.now + 1_000), &mut m.kicks), None, "maybe a hand-over");
    assert_eq!(m.s.idle_pull(C1, Nanos(m.now + 4_000), &mut m.kicks), Some(t(1)));
    assert_eq!(m.s.cpu_of(t(1)), C1);
    assert_eq!(m.current(C1), Some(1));
}

#[test]
fn a_thread_moved_off_its_cpu_leaves_when_that_cpu_schedules() {
    let mut m = Scene::new(2);
    m.start(0, Attr::DEFAULT, CpuMask::first(2), C0);
    m.settle();
    let (here, there) = if m.current(C0) == Some(0) { (C0, C1) } else { (C1, C0) };
    m.s.set_affinity(t(0), CpuMask::only(there), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.current(here), Some(0));
    assert!(m.s.need_resched(here));
    assert_eq!(m.run(here, Prev::Preempted), None);
    assert!(m.s.need_resched(there));
    assert_eq!(m.run(there, Prev::Preempted), Some(0));
    assert!(m.s.set_affinity(t(0), CpuMask::only(CpuId(7)), Nanos(m.now), &mut m.kicks).is_err());
}

#[test]
fn fair_threads_share_by_weight() {
    let mut m = Scene::new(1);
    let all = CpuMask::first(1);
    let nice = [0, 0, 5, -5];
    for (n, nice) in nice.into_iter().enumerate() {
        m.start(n as u32, Attr::fair(Policy::Other, nice), all.clone(), C0);
    }
    let _ = m.run(C0, Prev::Preempted);
    for _ in 0..20_000 {
        if m.tick(C0, MS / 4) {
            let _ = m.run(C0, Prev::Preempted);
        }
    }
    let got: Vec<u64> = (0..4).map(|n| m.s.runtime(t(n), Nanos(m.now)).0).collect();
    let total: u64 = got.iter().sum();
    let weights = [1024, 1024, 335, 3121];
    for (g, w) in got.iter().zip(weights) {
        let share = g * 1000 / total;
        let due = w * 1000 / weights.iter().sum::<u64>();
        assert!(share.abs_diff(due) <= 5, "{share} of 1000, {due} due; {got:?}");
    }
}

#[test]
fn two_yielding_threads_alternate() {
    let mut m = Scene::new(1);
    (0..2).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::first(1), C0));
    let first = m.run(C0, Prev::Preempted).unwrap();
    for i in 0..100 {
        assert_eq!(m.run(C0, Prev::Yield), Some((first + 1 + i) % 2));
    }
}

/// The commonest pattern of all: A wakes B and waits, B wakes A and waits. It stays on one CPU and kicks nobody.
#[test]
fn a_hand_over_stays_on_one_cpu() {
    let mut m = Scene::new(2);
    let all = CpuMask::first(2);
    (0..2).for_each(|n| m.start(n, Attr::DEFAULT, all.clone(), C0));
    m.settle();
    while let Some(c) = [C0, C1].into_iter().find(|&c| m.current(c).is_some()) {
        let _ = m.block(c);
    }
    assert!(m.s.idle_state(C1, Idle::Parked));
    m.wake(0, C0);
    m.settle();
    assert_eq!(m.current(C0), Some(0));
    m.kicks.0.clear();
    for i in 0..1000u32 {
        assert!(m.wake((i + 1) % 2, C0));
        assert_eq!(m.block(C0), Some((i + 1) % 2));
    }
    assert_eq!(m.s.stats(C1).migrations_in, 0);
    // The parked CPU may be woken to help: at most after 0, 50, 150, 350, … µs, then once a millisecond.
    assert!(m.kicks.0.len() <= 2, "{} kicks in 20 µs", m.kicks.0.len());
}

#[test]
fn an_absent_cpu_gives_its_threads_away_and_gets_none() {
    let mut m = Scene::new(2);
    let all = CpuMask::first(2);
    m.start(0, Attr::fifo(10), CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(0));
    for n in 1..4 {
        m.start(n, Attr::DEFAULT, CpuMask::only(C1), C1);
        m.s.set_affinity(t(n), all.clone(), Nanos(m.now), &mut m.kicks).unwrap();
    }
    m.start(4, Attr::fifo(5), CpuMask::only(C1), C1);
    assert_eq!(m.s.queued(C1), 4);
    m.s.set_absent(C1, true, Nanos(m.now), &mut m.kicks);
    assert_eq!((m.s.queued(C0), m.s.queued(C1)), (3, 1), "the pinned one cannot go");
    m.start(5, Attr::fifo(7), all, C1);
    assert_eq!(m.s.cpu_of(t(5)), C0);
    m.s.set_absent(C1, false, Nanos(m.now), &mut m.kicks);
    m.start(6, Attr::fifo(9), CpuMask::only(C0), C0);
    m.settle();
    assert_eq!(m.current(C0), Some(6));
    assert_eq!(m.block(C1), Some(5), "it pulls again");
}

#[test]
fn the_attributes_come_back_as_they_went_in() {
    let mut m = Scene::new(1);
    m.start(0, Attr::DEFAULT, CpuMask::first(1), C0);
    let all = [
        Attr::fair(Policy::Batch, -7),
        Attr { reset_on_fork: true, ..Attr::round_robin(42) },
        Attr { slice: Nanos::from_millis(3), ..Attr::fair(Policy::Idle, 19) },
        Attr::fifo(99),
    ];
    for attr in all {
        m.s.set_attr(t(0), &attr, Nanos(m.now), &mut m.kicks).unwrap();
        assert_eq!(m.s.attr(t(0)), attr);
    }
    for bad in [Attr::fifo(0), Attr::fifo(100), Attr { rt: ids::RtPriority(1), ..Attr::DEFAULT }] {
        assert!(m.s.set_attr(t(0), &bad, Nanos(m.now), &mut m.kicks).is_err());
        assert_eq!(m.s.attr(t(0)), all[3], "a refused change changes nothing");
    }
    assert_eq!(m.s.rr_interval(t(0)), Nanos::ZERO);
}
