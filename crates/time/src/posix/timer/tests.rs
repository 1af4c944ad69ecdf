//! The rules B5 and B6 of Linux's timers, with the numbers seen on Linux.

use super::*;
use proptest::prelude::*;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

fn timer(notify: Notify) -> Timer {
    Timer::new(Base::Monotonic, notify, 0xdead_beef, 1)
}

fn signal() -> Timer {
    timer(Notify::Process { signo: 10, thread: false })
}

fn value(value: u64, interval: u64) -> ItimerValue {
    ItimerValue { value: MS(value), interval: MS(interval) }
}

/// Expires and sends to a program that handles the signal.
fn expire(t: &mut Timer) -> Sent {
    assert_eq!(t.fire(), Fired::Signal);
    t.send(true, false)
}

fn expire_ignored(t: &mut Timer) -> Sent {
    assert_eq!(t.fire(), Fired::Signal);
    t.send(true, true)
}

#[test]
fn a_new_timer_reads_zero() {
    let mut t = signal();
    assert_eq!(t.get(MS(5)), ItimerValue::default());
    assert_eq!((t.overrun(), t.status()), (0, Status::Disarmed));
}

#[test]
fn zero_disarms_and_forgets_the_interval() {
    let mut t = signal();
    assert_eq!(t.set(value(10, 3), false, MS(100)), Some(MS(110)));
    assert_eq!(t.get(MS(104)), value(6, 3));
    assert_eq!(t.set(value(0, 7), false, MS(104)), None);
    assert_eq!(t.get(MS(104)), value(0, 0));
    assert_eq!(t.fire(), Fired::Nothing);
}

#[test]
fn armed_and_due_reads_one_nanosecond_never_zero() {
    let mut t = signal();
    t.set(value(10, 0), false, MS(0));
    assert_eq!(t.get(MS(10)).value, Nanos(1));
    assert_eq!(t.get(MS(99)).value, Nanos(1));
}

#[test]
fn once_with_its_signal_pending_reads_zero() {
    let mut t = signal();
    t.set(value(10, 0), false, MS(0));
    assert_eq!(expire(&mut t), Sent::Queue);
    assert_eq!(t.get(MS(11)), value(0, 0));
    assert_eq!(t.deliver(MS(20)), Delivered::Signal { overrun: 0, rearm: None });
}

#[test]
fn ten_milliseconds_blocked_for_105_is_one_signal_with_overrun_9() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    assert_eq!(expire(&mut t), Sent::Queue);
    assert_eq!(t.fire(), Fired::Nothing, "nothing runs while its signal is on its way");
    assert_eq!(t.deliver(MS(105)), Delivered::Signal { overrun: 9, rearm: Some(MS(110)) });
    assert_eq!(t.overrun(), 9);
    assert_eq!(expire(&mut t), Sent::Queue);
    assert_eq!(t.overrun(), 9, "of the last delivered signal until the next");
    assert_eq!(t.deliver(MS(110)), Delivered::Signal { overrun: 0, rearm: Some(MS(120)) });
    assert_eq!(t.overrun(), 0);
}

/// Expiries are judged by a clock that is exact, periods are counted by one that may lag a little.
#[test]
fn a_period_that_is_over_is_not_told_again_by_a_clock_that_lags() {
    let mut t = signal();
    assert_eq!(t.set(value(10, 5), false, MS(0)), Some(MS(10)));
    assert_eq!(expire(&mut t), Sent::Queue);
    assert_eq!(t.deliver(MS(9)), Delivered::Signal { overrun: 0, rearm: Some(MS(15)) });
}

#[test]
fn three_seconds_in_the_past_with_a_millisecond_period() {
    let mut t = signal();
    let past = ItimerValue { value: MS(7_000), interval: MS(1) };
    assert_eq!(t.set(past, true, MS(10_000)), Some(MS(7_000)));
    let _ = expire(&mut t);
    assert_eq!(t.deliver(MS(10_000)), Delivered::Signal { overrun: 3_000, rearm: Some(MS(10_001)) });
}

