//! Fair threads over several CPUs, figure by figure: whom an idle CPU takes from, when a parked one is called and which, and
//! what a balance moves.

use crate::scene::{C0, C1, MS, Scene, t};
use entresol_sched::{Attr, Idle, Prev};
use ids::{CpuId, CpuMask, Nanos, Policy};

const C2: CpuId = CpuId(2);
const C3: CpuId = CpuId(3);

fn set(cpus: &[u16]) -> CpuMask {
    let mut m = CpuMask::empty();
    cpus.iter().for_each(|&c| m.insert(CpuId(c)));
    m
}

/// `these` CPUs each run a fair thread that stays there: thread 1000 + n on CPU n. The others are idle.
fn busy(cpus: usize, these: &[u16]) -> Scene {
    let mut m = Scene::new(cpus);
    for &c in these {
        m.start(1000 + u32::from(c), Attr::DEFAULT, CpuMask::only(CpuId(c)), CpuId(c));
        assert_eq!(m.run(CpuId(c), Prev::Preempted), Some(1000 + u32::from(c)));
    }
    m
}

/// Thread `n` waits on `cpu`, which is busy, and may run on all of `mask`.
fn wait_on(m: &mut Scene, n: u32, attr: Attr, cpu: CpuId, mask: CpuMask) {
    m.start(n, attr, CpuMask::only(cpu), cpu);
    m.s.set_affinity(t(n), mask, Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.s.cpu_of(t(n)), cpu);
}

/// The thread of a busy CPU waits; who follows.
fn stops(m: &mut Scene, cpu: CpuId) -> Option<u32> {
    m.now += 10_000;
    m.s.prepare_block(t(1000 + u32::from(cpu.0)));
    m.run(cpu, Prev::Block)
}

fn queued<const N: usize>(m: &Scene) -> [u32; N] {
    core::array::from_fn(|c| m.s.queued(CpuId(c as u16)))
}

fn park(m: &mut Scene, cpus: &[u16]) {
    cpus.iter().for_each(|&c| assert!(m.s.idle_state(CpuId(c), Idle::Parked)));
}

/// Who was kicked since the last time that somebody asked.
fn kicked(m: &mut Scene) -> Vec<u16> {
    std::mem::take(&mut m.kicks.0).into_iter().map(|c| c.0).collect()
}

/// CPUs that become idle at the same time do not all go to the same queue: of equal ones each takes the one before its own.
#[test]
fn of_equal_queues_each_idle_cpu_takes_another() {
    for c in 0..4u16 {
        let mut m = busy(4, &[0, 1, 2, 3]);
        for other in (0..4).filter(|&o| o != c) {
            wait_on(&mut m, other.into(), Attr::DEFAULT, CpuId(other), set(&[0, 1, 2, 3]));
        }
        assert_eq!(stops(&mut m, CpuId(c)), Some(u32::from((c + 3) % 4)), "CPU {c}");
    }
}

#[test]
fn of_equal_loads_each_cpu_evens_out_with_another() {
    for c in 0..4u16 {
        let mut m = busy(4, &[0, 1, 2, 3]);
        (0..4).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, CpuId(c), set(&[0, 1, 2, 3])));
        m.tick(CpuId(c), 5 * MS);
        let mut expected = [0; 4];
        (expected[usize::from(c)], expected[usize::from((c + 1) % 4)]) = (2, 2);
        assert_eq!(queued(&m), expected, "CPU {c} gives to the next");
        let mut m = busy(4, &[0, 1, 2, 3]);
        for n in (0..16).filter(|n| n % 4 != u32::from(c)) {
            wait_on(&mut m, n, Attr::DEFAULT, CpuId(n as u16 % 4), set(&[0, 1, 2, 3]));
        }
        m.tick(CpuId(c), 5 * MS);
        let mut expected = [4; 4];
        (expected[usize::from(c)], expected[usize::from((c + 3) % 4)]) = (2, 2);
        assert_eq!(queued(&m), expected, "CPU {c} fetches from the one before it");
    }
}

