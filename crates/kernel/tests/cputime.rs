//! CPU time: clocks, interval timers, RLIMIT_CPU, in time that is told to go on.

use crate::common::{World, err, word};
use abi::{Errno, nr};
use entresol_kernel::{Next, Times, Trap};
use ids::{CpuId, Nanos, ThreadIdx};
use time::cpu::Usage;
use time::cpu::limit::Rlimit;

const MS: u64 = 1_000_000;
pub(crate) const PROCESS: i32 = 2;
const THREAD: i32 = 3;
const SIGPROF: u64 = 27;
const SIGVTALRM: u64 = 26;
const SIGXCPU: u64 = 24;
const ITIMER_VIRTUAL: u64 = 1;
const ITIMER_PROF: u64 = 2;

/// The id of the thread's clock of CPU time.
pub(crate) fn clock_of(w: &World, t: ThreadIdx) -> i32 {
    !(w.tid(t) as i32) << 3 | 6
}

/// The reading of a clock, in nanoseconds.
pub(crate) fn read(w: &mut World, by: ThreadIdx, clock: i32) -> u64 {
    assert_eq!(w.call(by, nr::CLOCK_GETTIME, [clock as u32 as u64, word(9), 0, 0, 0, 0]), Some(0));
    u64::from(w.peek(word(9))) * 1000 * MS + u64::from(w.peek(word(9) + 8))
}

fn set_itimer(w: &mut World, by: ThreadIdx, which: u64, value: u64, interval: u64) {
    for (i, span) in [interval, value].into_iter().enumerate() {
        w.poke_u64(word(10) + 16 * i as u64, span / (1000 * MS));
        w.poke_u64(word(10) + 16 * i as u64 + 8, span % (1000 * MS) / 1000);
    }
    assert_eq!(w.call(by, nr::SETITIMER, [which, word(10), 0, 0, 0, 0]), Some(0));
}

fn set_limit(w: &mut World, by: ThreadIdx, soft: u64, hard: u64) {
    w.poke_u64(word(12), soft);
    w.poke_u64(word(12) + 8, hard);
    assert_eq!(w.call(by, nr::PRLIMIT64, [0, 0, word(12), 0, 0, 0]), Some(0));
}

/// The CPU goes on with who is next while another carrier makes the call, which begins later there.
#[test]
fn a_host_call_is_charged_with_what_its_own_carrier_consumes() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    let t = w.spawn(main);
    w.kernel.m.state().given_percent = Some(10);
    assert_eq!(w.call(t, nr::ACCEPT, [3, 0, 0, 0, 0, 0]), None);
    assert_eq!((w.on(0), w.waiting_on_host.len()), (Some(main), 1));
    let clock = clock_of(&w, t);
    let before = read(&mut w, main, clock);
    w.advance(20 * MS);
    w.kernel.change_carrier(t);
    w.advance(10 * MS);
    w.kernel.host_returned(CpuId(0), t, 7);
    w.settle();
    assert_eq!(w.result(t), Some(7));
    assert_eq!(read(&mut w, main, clock) - before, MS);
}

/// Time passes, of which the host gives `given` to the carrier that is looked at.
fn pass(w: &mut World, nanos: u64, given: u64) {
    let before = w.kernel.m.state().given.unwrap_or_default();
    w.kernel.m.state().given = Some(before + Nanos(given));
    w.advance(nanos);
}

/// One CPU, whose carrier has slept and so is known to the kernel, and whose thread has read the process's clock.
fn alone() -> (World, ThreadIdx, u64) {
    let (mut w, main) = (World::new(1), ThreadIdx(0));
    w.kernel.m.state().given = Some(Nanos::ZERO);
    sleep_for(&mut w, main, MS, 0);
    // Whatever was stolen before is settled.
    pass(&mut w, 20 * MS, 20 * MS);
    let start = read(&mut w, main, PROCESS);
    (w, main, start)
}