#[test]
fn a_period_of_a_nanosecond_overruns_to_int_max() {
    let mut t = signal();
    t.set(ItimerValue { value: Nanos(1), interval: Nanos(1) }, false, MS(0));
    let _ = expire(&mut t);
    let Delivered::Signal { overrun, .. } = t.deliver(MS(3_000)) else { panic!() };
    assert_eq!(overrun, i32::MAX);
    assert_eq!(t.overrun(), i32::MAX);
}

#[test]
fn gettime_of_a_periodic_timer_with_its_signal_pending_forwards_and_loses_no_overrun() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    let _ = expire(&mut t);
    assert_eq!(t.get(MS(35)), value(5, 10));
    assert_eq!(t.get(MS(40)), value(10, 10), "in (0, interval]");
    assert_eq!(t.deliver(MS(105)), Delivered::Signal { overrun: 9, rearm: Some(MS(110)) });
}

#[test]
fn sigev_none_never_runs_but_can_be_read() {
    let mut t = timer(Notify::None { signo: 0 });
    assert_eq!(t.set(value(10, 0), false, MS(0)), None);
    assert_eq!(t.get(MS(4)), value(6, 0));
    assert_eq!(t.get(MS(10)), value(0, 0), "expired: zero");
    t.set(value(10, 10), false, MS(0));
    assert_eq!(t.get(MS(35)), value(5, 10));
    t.set(value(0, 0), false, MS(35));
    assert_eq!(t.get(MS(36)), value(0, 0));
    assert_eq!(t.fire(), Fired::Nothing);
}

#[test]
fn huge_times_become_the_end_of_time() {
    let mut t = signal();
    let huge = ItimerValue { value: TIME_MAX, interval: Nanos::ZERO };
    assert_eq!(t.set(huge, false, MS(1_000)), Some(TIME_MAX));
    assert_eq!(t.get(MS(1_000)).value, TIME_MAX - MS(1_000));
}

#[test]
fn a_setting_makes_a_pending_signal_stale() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    let _ = expire(&mut t);
    t.set(value(0, 0), false, MS(20));
    assert_eq!(t.signal(), SignalAt::Pending, "sigpending() still shows it");
    assert_eq!(t.deliver(MS(21)), Delivered::Dropped { last: false });
    assert_eq!(t.signal(), SignalAt::Nowhere);
}

#[test]
fn expired_again_after_a_setting_the_pending_signal_means_the_new_expiry() {
    let mut t = signal();
    t.set(value(10, 0), false, MS(0));
    let _ = expire(&mut t);
    t.set(value(10, 0), false, MS(20));
    assert_eq!(expire(&mut t), Sent::Nothing, "at most one queued signal per timer");
    assert_eq!(t.deliver(MS(31)), Delivered::Signal { overrun: 0, rearm: None });
}

#[test]
fn settings_reset_overruns() {
    let mut t = signal();
    t.set(value(1, 1), false, MS(0));
    let _ = expire(&mut t);
    let _ = t.deliver(MS(9));
    assert_eq!(t.overrun(), 8);
    t.set(value(1, 1), false, MS(9));
    assert_eq!(t.overrun(), 0);
}

#[test]
fn a_deleted_timer_drops_its_signal_and_goes_with_it() {
    let mut t = signal();
    t.set(value(1, 1), false, MS(0));
    let _ = expire(&mut t);
    assert_eq!(t.delete(), (Sent::Nothing, false), "the queue still holds it");
    assert_eq!(t.deliver(MS(2)), Delivered::Dropped { last: true });
    let mut t = signal();
    t.set(value(1, 1), false, MS(0));
    assert_eq!(t.delete(), (Sent::Nothing, true));
    assert_eq!(t.fire(), Fired::Nothing);
    let mut t = signal();
    t.set(value(1, 1), false, MS(0));
    let _ = expire(&mut t);
    let _ = t.delete();
    assert!(t.discarded(), "flushed with its queue");
}