/// On more than 64 CPUs a search goes where threads wait, however many CPUs there are.
#[test]
fn a_search_of_a_large_machine_goes_where_threads_wait() {
    let mut m = busy(130, &[100]);
    (0..2).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, CpuId(100), set(&[0, 5, 100])));
    park(&mut m, &[5]);
    m.now += 10_000;
    let _ = kicked(&mut m);
    assert_eq!(m.s.idle_pull(C0, Nanos(m.now), &mut m.kicks), Some(t(0)));
    assert_eq!(kicked(&mut m), [5], "and it calls a helper for the other one");
    let mut m = busy(130, &[3]);
    assert!((0..100).all(|_| m.s.idle_pull(CpuId(129), Nanos(m.now), &mut m.kicks).is_none()));
    wait_on(&mut m, 0, Attr::DEFAULT, C3, set(&[3, 129]));
    m.now += 10_000;
    assert_eq!(m.s.idle_pull(CpuId(129), Nanos(m.now), &mut m.kicks), Some(t(0)));
}

/// Threads wait on 101 CPUs: a search looks at 64 of them, from one further each time, so CPU 100 is among those from 37 on.
#[test]
fn a_search_of_a_crowded_machine_comes_round() {
    let crowd: Vec<u16> = (0..=100).collect();
    let mut m = busy(130, &crowd);
    (0..100).for_each(|c| m.start(c, Attr::DEFAULT, CpuMask::only(CpuId(c as u16)), CpuId(c as u16)));
    wait_on(&mut m, 100, Attr::DEFAULT, CpuId(100), set(&[100, 129]));
    m.now += 10_000;
    let looks = (1..=130).find(|_| m.s.idle_pull(CpuId(129), Nanos(m.now), &mut m.kicks).is_some());
    assert_eq!((looks, m.current(CpuId(129))), (Some(38), Some(100)));
}

/// It fetches from where threads wait; the one with the least load is looked for among 64.
#[test]
fn a_balance_of_a_large_machine_fetches_at_once_and_gives_as_it_comes_round() {
    let mut m = busy(130, &[0, 100]);
    (1..5).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, CpuId(100), set(&[0, 100])));
    m.tick(C0, 5 * MS);
    assert_eq!((m.s.queued(C0), m.s.queued(CpuId(100))), (2, 2));
    let mut m = busy(130, &[0, 100]);
    (1..5).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, C0, set(&[0, 100])));
    let balances = (1..=130).find(|_| {
        m.tick(C0, 5 * MS);
        m.s.queued(CpuId(100)) > 0
    });
    assert_eq!(
        (balances, m.s.queued(C0), m.s.queued(CpuId(100))),
        (Some(38), 2, 2),
        "CPU 100 is among those from 37 on"
    );
}

/// Of each 64 CPUs one is on its way at a time, and each that finds something calls two more.
#[test]
fn helpers_of_a_large_machine_multiply() {
    let mut m = busy(130, &[0]);
    (0..9).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, C0, CpuMask::first(130)));
    (1..130).for_each(|c| park(&mut m, &[c]));
    let _ = kicked(&mut m);
    m.tick(C0, 10_000);
    let mut coming = kicked(&mut m);
    assert_eq!(coming.len(), 1, "a tick calls one");
    let (mut first, mut helped, mut most) = (None, 0, 0);
    while !coming.is_empty() {
        let c = CpuId(coming.remove(0));
        assert!(m.s.idle_state(c, Idle::Spinning));
        let found = m.s.idle_pull(c, Nanos(m.now), &mut m.kicks).is_some();
        let called = kicked(&mut m);
        first = first.or(Some(called.len()));
        helped += u32::from(found);
        coming.extend(called);
        most = most.max(coming.len());
        let groups: std::collections::BTreeSet<u16> = coming.iter().map(|c| c / 64).collect();
        assert_eq!(groups.len(), coming.len(), "two of the same 64 are called: {coming:?}");
        assert!(found || m.s.idle_state(c, Idle::Parked));
    }
    assert_eq!((first, helped, most, m.s.queued(C0)), (Some(2), 9, 3, 0));
}

