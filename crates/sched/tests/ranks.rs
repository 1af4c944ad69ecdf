//! Who runs before whom, and what is told about it: changes of attributes, boosts, equals and pinned threads, the fair
//! server, latencies and counters.

use crate::scene::{C0, C1, Kicks, MS, Scene, t};
use entresol_sched::{Attr, Config, Prev, Scheduler, Urgency};
use ids::{CpuId, CpuMask, Nanos, Policy, RtPriority};

fn set(m: &mut Scene, n: u32, attr: Attr) {
    m.s.set_attr(t(n), &attr, Nanos(m.now), &mut m.kicks).unwrap();
}

fn boost(m: &mut Scene, n: u32, priority: u8) {
    m.s.set_boost(t(n), Some(Urgency::Rt(RtPriority(priority))), Nanos(m.now), &mut m.kicks);
}

fn one(threads: &[u8]) -> Scene {
    let mut m = Scene::new(1);
    for (n, &p) in (0..).zip(threads) {
        m.start(n, if p == 0 { Attr::DEFAULT } else { Attr::fifo(p) }, CpuMask::first(1), C0);
    }
    let _ = m.run(C0, Prev::Preempted);
    m
}

/// `__sched_setscheduler`: raised, it goes behind its new equals; lowered, before them.
#[test]
fn a_raised_thread_goes_behind_its_equals_and_a_lowered_one_before_them() {
    let order = |change: fn(&mut Scene)| {
        let mut m = one(&[50, 20, 20, 10, 30]);
        change(&mut m);
        let mut order = vec![m.current(C0).unwrap()];
        order.extend((0..4).filter_map(|_| m.block(C0)));
        order
    };
    assert_eq!(order(|_| ()), [0, 4, 1, 2, 3]);
    assert_eq!(order(|m| set(m, 3, Attr::fifo(20))), [0, 4, 1, 2, 3], "raised");
    assert_eq!(order(|m| set(m, 4, Attr::fifo(20))), [0, 4, 1, 2, 3], "lowered: first of its equals");
    assert_eq!(order(|m| set(m, 4, Attr::fifo(10))), [0, 1, 2, 4, 3]);
    assert_eq!(order(|m| set(m, 1, Attr::fifo(20))), [0, 4, 1, 2, 3], "nothing changes, so nothing moves");
    assert_eq!(order(|m| set(m, 1, Attr::round_robin(20))), [0, 4, 2, 1, 3], "another policy is a change");
    assert_eq!(order(|m| boost(m, 1, 20)), [0, 4, 1, 2, 3], "a boost that does not count");
    assert_eq!(order(|m| boost(m, 2, 40)), [0, 2, 4, 1, 3]);
}