#[test]
fn an_ignored_periodic_timer_is_parked_once_and_an_ignored_single_one_vanishes() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    assert_eq!(expire_ignored(&mut t), Sent::Park);
    assert_eq!(t.status(), Status::RequeuePending, "it costs nothing while ignored");
    t.set(value(10, 10), false, MS(20));
    assert_eq!(expire_ignored(&mut t), Sent::Nothing, "parked already");
    t.set(value(10, 0), false, MS(40));
    assert_eq!(expire_ignored(&mut t), Sent::Unpark, "once: nothing to come back to");
    assert_eq!(t.signal(), SignalAt::Nowhere);
    let mut once = signal();
    once.set(value(10, 0), false, MS(0));
    assert_eq!(expire_ignored(&mut once), Sent::Nothing);
    assert_eq!(once.signal(), SignalAt::Nowhere);
}

#[test]
fn a_parked_timer_comes_back_with_its_overruns() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    assert_eq!(expire_ignored(&mut t), Sent::Park);
    assert!(t.unignored(true));
    assert_eq!(t.deliver(MS(305)), Delivered::Signal { overrun: 29, rearm: Some(MS(310)) });
}

#[test]
fn a_parked_timer_whose_thread_is_gone_stays_silent() {
    let mut t = timer(Notify::Thread { signo: 10, tid: 3 });
    t.set(value(10, 10), false, MS(0));
    assert_eq!(expire_ignored(&mut t), Sent::Park);
    assert!(!t.unignored(false));
    assert_eq!(t.signal(), SignalAt::Nowhere);
}

#[test]
fn a_dead_target_gets_nothing() {
    let mut t = timer(Notify::Thread { signo: 10, tid: 3 });
    t.set(value(10, 10), false, MS(0));
    assert_eq!(t.fire(), Fired::Signal);
    assert_eq!(t.send(false, false), Sent::Nothing);
    assert_eq!(t.signal(), SignalAt::Nowhere);
}

#[test]
fn ignoring_a_pending_signal_parks_a_periodic_timers() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    let _ = expire(&mut t);
    assert!(t.flushed());
    assert_eq!(t.signal(), SignalAt::Ignored);
    let mut once = signal();
    once.set(value(10, 0), false, MS(0));
    let _ = expire(&mut once);
    assert!(!once.flushed());
    let mut gone = signal();
    gone.set(value(10, 10), false, MS(0));
    let _ = expire(&mut gone);
    let _ = gone.delete();
    assert!(!gone.flushed());
}

#[test]
fn deleting_a_parked_timer_takes_it_off_the_list() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    let _ = expire_ignored(&mut t);
    assert_eq!(t.delete(), (Sent::Unpark, true));
}

#[test]
fn handled_again_while_parked_the_signal_is_queued_from_the_list() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    let _ = expire_ignored(&mut t);
    t.set(value(10, 10), false, MS(30));
    assert_eq!(expire(&mut t), Sent::Queue);
    assert_eq!(t.signal(), SignalAt::Pending);
}

#[test]
fn relative_realtime_counts_on_the_monotonic_clock() {
    let mut t = Timer::new(Base::Realtime, Notify::DEFAULT, 0, 0);
    assert_eq!(t.base_for(false), Base::Monotonic);
    t.set(value(10, 0), false, MS(0));
    assert_eq!(t.queue_base(), Base::Monotonic);
    t.set(value(10, 0), true, MS(0));
    assert_eq!(t.queue_base(), Base::Realtime);
}