/// A timer of an idle CPU makes a thread ready there, and the same interrupt is the CPU's tick.
#[test]
fn an_idle_cpu_runs_a_single_waiting_thread_itself() {
    let ready_on_idle_cpu = |threads: u32| {
        let mut m = Scene::new(2);
        (0..threads).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0));
        park(&mut m, &[1]);
        for n in 0..threads {
            m.s.set_affinity(t(n), set(&[0, 1]), Nanos(m.now), &mut m.kicks).unwrap();
        }
        let _ = kicked(&mut m);
        m.tick(C0, 5 * MS);
        kicked(&mut m)
    };
    assert_eq!(ready_on_idle_cpu(1), []);
    assert_eq!(ready_on_idle_cpu(2), [1], "one of two needs help");
}

/// Eight of a queue are looked at, but only those that may run there count.
#[test]
fn those_that_may_not_go_do_not_hide_one_that_may() {
    let crowded = || {
        let mut m = busy(3, &[0, 1, 2]);
        (0..9).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::only(C0), C0));
        m.start(20, Attr::DEFAULT, CpuMask::only(C1), C1);
        wait_on(&mut m, 50, Attr::DEFAULT, C0, set(&[0, 2]));
        m
    };
    let mut m = crowded();
    assert_eq!(stops(&mut m, C2), Some(50), "fetched");
    let mut m = crowded();
    m.tick(C0, 5 * MS);
    assert_eq!((m.s.cpu_of(t(50)), queued(&m)), (C2, [9, 1, 1]), "given");
    let mut m = crowded();
    m.tick(C2, 5 * MS);
    assert_eq!((m.s.cpu_of(t(50)), queued(&m)), (C2, [9, 1, 1]), "fetched by a balance");
}

/// Bits of masks are folded into one word: CPU 70 has that of CPU 6.
#[test]
fn a_cpu_beyond_the_first_64_fetches_what_it_may_run() {
    let mut m = busy(80, &[0, 70]);
    wait_on(&mut m, 6, Attr::DEFAULT, C0, set(&[0, 6]));
    wait_on(&mut m, 1, Attr::DEFAULT, C0, set(&[0, 70]));
    m.now += 10_000;
    m.s.prepare_block(t(1070));
    let mut found = m.run(CpuId(70), Prev::Block);
    while found.is_none() {
        found = m.s.idle_pull(CpuId(70), Nanos(m.now), &mut m.kicks).map(|t| t.0);
    }
    assert_eq!((found, m.s.queued(C0)), (Some(1), 1));
}

/// A thread on an unserved CPU is helped however briefly it has waited.
#[test]
fn an_absent_cpu_s_threads_are_taken_at_once() {
    let absent = |nice: i8| {
        let mut m = busy(2, &[0, 1]);
        (0..2).for_each(|n| m.start(n, Attr::fair(Policy::Other, nice), CpuMask::only(C0), C0));
        m.s.set_absent(C0, true, Nanos(m.now), &mut m.kicks);
        for n in 0..2 {
            m.s.set_affinity(t(n), set(&[0, 1]), Nanos(m.now), &mut m.kicks).unwrap();
        }
        m
    };
    let mut m = absent(0);
    assert_eq!(m.s.queued(C0), 2);
    m.s.prepare_block(t(1001));
    assert_eq!(m.s.schedule(C1, Nanos(m.now), Prev::Block, &mut m.kicks), Some(t(0)), "idle");
    let mut m = absent(-20);
    m.tick(C1, 5 * MS);
    assert_eq!(queued(&m), [0, 2], "busy: and however heavy they are");
}

