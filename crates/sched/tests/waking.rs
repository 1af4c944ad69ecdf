//! Who is told of what: kicks after wake-ups and changes, calls that go with them, and what ticks ask for.

use crate::scene::{C0, C1, Kicks, MS, Scene, t};
use entresol_sched::{Attr, Config, Idle, Prev, Scheduler, Urgency};
use ids::{CpuId, CpuMask, Nanos, Policy, RtPriority};

const BATCH: Attr = Attr::fair(Policy::Batch, 0);
const IDLE: Attr = Attr::fair(Policy::Idle, 0);

fn kicked(m: &mut Scene) -> Vec<u16> {
    std::mem::take(&mut m.kicks.0).into_iter().map(|c| c.0).collect()
}

fn set(m: &mut Scene, n: u32, attr: Attr) {
    m.s.set_attr(t(n), &attr, Nanos(m.now), &mut m.kicks).unwrap();
}

/// Thread 0 waits and may run on CPU 1 only.
fn sleeper(attr: Attr) -> Scene {
    let mut m = Scene::new(2);
    m.start(0, attr, CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(0));
    assert_eq!(m.block(C1), None);
    m
}

/// What CPU 1 is at when thread 0 is woken.
#[derive(Clone, Copy, Debug)]
enum At {
    Spins,
    Parked,
    /// It runs this.
    Runs(Attr),
    /// The same, and another one waits, so that it has ticks.
    Ticks(Attr),
    /// The same, and it has been asked to choose again.
    Asked(Attr),
}

/// A CPU is kicked for what it cannot see by itself: that it must choose again, or needs ticks from now on. An urgent thread
/// relies on nothing that was said before.
#[test]
fn a_wake_up_kicks_the_cpu_that_must_know() {
    let (fair, rt) = (Attr::DEFAULT, Attr::fifo(50));
    for (attr, at, kicks, asks) in [
        (fair, At::Spins, false, true),
        (fair, At::Parked, true, true),
        (BATCH, At::Runs(fair), true, false),
        (BATCH, At::Ticks(fair), false, false),
        (fair, At::Ticks(IDLE), true, true),
        (fair, At::Asked(IDLE), false, true),
        (fair, At::Runs(rt), true, false),
        (fair, At::Ticks(rt), false, false),
        (rt, At::Spins, true, true),
        (rt, At::Parked, true, true),
        (rt, At::Runs(fair), true, true),
        (rt, At::Asked(fair), true, true),
        (Attr::fifo(40), At::Runs(rt), true, false),
        (Attr::fifo(40), At::Ticks(rt), false, false),
        (rt, At::Asked(Attr::fifo(40)), true, true),
    ] {
        for from in [C0, C1, CpuId::NONE] {
            let mut m = sleeper(attr);
            if let At::Runs(attr) | At::Ticks(attr) | At::Asked(attr) = at {
                m.start(1, attr, CpuMask::only(C1), C1);
                assert_eq!(m.run(C1, Prev::Preempted), Some(1));
            }
            match at {
                At::Parked => assert!(m.s.idle_state(C1, Idle::Parked)),
                // A thread that never preempts waits beside it.
                At::Ticks(attr) if attr == IDLE => m.start(2, IDLE, CpuMask::only(C1), C1),
                At::Ticks(_) => m.start(2, BATCH, CpuMask::only(C1), C1),
                At::Asked(_) => m.start(2, Attr { reset_on_fork: true, ..rt }, CpuMask::only(C1), C1),
                At::Spins | At::Runs(_) => {}
            }
            if let At::Asked(_) = at {
                // What asked for it is gone.
                set(&mut m, 2, IDLE);
            }
            assert_eq!(m.s.need_resched(C1), matches!(at, At::Asked(_)), "{at:?}");
            let _ = kicked(&mut m);
            assert!(m.wake(0, from));
            let expected = if kicks && from != C1 { vec![1] } else { vec![] };
            assert_eq!(
                (kicked(&mut m), m.s.need_resched(C1)),
                (expected, asks),
                "{:?} for {at:?}, {from:?}",
                attr.policy
            );
            assert!(asks || m.s.tick_needed(C1));
        }
    }
}

