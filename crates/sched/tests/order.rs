//! What a sample says of threads that wait.

use crate::scene::{C0, C1, Scene, t};
use entresol_sched::{Attr, Prev};
use ids::{CpuId, CpuMask, Nanos};

/// CPU 0 runs FIFO 9, which belongs there; CPU 1 a fair thread.
fn two() -> Scene {
    let mut m = Scene::new(2);
    m.start(9, Attr::fifo(9), CpuMask::only(C0), C0);
    m.start(1, Attr::DEFAULT, CpuMask::only(C1), C1);
    assert_eq!((m.run(C0, Prev::Preempted), m.run(C1, Prev::Preempted)), (Some(9), Some(1)));
    m
}

fn found(m: &Scene, cpu: CpuId) -> Option<(u32, CpuId)> {
    m.s.misplaced(cpu).map(|found| (found.thread.0, found.instead))
}

#[test]
fn who_must_wait_is_not_misplaced() {
    let mut m = two();
    m.start(5, Attr::fifo(5), CpuMask::only(C0), C0);
    m.start(6, Attr::DEFAULT, CpuMask::first(2), C0);
    assert_eq!((found(&m, C0), found(&m, C1)), (None, None), "one may not go, the other is not urgent");
}

#[test]
fn who_waits_for_a_less_urgent_one_is_until_that_gives_way() {
    let mut m = two();
    m.start(5, Attr::fifo(5), CpuMask::only(C1), C0);
    assert_eq!(found(&m, C1), Some((5, C1)));
    assert_eq!(m.s.misplaced(C1).map(|found| found.since), Some(Nanos(m.now)));
    assert_eq!(m.run(C1, Prev::Preempted), Some(5));
    assert_eq!((found(&m, C0), found(&m, C1)), (None, None));
}

#[test]
fn the_head_that_could_run_elsewhere_is_until_it_has_been_pulled() {
    let mut m = two();
    m.start(8, Attr::fifo(8), CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(8));
    for n in [7, 5] {
        m.start(n, Attr::fifo(n as u8), CpuMask::first(2), C0);
    }
    let waits = m.s.cpu_of(t(7));
    assert_eq!((found(&m, C0), found(&m, C1)), (None, None), "both CPUs run more urgent ones");
    m.s.set_affinity(t(7), CpuMask::only(C0), Nanos(m.now), &mut m.kicks).unwrap();
    m.s.set_affinity(t(7), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.s.cpu_of(t(7)), C0, "it was on {waits:?}");
    m.s.set_attr(t(8), &Attr::DEFAULT, Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(found(&m, C0), Some((7, C1)), "CPU 1 has not chosen yet");
    let next = m.run(C1, Prev::Preempted);
    assert_eq!((next, found(&m, C0), found(&m, C1)), (Some(7), None, None));
}

/// An equal or more urgent thread that runs elsewhere, or is about to, is no reason; nor is a CPU where it may not run.
#[test]
fn a_cpu_that_is_no_better_is_no_place_to_be() {
    for (elsewhere, about_to_run, misplaced) in
        [(7, 0, false), (8, 0, false), (0, 7, false), (0, 8, false), (6, 0, true)]
    {
        let mut m = Scene::new(3);
        m.start(9, Attr::fifo(9), CpuMask::only(C0), C0);
        m.start(8, Attr::fifo(8), CpuMask::only(C1), C1);
        assert_eq!((m.run(C0, Prev::Preempted), m.run(C1, Prev::Preempted)), (Some(9), Some(8)));
        m.start(7, Attr::fifo(7), CpuMask::first(2), C0);
        m.s.set_affinity(t(7), CpuMask::only(C0), Nanos(m.now), &mut m.kicks).unwrap();
        m.s.set_affinity(t(7), CpuMask::first(2), Nanos(m.now), &mut m.kicks).unwrap();
        if about_to_run != 0 {
            m.start(6, Attr::fifo(about_to_run), CpuMask::only(C1), C1);
        }
        let becomes = if elsewhere == 0 { Attr::DEFAULT } else { Attr::fifo(elsewhere) };
        m.s.set_attr(t(8), &becomes, Nanos(m.now), &mut m.kicks).unwrap();
        assert_eq!(m.s.cpu_of(t(7)), C0);
        assert_eq!(found(&m, C0), misplaced.then_some((7, C1)), "{elsewhere} {about_to_run}");
    }
}

/// Threads of the running thread's level wait rightly, and so do those more urgent than all user threads: the sample leaves
/// them out.
#[test]
fn only_real_time_threads_below_a_less_urgent_one_are_looked_for() {
    let mut m = Scene::new(1);
    (0..2).for_each(|n| m.start(n, Attr::fifo(9), CpuMask::first(1), C0));
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    assert_eq!(found(&m, C0), None);
    m.s.set_boost(t(1), Some(entresol_sched::Urgency::Stop), Nanos(m.now), &mut m.kicks);
    assert!(m.s.need_resched(C0));
    assert_eq!(found(&m, C0), None);
    m.s.set_absent(C0, true, Nanos(m.now), &mut m.kicks);
    m.s.set_boost(t(1), Some(entresol_sched::Urgency::Rt(ids::RtPriority(20))), Nanos(m.now), &mut m.kicks);
    assert_eq!(found(&m, C0), None, "nobody serves it");
    m.s.set_absent(C0, false, Nanos(m.now), &mut m.kicks);
    assert_eq!(found(&m, C0), Some((1, C0)));
}