#[test]
fn an_absent_cpu_takes_nothing() {
    let mut m = busy(2, &[0]);
    wait_on(&mut m, 0, Attr::DEFAULT, C0, set(&[0, 1]));
    m.s.set_absent(C1, true, Nanos(m.now), &mut m.kicks);
    m.now += MS;
    assert_eq!(m.s.idle_pull(C1, Nanos(m.now), &mut m.kicks), None);
    m.s.set_absent(C1, false, Nanos(m.now), &mut m.kicks);
    assert_eq!(m.s.idle_pull(C1, Nanos(m.now), &mut m.kicks), Some(t(0)));
}

/// It was asked to schedule, and what it was asked for is gone: it has to look before it sleeps.
#[test]
fn a_cpu_that_was_asked_does_not_park_though_nothing_is_left() {
    let mut m = Scene::new(2);
    m.start(0, Attr::DEFAULT, CpuMask::only(C1), C1);
    m.s.set_affinity(t(0), set(&[0, 1]), Nanos(m.now), &mut m.kicks).unwrap();
    m.now += 10_000;
    assert_eq!(m.s.idle_pull(C0, Nanos(m.now), &mut m.kicks), Some(t(0)));
    assert!(m.s.need_resched(C1) && m.s.queued(C1) == 0);
    assert_eq!((m.s.stats(C0).switches, m.s.stats(C1).switches), (1, 0));
    assert!(!m.s.idle_state(C1, Idle::Parked));
    assert_eq!(m.s.idle_pull(C1, Nanos(m.now), &mut m.kicks), None);
    assert!(!m.s.need_resched(C1), "it has looked");
    assert!(m.s.idle_state(C1, Idle::Parked));
}

/// Only the head is pushed: a less urgent one behind it that could go elsewhere waits until that CPU looks.
#[test]
fn an_idle_cpu_pulls_what_waits_behind_a_head_that_may_not_come() {
    for absent in [false, true] {
        let mut m = Scene::new(3);
        for (c, p) in [(C0, 50), (C2, 60)] {
            m.start(1000 + u32::from(c.0), Attr::fifo(p), CpuMask::only(c), c);
            let _ = m.run(c, Prev::Preempted);
        }
        m.start(1, Attr::fifo(40), set(&[0, 2]), C0);
        m.start(2, Attr::fifo(30), CpuMask::only(C0), C0);
        m.s.set_affinity(t(2), set(&[0, 1]), Nanos(m.now), &mut m.kicks).unwrap();
        assert_eq!((m.s.cpu_of(t(1)), m.s.cpu_of(t(2))), (C0, C0));
        m.s.set_absent(C1, absent, Nanos(m.now), &mut m.kicks);
        let found = m.s.idle_pull(C1, Nanos(m.now), &mut m.kicks);
        assert_eq!(found, (!absent).then_some(t(2)), "absent: {absent}");
    }
}

/// 50 µs, then twice as long each time, but no more than a millisecond.
#[test]
fn calls_in_vain_become_rare() {
    let mut m = busy(2, &[0]);
    // Two, so that one of them still waits when the slice of the running one is over.
    (0..2).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, C0, set(&[0, 1])));
    park(&mut m, &[1]);
    m.tick(C0, 1_000);
    for micros in [50, 100, 200, 400, 800, 1_000, 1_000] {
        assert_eq!(kicked(&mut m), [1], "before a pause of {micros} µs");
        park(&mut m, &[1]);
        m.tick(C0, micros * 1000 - 1);
        assert!(kicked(&mut m).is_empty(), "before {micros} µs");
        m.tick(C0, 1);
    }
    assert_eq!(m.s.stats(C0).nudges, 8);
}

