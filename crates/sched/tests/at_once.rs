//! More CPUs than the host runs at the same time: real-time threads take as many as it runs, and the most urgent ones do.

use crate::scene::{C0, C1, Kicks, MS, Scene, t};
use crate::support::{Rng, lives};
use entresol_sched::{Attr, Config, Idle, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos};

const C2: CpuId = CpuId(2);
const C3: CpuId = CpuId(3);

fn scene(cpus: usize, at_once: usize) -> Scene {
    let config = Config { cpus, at_once, rt_throttle: false, ..Config::default() };
    Scene { s: Scheduler::new(&config).unwrap(), now: MS, kicks: Kicks::default() }
}

fn mask(cpus: &[CpuId]) -> CpuMask {
    let mut mask = CpuMask::empty();
    cpus.iter().for_each(|&cpu| mask.insert(cpu));
    mask
}

fn ids(cpus: usize) -> impl Iterator<Item = CpuId> {
    (0..cpus as u16).map(CpuId)
}

fn settle(m: &mut Scene, cpus: usize) {
    while let Some(cpu) = ids(cpus).find(|&cpu| m.s.need_resched(cpu)) {
        let _ = m.run(cpu, Prev::Preempted);
    }
}

/// Which threads run, on whatever CPU.
fn running(m: &Scene, cpus: usize) -> Vec<u32> {
    let mut running: Vec<u32> = ids(cpus).filter_map(|cpu| m.current(cpu)).collect();
    running.sort_unstable();
    running
}

/// As `rt-migrate-test` does it: one wakes five, the least urgent first, and waits.
#[test]
fn the_most_urgent_ones_have_what_runs_at_once() {
    let mut m = scene(4, 2);
    m.start(0, Attr::fifo(90), CpuMask::first(4), C0);
    assert_eq!(m.run(C0, Prev::Preempted), Some(0));
    for n in 1..=5 {
        m.start(n, Attr::fifo(n as u8), CpuMask::first(4), C0);
        settle(&mut m, 4);
        assert_eq!(running(&m, 4), [0, n], "one beside who wakes them");
    }
    let _ = m.block(C0);
    settle(&mut m, 4);
    assert_eq!(running(&m, 4), [4, 5]);
    for (ends, left) in [(5, &[3, 4][..]), (4, &[2, 3]), (2, &[1, 3]), (1, &[3]), (3, &[])] {
        let cpu = ids(4).find(|&cpu| m.current(cpu) == Some(ends)).unwrap();
        let _ = m.block(cpu);
        settle(&mut m, 4);
        assert_eq!(running(&m, 4), left, "{ends} has ended");
    }
}

/// The same with as many at once as there are CPUs, or no limit: nobody is kept away.
#[test]
fn a_limit_that_is_none_keeps_nobody_away() {
    for at_once in [0, 4, 9] {
        let mut m = scene(4, at_once);
        (1..=5).for_each(|n| m.start(n, Attr::fifo(n as u8), CpuMask::first(4), C0));
        settle(&mut m, 4);
        assert_eq!(running(&m, 4), [2, 3, 4, 5]);
    }
}

/// Fair threads are not kept from any CPU.
#[test]
fn fair_threads_are_not_counted() {
    let mut m = scene(4, 2);
    [(C0, 0), (C1, 1)].into_iter().for_each(|(cpu, n)| m.start(n, Attr::fifo(50), CpuMask::only(cpu), cpu));
    [(C2, 2), (C3, 3)].into_iter().for_each(|(cpu, n)| m.start(n, Attr::DEFAULT, CpuMask::only(cpu), cpu));
    settle(&mut m, 4);
    assert_eq!(running(&m, 4), [0, 1, 2, 3]);
    m.start(4, Attr::fifo(40), CpuMask::first(4), C2);
    settle(&mut m, 4);
    assert_eq!(running(&m, 4), [0, 1, 2, 3], "less urgent than both, and no third CPU");
    let _ = m.block(C1);
    settle(&mut m, 4);
    assert_eq!(running(&m, 4), [0, 2, 3, 4]);
}

