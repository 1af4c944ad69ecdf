//! Where real-time and deadline threads go: the choice of a CPU at a wake-up, pulls over several overloaded CPUs, and
//! machines of more than 64 CPUs.

use crate::scene::{C0, C1, MS, Scene, t};
use entresol_sched::{Attr, DeadlineParams, Prev, Urgency};
use ids::{CpuId, CpuMask, Nanos};

fn set(cpus: &[u16]) -> CpuMask {
    let mut m = CpuMask::empty();
    cpus.iter().for_each(|&c| m.insert(CpuId(c)));
    m
}

/// CPU `cpu` runs a thread 1000 + n of this priority, 0 is a fair one, that may run on `mask`.
fn runs(m: &mut Scene, cpu: CpuId, priority: u8, mask: &CpuMask) {
    let attr = if priority == 0 { Attr::DEFAULT } else { Attr::fifo(priority) };
    let n = 1000 + u32::from(cpu.0);
    m.start(n, attr, CpuMask::only(cpu), cpu);
    assert_eq!(m.run(cpu, Prev::Preempted), Some(n));
    m.s.set_affinity(t(n), mask.clone(), Nanos(m.now), &mut m.kicks).unwrap();
}

/// Thread `n` waits; it was on `last` and may run on all of `mask`.
fn sleeps(m: &mut Scene, n: u32, priority: u8, last: CpuId, mask: CpuMask) {
    m.start(n, Attr::fifo(priority), CpuMask::only(last), last);
    assert_eq!(m.run(last, Prev::Preempted), Some(n));
    m.s.set_affinity(t(n), mask, Nanos(m.now), &mut m.kicks).unwrap();
    let _ = m.block(last);
}

/// A FIFO thread of priority 30 that was on CPU 0; priorities that run on CPUs 0, 1 and 2 (255: nothing does).
#[test]
fn a_woken_real_time_thread_chooses_by_what_runs() {
    const IDLE: u8 = 255;
    for (here, pinned, there, third, mask, from, expected) in [
        // Of two CPUs that run fair threads the waker's, if it is allowed; else the last.
        (0, true, 0, 0, &[0, 1, 2][..], 1, &[1][..]),
        (0, true, 0, 0, &[0, 2], 1, &[0]),
        (0, true, 10, 0, &[0, 1, 2], 1, &[0]),
        (0, true, IDLE, 0, &[0, 1, 2], 1, &[0]),
        (IDLE, true, 0, 0, &[0, 1, 2], 1, &[0]),
        // A thread that can go elsewhere makes way; one that cannot makes way only where nothing less urgent runs.
        (20, false, 0, 0, &[0, 1, 2], 1, &[0]),
        (20, true, 0, 0, &[0, 1, 2], 2, &[2]),
        (20, true, 0, 0, &[0, 1, 2], 1, &[1]),
        (20, true, 25, 25, &[0, 1, 2], 1, &[0]),
        (20, true, 20, 20, &[0, 1, 2], 1, &[0]),
        (20, true, 10, 15, &[0, 1, 2], 2, &[1]),
        // An equal is not preempted.
        (30, false, 29, 28, &[0, 1, 2], 1, &[2]),
        (30, false, 30, 31, &[0, 1, 2], 1, &[0]),
        (40, true, 50, 29, &[0, 1], 1, &[0]),
        // It may not go back.
        (0, true, 40, 40, &[1, 2], 0, &[1, 2]),
        (0, true, 40, 20, &[1, 2], 0, &[2]),
    ] {
        let mut m = Scene::new(3);
        sleeps(&mut m, 7, 30, C0, set(mask));
        for (c, p) in [(0, here), (1, there), (2, third)].into_iter().filter(|&(_, p)| p != IDLE) {
            let may = if c == 0 && !pinned { set(&[0, 1, 2]) } else { CpuMask::only(CpuId(c)) };
            runs(&mut m, CpuId(c), p, &may);
        }
        let pushes = |m: &Scene| (0..3).map(|c| m.s.stats(CpuId(c)).pushes).sum::<u64>();
        let before = pushes(&m);
        assert!(m.wake(7, CpuId(from)));
        assert_eq!(pushes(&m), before, "it goes there by itself: {here} {there} {third}");
        let found = m.s.cpu_of(t(7)).0;
        assert!(expected.contains(&found), "{found}: {here} {there} {third} {mask:?}");
    }
}