/// The CPU is idle for so long, in which its carrier consumes `given`.
fn sleep_for(w: &mut World, t: ThreadIdx, span: u64, given: u64) {
    let request = w.timespec(span);
    assert_eq!(w.call(t, nr::NANOSLEEP, [request, 0, 0, 0, 0, 0]), None);
    pass(w, span, given);
    assert_eq!(w.result(t), Some(0));
}

#[test]
fn what_another_carrier_consumed_in_a_host_call_stays_charged() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    w.kernel.m.state().given_percent = Some(100);
    // So that the CPU ticks, and compares.
    set_limit(&mut w, main, 1000, u64::MAX);
    let t = w.spawn(main);
    w.advance(10 * MS);
    let before = read(&mut w, main, PROCESS);
    assert_eq!(w.call(t, nr::ACCEPT, [3, 0, 0, 0, 0, 0]), None);
    w.kernel.change_carrier(t);
    w.advance(10 * MS);
    w.kernel.host_returned(CpuId(0), t, 7);
    w.settle();
    w.advance(20 * MS);
    assert_eq!(read(&mut w, main, PROCESS) - before, 40 * MS, "30 ms here and 10 ms in the call");
}

/// The thread waits for so long in the host, on the carrier of its CPU, which consumes `given`.
fn wait_for(w: &mut World, t: ThreadIdx, span: u64, given: u64) {
    assert_eq!(w.call(t, nr::ACCEPT, [3, 0, 0, 0, 0, 0]), None);
    pass(w, span, given);
    let next = w.kernel.trap(CpuId(0), Trap::HostReturn { thread: t, result: 7 });
    w.follow(0, next);
    assert_eq!(w.result(t), Some(7));
}

#[test]
fn short_waits_ask_the_host_for_its_count_now_and_then_and_a_reading_is_right() {
    const US: u64 = 1000;
    let (mut w, main, start) = alone();
    w.kernel.m.state().asked = 0;
    for _ in 0..100 {
        // A third of the work is stolen, and waits cost more than is assumed.
        pass(&mut w, 30 * US, 20 * US);
        wait_for(&mut w, main, 50 * US, 7 * US);
    }
    let asked = w.kernel.m.state().asked;
    assert!((1..10).contains(&asked), "asked {asked} times");
    pass(&mut w, MS, MS);
    assert_eq!(read(&mut w, main, PROCESS) - start, 100 * 27 * US + MS);
    assert_eq!(read(&mut w, main, PROCESS), read(&mut w, main, THREAD));
}

#[test]
fn short_idle_periods_ask_the_host_for_its_count_now_and_then_and_a_reading_is_right() {
    const US: u64 = 1000;
    // What an idle period consumes: more than is assumed, and less.
    for idle in [30, 1] {
        let (mut w, main, start) = alone();
        w.kernel.m.state().asked = 0;
        for _ in 0..100 {
            pass(&mut w, 30 * US, 20 * US);
            sleep_for(&mut w, main, 200 * US, idle * US);
        }
        let asked = w.kernel.m.state().asked;
        assert!((1..10).contains(&asked), "asked {asked} times");
        pass(&mut w, 20 * MS, 20 * MS);
        assert_eq!(read(&mut w, main, PROCESS) - start, 100 * (20 + idle) * US + 20 * MS);
        assert_eq!(read(&mut w, main, PROCESS), read(&mut w, main, THREAD));
    }
}

#[test]
fn a_long_wait_asks_the_host_for_its_count() {
    let (mut w, main, start) = alone();
    w.kernel.m.state().asked = 0;
    // What is stolen before it is taken back, too.
    pass(&mut w, 5 * MS, MS);
    wait_for(&mut w, main, 20 * MS, MS);
    assert_eq!(w.kernel.m.state().asked, 1);
    pass(&mut w, 10 * MS, 10 * MS);
    assert_eq!(read(&mut w, main, PROCESS) - start, 12 * MS);
}

