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

/// The default timer slack.
const SLACK: u64 = 50_000;

/// A CPU on which timeouts have slack, with a thread that computes and one that sleeps for 10 ms.
fn with_slack() -> (World, ThreadIdx, ThreadIdx) {
    let mut w = World::with(1, |config| config.timer_slack = true);
    let main = ThreadIdx(0);
    let sleeper = w.spawn(main);
    sleep(&mut w, sleeper, 10 * MS);
    (w, main, sleeper)
}

#[test]
fn a_timeout_interrupts_others_only_at_the_end_of_its_slack() {
    let (mut w, _, sleeper) = with_slack();
    let before = w.log.len();
    w.advance(10 * MS + SLACK - 1);
    assert_eq!(woken(&w, before), []);
    w.advance(1);
    assert_eq!(woken(&w, before), [sleeper]);
}

#[test]
fn a_real_time_thread_has_no_slack_and_its_timer_serves_those_that_may_end() {
    let (mut w, main, sleeper) = with_slack();
    let urgent = w.spawn(main);
    w.set_priority(urgent, urgent, 10);
    sleep(&mut w, urgent, 10 * MS + SLACK / 2);
    let before = w.log.len();
    w.advance(10 * MS + SLACK / 2 - 1);
    assert_eq!(woken(&w, before), []);
    w.advance(1);
    assert_eq!(w.call(urgent, nr::PAUSE, [0; 6]), None);
    assert_eq!(woken(&w, before), [urgent, sleeper]);
}

#[test]
fn an_idle_cpu_waits_no_longer_than_asked() {
    let (mut w, main, sleeper) = with_slack();
    assert_eq!(w.call(main, nr::PAUSE, [0; 6]), None);
    let before = w.log.len();
    w.advance(10 * MS - 1);
    assert_eq!(woken(&w, before), []);
    w.advance(1);
    assert_eq!(woken(&w, before), [sleeper]);
}
