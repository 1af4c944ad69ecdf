//! Root domains: urgent threads are pushed, pulled and admitted within one.

use crate::scene::{C0, C1, Kicks, MS, Scene, t};
use entresol_sched::{Attr, AttrError, Config, DeadlineParams, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos};

const C2: CpuId = CpuId(2);
const C3: CpuId = CpuId(3);

fn pair(a: CpuId, b: CpuId) -> CpuMask {
    let mut mask = CpuMask::only(a);
    mask.insert(b);
    mask
}

/// Four CPUs: two have a domain of their own, two are the rest.
fn scene() -> Scene {
    let config = Config { cpus: 4, domains: vec![pair(C2, C3)], rt_throttle: false, ..Config::default() };
    Scene { s: Scheduler::new(&config).unwrap(), now: MS, kicks: Kicks::default() }
}

/// A CPU that runs a real-time thread for good.
fn occupy(m: &mut Scene, n: u32, priority: u8, cpu: CpuId) {
    m.start(n, Attr::fifo(priority), CpuMask::only(cpu), cpu);
    assert_eq!(m.run(cpu, Prev::Preempted), Some(n));
}

/// The thread of the other domain could not run here, so its CPU's overload is nobody's business here.
#[test]
fn a_cpu_that_becomes_free_pulls_from_its_own_domain() {
    let mut m = scene();
    [C0, C1, C2, C3].into_iter().zip(0..).for_each(|(cpu, n)| occupy(&mut m, n, 50, cpu));
    m.start(4, Attr::fifo(20), pair(C0, C1), C0);
    m.start(5, Attr::fifo(30), pair(C2, C3), C2);
    let before = m.s.stats(C3).pulls;
    assert_eq!(m.block(C3), Some(5), "from CPU 2");
    assert_eq!((m.s.stats(C3).pulls, m.s.queued(C0) + m.s.queued(C1)), (before + 1, 1));
    assert_eq!(m.block(C1), Some(4));
}

/// Whoever wakes it: its own domain has the CPU of lowest priority that counts.
#[test]
fn a_thread_that_wakes_goes_where_its_domain_is() {
    let mut m = scene();
    [(C2, 40), (C3, 60)].into_iter().zip(0..).for_each(|((cpu, priority), n)| occupy(&mut m, n, priority, cpu));
    // CPUs 0 and 1 are idle and not for it.
    m.start(4, Attr::fifo(50), pair(C2, C3), C0);
    assert_eq!(m.s.cpu_of(t(4)), C2);
    assert_eq!(m.run(C2, Prev::Preempted), Some(4));
    // It moves to the other domain and is at home there.
    m.s.set_affinity(t(4), pair(C0, C1), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.run(C2, Prev::Preempted), Some(0));
    assert!([C0, C1].contains(&m.s.cpu_of(t(4))));
}

/// A CPU that nobody serves is no place for anybody.
#[test]
fn nothing_is_pushed_to_an_absent_cpu() {
    let mut m = scene();
    occupy(&mut m, 0, 50, C2);
    m.s.set_absent(C3, true, Nanos(m.now), &mut m.kicks);
    m.start(1, Attr::fifo(40), pair(C2, C3), C2);
    assert_eq!(m.s.cpu_of(t(1)), C2);
    m.s.set_absent(C3, false, Nanos(m.now), &mut m.kicks);
    assert_eq!(m.s.cpu_of(t(1)), C3);
}

/// 95 % of the domain's CPUs, by threads that may run on all of those (`dl_bw` of `struct root_domain`).
#[test]
fn bandwidth_is_reserved_in_a_domain() {
    let mut m = scene();
    for (n, mask) in [(0, pair(C2, C3)), (1, pair(C2, C3)), (2, pair(C0, C1)), (3, CpuMask::only(C2))] {
        m.start(n, Attr::DEFAULT, mask, C0);
    }
    let ask = |m: &mut Scene, n: u32, percent: u64| {
        let params = DeadlineParams { runtime: Nanos(percent * MS), deadline: Nanos(100 * MS), period: Nanos(0) };
        m.s.set_attr(t(n), &Attr::deadline(params), Nanos(m.now), &mut m.kicks)
    };
    assert_eq!((ask(&mut m, 0, 95), ask(&mut m, 1, 96)), (Ok(()), Err(AttrError::Busy)));
    assert_eq!(ask(&mut m, 1, 95), Ok(()));
    assert_eq!(ask(&mut m, 2, 95), Ok(()), "the other domain has all of its own");
    assert_eq!(ask(&mut m, 3, 1), Err(AttrError::NotPermitted), "a part of its domain");
    // A thread with a reservation stays where it has it.
    let mut confine = |n: u32, mask: CpuMask| m.s.set_affinity(t(n), mask, Nanos(m.now), &mut m.kicks);
    assert_eq!(confine(0, pair(C0, C1)), Err(AttrError::Busy));
    assert_eq!(confine(0, CpuMask::first(4)), Ok(()), "more than its domain");
    m.s.set_attr(t(0), &Attr::DEFAULT, Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.s.set_affinity(t(3), pair(C2, C3), Nanos(m.now), &mut m.kicks), Ok(()));
    assert_eq!(ask(&mut m, 3, 95), Ok(()), "what was given back");
}

/// Sets that overlap: a CPU is in the first that has it. A thread that may run in two domains is balanced in the one where it was
/// last, and nobody of the other looks for it: the seed allows that. It heals when a CPU of its own becomes free.
#[test]
fn a_thread_of_two_domains_waits_until_its_own_has_a_cpu() {
    let mut first = CpuMask::first(3);
    first.remove(C0);
    let config = Config { cpus: 4, domains: vec![first, pair(C2, C3)], rt_throttle: false, ..Config::default() };
    let mut m = Scene { s: Scheduler::new(&config).unwrap(), now: MS, kicks: Kicks::default() };
    [C1, C2, C3].into_iter().zip(0..).for_each(|(cpu, n)| occupy(&mut m, n, 50, cpu));
    m.start(4, Attr::fifo(30), CpuMask::only(C2), C2);
    m.s.set_affinity(t(4), pair(C2, C3), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.block(C3), None, "CPU 3 is of another domain");
    assert_eq!(m.s.cpu_of(t(4)), C2);
    assert_eq!(m.block(C2), Some(4));
}