#[test]
fn what_the_host_has_counted_at_the_takeover_is_not_counted_twice() {
    let (mut w, main) = (World::new(1), ThreadIdx(0));
    w.advance(3 * MS);
    let usage = Usage { utime: Nanos(4 * MS), stime: Nanos(MS) };
    let times = Times { usage, limit: Rlimit::NONE, rttime: Rlimit::NONE, itimers: None };
    w.kernel.take_over_times(CpuId(0), main, times);
    w.advance(MS);
    assert_eq!([PROCESS, THREAD].map(|clock| read(&mut w, main, clock)), [6 * MS; 2]);
}

/// A clock that was read too high stands still until it is right, and so does the time left of a timer on it.
#[test]
fn the_time_left_of_an_interval_timer_does_not_grow() {
    let (mut w, main, _) = alone();
    set_itimer(&mut w, main, ITIMER_PROF, 1000 * MS, 0);
    let mut left = 1001 * MS;
    for _ in 0..50 {
        pass(&mut w, 2 * MS / 5, MS / 10);
        assert_eq!(w.call(main, nr::GETITIMER, [ITIMER_PROF, word(10), 0, 0, 0, 0]), Some(0));
        let at = |i: u64| u64::from(w.peek(word(10) + 16 + 8 * i));
        let now = at(0) * 1000 * MS + at(1) * 1000;
        assert!(now <= left, "{now} after {left}");
        left = now;
    }
    assert!((993 * MS..=996 * MS).contains(&left), "{left} after 5 ms of 1 s");
}

/// Ticks sample user time between two comparisons with the host, which lower the precise time.
#[test]
fn user_time_never_exceeds_the_precise_time() {
    const VIRT: i32 = -7;
    const PROF: i32 = -8;
    let (mut w, main, _) = alone();
    w.spawn(main);
    let mut user = 0;
    for _ in 0..200 {
        pass(&mut w, 9 * MS, MS / 10);
        let by = w.on(0).unwrap();
        let now = read(&mut w, by, VIRT);
        let all = read(&mut w, by, PROF);
        assert!(user <= now && now <= all, "{user} {now} {all}");
        user = now;
    }
    assert!(user > 0);
}

/// The sum of what `getrusage(2)` says of the process.
fn usage(w: &mut World, by: ThreadIdx) -> u64 {
    assert_eq!(w.call(by, nr::GETRUSAGE, [0, word(16), 0, 0, 0, 0]), Some(0));
    let at = |i: u64| u64::from(w.peek(word(16) + 8 * i));
    (at(0) + at(2)) * 1000 * MS + (at(1) + at(3)) * 1000
}

#[test]
fn what_the_host_takes_while_it_says_the_usage_is_not_consumed() {
    let (mut w, main, _) = alone();
    let start = usage(&mut w, main);
    w.kernel.m.state().given_away = 4 * MS;
    pass(&mut w, 5 * MS, 5 * MS);
    assert_eq!(usage(&mut w, main) - start, 5 * MS);
    pass(&mut w, 5 * MS, 5 * MS);
    assert_eq!(usage(&mut w, main) - start, 10 * MS);
}

#[test]
fn what_was_stolen_before_a_cpu_turns_idle_is_taken_back() {
    let (mut w, main, start) = alone();
    for _ in 0..4 {
        pass(&mut w, 5 * MS, MS);
        sleep_for(&mut w, main, 10 * MS, 0);
    }
    pass(&mut w, 20 * MS, 20 * MS);
    assert_eq!(read(&mut w, main, PROCESS) - start, 24 * MS);
    assert_eq!(read(&mut w, main, PROCESS), read(&mut w, main, THREAD));
}

