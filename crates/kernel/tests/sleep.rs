//! Sleeps whose ends are served together.

use crate::common::World;
use abi::nr;
use entresol_kernel::Trap;
use ids::{CpuId, ThreadIdx};

const MS: u64 = 1_000_000;

/// `n` real-time threads of one priority, on one CPU; the main thread waits for ever.
fn sleepers(n: usize) -> (World, Vec<ThreadIdx>) {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    let all: Vec<_> = (0..n).map(|_| w.spawn(main)).collect();
    w.set_priority(main, main, 50);
    for &t in &all {
        w.set_priority(main, t, 10);
    }
    assert_eq!(w.call(main, nr::PAUSE, [0; 6]), None);
    (w, all)
}

fn sleep(w: &mut World, t: ThreadIdx, nanos: u64) {
    let time = w.timespec(nanos);
    assert_eq!(w.call(t, nr::NANOSLEEP, [time, 0, 0, 0, 0, 0]), None);
}

/// The threads in the order in which they have come back from their sleeps.
fn woken(w: &World, from: usize) -> Vec<ThreadIdx> {
    w.log[from..].iter().map(|(t, result)| (*result == 0).then_some(*t).expect("a whole sleep")).collect()
}

#[test]
fn a_cpu_that_comes_late_wakes_in_the_order_of_the_deadlines() {
    let (mut w, all) = sleepers(8);
    for (i, &t) in all.iter().enumerate().rev() {
        sleep(&mut w, t, (50 + 100 * i as u64) * MS);
    }
    let before = w.log.len();
    // The host was elsewhere for a second: all are due when the timer is served at last.
    {
        let mut s = w.kernel.m.state();
        s.now += 1_000 * MS;
        s.timers.clear();
    }
    let next = w.kernel.trap(CpuId(0), Trap::Interrupt { timer: true, kick: false });
    w.follow(0, next);
    assert_eq!(woken(&w, before), all);
}

#[test]
fn each_wakes_at_its_time_and_none_before() {
    let (mut w, all) = sleepers(8);
    for (i, &t) in all.iter().enumerate().rev() {
        sleep(&mut w, t, (50 + 100 * i as u64) * MS);
    }
    let before = w.log.len();
    w.advance(50 * MS - 1);
    assert_eq!(woken(&w, before), []);
    for i in 0..all.len() {
        w.advance(1);
        assert_eq!(woken(&w, before), all[..=i]);
        w.advance(100 * MS - 1);
        assert_eq!(woken(&w, before), all[..=i]);
    }
}
