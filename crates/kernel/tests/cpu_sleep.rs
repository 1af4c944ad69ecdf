//! Sleeps on clocks of CPU time.

use crate::common::{World, err, word};
use crate::cputime::{PROCESS, clock_of, read};
use abi::{Errno, nr};
use ids::ThreadIdx;

const MS: u64 = 1_000_000;

fn sleep(w: &mut World, t: ThreadIdx, clock: i32, span: u64) -> Option<isize> {
    let request = w.timespec(span);
    w.call(t, nr::CLOCK_NANOSLEEP, [clock as u32 as u64, 0, request, word(14), 0, 0])
}

#[test]
fn a_sleep_on_cpu_time_ends_by_what_others_consume() {
    let (mut w, t) = World::with_threads(2);
    for clock in [PROCESS, clock_of(&w, t[0])] {
        let before = read(&mut w, t[0], clock);
        assert_eq!(sleep(&mut w, t[1], clock, 5 * MS), None);
        w.advance(4 * MS);
        assert_eq!(w.result(t[1]), None, "clock {clock}: early");
        w.advance(3 * MS);
        assert_eq!(w.result(t[1]), Some(0), "clock {clock}");
        assert!(read(&mut w, t[0], clock) >= before + 5 * MS);
    }
}

#[test]
fn a_signal_ends_a_sleep_on_cpu_time() {
    let (mut w, t) = World::with_threads(2);
    w.handle(t[0], 10, 0);
    let clock = clock_of(&w, t[0]);
    assert_eq!(sleep(&mut w, t[1], clock, 50 * MS), None);
    w.advance(20 * MS);
    w.signal(t[0], t[1], 10);
    assert_eq!(w.result(t[1]), err(Errno::EINTR));
    assert_eq!(u64::from(w.peek(word(14) + 8)), 30 * MS, "the rest");
    // It stands in no queue any more.
    w.advance(100 * MS);
    assert_eq!(w.result(t[1]), err(Errno::EINTR));
}

#[test]
fn who_sleeps_on_the_clock_of_the_dead_sleeps_on() {
    let (mut w, t) = World::with_threads(3);
    w.handle(t[0], 10, 0);
    let clock = clock_of(&w, t[2]);
    assert_eq!(sleep(&mut w, t[1], clock, 5 * MS), None);
    w.later(t[2], nr::EXIT, [0; 6]);
    w.advance(50 * MS);
    assert_eq!(w.result(t[1]), None);
    w.signal(t[0], t[1], 10);
    assert_eq!(w.result(t[1]), err(Errno::EINTR));
}