/// Where it may run on none of the CPUs that count, it has one of its own.
#[test]
fn a_mask_counts_for_more_than_the_limit() {
    let mut m = scene(4, 2);
    [(C0, 0), (C1, 1)].into_iter().for_each(|(cpu, n)| m.start(n, Attr::fifo(50), CpuMask::only(cpu), cpu));
    m.start(2, Attr::fifo(10), mask(&[C2, C3]), C0);
    settle(&mut m, 4);
    assert_eq!(running(&m, 4), [0, 1, 2]);
    // From now on one of those has a real-time thread.
    m.start(3, Attr::fifo(9), mask(&[C2, C3]), C0);
    settle(&mut m, 4);
    assert_eq!((running(&m, 4), m.s.cpu_of(t(3))), (vec![0, 1, 2], m.s.cpu_of(t(2))));
}

/// The CPU that makes room may not be able to fetch the waiting thread, which is sent to another CPU.
#[test]
fn room_is_made_on_any_cpu() {
    let blocks = |m: &mut Scene| assert_ne!(m.block(C0), Some(0));
    let leaves = |m: &mut Scene| {
        m.s.set_absent(C0, true, Nanos(m.now), &mut m.kicks);
        m.s.set_affinity(t(0), CpuMask::only(C3), Nanos(m.now), &mut m.kicks).unwrap();
        let _ = m.run(C0, Prev::Preempted);
        let cpu = ids(4).find(|&cpu| m.current(cpu) == Some(0)).unwrap_or(C3);
        let _ = m.run(cpu, Prev::Preempted);
        let _ = m.block(cpu);
    };
    let turns_fair = |m: &mut Scene| {
        m.s.set_attr(t(0), &Attr::DEFAULT, Nanos(m.now), &mut m.kicks).unwrap();
    };
    for (how, free) in
        [("it waits", &blocks as &dyn Fn(&mut Scene)), ("it is gone", &leaves), ("it is fair", &turns_fair)]
    {
        let mut m = scene(4, 2);
        m.start(0, Attr::fifo(50), CpuMask::first(4), C0);
        let _ = m.run(C0, Prev::Preempted);
        m.start(1, Attr::fifo(50), CpuMask::only(C1), C1);
        settle(&mut m, 4);
        m.start(2, Attr::fifo(40), mask(&[C1, C2]), C1);
        settle(&mut m, 4);
        assert_eq!((running(&m, 4), m.s.cpu_of(t(2))), (vec![0, 1], C1));
        free(&mut m);
        settle(&mut m, 4);
        assert_eq!(m.current(C2), Some(2), "{how}");
    }
}

/// The host has to find a processor for who sleeps; who looks around has one.
#[test]
fn an_idle_cpu_that_looks_around_is_taken_rather_than_one_that_sleeps() {
    for (at_once, cpu) in [(2, C3), (0, C1)] {
        let mut m = scene(4, at_once);
        m.start(0, Attr::fifo(50), CpuMask::first(4), C1);
        settle(&mut m, 4);
        let _ = m.block(C1);
        assert_eq!(m.s.cpu_of(t(0)), C1);
        assert!([C0, C1, C2].into_iter().all(|cpu| m.s.idle_state(cpu, Idle::Parked)));
        assert!(m.wake(0, C0));
        assert_eq!(m.s.cpu_of(t(0)), cpu, "{at_once} at once");
        // With nobody awake its last one is as good as any.
        settle(&mut m, 4);
        let _ = m.block(cpu);
        m.s.idle_state(C3, Idle::Parked);
        m.s.idle_state(cpu, Idle::Parked);
        assert!(m.wake(0, C0));
        assert_eq!(m.s.cpu_of(t(0)), cpu);
    }
}

/// What a look from outside calls misplaced.
#[test]
fn who_waits_for_want_of_room_is_where_it_should_be() {
    let mut m = scene(3, 2);
    (0..3).for_each(|n| m.start(n, Attr::fifo(50 - n as u8), CpuMask::first(3), C0));
    settle(&mut m, 3);
    assert_eq!(running(&m, 3), [0, 1]);
    assert!(ids(3).all(|cpu| m.s.misplaced(cpu).is_none()));
    let mut free = scene(3, 0);
    (0..2).for_each(|n| free.start(n, Attr::fifo(50), CpuMask::only(C0), C0));
    settle(&mut free, 3);
    free.s.set_affinity(t(1), CpuMask::first(3), Nanos(free.now), &mut free.kicks).unwrap();
    assert!(free.s.need_resched(C1) || free.s.need_resched(C2), "it is pushed at once where there is room");
}

