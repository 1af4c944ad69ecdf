//! Which CPU a thread comes to: placement at wake-ups, what idle CPUs fetch and whom busy ones call, and what is evened
//! out.

use crate::scene::{C0, C1, MS, Scene, t};
use entresol_sched::{Attr, Idle, Prev};
use ids::{CpuId, CpuMask, Nanos, Policy};

/// A scene in which every CPU runs a fair thread that stays there: thread 100 + n on CPU n.
fn busy(cpus: u16) -> Scene {
    let mut m = Scene::new(cpus as usize);
    for c in 0..cpus {
        m.start(100 + u32::from(c), Attr::DEFAULT, CpuMask::only(CpuId(c)), CpuId(c));
        assert_eq!(m.run(CpuId(c), Prev::Preempted), Some(100 + u32::from(c)));
    }
    m
}

fn all(n: usize) -> CpuMask {
    CpuMask::first(n)
}

/// Thread 0 waits, was on CPU 1 last and may run on both of two busy CPUs.
fn waits_after_c1(m: &mut Scene) {
    m.start(0, Attr::DEFAULT, CpuMask::only(C1), C1);
    while m.current(C1) != Some(0) {
        m.now += 3 * MS;
        let _ = m.run(C1, Prev::Yield);
    }
    m.s.set_affinity(t(0), all(2), Nanos(m.now), &mut m.kicks).unwrap();
    let _ = m.block(C1);
}

#[test]
fn a_woken_fair_thread_goes_to_its_last_cpu_if_that_looks_for_work() {
    let mut m = Scene::new(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(0));
    m.s.set_affinity(t(0), all(2), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.block(C1), None);
    m.start(1, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    assert!(m.wake(0, C0));
    assert_eq!(m.s.cpu_of(t(0)), C1);
    assert!(m.kicks.0.is_empty(), "who spins sees it");
}

/// A waker that usually runs a few microseconds before it waits again hands over: no other CPU is woken for that.
#[test]
fn a_waker_that_will_wait_soon_keeps_what_it_wakes() {
    for (run, expected) in [(5_000, C0), (60_000, CpuId(2))] {
        let mut m = Scene::new(3);
        m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
        m.start(1, Attr::DEFAULT, CpuMask::only(C1), C1);
        assert_eq!(m.run(C1, Prev::Preempted), Some(1));
        m.s.set_affinity(t(1), all(3), Nanos(m.now), &mut m.kicks).unwrap();
        assert_eq!(m.block(C1), None);
        m.start(2, Attr::DEFAULT, CpuMask::only(C1), C1);
        assert_eq!(m.run(C1, Prev::Preempted), Some(2));
        // Thread 0 runs so long and waits, again and again.
        for _ in 0..60 {
            assert_eq!(m.run(C0, Prev::Preempted), Some(0));
            m.now += run;
            assert_eq!(m.block(C0), None);
            assert!(m.wake(0, C0));
        }
        assert_eq!(m.run(C0, Prev::Preempted), Some(0));
        assert!(m.wake(1, C0));
        assert_eq!(m.s.cpu_of(t(1)), expected, "the waker usually runs {run} ns");
    }
}

/// Of a thread's last CPU and the waker's the one with fewer waiting threads.
#[test]
fn between_two_busy_cpus_the_shorter_queue_counts() {
    for (more, expected) in [(C0, C1), (C1, C0)] {
        let mut m = busy(2);
        (10..13).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(more), more));
        waits_after_c1(&mut m);
        m.now += 3 * MS;
        m.s.tick(C0, Nanos(m.now), &mut m.kicks);
        assert!(m.wake(0, C0));
        assert_eq!(m.s.cpu_of(t(0)), expected, "most wait on {more:?}");
    }
}

/// A fair thread does not queue behind a real-time one where another CPU is to be had.
#[test]
fn fair_threads_avoid_cpus_with_real_time_threads() {
    let mut m = busy(2);
    waits_after_c1(&mut m);
    m.start(1, Attr::fifo(5), CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(1));
    (10..13).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0));
    m.now += 3 * MS;
    m.s.tick(C0, Nanos(m.now), &mut m.kicks);
    assert!(m.wake(0, C0));
    assert_eq!(m.s.cpu_of(t(0)), C0);
}