#[test]
fn what_an_idle_cpu_consumes_is_charged_to_who_runs_next() {
    let (mut w, main, start) = alone();
    let thread = read(&mut w, main, THREAD);
    for _ in 0..10 {
        // Looking around, going to sleep and waking up; and a sleep that is over before it has begun.
        sleep_for(&mut w, main, MS, MS / 20);
        sleep_for(&mut w, main, MS / 50, MS / 50);
    }
    pass(&mut w, 20 * MS, 20 * MS);
    assert_eq!(read(&mut w, main, PROCESS) - start, 20 * MS + 10 * (MS / 20 + MS / 50));
    assert_eq!(read(&mut w, main, THREAD) - thread, 20 * MS + 10 * (MS / 20 + MS / 50));
}

#[test]
fn a_life_shorter_than_a_tick_gives_back_what_was_stolen_of_it() {
    let (mut w, main, start) = alone();
    let t = w.spawn(main);
    let request = w.timespec(10 * MS);
    assert_eq!(w.call(main, nr::NANOSLEEP, [request, 0, 0, 0, 0, 0]), None);
    pass(&mut w, 5 * MS, MS);
    w.later(t, nr::EXIT, [0; 6]);
    w.settle();
    assert!(w.is_gone(t));
    pass(&mut w, 5 * MS, 0);
    assert_eq!(read(&mut w, main, PROCESS) - start, MS);
}

#[test]
fn a_call_whose_cpu_is_taken_over_is_charged_with_both_parts() {
    let (mut w, main, start) = alone();
    pass(&mut w, 5 * MS, MS);
    assert_eq!(w.kernel.set_aside(CpuId(0), Nanos(21 * MS)), Some(main), "of which 1 ms since the start");
    // Another carrier sits down, with a count of its own, and finds nothing to do.
    w.kernel.m.state().given = Some(Nanos(777 * MS));
    let next = w.kernel.trap(CpuId(0), Trap::Seated);
    assert!(matches!(next, Next::Idle { .. }), "{next:?}");
    w.follow(0, next);
    w.kernel.m.state().given = Some(Nanos(24 * MS));
    w.advance(30 * MS);
    w.kernel.host_returned(CpuId(0), main, 0);
    w.kernel.m.state().given = Some(Nanos(777 * MS));
    w.settle();
    pass(&mut w, 20 * MS, 20 * MS);
    assert_eq!(read(&mut w, main, PROCESS) - start, MS + 3 * MS + 20 * MS);
}

#[test]
fn the_process_has_consumed_what_its_threads_have() {
    let (mut w, t) = World::with_threads(2);
    let start = read(&mut w, t[0], PROCESS);
    w.advance(7 * MS);
    assert_eq!(read(&mut w, t[0], PROCESS) - start, 14 * MS);
    let request = w.timespec(5 * MS);
    assert_eq!(w.call(t[1], nr::NANOSLEEP, [request, 0, 0, 0, 0, 0]), None);
    w.advance(4 * MS);
    assert_eq!(read(&mut w, t[0], PROCESS) - start, 18 * MS, "a sleeper consumes nothing");
    w.advance(3 * MS);
    let other = clock_of(&w, t[1]);
    let sum = read(&mut w, t[0], THREAD) + read(&mut w, t[0], other);
    assert_eq!(read(&mut w, t[0], PROCESS), sum);
    w.later(t[1], nr::EXIT, [0; 6]);
    w.settle();
    assert_eq!(read(&mut w, t[0], PROCESS), sum, "what the dead consumed stays");
    assert_eq!(w.call(t[0], nr::CLOCK_GETTIME, [other as u32 as u64, word(9), 0, 0, 0, 0]), err(Errno::EINVAL));
}

#[test]
fn a_profiling_timer_goes_off_by_what_all_have_consumed() {
    let (mut w, t) = World::with_threads(2);
    w.handle(t[0], SIGPROF, 0);
    set_itimer(&mut w, t[0], ITIMER_PROF, 10 * MS, 10 * MS);
    w.advance(100 * MS);
    // The first comes a tick late, as on Linux.
    assert_eq!(w.handled.len(), 19, "of 200 ms");
    set_itimer(&mut w, t[0], ITIMER_PROF, 0, 0);
    w.advance(50 * MS);
    assert_eq!(w.handled.len(), 19);
}