#[test]
fn the_running_thread_gives_way_when_it_is_lowered_below_another() {
    let mut m = one(&[50, 20]);
    set(&mut m, 0, Attr::fifo(30));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    set(&mut m, 0, Attr::fifo(20));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0), "lowered to an equal it stays before it");
    set(&mut m, 0, Attr::fifo(19));
    assert!(m.s.need_resched(C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    set(&mut m, 1, Attr::DEFAULT);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert_eq!(m.block(C0), Some(1));
    set(&mut m, 1, Attr::fifo(3));
    m.start(9, Attr::fifo(3), CpuMask::first(1), C0);
    assert!(!m.s.need_resched(C0), "equals do not preempt");
}

#[test]
fn what_waits_and_is_raised_above_the_running_thread_runs() {
    let mut m = one(&[20, 10]);
    boost(&mut m, 1, 20);
    assert!(!m.s.need_resched(C0));
    boost(&mut m, 1, 21);
    assert!(m.s.need_resched(C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    m.s.set_boost(t(1), None, Nanos(m.now), &mut m.kicks);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
}

/// `check_preempt_equal_prio`: an equal that can run only here goes first if the running thread can go elsewhere.
#[test]
fn a_pinned_equal_goes_first_where_the_running_thread_can_move() {
    for (movable, elsewhere, first) in [(true, 5, true), (false, 5, false), (true, 20, false)] {
        let mut m = Scene::new(2);
        m.start(8, Attr::fifo(elsewhere), CpuMask::only(C1), C1);
        assert_eq!(m.run(C1, Prev::Preempted), Some(8));
        m.start(0, Attr::fifo(20), CpuMask::only(C0), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(0));
        if movable {
            m.s.set_affinity(t(0), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
        }
        m.start(1, Attr::fifo(20), CpuMask::only(C0), C0);
        assert_eq!(m.s.need_resched(C0), first, "{movable} {elsewhere}");
        m.settle();
        let expected = if first { (Some(1), Some(0)) } else { (Some(0), Some(8)) };
        assert_eq!((m.current(C0), m.current(C1)), expected);
    }
}

/// A woken real-time thread stays on its last CPU if it may preempt there, goes where less is lost if not.
#[test]
fn a_woken_real_time_thread_goes_where_it_can_run() {
    // (runs on CPU 0, its last; on CPU 1; on CPU 2; expected)
    for (here, there, third, expected) in
        [(0, 0, 0, 0), (10, 20, 30, 0), (40, 10, 5, 2), (40, 5, 10, 1), (40, 50, 60, 0), (30, 10, 10, 1), (40, 0, 5, 1)]
    {
        let mut m = Scene::new(3);
        m.start(7, Attr::fifo(30), CpuMask::only(C0), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(7));
        assert_eq!(m.block(C0), None);
        m.s.set_affinity(t(7), CpuMask::first(3), Nanos(m.now), &mut m.kicks).unwrap();
        for (c, p) in [(0, here), (1, there), (2, third)] {
            let attr = if p == 0 { Attr::DEFAULT } else { Attr::fifo(p) };
            m.start(u32::from(c), attr, CpuMask::only(CpuId(c)), CpuId(c));
            assert_eq!(m.run(CpuId(c), Prev::Preempted), Some(u32::from(c)));
        }
        m.kicks.0.clear();
        assert!(m.wake(7, C0));
        // A running thread that cannot move is not driven out if there is another choice.
        let expected = if here == 10 { None } else { Some(CpuId(expected)) };
        if let Some(cpu) = expected {
            assert_eq!(m.s.cpu_of(t(7)), cpu, "{here} {there} {third}");
            let runs = [here, there, third][cpu.index()] < 30;
            assert_eq!(m.s.need_resched(cpu), runs);
            assert_eq!(m.kicks.0, if runs && cpu != C0 { vec![cpu] } else { vec![] });
        }
    }
}

/// A less urgent thread that cannot go elsewhere is spared if there is a CPU where still less is lost.
#[test]
fn a_pinned_thread_is_not_driven_out_without_need() {
    for (pinned, expected) in [(true, C1), (false, C0)] {
        let mut m = Scene::new(2);
        m.start(7, Attr::fifo(30), CpuMask::only(C0), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(7));
        assert_eq!(m.block(C0), None);
        m.s.set_affinity(t(7), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
        for (c, p) in [(C0, 20), (C1, 10)] {
            m.start(u32::from(c.0), Attr::fifo(p), CpuMask::only(c), c);
            assert_eq!(m.run(c, Prev::Preempted), Some(u32::from(c.0)));
        }
        if !pinned {
            m.s.set_affinity(t(0), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
        }
        assert!(m.wake(7, C1));
        assert_eq!(m.s.cpu_of(t(7)), expected);
    }
}

/// Where fair threads run on both CPUs, the waker makes way: its CPU needs no kick.
#[test]
fn a_waker_makes_way_for_a_real_time_thread() {
    let mut m = Scene::new(2);
    m.start(7, Attr::fifo(30), CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(7));
    assert_eq!(m.block(C1), None);
    m.s.set_affinity(t(7), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
    for c in [C0, C1] {
        m.start(u32::from(c.0), Attr::DEFAULT, CpuMask::only(c), c);
        let _ = m.run(c, Prev::Preempted);
    }
    m.kicks.0.clear();
    assert!(m.wake(7, C0));
    assert_eq!((m.s.cpu_of(t(7)), m.kicks.0.len()), (C0, 0));
    assert!(m.s.need_resched(C0));
}

#[test]
fn latencies_are_those_of_the_highest_priority() {
    let mut m = one(&[10]);
    let rt = |m: &Scene| m.s.stats(C0).rt;
    assert_eq!((rt(&m).priority, rt(&m).wakeups), (10, 1));
    let wait = |m: &mut Scene, n: u32, latency: u64| {
        assert_eq!(m.s.stats(C0).rt.priority, 10.max(m.s.stats(C0).rt.priority));
        m.now += 1_000;
        assert!(m.s.wake(t(n), C0, Nanos(m.now), &mut m.kicks));
        m.now += latency;
        assert_eq!(m.s.schedule(C0, Nanos(m.now), Prev::Preempted, &mut m.kicks), Some(t(n)));
    };
    for latency in [70, 500, 30] {
        let _ = m.block(C0);
        wait(&mut m, 0, latency);
    }
    assert_eq!((rt(&m).priority, rt(&m).wakeups, rt(&m).worst), (10, 4, Nanos(500)));
    let _ = m.run(C0, Prev::Yield);
    assert_eq!(rt(&m).wakeups, 4, "a yield is no wake-up");
    m.start(1, Attr::fifo(40), CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    assert_eq!((rt(&m).priority, rt(&m).wakeups, rt(&m).worst), (40, 1, Nanos(10)));
    assert_eq!(m.block(C0), Some(0));
    let _ = m.block(C0);
    wait(&mut m, 0, 9_000);
    assert_eq!((rt(&m).priority, rt(&m).worst), (40, Nanos(10)), "less urgent ones do not count any more");
}

#[test]
fn counters_count() {
    let mut m = one(&[0, 0]);
    assert_eq!((m.s.stats(C0).switches, m.s.stats(C0).wakeups, m.s.stats(C0).preemptions), (1, 2, 0));
    m.now += 10 * MS;
    m.s.tick(C0, Nanos(m.now), &mut m.kicks);
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    assert_eq!((m.s.stats(C0).switches, m.s.stats(C0).preemptions), (2, 1));
    assert_eq!(m.run(C0, Prev::Yield), Some(0));
    assert_eq!((m.s.stats(C0).switches, m.s.stats(C0).preemptions), (3, 1));
    m.start(2, Attr::fifo(1), CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(2));
    assert_eq!((m.s.stats(C0).switches, m.s.stats(C0).preemptions, m.s.stats(C0).wakeups), (4, 2, 3));
    assert!(m.block(C0).is_some());
    assert_eq!((m.s.stats(C0).switches, m.s.stats(C0).preemptions), (5, 2));
    assert_eq!(m.s.counts(t(0), Nanos(m.now)).involuntary + m.s.counts(t(1), Nanos(m.now)).involuntary, 3);
}

/// What a real-time thread has run since it last woke, for RLIMIT_RTTIME.
#[test]
fn running_since_the_wake_up_is_counted_for_real_time_threads() {
    let mut m = one(&[10, 10]);
    let begun = m.now;
    m.now += 5 * MS;
    assert_eq!(m.s.run_since_wake(t(0), Nanos(m.now)), Some(Nanos(m.now - begun)));
    let ran = m.now + 10 - begun;
    assert_eq!(m.run(C0, Prev::Yield), Some(1));
    assert_eq!(m.s.run_since_wake(t(0), Nanos(m.now)), Some(Nanos(ran)), "a yield does not end it");
    set(&mut m, 1, Attr::DEFAULT);
    assert_eq!(m.s.run_since_wake(t(1), Nanos(m.now)), None);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert!(!m.s.is_blocked(t(0)));
    assert_eq!(m.block(C0), Some(1));
    assert!(m.s.is_blocked(t(0)));
    assert!(m.wake(0, C0));
    assert!(!m.s.is_blocked(t(0)));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert_eq!(m.s.run_since_wake(t(0), Nanos(m.now)), Some(Nanos::ZERO));
    m.now += 7;
    set(&mut m, 1, Attr::fifo(50));
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    assert_eq!(m.s.run_since_wake(t(1), Nanos(m.now)), Some(Nanos::ZERO), "what it ran before does not count");
}

/// The fair server: 50 ms in each second, at the end of it and not before.
#[test]
fn the_fair_server_gives_its_share_at_the_end_of_the_period() {
    let s = Scheduler::new(&Config::default()).unwrap();
    let (mut now, mut k) = (MS, Kicks::default());
    for (n, attr) in [(0, Attr::fifo(50)), (1, Attr::DEFAULT)] {
        s.attach(t(n), &attr, CpuMask::first(1)).unwrap();
        s.wake_new(t(n), C0, Nanos(now), &mut k);
    }
    assert_eq!(s.schedule(C0, Nanos(now), Prev::Preempted, &mut k), Some(t(0)));
    assert_eq!(s.next_event(C0), Some(Nanos(now + 950 * MS)));
    let began = now;
    now += 949 * MS;
    s.tick(C0, Nanos(now), &mut k);
    assert!(!s.need_resched(C0));
    now = began + 950 * MS;
    s.tick(C0, Nanos(now), &mut k);
    assert!(s.need_resched(C0));
    assert_eq!(s.schedule(C0, Nanos(now), Prev::Preempted, &mut k), Some(t(1)));
    s.tick(C0, Nanos(now + 49 * MS), &mut k);
    assert!(!s.need_resched(C0));
    s.tick(C0, Nanos(now + 50 * MS), &mut k);
    assert!(s.need_resched(C0));
    assert_eq!(s.schedule(C0, Nanos(now + 50 * MS), Prev::Preempted, &mut k), Some(t(0)));
    assert_eq!(s.next_event(C0), Some(Nanos(now + 1_000 * MS)), "a new period began when the budget was used up");
    // No fair thread, no server.
    s.set_attr(t(1), &Attr::fifo(40), Nanos(now + 51 * MS), &mut k).unwrap();
    s.tick(C0, Nanos(now + 60 * MS), &mut k);
    assert_eq!(s.next_event(C0), None);
}

/// BATCH and IDLE threads do not preempt at a wake-up, and an IDLE one gives way at once.
#[test]
fn wake_up_preemption_is_for_ordinary_threads() {
    for (runs, wakes, preempts) in [
        (Policy::Idle, Policy::Other, true),
        (Policy::Idle, Policy::Batch, true),
        (Policy::Idle, Policy::Idle, false),
        (Policy::Other, Policy::Batch, false),
        (Policy::Other, Policy::Idle, false),
    ] {
        let mut m = Scene::new(1);
        m.start(1, Attr::fair(wakes, 0), CpuMask::first(1), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(1));
        m.start(0, Attr::fair(runs, 0), CpuMask::first(1), C0);
        assert_eq!(m.block(C0), Some(0));
        m.now += 100_000;
        assert!(m.wake(1, C0));
        assert_eq!(m.s.need_resched(C0), preempts, "{wakes:?} wakes while {runs:?} runs");
    }
}

/// A thread that waits most of the time preempts one that computes for as long as it has credit, and keeps what it does
/// not consume: in the long run it waits for a CPU little longer than it runs.
#[test]
fn a_thread_that_runs_briefly_waits_little_longer_than_it_runs() {
    let config = Config { slice: Nanos(3 * MS), rt_throttle: false, ..Config::default() };
    let mut m = Scene { s: Scheduler::new(&config).unwrap(), ..Scene::new(1) };
    m.start(1, Attr::DEFAULT, CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
    m.start(0, Attr::DEFAULT, CpuMask::first(1), C0);
    assert_eq!(m.block(C0), Some(0));
    let (mut ran, mut waited) = (0, 0);
    for round in 0..300 {
        m.now += MS;
        assert!(m.wake(1, C0));
        let woken = m.now;
        while !m.s.need_resched(C0) {
            m.tick(C0, MS / 100);
        }
        waited += m.now - woken;
        assert_eq!(m.run(C0, Prev::Preempted), Some(1));
        let run = if round % 10 == 0 { 30_000 } else { 5_000 };
        m.now += run;
        ran += run;
        assert_eq!(m.block(C0), Some(0));
    }
    assert!(waited <= 2 * ran, "waited {waited} ns, ran {ran}");
}

/// A short slice asked for is a right to run soon: it ends the protection of a longer one (PREEMPT_SHORT).
#[test]
fn a_thread_with_a_shorter_slice_preempts_a_longer_one() {
    for (slice, preempts) in [(100_000, true), (0, false), (5_000_000, false)] {
        let mut m = Scene::new(1);
        let attr = Attr { slice: Nanos(slice), ..Attr::DEFAULT };
        m.start(1, attr, CpuMask::first(1), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(1));
        assert_eq!(m.block(C0), None);
        m.start(0, Attr::DEFAULT, CpuMask::first(1), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(0));
        m.now += 200_000;
        m.s.tick(C0, Nanos(m.now), &mut m.kicks);
        assert!(!m.s.need_resched(C0));
        assert!(m.wake(1, C0));
        assert_eq!(m.s.need_resched(C0), preempts, "slice {slice}");
        assert_eq!(m.s.rr_interval(t(1)), Nanos(if slice == 0 { 700_000 } else { slice }));
    }
}

/// A slice ends at its end, or at the tick just before. (A new thread's first is half a slice.)
#[test]
fn a_slice_ends_exactly() {
    const GRACE: u64 = MS / 16;
    for half in [1_400_000, MS + GRACE, MS + GRACE + 1, MS] {
        let config = Config { slice: Nanos(2 * half), tick: Nanos(MS), rt_throttle: false, ..Config::default() };
        let s = Scheduler::new(&config).unwrap();
        let mut k = Kicks::default();
        s.attach(t(0), &Attr::DEFAULT, CpuMask::first(1)).unwrap();
        s.wake_new(t(0), C0, Nanos(MS), &mut k);
        let _ = s.schedule(C0, Nanos(MS), Prev::Preempted, &mut k);
        assert_eq!(s.slice_end(C0), None, "nobody competes");
        s.attach(t(1), &Attr::DEFAULT, CpuMask::first(1)).unwrap();
        s.wake_new(t(1), C0, Nanos(MS), &mut k);
        let end = MS + half;
        assert_eq!(s.slice_end(C0), Some((Nanos(end), Nanos(2 * half))));
        s.tick(C0, Nanos(2 * MS), &mut k);
        assert_eq!(s.need_resched(C0), half <= MS + GRACE, "{half}");
        let left = s.slice_end(C0).map(|(at, _)| at);
        assert_eq!(left, Some(Nanos(if half <= MS + GRACE { 2 * MS } else { end })), "{half}");
        s.tick(C0, Nanos(end), &mut k);
        assert!(s.need_resched(C0), "{half}");
    }
}

/// Even who comes to the head of its level comes behind the thread that runs.
#[test]
fn who_is_lowered_to_the_running_thread_s_level_comes_behind_it() {
    let mut m = one(&[20, 10, 20]);
    set(&mut m, 1, Attr::fifo(30));
    assert!(m.s.need_resched(C0));
    set(&mut m, 1, Attr::fifo(20));
    m.start(9, Attr::fifo(40), CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(9));
    assert_eq!([(); 3].map(|()| m.block(C0)), [Some(0), Some(1), Some(2)]);
}

/// A thread that was about to run kept others away; it has become less urgent before it did.
#[test]
fn a_cpu_makes_up_for_what_it_kept_away() {
    let mut m = Scene::new(2);
    for (c, attr) in [(C0, Attr::fifo(50)), (C1, Attr::DEFAULT)] {
        m.start(u32::from(c.0), attr, CpuMask::only(c), c);
        assert_eq!(m.run(c, Prev::Preempted), Some(u32::from(c.0)));
    }
    m.start(2, Attr::fifo(30), CpuMask::only(C1), C1);
    m.start(3, Attr::fifo(20), CpuMask::only(C0), C0);
    m.s.set_affinity(t(3), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.s.cpu_of(t(3)), C0, "it would not run on CPU 1");
    set(&mut m, 2, Attr::DEFAULT);
    assert_eq!(m.s.cpu_of(t(3)), C0, "nobody looks yet");
    assert_eq!(m.run(C1, Prev::Preempted), Some(3));
}

/// Somebody waits, a budget runs or is waited for: else time changes nothing.
#[test]
fn ticks_are_needed_where_time_changes_something() {
    for (threads, needed) in
        [(&[0][..], false), (&[20], false), (&[0, 0], true), (&[20, 0], true), (&[20, 20], true), (&[20, 10, 0], true)]
    {
        let mut m = one(threads);
        assert_eq!(m.s.tick_needed(C0), needed, "{threads:?}");
        while m.current(C0).is_some() {
            let _ = m.block(C0);
        }
        assert!(!m.s.tick_needed(C0), "nobody is left");
    }
}

/// While the fair server is active it has a deadline like others: an earlier one goes first.
#[test]
fn the_fair_server_competes_by_its_deadline() {
    for (deadline, expected) in [(40 * MS, 2), (50 * MS, 2), (50 * MS + 1, 1)] {
        let config = Config { deadline_permille: 1001, ..Config::default() };
        let s = Scheduler::new(&config).unwrap();
        let mut k = Kicks::default();
        for (n, attr) in [(0, Attr::fifo(50)), (1, Attr::DEFAULT), (2, Attr::DEFAULT)] {
            s.attach(t(n), &attr, CpuMask::first(1)).unwrap();
        }
        for n in 0..2 {
            s.wake_new(t(n), C0, Nanos(0), &mut k);
        }
        assert_eq!(s.schedule(C0, Nanos(0), Prev::Preempted, &mut k), Some(t(0)));
        s.tick(C0, Nanos(950 * MS), &mut k);
        assert!(s.need_resched(C0), "its deadline is at one second");
        s.wake_new(t(2), C0, Nanos(950 * MS), &mut k);
        let params =
            entresol_sched::DeadlineParams { runtime: Nanos(MS), deadline: Nanos(deadline), period: Nanos(deadline) };
        s.set_attr(t(2), &Attr::deadline(params), Nanos(950 * MS), &mut k).unwrap();
        assert_eq!(s.schedule(C0, Nanos(950 * MS), Prev::Preempted, &mut k), Some(t(expected)), "{deadline}");
    }
}

#[test]
fn a_waiting_fair_thread_that_changes_may_preempt() {
    let mut m = Scene::new(1);
    let policy = |policy| Attr::fair(policy, 0);
    m.start(0, policy(Policy::Idle), CpuMask::first(1), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    m.start(1, policy(Policy::Idle), CpuMask::first(1), C0);
    assert!(!m.s.need_resched(C0));
    set(&mut m, 1, policy(Policy::Batch));
    assert!(m.s.need_resched(C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(1));
}

/// A pinned equal does not go first where the running one may not move, nor before a thread that is more urgent.
#[test]
fn only_equals_that_may_go_elsewhere_make_way_for_pinned_ones() {
    for (runs, comes, first) in [(20, 20, true), (21, 20, false), (19, 20, true)] {
        let mut m = Scene::new(2);
        m.start(0, Attr::fifo(runs), CpuMask::only(C0), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(0));
        m.s.set_affinity(t(0), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
        m.start(1, Attr::fifo(comes), CpuMask::only(C0), C0);
        assert_eq!(m.s.need_resched(C0), first, "{comes} comes to {runs}");
        // One that may go elsewhere itself does.
        m.start(2, Attr::fifo(19), CpuMask::first(2), C0);
        assert_eq!(m.s.cpu_of(t(2)), C1);
    }
}

/// Its period begins when there is somebody to starve, not before.
#[test]
fn the_fair_server_does_not_watch_over_nobody() {
    let s = Scheduler::new(&Config::default()).unwrap();
    let mut k = Kicks::default();
    s.attach(t(0), &Attr::fifo(50), CpuMask::first(1)).unwrap();
    s.attach(t(1), &Attr::DEFAULT, CpuMask::first(1)).unwrap();
    s.wake_new(t(0), C0, Nanos(MS), &mut k);
    assert_eq!(s.schedule(C0, Nanos(MS), Prev::Preempted, &mut k), Some(t(0)));
    (1..=97).for_each(|n| s.tick(C0, Nanos(n * 10 * MS), &mut k));
    s.wake_new(t(1), C0, Nanos(970 * MS), &mut k);
    s.tick(C0, Nanos(970 * MS), &mut k);
    assert!(!s.need_resched(C0));
    assert_eq!(s.next_event(C0), Some(Nanos(1_920 * MS)));
}

/// The running thread could go to CPU 1; the one that comes could not, but to CPU 2, where something more urgent runs.
#[test]
fn an_equal_that_is_not_pinned_does_not_go_first() {
    for (pinned, first) in [(true, true), (false, false)] {
        let mut m = Scene::new(3);
        for (c, p) in [(C0, 20), (C1, 5), (CpuId(2), 50)] {
            m.start(u32::from(c.0), Attr::fifo(p), CpuMask::only(c), c);
            assert_eq!(m.run(c, Prev::Preempted), Some(u32::from(c.0)));
        }
        m.s.set_affinity(t(0), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
        let mut mask = CpuMask::only(C0);
        if !pinned {
            mask.insert(CpuId(2));
        }
        m.start(7, Attr::fifo(20), mask, C0);
        assert_eq!((m.s.cpu_of(t(7)), m.s.need_resched(C0)), (C0, first));
    }
}