/// Only for what has to wait, and could go elsewhere.
#[test]
fn a_parked_cpu_is_called_for_what_waits() {
    for (runs, movable, calls) in
        [(Attr::DEFAULT, true, 1), (Attr::DEFAULT, false, 0), (IDLE, true, 0), (Attr::fifo(1), true, 1)]
    {
        let mut m = Scene::new(3);
        m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(0));
        if movable {
            m.s.set_affinity(t(0), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
        }
        assert_eq!(m.block(C0), None);
        m.start(1, runs, CpuMask::only(C0), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(1));
        (1..3).for_each(|c| assert!(m.s.idle_state(CpuId(c), Idle::Parked)));
        m.start(2, BATCH, CpuMask::only(C0), C0);
        let _ = kicked(&mut m);
        set(&mut m, 0, if runs == IDLE { Attr::DEFAULT } else { BATCH });
        assert!(m.wake(0, C0));
        assert_eq!(m.s.cpu_of(t(0)), C0);
        assert_eq!((m.s.stats(C0).nudges, kicked(&mut m).len()), (calls, calls as usize), "{runs:?} {movable}");
    }
}

/// A thread that was not real-time when it was woken has no latency.
#[test]
fn who_becomes_real_time_while_it_waits_was_not_woken_as_such() {
    let mut m = Scene::new(1);
    m.start(0, Attr::fifo(50), CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.start(1, Attr::DEFAULT, CpuMask::first(1), C0);
    m.now += 1_000;
    set(&mut m, 1, Attr::fifo(60));
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    let rt = m.s.stats(C0).rt;
    assert_eq!((rt.priority, rt.wakeups), (50, 1));
}

#[test]
fn who_is_driven_out_has_left_its_cpu_once() {
    let mut m = Scene::new(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    m.start(1, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.s.set_affinity(t(0), CpuMask::only(C1), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    let counts = m.s.counts(t(0), Nanos(m.now));
    assert_eq!((counts.involuntary, counts.migrations), (1, 1));
    // A mask that it fits again before it had to go: it stays.
    m.s.set_affinity(t(1), CpuMask::only(C1), Nanos(m.now), &mut m.kicks).unwrap();
    m.s.set_affinity(t(1), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    assert_eq!(m.s.counts(t(1), Nanos(m.now)).involuntary, 0);
}

/// As after `sched_setscheduler`: who gets the same urgency by another policy has gone behind its equals, running or not.
#[test]
fn another_policy_of_the_same_priority_costs_the_place() {
    let mut m = Scene::new(1);
    (0..2).for_each(|n| m.start(n, Attr::fifo(20), CpuMask::first(1), C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    set(&mut m, 0, Attr::round_robin(20));
    assert!(!m.s.need_resched(C0), "it goes on");
    m.start(9, Attr::fifo(30), CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(9));
    assert_eq!(m.block(C0), Some(1));
    set(&mut m, 1, Attr::fifo(25));
    assert!(!m.s.need_resched(C0), "who is raised goes on");
}

#[test]
fn what_it_has_run_outlasts_a_new_priority() {
    let mut m = Scene::new(1);
    m.start(0, Attr::fifo(20), CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.now += 500;
    set(&mut m, 0, Attr::fifo(30));
    assert_eq!(m.s.run_since_wake(t(0), Nanos(m.now)), Some(Nanos(500)));
    set(&mut m, 0, Attr::DEFAULT);
    m.now += 70;
    set(&mut m, 0, Attr::round_robin(30));
    assert_eq!(m.s.run_since_wake(t(0), Nanos(m.now)), Some(Nanos::ZERO));
}

/// A change tells the CPU concerned if it has to choose again and had not been asked before.
#[test]
fn a_change_kicks_the_cpu_that_must_choose_again() {
    let scene = || {
        let mut m = Scene::new(2);
        m.start(0, Attr::fifo(20), CpuMask::only(C1), C1);
        assert_eq!(m.run(C1, Prev::Preempted), Some(0));
        (1..3).for_each(|n| m.start(n, Attr::fifo(10), CpuMask::only(C1), C1));
        let _ = kicked(&mut m);
        m
    };
    for (n, attr, expected) in [
        (1, Attr::fifo(21), &[1][..]),
        (1, Attr::fifo(20), &[]),
        (1, Attr::fifo(5), &[]),
        (0, Attr::fifo(9), &[1]),
        (0, Attr::fifo(30), &[]),
        (0, Attr::fifo(20), &[]),
        (1, Attr::DEFAULT, &[]),
        (0, Attr::DEFAULT, &[1]),
    ] {
        let mut m = scene();
        set(&mut m, n, attr);
        assert_eq!(kicked(&mut m), expected, "{n} becomes {attr:?}");
        assert_eq!(m.s.need_resched(C1), !expected.is_empty());
        set(&mut m, 2, Attr::fifo(90));
        assert_eq!(kicked(&mut m), if expected.is_empty() { vec![1] } else { vec![] }, "it is told once");
    }
    let mut m = scene();
    m.s.set_boost(t(2), Some(Urgency::Rt(RtPriority(21))), Nanos(m.now), &mut m.kicks);
    assert_eq!(kicked(&mut m), [1]);
}

#[test]
fn attributes_that_do_not_fit_are_refused_and_a_thread_that_is_gone_is_not_changed() {
    let mut m = Scene::new(1);
    m.start(0, Attr::DEFAULT, CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert!(m.s.set_attr(t(0), &Attr::fifo(0), Nanos(m.now), &mut m.kicks).is_err());
    assert_eq!(m.run(C0, Prev::Exit), None);
    set(&mut m, 0, Attr::fifo(9));
    m.s.set_affinity(t(0), CpuMask::first(1), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!((m.s.attr(t(0)), m.s.queued(C0)), (Attr::DEFAULT, 0));
    // A thread that has not started keeps its attributes as well, and starts with those it was made with.
    m.s.attach(t(1), &Attr::fifo(7), CpuMask::empty()).unwrap();
    set(&mut m, 1, Attr::fifo(9));
    assert_eq!((m.s.attr(t(1)), m.s.affinity(t(1))), (Attr::fifo(7), CpuMask::first(1)));
    for attr in [Attr::fifo(0), Attr { policy: Policy::Deadline, ..Attr::DEFAULT }] {
        m.s.attach(t(2), &attr, CpuMask::first(1)).unwrap();
        assert_eq!(m.s.attr(t(2)), Attr::DEFAULT);
    }
}

#[test]
fn a_tick_of_an_idle_cpu_asks_for_nothing() {
    let mut m = Scene::new(2);
    assert!(!m.tick(C0, MS) && !m.tick(C0, 10 * MS));
    assert!(!m.s.tick_needed(C0));
}

/// FIFO threads have no slice, and a round-robin one that is alone begins a new one when the old is over.
#[test]
fn slices_are_those_of_round_robin() {
    let mut m = Scene::new(1);
    (0..2).for_each(|n| m.start(n, Attr::fifo(5), CpuMask::first(1), C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert!((0..30).all(|_| !m.tick(C0, 10 * MS)));
    let mut m = Scene::new(1);
    m.start(0, Attr::round_robin(5), CpuMask::first(1), C0);
    assert_eq!(m.s.schedule(C0, Nanos(m.now), Prev::Preempted, &mut m.kicks), Some(t(0)));
    assert!((0..13).all(|_| !m.tick(C0, 10 * MS)));
    m.start(1, Attr::round_robin(5), CpuMask::first(1), C0);
    assert!((13..19).all(|_| !m.tick(C0, 10 * MS)), "70 ms were left");
    assert!(m.tick(C0, 10 * MS));
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    // FIFO among them: it stays until it waits.
    set(&mut m, 1, Attr::fifo(5));
    set(&mut m, 0, Attr::fifo(4));
    set(&mut m, 0, Attr::round_robin(5));
    assert!((0..30).all(|_| !m.tick(C0, 10 * MS)));
}

/// An absent CPU neither fetches nor gives.
#[test]
fn who_is_absent_does_not_balance() {
    for (absent, left) in [(false, [2, 2]), (true, [4, 0])] {
        let mut m = Scene::new(2);
        for (n, c) in [(10, C0), (11, C1)] {
            m.start(n, Attr::DEFAULT, CpuMask::only(c), c);
            assert_eq!(m.run(c, Prev::Preempted), Some(n));
        }
        (0..4).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0));
        m.s.set_absent(C1, absent, Nanos(m.now), &mut m.kicks);
        (0..4).for_each(|n| m.s.set_affinity(t(n), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap());
        m.tick(C1, 5 * MS);
        assert_eq!([m.s.queued(C0), m.s.queued(C1)], left, "absent: {absent}");
    }
}

/// Where nobody serves the others either, a thread stays where it is; what may not go stays; the rest goes, urgent or not.
#[test]
fn an_absent_cpu_gives_away_what_others_serve() {
    let mut m = Scene::new(3);
    m.start(10, Attr::fifo(99), CpuMask::only(C0), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(10));
    let two = |a: u16, b: u16| {
        let mut mask = CpuMask::only(CpuId(a));
        mask.insert(CpuId(b));
        mask
    };
    for (n, attr) in [(0, Attr::DEFAULT), (1, Attr::fifo(5)), (2, Attr::DEFAULT), (3, Attr::fifo(6))] {
        m.start(n, attr, CpuMask::only(C0), C0);
    }
    m.s.set_absent(C1, true, Nanos(m.now), &mut m.kicks);
    [0, 1].iter().for_each(|&n| m.s.set_affinity(t(n), two(0, 1), Nanos(m.now), &mut m.kicks).unwrap());
    m.s.set_affinity(t(2), two(0, 2), Nanos(m.now), &mut m.kicks).unwrap();
    m.s.set_absent(C0, true, Nanos(m.now), &mut m.kicks);
    assert_eq!([0, 1, 2, 3].map(|n| m.s.cpu_of(t(n)).0), [0, 0, 2, 0]);
    assert_eq!([0, 1, 2, 3].map(|n| m.s.counts(t(n), Nanos(m.now)).migrations), [0, 0, 1, 0]);
    // Once more changes nothing, and whoever comes back takes what waits.
    m.s.set_absent(C0, true, Nanos(m.now), &mut m.kicks);
    m.s.set_absent(C1, false, Nanos(m.now), &mut m.kicks);
    assert_eq!((m.s.cpu_of(t(1)), m.run(C1, Prev::Preempted)), (C1, Some(1)));
}

/// The server's next moment matters only while fair threads wait.
#[test]
fn a_server_is_not_waited_for_while_fair_threads_run() {
    let s = Scheduler::new(&Config::default()).unwrap();
    let mut k = Kicks::default();
    for (n, attr) in [(0, Attr::fifo(50)), (1, Attr::DEFAULT)] {
        s.attach(t(n), &attr, CpuMask::first(1)).unwrap();
        s.wake_new(t(n), C0, Nanos(MS), &mut k);
    }
    assert_eq!(s.schedule(C0, Nanos(MS), Prev::Preempted, &mut k), Some(t(0)));
    assert_eq!(s.next_event(C0), Some(Nanos(951 * MS)));
    s.prepare_block(t(0));
    assert_eq!(s.schedule(C0, Nanos(2 * MS), Prev::Block, &mut k), Some(t(1)));
    assert_eq!(s.next_event(C0), None);
    // It goes on with what was left: 3 ms of its 50 were used by then.
    assert!(s.wake(t(0), C0, Nanos(5 * MS), &mut k));
    assert_eq!(s.schedule(C0, Nanos(5 * MS), Prev::Preempted, &mut k), Some(t(0)));
    assert_eq!(s.next_event(C0), Some(Nanos(954 * MS)));
}

#[test]
fn what_is_asked_of_a_thread_is_its_own() {
    let mut m = Scene::new(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C0), C0);
    assert_eq!(m.s.schedule(C0, Nanos(m.now), Prev::Preempted, &mut m.kicks), Some(t(0)));
    m.start(1, Attr::DEFAULT, CpuMask::only(C0), C0);
    let later = Nanos(m.now + 700);
    assert_eq!((m.s.runtime(t(0), later), m.s.runtime(t(1), later)), (Nanos(700), Nanos::ZERO));
    let (a, b) = (m.s.counts(t(0), later), m.s.counts(t(1), later));
    assert_eq!((a.queued, b.queued), (Nanos::ZERO, Nanos(700)));
    assert_eq!(m.s.schedule(C0, later, Prev::Yield, &mut m.kicks), Some(t(1)));
    let end = Nanos(later.0 + 50);
    assert_eq!((m.s.runtime(t(0), end), m.s.runtime(t(1), end)), (Nanos(700), Nanos(50)));
    assert_eq!((m.s.counts(t(0), end).queued, m.s.counts(t(1), end).queued), (Nanos(50), Nanos(700)));
    assert_eq!(m.s.counts(t(1), end).vruntime, m.s.counts(t(1), later).vruntime, "as of when it was last looked at");
}