/// Threads that may run everywhere come, go and change: after each event the most urgent ones run.
#[test]
fn whatever_happens_the_most_urgent_ones_run() {
    const THREADS: u32 = 14;
    for seed in 0..400 {
        let mut r = Rng(seed);
        let (cpus, at_once) = [(4, 2), (5, 1), (6, 4), (130, 3)][seed as usize % 4];
        let mut m = scene(cpus, at_once);
        // No two of the same priority, so that there is one answer.
        let mut priorities: Vec<u32> = (0..THREADS).map(|n| 10 + n).collect();
        (0..THREADS).for_each(|n| m.start(n, Attr::fifo(priorities[n as usize] as u8), CpuMask::first(cpus), C0));
        let mut awake: Vec<u32> = (0..THREADS).collect();
        for event in 0..120 {
            settle(&mut m, cpus);
            awake.sort_by_key(|&n| std::cmp::Reverse(priorities[n as usize]));
            let mut most: Vec<u32> = awake.iter().copied().take(at_once).collect();
            most.sort_unstable();
            assert_eq!(running(&m, cpus), most, "seed {seed}, event {event}: {cpus} CPUs, {at_once} at once");
            let any = r.below(THREADS as usize) as u32;
            let from = CpuId(r.below(cpus) as u16);
            if r.chance(20) {
                let free: Vec<u32> = (1..=95).filter(|p| !priorities.contains(p)).collect();
                priorities[any as usize] = free[r.below(free.len())];
                let attr = Attr::fifo(priorities[any as usize] as u8);
                m.s.set_attr(t(any), &attr, Nanos(m.now), &mut m.kicks).unwrap();
            } else if !awake.contains(&any) {
                assert!(m.wake(any, from));
                awake.push(any);
            } else if let Some(cpu) = ids(cpus).find(|&cpu| m.current(cpu) == Some(any)) {
                let _ = m.block(cpu);
                awake.retain(|&n| n != any);
            }
        }
    }
}

/// All policies, masks, absent CPUs: what holds without the limit holds with it.
#[test]
fn random_lives() {
    // A deadline that is postponed lets others in; of this the first two once knew nothing. The third is no fault: a thread
    // that is pinned no more keeps its place before an equal.
    for seed in [36_416, 42_910, 149_224].into_iter().chain(30_000..30_400) {
        let (cpus, at_once) = if seed > 36_000 { (4, 2) } else { [(3, 2), (4, 1), (4, 2), (6, 3)][seed as usize % 4] };
        let config = Config { at_once, ..Config::default() };
        if let Err(story) = lives::run(&config, seed, cpus, 300) {
            panic!("{story}");
        }
    }
}

/// Each CPU that has real-time threads has a core of its own, and keeps to it as long as it can.
#[test]
fn cores_are_shared_out() {
    let mut m = scene(4, 2);
    let cores = |m: &Scene| ids(4).map(|cpu| m.s.core(cpu)).collect::<Vec<_>>();
    assert_eq!(cores(&m), [None; 4]);
    m.start(0, Attr::fifo(50), CpuMask::only(C2), C0);
    assert_eq!(cores(&m), [None, None, Some(0), None], "before it runs there");
    m.start(1, Attr::fifo(40), CpuMask::only(C1), C0);
    m.start(2, Attr::fifo(30), CpuMask::only(C3), C0);
    settle(&mut m, 4);
    assert_eq!((running(&m, 4), cores(&m)), (vec![0, 1, 2], vec![None, Some(1), Some(0), None]), "none is left");
    let _ = m.block(C1);
    assert_eq!(cores(&m), [None, Some(1), Some(0), None], "it may want it again");
    // A CPU that had no core takes one when it chooses next.
    let _ = m.run(C3, Prev::Preempted);
    assert_eq!(m.s.core(C3), Some(1));
    assert!(m.wake(1, C0));
    settle(&mut m, 4);
    assert_eq!(m.s.core(C1), None);
    let _ = m.block(C2);
    assert!(m.wake(0, C0));
    settle(&mut m, 4);
    assert_eq!(cores(&m), [None, None, Some(0), Some(1)]);
    // A fair thread runs anywhere.
    let _ = m.block(C2);
    m.start(3, Attr::DEFAULT, CpuMask::only(C2), C2);
    settle(&mut m, 4);
    assert_eq!((m.current(C2), m.s.core(C2)), (Some(3), None));
}
