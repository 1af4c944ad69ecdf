//! Choices that somebody else makes: all threads that could run are offered, and the one that is chosen runs.

use crate::scene::{C0, Scene, t};
use entresol_sched::{Attr, Electorate, Prev};
use ids::{CpuMask, Nanos, ThreadIdx};

/// Chooses the n-th in the order of slots, and remembers whom it was offered.
struct Choose {
    nth: usize,
    offered: Vec<u32>,
}

impl Electorate for Choose {
    fn offer(&mut self, t: ThreadIdx) {
        self.offered.push(t.0);
    }

    fn choose(&mut self) -> ThreadIdx {
        self.offered.sort_unstable();
        ThreadIdx(self.offered[self.nth % self.offered.len()])
    }
}

/// The thread that runs next, and those that could have.
fn elect(m: &mut Scene, prev: Prev, nth: usize) -> (Option<u32>, Vec<u32>) {
    let mut choose = Choose { nth, offered: vec![] };
    m.now += 1000;
    let (next, _) = m.s.at(C0).elect(Nanos(m.now), prev, &mut m.kicks, &mut choose);
    assert_eq!(m.s.need_resched(C0), next.is_some(), "its next trap comes here again");
    m.s.audit(|_, _, _| {}).unwrap();
    (next.map(|t| t.0), choose.offered)
}

#[test]
fn all_that_could_run_are_offered_and_the_chosen_one_runs() {
    let mut m = Scene::new(1);
    (0..40).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::first(1), C0));
    let all: Vec<u32> = (0..40).collect();
    assert_eq!(elect(&mut m, Prev::Preempted, 17), (Some(17), all.clone()));
    // The running thread is one of them.
    assert_eq!(elect(&mut m, Prev::Preempted, 17), (Some(17), all.clone()));
    assert_eq!(elect(&mut m, Prev::Yield, 3), (Some(3), all.clone()));
    // One that waits is not, until it is woken.
    m.s.prepare_block(t(3));
    let (next, offered) = elect(&mut m, Prev::Block, 3);
    assert_eq!((next, offered.len(), offered.contains(&3)), (Some(4), 39, false));
    assert!(m.wake(3, C0));
    assert_eq!(elect(&mut m, Prev::Preempted, 3), (Some(3), all));
    // Nor one that has ended.
    let (next, offered) = elect(&mut m, Prev::Exit, 0);
    assert_eq!((next, offered.contains(&3)), (Some(0), false));
}

#[test]
fn random_choices_leave_a_sound_queue_until_none_is_left() {
    let mut m = Scene::new(1);
    (0..50).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::first(1), C0));
    let mut seed = 1usize;
    let mut prev = Prev::Preempted;
    for left in (1..=50).rev() {
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (next, offered) = elect(&mut m, prev, seed >> 33);
            assert_eq!((next.is_some(), offered.len()), (true, left));
            prev = Prev::Preempted;
        }
        prev = Prev::Exit;
    }
    assert_eq!(elect(&mut m, Prev::Exit, 0), (None, vec![]));
}

#[test]
fn real_time_threads_come_first() {
    let mut m = Scene::new(1);
    (0..3).for_each(|n| m.start(n, Attr::DEFAULT, CpuMask::first(1), C0));
    m.start(7, Attr::fifo(5), CpuMask::first(1), C0);
    assert_eq!(elect(&mut m, Prev::Preempted, 1), (Some(7), vec![]));
    m.s.prepare_block(t(7));
    assert_eq!(elect(&mut m, Prev::Block, 1), (Some(1), vec![0, 1, 2]));
}