/// After a call that helped, the next may come at once, and its pause is the shortest again.
#[test]
fn a_call_that_helped_may_be_followed_at_once() {
    let mut m = busy(4, &[3]);
    wait_on(&mut m, 0, Attr::DEFAULT, C3, set(&[0, 3]));
    park(&mut m, &[0]);
    for pause in [10, 60_000, 110_000] {
        m.tick(C3, pause);
        assert_eq!(kicked(&mut m), [0]);
        park(&mut m, &[0]);
    }
    m.tick(C3, 210_000);
    assert_eq!(m.s.idle_pull(C0, Nanos(m.now), &mut m.kicks), Some(t(0)));
    assert_eq!(m.block(C0), None);
    park(&mut m, &[0]);
    wait_on(&mut m, 1, Attr::DEFAULT, C3, set(&[0, 3]));
    let _ = kicked(&mut m);
    m.tick(C3, 1);
    assert_eq!(kicked(&mut m), [0], "at once");
    park(&mut m, &[0]);
    m.tick(C3, 49_999);
    assert!(kicked(&mut m).is_empty());
    m.tick(C3, 1);
    assert_eq!(kicked(&mut m), [0], "after 50 µs");
}

/// The first parked CPU after the busy one that may run what waits and is served.
#[test]
fn the_next_parked_cpu_is_called() {
    for (parked, absent, mask, called) in [
        (&[0, 2, 3][..], &[][..], &[0, 1, 2, 3][..], Some(2)),
        (&[0, 3], &[], &[0, 1, 2, 3], Some(3)),
        (&[0], &[], &[0, 1, 2, 3], Some(0)),
        (&[0, 2, 3], &[2], &[0, 1, 2, 3], Some(3)),
        (&[0, 2, 3], &[], &[0, 1], Some(0)),
        (&[2, 3], &[], &[0, 1], None),
        (&[2], &[2], &[1, 2], None),
    ] {
        let mut m = busy(4, &[1]);
        wait_on(&mut m, 0, Attr::DEFAULT, C1, set(mask));
        park(&mut m, parked);
        absent.iter().for_each(|&c| m.s.set_absent(CpuId(c), true, Nanos(m.now), &mut m.kicks));
        m.tick(C1, 1_000);
        assert_eq!(kicked(&mut m), called.into_iter().collect::<Vec<u16>>(), "{parked:?} but {absent:?}, {mask:?}");
    }
}

/// Another CPU that parks has nothing to do with the call that is on its way.
#[test]
fn a_call_is_answered_by_the_cpu_that_was_called() {
    let mut m = busy(3, &[0]);
    wait_on(&mut m, 0, Attr::DEFAULT, C0, set(&[0, 1, 2]));
    park(&mut m, &[1, 2]);
    m.tick(C0, 1_000);
    assert_eq!(kicked(&mut m), [1]);
    park(&mut m, &[2]);
    m.tick(C0, 60_000);
    assert!(kicked(&mut m).is_empty());
    assert!(m.s.idle_state(C1, Idle::Spinning));
    m.tick(C0, 60_000);
    assert!(kicked(&mut m).is_empty(), "it still looks");
    park(&mut m, &[1]);
    m.tick(C0, 60_000);
    assert_eq!(kicked(&mut m), [1]);
}

/// A call counts for the CPU that makes it: the waker's, or the busy one's if the waker has none.
#[test]
fn calls_go_by_the_pace_of_who_makes_them() {
    for (from, counts) in [(CpuId::NONE, [1, 0, 0]), (CpuId(4), [1, 0, 0]), (C0, [1, 0, 0]), (C1, [0, 1, 0])] {
        let mut m = busy(4, &[0, 1]);
        m.start(0, Attr::fair(Policy::Batch, 0), CpuMask::only(C0), C0);
        while m.current(C0) != Some(0) {
            m.now += 3 * MS;
            let _ = m.run(C0, Prev::Yield);
        }
        m.s.set_affinity(t(0), set(&[0, 3]), Nanos(m.now), &mut m.kicks).unwrap();
        let _ = m.block(C0);
        park(&mut m, &[2, 3]);
        let _ = kicked(&mut m);
        assert!(m.wake(0, from));
        assert_eq!(m.s.cpu_of(t(0)), C0);
        // CPU 0 needs ticks now, which it knows if it is the waker.
        let expected = if from == C0 { vec![3] } else { vec![0, 3] };
        assert_eq!(kicked(&mut m), expected, "from {from:?}");
        assert_eq!([C0, C1, C2].map(|c| m.s.stats(c).nudges), counts, "from {from:?}");
    }
}