/// Its turn would come again when a thousand others have had theirs.
#[test]
fn who_is_given_a_signal_by_its_tick_keeps_the_cpu_until_the_next() {
    for interval in [7 * MS, MS] {
        let (mut w, main) = (World::new(1), ThreadIdx(0));
        let other = w.spawn(main);
        w.handle(main, SIGPROF, 0);
        set_itimer(&mut w, main, ITIMER_PROF, interval, interval);
        let (mut switches, mut last) = (0, w.on(0));
        for _ in 0..1000 {
            let before = w.handled.len();
            w.advance(MS);
            let handled = w.handled.len() > before;
            assert!(!handled || interval == MS || w.on(0) == w.handled.last().copied());
            switches += usize::from(w.on(0) != last);
            last = w.on(0);
        }
        let clock = clock_of(&w, other);
        let reader = w.on(0).unwrap();
        let theirs = read(&mut w, reader, clock);
        assert!((400 * MS..=600 * MS).contains(&theirs), "{theirs} of a second, {switches} switches");
        assert!(switches > 100, "nobody keeps it for good: {switches}");
    }
}

#[test]
fn who_runs_takes_a_signal_that_was_meant_for_one_that_waits() {
    let (mut w, main) = (World::new(1), ThreadIdx(0));
    w.handle(main, SIGPROF, 0);
    let others = [w.spawn(main), w.spawn(main), w.spawn(main)];
    // While this one runs others are asked.
    w.poke_u64(word(12), 1 << (SIGPROF - 1));
    let blocked = others[1];
    assert_eq!(w.call(blocked, nr::RT_SIGPROCMASK, [0, word(12), 0, 8, 0, 0]), Some(0));
    set_itimer(&mut w, main, ITIMER_PROF, MS, MS);
    w.advance(3 * MS);
    let mut seen = 0;
    // In steps so short that nobody changes twice: slices end between ticks.
    for _ in 0..2_000 {
        let (before, running) = (w.handled.len(), w.on(0));
        w.advance(MS / 10);
        let handled = &w.handled[before..];
        let by_it = handled.first().is_none_or(|&t| Some(t) == running || Some(t) == w.on(0));
        assert!(running == Some(blocked) || by_it, "{handled:?} while {running:?} ran");
        seen += handled.len();
    }
    // While the one that blocks it runs, two may become one.
    assert!(seen >= 150, "{seen} of 200");
}

#[test]
fn nothing_ticks_unless_something_is_armed() {
    let (mut w, t) = World::with_threads(2);
    w.advance(5 * MS);
    assert!(w.kernel.m.state().timers.is_empty());
    w.handle(t[0], SIGPROF, 0);
    set_itimer(&mut w, t[0], ITIMER_PROF, 3000 * MS, 0);
    assert_eq!(w.kernel.m.state().timers.len(), 2, "both CPUs run threads");
    set_itimer(&mut w, t[0], ITIMER_PROF, 0, 0);
    w.advance(5 * MS);
    assert!(w.kernel.m.state().timers.is_empty());
    set_limit(&mut w, t[0], 100, u64::MAX);
    assert!(!w.kernel.m.state().timers.is_empty());
    set_limit(&mut w, t[0], u64::MAX, u64::MAX);
    w.advance(100_500 * MS);
    w.advance(5 * MS);
    assert!(
        w.kernel.m.state().timers.is_empty(),
        "a limit that was lifted is found out when it would have been reached"
    );
}