#[test]
fn an_idle_cpu_fetches_from_the_longest_queue_what_may_run_there() {
    let mut m = busy(3);
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    (1..4).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C1), C1));
    m.s.set_affinity(t(2), all(3), Nanos(m.now), &mut m.kicks).unwrap();
    let c2 = CpuId(2);
    m.now += 10_000;
    m.s.prepare_block(t(102));
    assert_eq!(m.run(c2, Prev::Block), Some(2), "it may, and waits where most do");
    assert_eq!((m.s.stats(c2).pulls, m.s.stats(c2).migrations_in), (1, 1));
    assert_eq!(m.s.counts(t(2), Nanos(m.now)).migrations, 1);
    assert_eq!(m.s.queued(C1), 2);
    assert_eq!(m.block(c2), None, "the others may not");
    assert_eq!(m.s.idle_pull(c2, Nanos(m.now + MS), &mut m.kicks), None);
}

/// Where the longest queue has nothing for it, another does.
#[test]
fn an_idle_cpu_looks_at_the_other_queues_too() {
    let mut m = busy(3);
    (1..4).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C1), C1));
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    m.s.set_affinity(t(0), all(3), Nanos(m.now), &mut m.kicks).unwrap();
    m.now += 10_000;
    m.s.prepare_block(t(102));
    assert_eq!(m.run(CpuId(2), Prev::Block), Some(0));
}

#[test]
fn what_has_just_begun_to_wait_is_left_where_it_is() {
    let mut m = busy(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    m.s.set_affinity(t(0), all(2), Nanos(m.now), &mut m.kicks).unwrap();
    m.s.prepare_block(t(101));
    assert_eq!(m.run(C1, Prev::Block), None, "it waits for 10 ns");
    let began = m.now - 10;
    assert_eq!(m.s.idle_pull(C1, Nanos(began + 2_999), &mut m.kicks), None);
    assert_eq!(m.s.idle_pull(C1, Nanos(began + 3_000), &mut m.kicks), Some(t(0)));
}

/// A CPU says that it parks; it may not while it has something to do.
#[test]
fn a_cpu_with_work_does_not_park() {
    let mut m = Scene::new(2);
    assert_eq!(m.s.idle_cpus().count(), 2);
    assert!(m.s.idle_state(C0, Idle::Parked));
    assert!(m.s.idle_state(C0, Idle::Spinning));
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert!(!m.s.idle_state(C0, Idle::Parked), "it was asked to schedule");
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert!(!m.s.idle_state(C0, Idle::Parked), "it runs something");
    assert_eq!(m.s.idle_cpus().collect::<Vec<_>>(), [C1]);
    assert_eq!(m.block(C0), None);
    assert_eq!(m.s.idle_cpus().count(), 2);
    assert!(m.s.idle_state(C0, Idle::Parked));
}

/// Three parked CPUs and threads that wait: one is woken, and none beside it until it has answered or must be lost.
#[test]
fn one_parked_cpu_is_called_at_a_time() {
    let mut m = Scene::new(4);
    m.start(100, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(100));
    (1..4).for_each(|c| assert!(m.s.idle_state(CpuId(c), Idle::Parked)));
    let queue = |m: &mut Scene, n: u32| {
        m.kicks.0.clear();
        m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0);
        m.s.set_affinity(t(n), all(4), Nanos(m.now), &mut m.kicks).unwrap();
    };
    queue(&mut m, 0);
    assert!(m.kicks.0.is_empty(), "it may run here only, at first");
    m.tick(C0, 10_000);
    assert_eq!(m.kicks.0, [C1]);
    assert_eq!(m.s.stats(C0).nudges, 1);
    queue(&mut m, 1);
    m.tick(C0, 100_000);
    assert!(m.kicks.0.is_empty(), "one is on its way");
    // It comes and finds something: the next may be called at once, by it or by a tick.
    let found = m.s.idle_pull(C1, Nanos(m.now), &mut m.kicks);
    assert!(found.is_some());
    m.tick(C0, 1_000);
    assert!(m.kicks.0.iter().any(|c| [CpuId(2), CpuId(3)].contains(c)), "{:?}", m.kicks.0);
}

/// A call that is not answered for two milliseconds was lost.
#[test]
fn a_lost_call_is_made_again() {
    let mut m = Scene::new(2);
    m.start(100, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(100));
    assert!(m.s.idle_state(C1, Idle::Parked));
    (0..2).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0));
    (0..2).for_each(|n| m.s.set_affinity(t(n), all(2), Nanos(m.now), &mut m.kicks).unwrap());
    m.tick(C0, 1_000);
    assert_eq!(m.kicks.0, [C1]);
    m.tick(C0, 300_000);
    assert_eq!(m.kicks.0, [C1]);
    m.tick(C0, 3 * MS);
    assert_eq!(m.kicks.0, [C1, C1]);
    assert_eq!(m.s.stats(C0).nudges, 2);
}