/// The CPU that it was on, else the waker's, else any: where they are equally good, on both sides of a word's end.
#[test]
fn of_equally_good_cpus_the_nearest_is_chosen() {
    let (near, far, other) = (CpuId(70), CpuId(129), CpuId(3));
    for (last, waker, third, from, expected) in [
        (10, 10, 10, far, &[70][..]),
        (20, 10, 10, far, &[129]),
        (20, 10, 10, CpuId(5), &[3, 129]),
        (20, 15, 10, far, &[3]),
        (20, 10, 10, CpuId::NONE, &[3, 129]),
        (20, 10, 10, CpuId(130), &[3, 129]),
    ] {
        let mut m = Scene::new(130);
        sleeps(&mut m, 7, 30, near, set(&[3, 70, 129]));
        for (c, p) in [(near, last), (far, waker), (other, third)] {
            runs(&mut m, c, p, &CpuMask::only(c));
        }
        assert!(m.wake(7, from));
        let found = m.s.cpu_of(t(7)).0;
        assert!(expected.contains(&found), "{found} from {from:?}, {last} {waker} {third}");
    }
    // The first CPU that is none, just behind a word's end.
    let mut m = Scene::new(64);
    sleeps(&mut m, 7, 30, C0, set(&[0, 63]));
    runs(&mut m, C0, 40, &CpuMask::only(C0));
    assert!(m.wake(7, CpuId(64)));
    assert_eq!(m.s.cpu_of(t(7)), CpuId(63));
}

/// Each CPU runs priority 50, and these wait on the three others, going round from CPU `c`.
#[test]
fn a_pull_goes_round_and_ends_with_the_best() {
    for (waiting, pulls, left) in [
        ([20, 30, 25], 2, [0, 0, 1]),
        ([30, 20, 25], 1, [0, 1, 1]),
        ([20, 25, 30], 3, [0, 0, 0]),
        ([20, 0, 30], 2, [0, 0, 0]),
        ([0, 0, 30], 1, [0, 0, 0]),
        ([30, 0, 0], 1, [0, 0, 0]),
    ] {
        for c in 0..4u16 {
            let mut m = Scene::new(4);
            (0..4).for_each(|c| runs(&mut m, CpuId(c), 50, &CpuMask::only(CpuId(c))));
            let at = |distance: usize| CpuId((c + 1 + distance as u16) % 4);
            for (d, &p) in waiting.iter().enumerate().filter(|&(_, &p)| p != 0) {
                m.start(u32::from(p), Attr::fifo(p), CpuMask::only(at(d)), at(d));
                m.s.set_affinity(t(p.into()), set(&[0, 1, 2, 3]), Nanos(m.now), &mut m.kicks).unwrap();
            }
            m.s.prepare_block(t(1000 + u32::from(c)));
            assert_eq!(m.run(CpuId(c), Prev::Block), Some(30), "CPU {c}, {waiting:?}");
            assert_eq!([0, 1, 2].map(|d| m.s.queued(at(d))), left, "CPU {c}, {waiting:?}");
            assert_eq!((m.s.stats(CpuId(c)).pulls, m.s.queued(CpuId(c))), (pulls, pulls as u32 - 1));
        }
    }
}