#[test]
fn a_virtual_timer_counts_user_time() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    w.handle(main, SIGVTALRM, 0);
    set_itimer(&mut w, main, ITIMER_VIRTUAL, 10 * MS, 0);
    w.advance(8 * MS);
    assert!(w.handled.is_empty());
    w.advance(5 * MS);
    assert_eq!(w.handled.len(), 1, "once");
    w.advance(50 * MS);
    assert_eq!(w.handled.len(), 1);
}

#[test]
fn the_soft_limit_moves_on_by_a_second() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    w.handle(main, SIGXCPU, 0);
    set_limit(&mut w, main, 1, 9);
    for second in 1..4u64 {
        w.advance(1000 * MS);
        w.advance(2 * MS);
        assert_eq!(w.handled.len() as u64, second);
        assert_eq!(w.call(main, nr::GETRLIMIT, [0, word(12), 0, 0, 0, 0]), Some(0));
        assert_eq!(u64::from(w.peek(word(12))), second + 1);
    }
}

#[test]
fn a_real_time_thread_must_sleep_now_and_then() {
    const RLIMIT_RTTIME: u64 = 15;
    let (mut w, t) = World::with_threads(2);
    w.handle(t[0], SIGXCPU, 0);
    w.poke_u64(word(12), 20_000);
    w.poke_u64(word(12) + 8, 3_000_000);
    assert_eq!(w.call(t[0], nr::SETRLIMIT, [RLIMIT_RTTIME, word(12), 0, 0, 0, 0]), Some(0));
    w.advance(50 * MS);
    assert!(w.handled.is_empty(), "they are no real-time threads");
    w.set_priority(t[0], t[1], 10);
    for _ in 0..5 {
        w.advance(10 * MS);
        let request = w.timespec(MS);
        w.call(t[1], nr::NANOSLEEP, [request, 0, 0, 0, 0, 0]);
        w.advance(2 * MS);
    }
    assert!(w.handled.is_empty(), "it sleeps often enough");
    w.advance(25 * MS);
    assert_eq!(w.handled, [t[1]]);
    assert_eq!(w.call(t[0], nr::GETRLIMIT, [RLIMIT_RTTIME, word(12), 0, 0, 0, 0]), Some(0));
    assert_eq!(w.peek(word(12)), 1_020_000, "a second more");
}

#[test]
fn what_the_host_takes_does_not_count_as_time_without_sleep() {
    const RLIMIT_RTTIME: u64 = 15;
    let (mut w, t) = World::with_threads(2);
    w.kernel.m.state().stolen = [(0, 0), (1, 0)].into();
    w.handle(t[0], SIGXCPU, 0);
    w.poke_u64(word(12), 20_000);
    w.poke_u64(word(12) + 8, 3_000_000);
    assert_eq!(w.call(t[0], nr::SETRLIMIT, [RLIMIT_RTTIME, word(12), 0, 0, 0, 0]), Some(0));
    w.set_priority(t[0], t[1], 10);
    for _ in 0..6 {
        w.advance(3 * MS);
        w.stall(&[0, 1], 10 * MS);
    }
    w.advance(MS);
    assert!(w.handled.is_empty(), "it has run for 19 ms of 79");
    w.advance(4 * MS);
    assert_eq!(w.handled, [t[1]]);
}

#[test]
#[should_panic(expected = "by signal 9")]
fn the_hard_limit_kills() {
    let mut w = World::new(1);
    w.handle(ThreadIdx(0), SIGXCPU, 0);
    set_limit(&mut w, ThreadIdx(0), 2, 2);
    w.advance(2002 * MS);
}

/// Two CPUs whose threads compute, and whose carriers the host counts; a limit on CPU time that they share.
fn two_under_a_limit(soft: u64, hard: u64) -> (World, Vec<ThreadIdx>) {
    let (mut w, t) = World::with_threads(2);
    w.kernel.m.state().stolen = [(0, 0), (1, 0)].into();
    w.handle(t[0], SIGXCPU, 0);
    set_limit(&mut w, t[0], soft, hard);
    w.advance(2 * MS);
    (w, t)
}