/// Nobody is called for a thread that may not run there.
#[test]
fn a_parked_cpu_is_called_for_what_it_may_run() {
    let mut m = Scene::new(2);
    m.start(100, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(100));
    assert!(m.s.idle_state(C1, Idle::Parked));
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    m.tick(C0, 5 * MS);
    m.tick(C0, 5 * MS);
    assert!(m.kicks.0.is_empty());
    assert_eq!(m.s.stats(C0).nudges, 0);
}

/// Four threads here and none waiting there: two move over at the first balance, by weight.
#[test]
fn balance_evens_the_load_out() {
    let mut m = busy(2);
    (0..4).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0));
    (0..4).for_each(|n| m.s.set_affinity(t(n), all(2), Nanos(m.now), &mut m.kicks).unwrap());
    m.tick(C0, 5 * MS);
    assert_eq!((m.s.queued(C0), m.s.queued(C1)), (2, 2));
    assert_eq!(m.s.stats(C1).migrations_in, 2);
    m.tick(C0, 5 * MS);
    m.tick(C1, 5 * MS);
    assert_eq!((m.s.queued(C0), m.s.queued(C1)), (2, 2), "it stays even");
}

/// A difference of one thread is no reason: it would only change sides.
#[test]
fn balance_moves_nothing_for_a_thread_more_or_less() {
    let mut m = busy(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    m.s.set_affinity(t(0), all(2), Nanos(m.now), &mut m.kicks).unwrap();
    for _ in 0..4 {
        m.tick(C0, 5 * MS);
    }
    assert_eq!((m.s.queued(C0), m.s.queued(C1), m.s.stats(C1).migrations_in), (1, 0, 0));
}

/// Weights count, not heads: what weighs more than the gap would only tip the scales, and stays.
#[test]
fn balance_goes_by_weight() {
    let mut m = busy(2);
    m.start(0, Attr::fair(Policy::Other, -5), CpuMask::only(C0), C0);
    m.start(1, Attr::fair(Policy::Other, 5), CpuMask::only(C0), C0);
    (10..12).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C1), C1));
    (0..2).for_each(|n| m.s.set_affinity(t(n), all(2), Nanos(m.now), &mut m.kicks).unwrap());
    m.tick(C0, 5 * MS);
    assert_eq!((m.s.cpu_of(t(0)), m.s.cpu_of(t(1))), (C0, C1));
}

/// Threads that may not run there stay, and no balancing comes before its time.
#[test]
fn balance_respects_masks_and_its_pace() {
    let mut m = busy(2);
    m.tick(C0, 5 * MS);
    (0..4).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0));
    m.s.set_affinity(t(3), all(2), Nanos(m.now), &mut m.kicks).unwrap();
    m.tick(C0, MS);
    assert_eq!(m.s.queued(C1), 0, "not yet");
    m.tick(C0, 4 * MS);
    assert_eq!((m.s.queued(C0), m.s.queued(C1), m.s.cpu_of(t(3))), (3, 1, C1));
}

/// A CPU that a real-time thread has for longer than it takes to balance is given no fair threads, and loses those it has.
#[test]
fn balance_empties_a_cpu_that_something_urgent_keeps() {
    let mut m = busy(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    m.s.set_affinity(t(0), all(2), Nanos(m.now), &mut m.kicks).unwrap();
    m.start(1, Attr::fifo(5), CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    m.tick(C0, MS);
    assert_eq!(m.s.cpu_of(t(0)), C0, "a short burst is waited for");
    for _ in 0..3 {
        m.tick(C0, 3 * MS);
    }
    assert_eq!(m.s.cpu_of(t(0)), C1);
}

#[test]
fn masks_are_kept_on_machines_of_more_than_64_cpus() {
    let mut m = Scene::new(130);
    for (n, cpus) in [(0, vec![0, 64, 129]), (1, vec![129]), (2, vec![5, 70])] {
        let mut mask = CpuMask::empty();
        cpus.iter().for_each(|&c| mask.insert(CpuId(c)));
        m.start(n, Attr::DEFAULT, mask.clone(), C0);
        assert_eq!(m.s.affinity(t(n)), mask);
        assert!(cpus.contains(&m.s.cpu_of(t(n)).0), "{n}: {:?}", m.s.cpu_of(t(n)));
    }
    let other = CpuMask::only(CpuId(100));
    m.s.set_affinity(t(0), other.clone(), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!((m.s.affinity(t(0)), m.s.cpu_of(t(0))), (other, CpuId(100)));
}