/// A CPU that found something calls the next one, if there is more to do where most wait: one that polls, and one that a kick has
/// woken.
#[test]
fn a_helper_calls_the_next() {
    let all = [0, 1, 2, 3];
    for (waiting, parked, called) in [
        (&[(0, C0), (1, C0)][..], &[2, 3][..], &[2][..]),
        (&[(0, C0)], &[2, 3], &[]),
        (&[(0, C0), (1, C0)], &[], &[]),
        (&[(0, C0), (1, C0)], &[3], &[3]),
    ] {
        for is_kicked in [false, true] {
            let mut m = busy(4, &[0]);
            waiting.iter().for_each(|&(n, c)| wait_on(&mut m, n, Attr::DEFAULT, c, set(&all)));
            park(&mut m, parked);
            m.now += 10_000;
            let _ = kicked(&mut m);
            let found = match is_kicked {
                false => m.s.idle_pull(C1, Nanos(m.now), &mut m.kicks),
                true => m.s.schedule(C1, Nanos(m.now), Prev::Preempted, &mut m.kicks),
            };
            assert_eq!(found, Some(t(0)));
            assert_eq!(kicked(&mut m), called, "{waiting:?} {parked:?} {is_kicked}");
            assert_eq!(m.s.stats(C1).nudges, called.len() as u64);
        }
    }
    // CPU 0 has the longest queue left, and what waits there may run on CPU 5 only.
    for c in 0..6u16 {
        let mut m = busy(6, &[0, 1, 2, 3]);
        let longest = CpuId(c % 4);
        (0..3).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, longest, set(&[longest.0, 5])));
        for other in (0..4).map(CpuId).filter(|&o| o != longest) {
            m.start(10 + u32::from(other.0), Attr::DEFAULT, CpuMask::only(other), other);
        }
        wait_on(&mut m, 20, Attr::DEFAULT, CpuId((longest.0 + 1) % 4), set(&[0, 1, 2, 3, 4]));
        park(&mut m, &[5]);
        m.now += 10_000;
        let _ = kicked(&mut m);
        assert_eq!(m.s.idle_pull(CpuId(4), Nanos(m.now), &mut m.kicks), Some(t(20)));
        assert_eq!(kicked(&mut m), [5], "most wait on {longest:?}");
    }
}

#[test]
fn a_balance_moves_eight_at_most() {
    let mut m = busy(2, &[0, 1]);
    (0..40).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, C0, set(&[0, 1])));
    for expected in [[32, 8], [24, 16], [20, 20], [20, 20]] {
        m.tick(C0, 5 * MS);
        assert_eq!(queued(&m), expected);
    }
}

/// CPU 2 has the greatest load, but nobody waits there: from CPU 0 something can be had.
#[test]
fn a_balance_fetches_where_somebody_waits() {
    let mut m = busy(3, &[0, 1]);
    m.start(1002, Attr::fair(Policy::Other, -20), CpuMask::only(C2), C2);
    assert_eq!(m.run(C2, Prev::Preempted), Some(1002));
    (0..4).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, C0, set(&[0, 1, 2])));
    m.tick(C1, 5 * MS);
    assert_eq!(queued(&m), [2, 2, 0]);
    assert_eq!(m.s.stats(C1).migrations_in, 2);
    assert_eq!((0..4).map(|n| m.s.counts(t(n), Nanos(m.now)).migrations).sum::<u32>(), 2);
}

/// An idle CPU looks by itself; and one that runs fair threads for long is not taken from them.
#[test]
fn a_balance_gives_to_cpus_that_run_fair_threads() {
    let mut m = busy(3, &[0, 1]);
    for _ in 0..20 {
        m.tick(C0, MS / 2);
        m.tick(C1, MS / 2);
    }
    (0..4).for_each(|n| wait_on(&mut m, n, Attr::DEFAULT, C0, set(&[0, 1, 2])));
    m.tick(C0, 5 * MS);
    assert_eq!(queued(&m), [2, 2, 0]);
}