/// A pull that finds a thread behind the head of another CPU may push it to where it can run.
#[test]
fn what_was_behind_the_head_is_pushed_after_a_pull() {
    let mut m = Scene::new(3);
    (0..3).for_each(|c| runs(&mut m, CpuId(c), 50, &CpuMask::only(CpuId(c))));
    m.start(1, Attr::fifo(30), CpuMask::only(C0), C0);
    m.start(2, Attr::fifo(20), CpuMask::only(C0), C0);
    m.s.set_affinity(t(1), set(&[0, 1]), Nanos(m.now), &mut m.kicks).unwrap();
    m.s.set_affinity(t(2), set(&[0, 2]), Nanos(m.now), &mut m.kicks).unwrap();
    // CPU 2 runs something less urgent now, but the head may not go there.
    m.s.set_attr(t(1002), &Attr::fifo(10), Nanos(m.now), &mut m.kicks).unwrap();
    assert_eq!(m.s.cpu_of(t(2)), C0);
    m.s.prepare_block(t(1001));
    assert_eq!(m.run(C1, Prev::Block), Some(1));
    assert_eq!((m.s.cpu_of(t(2)), m.s.need_resched(CpuId(2))), (CpuId(2), true));
}

/// An equal deadline elsewhere is no better than where it was.
#[test]
fn a_deadline_thread_goes_to_a_later_deadline_only() {
    const T: u64 = 100 * MS;
    for (other, moves) in [(20 * MS, false), (20 * MS + 1, true), (20 * MS - 1, false)] {
        let mut m = Scene::new(2);
        let by = |deadline: u64| {
            Attr::deadline(DeadlineParams { runtime: Nanos(MS), deadline: Nanos(deadline), period: Nanos(0) })
        };
        m.start(0, Attr::DEFAULT, set(&[0, 1]), C0);
        m.start(1, Attr::DEFAULT, set(&[0, 1]), C1);
        m.start(2, Attr::DEFAULT, set(&[0, 1]), C0);
        m.settle();
        let mut make = |n: u32, attr: &Attr| {
            m.s.set_attr(t(n), attr, Nanos(T), &mut m.kicks).unwrap();
            while let Some(c) = [C0, C1].into_iter().find(|&c| m.s.need_resched(c)) {
                let _ = m.s.schedule(c, Nanos(T), Prev::Preempted, &mut m.kicks);
            }
        };
        make(0, &by(10 * MS));
        make(1, &by(other));
        let (first, second) = (m.s.cpu_of(t(0)), m.s.cpu_of(t(1)));
        assert_ne!(first, second);
        make(2, &by(20 * MS));
        let runs = m.s.current(second) == Some(t(2));
        assert_eq!(runs, moves, "against {other}");
    }
}

/// Deadlines that others have lent are as good as one's own, but go with the mask: to the latest one that it may preempt.
#[test]
fn an_inherited_deadline_goes_to_the_latest_where_it_may() {
    for (mask, own, expected) in [
        (&[0, 1, 2][..], 15, 2),
        (&[0, 1], 15, 1),
        (&[0, 1], 25, 0),
        (&[0, 2], 30, 0),
        (&[0, 1, 2], 25, 2),
        // Even from its own CPU nobody is driven out who has no other.
        (&[0, 1, 2], 5, 2),
    ] {
        let mut m = Scene::new(3);
        let lend = |m: &mut Scene, n: u32, at: u64| {
            let by = Urgency::Deadline(core::cmp::Reverse(Nanos(at * MS)));
            m.s.set_boost(t(n), Some(by), Nanos(m.now), &mut m.kicks);
        };
        m.start(7, Attr::DEFAULT, CpuMask::only(C0), C0);
        assert_eq!(m.run(C0, Prev::Preempted), Some(7));
        m.s.set_affinity(t(7), set(mask), Nanos(m.now), &mut m.kicks).unwrap();
        assert_eq!(m.block(C0), None);
        lend(&mut m, 7, own);
        for (c, at) in [(0, 10), (1, 20), (2, 30)] {
            m.start(c, Attr::DEFAULT, CpuMask::only(CpuId(c as u16)), CpuId(c as u16));
            lend(&mut m, c, at);
            assert_eq!(m.run(CpuId(c as u16), Prev::Preempted), Some(c));
        }
        assert!(m.wake(7, C0));
        assert_eq!(m.s.cpu_of(t(7)), CpuId(expected), "{own} on {mask:?}");
    }
}