#[test]
fn a_restored_timer_goes_on_where_it_was_dumped() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    let _ = expire(&mut t);
    let _ = t.deliver(MS(35));
    let dump = t.dump();
    assert_eq!(dump.expires, Some(MS(40)));
    let mut back = signal();
    assert_eq!(back.restore(&dump), Resumed::Arm(MS(40)));
    assert_eq!(back.overrun(), 2);
    assert_eq!(back.get(MS(36)), value(4, 10));
    let _ = expire(&mut back);
    assert_eq!(back.deliver(MS(40)), Delivered::Signal { overrun: 0, rearm: Some(MS(50)) });
    let mut idle = signal();
    assert_eq!(idle.restore(&signal().dump()), Resumed::Idle);
    assert_eq!(idle.status(), Status::Disarmed);
}

#[test]
fn a_dump_with_a_signal_on_its_way_fires_again_at_once() {
    let mut t = signal();
    t.set(value(10, 10), false, MS(0));
    let _ = expire(&mut t);
    let dump = t.dump();
    assert!(dump.signal_pending);
    let mut back = signal();
    assert_eq!(back.restore(&dump), Resumed::Fire);
    let _ = expire(&mut back);
    assert_eq!(back.deliver(MS(105)), Delivered::Signal { overrun: 9, rearm: Some(MS(110)) });
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Pass(u64),
    Deliver,
    Get,
    Ignore,
    Handle,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (1u64..60).prop_map(Op::Pass),
        3 => Just(Op::Deliver),
        1 => Just(Op::Get),
        1 => Just(Op::Ignore),
        1 => Just(Op::Handle),
    ]
}

proptest! {
    /// B9: deliveries and their overruns are exactly the elapsed periods, with blocked and
    /// ignored spans, and no delivery is early.
    #[test]
    fn expiries_are_deliveries_and_overruns(
        first in 1u64..40,
        interval in 1u64..40,
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut t = signal();
        let (mut now, mut ignored, mut counted) = (0u64, false, 0u64);
        let mut armed = t.set(ItimerValue { value: Nanos(first), interval: Nanos(interval) }, false, Nanos(0));
        for op in ops {
            match op {
                Op::Pass(span) => now += span,
                Op::Get => {
                    let left = t.get(Nanos(now)).value.0;
                    prop_assert!(left >= 1 && left <= interval.max(first));
                }
                Op::Ignore => {
                    ignored = true;
                    if t.signal() == SignalAt::Pending {
                        prop_assert!(t.flushed());
                    }
                }
                Op::Handle => {
                    ignored = false;
                    if t.signal() == SignalAt::Ignored {
                        prop_assert!(t.unignored(true));
                    }
                }
                Op::Deliver if t.signal() == SignalAt::Pending => match t.deliver(Nanos(now)) {
                    Delivered::Signal { overrun, rearm } => {
                        counted += 1 + overrun as u64;
                        armed = rearm;
                        let elapsed = (now + interval - first) / interval;
                        prop_assert_eq!(counted, elapsed, "at {}", now);
                    }
                    Delivered::Dropped { .. } => prop_assert!(false, "nobody set the timer"),
                },
                Op::Deliver => {}
            }
            if armed.is_some_and(|at| at.0 <= now) {
                armed = None;
                prop_assert_eq!(t.fire(), Fired::Signal);
                let sent = t.send(true, ignored);
                prop_assert_eq!(sent, if ignored { Sent::Park } else { Sent::Queue });
            }
        }
    }
}

#[test]
fn a_dump_of_a_single_expiry_on_its_way_brings_its_signal_and_nothing_more() {
    let mut t = signal();
    t.set(value(10, 0), false, MS(0));
    let _ = expire(&mut t);
    let dump = t.dump();
    assert_eq!((dump.expires, dump.signal_pending), (None, true));
    let mut back = signal();
    assert_eq!(back.restore(&dump), Resumed::Fire);
    let _ = expire(&mut back);
    assert_eq!(back.deliver(MS(50)), Delivered::Signal { overrun: 0, rearm: None });
    assert_eq!((back.get(MS(50)), back.dump().expires), (value(0, 0), None));
}