/// A CPU that gets somebody by a balance is told if it needs ticks from now on, or must choose again.
#[test]
fn who_is_given_a_thread_is_told_what_it_must_know() {
    for (runs, comes, preempts) in [(Policy::Other, Policy::Batch, false), (Policy::Idle, Policy::Other, true)] {
        let mut m = busy(2, &[0]);
        m.start(1001, Attr::fair(runs, 0), CpuMask::only(C1), C1);
        let _ = m.run(C1, Prev::Preempted);
        (0..4).for_each(|n| wait_on(&mut m, n, Attr::fair(comes, 0), C0, set(&[0, 1])));
        assert!(!m.s.tick_needed(C1));
        let _ = kicked(&mut m);
        m.tick(C0, 5 * MS);
        assert!(m.s.tick_needed(C1));
        assert_eq!((kicked(&mut m), m.s.need_resched(C1)), (vec![1], preempts), "{comes:?} while {runs:?} runs");
    }
}

/// Somebody has waited for long enough if the first has, whoever came since.
#[test]
fn who_came_later_does_not_make_the_first_wait() {
    let mut m = busy(2, &[0]);
    let began = m.now;
    wait_on(&mut m, 0, Attr::DEFAULT, C0, set(&[0, 1]));
    m.now += 2_500;
    wait_on(&mut m, 1, Attr::DEFAULT, C0, set(&[0, 1]));
    assert_eq!(m.s.idle_pull(C1, Nanos(began + 2_999), &mut m.kicks), None);
    assert_eq!(m.s.idle_pull(C1, Nanos(began + 3_000), &mut m.kicks), Some(t(0)));
}

/// A CPU that finds something without having been called does not show that calls help.
#[test]
fn what_is_found_without_a_call_does_not_count_as_help() {
    let mut m = busy(3, &[0, 2]);
    wait_on(&mut m, 5, Attr::DEFAULT, C2, set(&[0, 2]));
    wait_on(&mut m, 0, Attr::DEFAULT, C0, set(&[0, 1]));
    park(&mut m, &[1]);
    m.tick(C0, 4_000);
    assert_eq!(kicked(&mut m), [1]);
    park(&mut m, &[1]);
    assert_eq!((m.block(C0), m.block(C0)), (Some(0), Some(5)), "its own thread, then one of CPU 2");
    wait_on(&mut m, 6, Attr::DEFAULT, C0, set(&[0, 1]));
    let _ = kicked(&mut m);
    m.tick(C0, 1_000);
    assert!(kicked(&mut m).is_empty(), "the pause of 50 µs goes on");
    m.tick(C0, 50_000);
    assert_eq!(kicked(&mut m), [1]);
}

#[test]
fn a_woken_thread_that_changes_cpus_is_counted_where_it_comes() {
    let mut m = busy(3, &[0]);
    m.start(0, Attr::DEFAULT, CpuMask::only(C1), C1);
    assert_eq!(m.run(C1, Prev::Preempted), Some(0));
    m.s.set_affinity(t(0), set(&[2]), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.run(C1, Prev::Preempted), None);
    assert_eq!(m.run(C2, Prev::Preempted), Some(0));
    let _ = m.block(C2);
    m.s.set_affinity(t(0), set(&[1]), Nanos(m.now), &mut m.kicks).unwrap();
    assert!(m.wake(0, C0));
    assert_eq!([C0, C1, C2].map(|c| m.s.stats(c).migrations_in), [0, 1, 1]);
    assert_eq!([C0, C1, C2].map(|c| m.s.stats(c).wakeups), [1, 2, 0]);
    assert_eq!(m.s.counts(t(0), Nanos(m.now)).migrations, 2);
}