/// Until its carrier runs again nobody knows that a CPU has stood still.
#[test]
fn the_time_that_a_carrier_was_kept_waiting_reaches_no_limit() {
    let (mut w, _) = two_under_a_limit(1, 2);
    w.advance(398 * MS);
    assert!(w.handled.is_empty(), "0.8 s");
    w.stall(&[1], 190 * MS);
    assert!(w.handled.is_empty(), "0.99 s, and nothing by the CPU that stood still: {:?}", w.handled);
    w.stall(&[1], 12 * MS);
    assert_eq!(w.handled.len(), 1, "a second and a tick on each CPU at most");
    w.advance(450 * MS);
    assert_eq!(w.handled.len(), 1, "the hard limit is a tenth of a second away");
}

/// As on a host with many more programs than processors: whose tick comes first finds the other CPU's clock far ahead.
#[test]
fn both_carriers_kept_waiting_reach_no_limit() {
    let (mut w, t) = two_under_a_limit(1, 2);
    for _ in 0..8 {
        w.advance(50 * MS);
        w.stall(&[0, 1], 1500 * MS);
    }
    assert!(w.handled.is_empty(), "0.8 s of 2");
    w.advance(MS);
    let (mut threads, start) = (0, w.handled.len());
    for thread in &t {
        let clock = clock_of(&w, *thread);
        threads += read(&mut w, t[0], clock);
    }
    assert!((802 * MS..=1000 * MS).contains(&threads), "{threads}");
    w.advance(210 * MS);
    assert_eq!((start, w.handled.len()), (0, 1));
}

/// An interval timer and a sleeper go by the same time.
#[test]
fn the_time_that_a_carrier_was_kept_waiting_expires_no_timer() {
    let (mut w, t) = two_under_a_limit(1000, u64::MAX);
    w.handle(t[0], SIGPROF, 0);
    set_itimer(&mut w, t[0], ITIMER_PROF, 100 * MS, 100 * MS);
    w.stall(&[1], 95 * MS);
    assert!(w.handled.is_empty());
    w.stall(&[1], 10 * MS);
    assert_eq!(w.handled.len(), 1);
    w.stall(&[0, 1], 1000 * MS);
    w.advance(45 * MS);
    assert_eq!(w.handled.len(), 1, "195 of 201 ms");
    w.advance(6 * MS);
    assert_eq!(w.handled.len(), 2);
}

#[test]
fn what_the_host_gave_to_others_is_taken_back() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    // So that the CPU ticks.
    set_limit(&mut w, main, 1000, u64::MAX);
    w.kernel.m.state().given_percent = Some(40);
    w.advance(2 * MS);
    let before = read(&mut w, main, PROCESS);
    w.advance(100 * MS);
    let used = read(&mut w, main, PROCESS) - before;
    assert!(used.abs_diff(40 * MS) <= MS, "{used}");
    assert!(read(&mut w, main, PROCESS) >= read(&mut w, main, THREAD));
}

#[test]
fn a_clock_that_was_read_stands_still_rather_than_go_back() {
    let (mut w, t) = World::with_threads(2);
    set_limit(&mut w, t[0], 1000, u64::MAX);
    w.kernel.m.state().given_percent = Some(30);
    let (mut last, start) = ([0; 3], w.now());
    for _ in 0..400 {
        // Not in step with the ticks.
        w.advance(MS / 3 + 11);
        let other = clock_of(&w, t[1]);
        let now = [PROCESS, THREAD, other].map(|clock| read(&mut w, t[0], clock));
        assert!(now.iter().zip(&last).all(|(now, last)| now >= last), "{now:?} after {last:?}");
        assert!(now[0] >= now[1] + now[2], "{now:?}");
        last = now;
    }
    let given = (w.now() - start) / 100 * 30;
    assert!(last[1].abs_diff(given) <= 3 * MS, "{} of {given}", last[1]);
}
