//! WAIT, WAKE, REQUEUE, WAKE_OP: results, errors, order, deadlines, signals.

use crate::common::{World, err, word};
use abi::futex::*;
use abi::{Errno, SaFlags, nr};
use ids::ThreadIdx;

const PRIVATE: u32 = FUTEX_PRIVATE_FLAG;

fn wait(w: &mut World, t: ThreadIdx, addr: u64, value: u64) -> Option<isize> {
    w.futex(t, FUTEX_WAIT | PRIVATE, [addr, value, 0, 0, 0])
}

fn wake(w: &mut World, t: ThreadIdx, addr: u64, count: i32) -> Option<isize> {
    w.futex(t, FUTEX_WAKE | PRIVATE, [addr, count as u32 as u64, 0, 0, 0])
}

/// One thread and `n` that wait on `word(0)`.
fn waiting(n: usize) -> (World, ThreadIdx, Vec<ThreadIdx>) {
    let (mut w, all) = World::with_threads(n + 1);
    for &t in &all[1..] {
        assert_eq!(wait(&mut w, t, word(0), 0), None);
    }
    (w, all[0], all[1..].to_vec())
}

#[test]
fn errors_of_bad_arguments() {
    let (mut w, all) = World::with_threads(1);
    let t = all[0];
    let (odd, outside, unmapped) = (word(0) + 1, 1 << 60, 0x5000);
    let good_time = w.timespec(2_000_000_000);
    w.poke(word(5), 7);
    let rt = FUTEX_CLOCK_REALTIME;
    let table: &[(u32, [u64; 5], isize)] = &[
        (FUTEX_WAIT | PRIVATE, [odd, 0, 0, 0, 0], Errno::EINVAL.to_ret()),
        (FUTEX_WAIT | PRIVATE, [outside, 0, 0, 0, 0], Errno::EFAULT.to_ret()),
        (FUTEX_WAIT | PRIVATE, [unmapped, 0, 0, 0, 0], Errno::EFAULT.to_ret()),
        (FUTEX_WAIT | PRIVATE, [word(5), 6, 0, 0, 0], Errno::EAGAIN.to_ret()),
        (FUTEX_WAIT | PRIVATE, [word(5), 7, unmapped, 0, 0], Errno::EFAULT.to_ret()),
        // The timeout is judged before the address and the flags.
        (FUTEX_WAIT | PRIVATE, [odd, 7, unmapped, 0, 0], Errno::EFAULT.to_ret()),
        (FUTEX_WAIT | PRIVATE | rt, [word(5), 6, good_time, 0, 0], Errno::ENOSYS.to_ret()),
        (FUTEX_WAKE | PRIVATE | rt, [word(5), 1, 0, 0, 0], Errno::ENOSYS.to_ret()),
        (FUTEX_LOCK_PI | PRIVATE | rt, [word(5), 1, 0, 0, 0], Errno::ENOSYS.to_ret()),
        (FUTEX_WAIT_BITSET | PRIVATE | rt, [word(5), 6, good_time, 0, 1], Errno::EAGAIN.to_ret()),
        (FUTEX_WAIT_BITSET | PRIVATE, [odd, 0, 0, 0, 0], Errno::EINVAL.to_ret()),
        (FUTEX_WAIT_BITSET | PRIVATE, [unmapped, 0, 0, 0, 0], Errno::EINVAL.to_ret()),
        (FUTEX_WAKE_BITSET | PRIVATE, [word(5), 1, 0, 0, 0], Errno::EINVAL.to_ret()),
        (FUTEX_WAKE | PRIVATE, [odd, 1, 0, 0, 0], Errno::EINVAL.to_ret()),
        (FUTEX_WAKE | PRIVATE, [outside, 1, 0, 0, 0], Errno::EFAULT.to_ret()),
        // A private word is only an address, another must be there.
        (FUTEX_WAKE | PRIVATE, [unmapped, 1, 0, 0, 0], 0),
        (FUTEX_WAKE, [unmapped, 1, 0, 0, 0], Errno::EFAULT.to_ret()),
        (FUTEX_REQUEUE | PRIVATE, [word(5), u64::from(u32::MAX), 1, word(6), 0], Errno::EINVAL.to_ret()),
        (FUTEX_REQUEUE | PRIVATE, [word(5), 1, u64::from(u32::MAX), word(6), 0], Errno::EINVAL.to_ret()),
        (FUTEX_REQUEUE | PRIVATE, [word(5), 1, 1, odd, 0], Errno::EINVAL.to_ret()),
        (FUTEX_CMP_REQUEUE | PRIVATE, [word(5), 1, 1, word(6), 6], Errno::EAGAIN.to_ret()),
        (FUTEX_CMP_REQUEUE | PRIVATE, [word(5), 1, 1, word(6), 7], 0),
        (FUTEX_CMP_REQUEUE | PRIVATE, [unmapped, 1, 1, word(6), 7], Errno::EFAULT.to_ret()),
        (FUTEX_WAKE_OP | PRIVATE, [word(5), 1, 1, odd, 0], Errno::EINVAL.to_ret()),
        (FUTEX_WAKE_OP | PRIVATE, [word(5), 1, 1, unmapped, 0], Errno::EFAULT.to_ret()),
        (FUTEX_WAKE_OP | PRIVATE, [word(5), 1, 1, word(6), 5 << 28], Errno::ENOSYS.to_ret()),
        (FUTEX_FD | PRIVATE, [word(5), 1, 0, 0, 0], Errno::ENOSYS.to_ret()),
        (14 | PRIVATE, [word(5), 1, 0, 0, 0], Errno::ENOSYS.to_ret()),
    ];
    for (i, (op, args, expected)) in table.iter().enumerate() {
        assert_eq!(w.futex(t, *op, *args), Some(*expected), "row {i}: {op} {args:x?}");
    }
    w.poke_u64(word(9), u64::MAX);
    assert_eq!(w.futex(t, FUTEX_WAIT | PRIVATE, [word(5), 7, word(9), 0, 0]), err(Errno::EINVAL), "negative seconds");
}

#[test]
fn wakes_in_order_of_arrival_and_no_more_than_asked() {
    let (mut w, waker, t) = waiting(4);
    assert_eq!(wake(&mut w, waker, word(1), 9), Some(0));
    assert_eq!(wake(&mut w, waker, word(0), 2), Some(2));
    assert_eq!((w.result(t[0]), w.result(t[1]), w.result(t[2])), (Some(0), Some(0), None));
    // 0 and negative counts wake one.
    assert_eq!(wake(&mut w, waker, word(0), 0), Some(1));
    assert_eq!(wake(&mut w, waker, word(0), -1), Some(1));
    assert_eq!(wake(&mut w, waker, word(0), -1), Some(0));
    assert!(t.iter().all(|&t| w.result(t) == Some(0)));
}

#[test]
fn real_time_waiters_go_first_by_priority() {
    let (mut w, all) = World::with_threads(5);
    for (t, priority) in all[1..].iter().zip([0, 10, 30, 10]) {
        w.set_priority(all[0], *t, priority);
        assert_eq!(wait(&mut w, *t, word(0), 0), None);
    }
    for expected in [all[3], all[2], all[4], all[1]] {
        assert_eq!(wake(&mut w, all[0], word(0), 1), Some(1));
        assert_eq!(w.result(expected), Some(0));
    }
}

#[test]
fn bits_choose_whom_to_wake() {
    let (mut w, all) = World::with_threads(4);
    for (t, bits) in all[1..].iter().zip([1, 2, 3]) {
        assert_eq!(w.futex(*t, FUTEX_WAIT_BITSET | PRIVATE, [word(0), 0, 0, 0, bits]), None);
    }
    assert_eq!(w.futex(all[0], FUTEX_WAKE_BITSET | PRIVATE, [word(0), 9, 0, 0, 2]), Some(2));
    assert_eq!((w.result(all[1]), w.result(all[2]), w.result(all[3])), (None, Some(0), Some(0)));
}

#[test]
fn two_hundred_are_woken_in_rounds_and_nobody_twice() {
    let mut w = World::new(2);
    w.pin(ThreadIdx(0), 0);
    let main = ThreadIdx(0);
    let mut all = Vec::new();
    for _ in 0..200 {
        let t = w.spawn(main);
        w.pin(t, 1);
        all.push(t);
        w.later(t, nr::FUTEX, [word(0), u64::from(FUTEX_WAIT | PRIVATE), 0, 0, 0, 0]);
        // It waits again at once: that is another wait.
        w.later(t, nr::FUTEX, [word(0), u64::from(FUTEX_WAIT | PRIVATE), 0, 0, 0, 0]);
        w.settle();
    }
    assert_eq!(wake(&mut w, main, word(0), i32::MAX), Some(200));
    assert!(all.iter().all(|t| w.results(*t) == [0]));
    assert_eq!(wake(&mut w, main, word(0), 150), Some(150));
    assert_eq!(all.iter().filter(|t| w.results(**t).len() == 2).count(), 150);
}

#[test]
fn between_rounds_a_more_urgent_thread_gets_the_cpu() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    let urgent = w.spawn(main);
    w.later(urgent, nr::FUTEX, [word(0), u64::from(FUTEX_WAIT | PRIVATE), 0, 0, 0, 0]);
    w.later(urgent, nr::FUTEX, [word(1), u64::from(FUTEX_WAIT | PRIVATE), 0, 0, 0, 0]);
    w.set_priority(main, urgent, 50);
    assert!(w.is_waiting(urgent));
    for _ in 0..100 {
        let t = w.spawn(main);
        w.later(t, nr::FUTEX, [word(0), u64::from(FUTEX_WAIT | PRIVATE), 0, 0, 0, 0]);
        w.settle();
    }
    w.log.clear();
    assert_eq!(wake(&mut w, main, word(0), i32::MAX), Some(101));
    let place = |t| w.log.iter().position(|(u, _)| *u == t).unwrap();
    assert!(place(urgent) < place(main), "it ran before the call was done");
}

#[test]
fn requeue_wakes_some_and_moves_some() {
    for cmp in [false, true] {
        let (mut w, waker, t) = waiting(5);
        let op = if cmp { FUTEX_CMP_REQUEUE } else { FUTEX_REQUEUE };
        assert_eq!(w.futex(waker, op | PRIVATE, [word(0), 1, 2, word(1), 0]), Some(3));
        assert_eq!((w.result(t[0]), w.result(t[1])), (Some(0), None));
        // Moved: they no longer answer to the first word, but to the second, in order.
        assert_eq!(wake(&mut w, waker, word(0), 9), Some(2));
        assert_eq!((w.result(t[1]), w.result(t[3]), w.result(t[4])), (None, Some(0), Some(0)));
        assert_eq!(wake(&mut w, waker, word(1), 1), Some(1));
        assert_eq!((w.result(t[1]), w.result(t[2])), (Some(0), None));
        assert_eq!(wake(&mut w, waker, word(1), 1), Some(1));
    }
}

#[test]
fn a_moved_waiter_can_time_out_and_be_interrupted() {
    let (mut w, all) = World::with_threads(3);
    let end = w.timespec(5_000_000);
    assert_eq!(w.futex(all[1], FUTEX_WAIT | PRIVATE, [word(0), 0, end, 0, 0]), None);
    assert_eq!(wait(&mut w, all[2], word(0), 0), None);
    assert_eq!(w.futex(all[0], FUTEX_REQUEUE | PRIVATE, [word(0), 0, 9, word(1), 0]), Some(2));
    w.advance(4_999_999);
    assert_eq!(w.result(all[1]), None, "never early");
    w.advance(1);
    assert_eq!(w.result(all[1]), err(Errno::ETIMEDOUT));
    w.handle(all[0], 10, 0);
    w.signal(all[0], all[2], 10);
    assert_eq!(w.result(all[2]), err(Errno::EINTR));
    assert_eq!(wake(&mut w, all[0], word(1), 9), Some(0));
}

#[test]
fn requeue_of_two_hundred_goes_in_rounds() {
    let mut w = World::new(2);
    let main = ThreadIdx(0);
    w.pin(main, 0);
    for _ in 0..200 {
        let t = w.spawn(main);
        w.pin(t, 1);
        assert_eq!(wait(&mut w, t, word(0), 0), None);
    }
    assert_eq!(w.futex(main, FUTEX_CMP_REQUEUE | PRIVATE, [word(0), 70, i32::MAX as u64, word(1), 0]), Some(200));
    assert_eq!(wake(&mut w, main, word(0), 1), Some(0));
    assert_eq!(wake(&mut w, main, word(1), i32::MAX), Some(130));
}

#[test]
fn wake_op_changes_compares_and_wakes() {
    // op, cmp, operand, comparand, old value: new value, woken at the second word.
    let table = [
        (0, 0, 9, 5, 5u32, 9u32, true),
        (1, 1, 0xFFF, 5, 5, 4, false),
        (2, 2, 8, 6, 5, 13, true),
        (3, 3, 1, 5, 5, 4, true),
        (4, 4, 1, 0xFFF, 5, 4, true),
        (1, 5, 1, 6, 5, 6, false),
        (8 | 2, 0, 4, 5, 5, 21, true),
    ];
    for (op, cmp, oparg, cmparg, old, new, second) in table {
        let (mut w, all) = World::with_threads(4);
        w.poke(word(1), old);
        assert_eq!(wait(&mut w, all[1], word(0), 0), None);
        assert_eq!(wait(&mut w, all[2], word(1), u64::from(old)), None);
        assert_eq!(wait(&mut w, all[3], word(1), u64::from(old)), None);
        let encoded = op << 28 | cmp << 24 | oparg << 12 | cmparg;
        let woken = w.futex(all[0], FUTEX_WAKE_OP | PRIVATE, [word(0), 1, 1, word(1), encoded]);
        assert_eq!(woken, Some(1 + isize::from(second)), "op {op} cmp {cmp}");
        assert_eq!(w.peek(word(1)), new, "op {op}");
        assert_eq!((w.result(all[1]), w.result(all[2]), w.result(all[3])), (Some(0), second.then_some(0), None));
    }
}

#[test]
fn an_unknown_comparison_is_told_after_the_change() {
    let (mut w, all) = World::with_threads(1);
    assert_eq!(
        w.futex(all[0], FUTEX_WAKE_OP | PRIVATE, [word(0), 1, 1, word(1), 6 << 24 | 3 << 12]),
        err(Errno::ENOSYS)
    );
    assert_eq!(w.peek(word(1)), 3);
}

#[test]
fn wake_op_tries_again_when_somebody_interferes() {
    let (mut w, all) = World::with_threads(1);
    w.kernel.m.state().interference = Some((word(1), 40));
    assert_eq!(w.futex(all[0], FUTEX_WAKE_OP | PRIVATE, [word(0), 1, 1, word(1), 1 << 28 | 2 << 12]), Some(0));
    assert_eq!(w.peek(word(1)), 42);
}

#[test]
fn relative_and_absolute_deadlines_on_both_clocks() {
    let offset = 1_700_000_000_000_000_000;
    for (op, absolute, realtime) in [
        (FUTEX_WAIT, false, false),
        (FUTEX_WAIT_BITSET, true, false),
        (FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, true, true),
    ] {
        let (mut w, all) = World::with_threads(2);
        let base = if absolute { w.now() } else { 0 } + if realtime { offset } else { 0 };
        let end = w.timespec(base + 3_000_000);
        assert_eq!(w.futex(all[1], op | PRIVATE, [word(0), 0, end, 0, 1]), None);
        w.advance(2_999_999);
        assert_eq!(w.result(all[1]), None);
        w.advance(1);
        assert_eq!(w.result(all[1]), err(Errno::ETIMEDOUT));
        // A wait that is over leaves nothing behind.
        assert_eq!(wake(&mut w, all[0], word(0), 1), Some(0));
    }
}

#[test]
fn a_deadline_in_the_past_still_compares_first() {
    let (mut w, all) = World::with_threads(1);
    let past = w.timespec(5);
    assert_eq!(w.futex(all[0], FUTEX_WAIT_BITSET | PRIVATE, [word(0), 1, past, 0, 1]), err(Errno::EAGAIN));
    assert_eq!(w.futex(all[0], FUTEX_WAIT_BITSET | PRIVATE, [word(0), 0, past, 0, 1]), None);
    w.advance(0);
    assert_eq!(w.result(all[0]), err(Errno::ETIMEDOUT));
}

#[test]
fn signals_end_or_restart_waits_as_signal_7_says() {
    let restart = SaFlags::RESTART.0;
    // With a deadline?, SA_RESTART?: interrupted?
    for (timed, flags, interrupted) in
        [(false, 0, true), (false, restart, false), (true, 0, true), (true, restart, true)]
    {
        let (mut w, all) = World::with_threads(2);
        w.handle(all[0], 10, flags);
        let end = if timed { w.timespec(1_000_000_000) } else { 0 };
        assert_eq!(w.futex(all[1], FUTEX_WAIT | PRIVATE, [word(0), 0, end, 0, 0]), None);
        w.signal(all[0], all[1], 10);
        if interrupted {
            assert_eq!(w.result(all[1]), err(Errno::EINTR), "timed {timed} flags {flags:x}");
            assert_eq!(wake(&mut w, all[0], word(0), 1), Some(0));
        } else {
            assert_eq!(w.result(all[1]), None, "it waits again");
            assert_eq!(wake(&mut w, all[0], word(0), 1), Some(1));
            assert_eq!(w.result(all[1]), Some(0));
        }
    }
}

#[test]
fn a_blocked_signal_disturbs_nobody() {
    let (mut w, all) = World::with_threads(2);
    w.handle(all[0], 10, 0);
    w.poke_u64(word(20), 1 << 9);
    assert_eq!(w.call(all[1], nr::RT_SIGPROCMASK, [0, word(20), 0, 8, 0, 0]), Some(0));
    assert_eq!(wait(&mut w, all[1], word(0), 0), None);
    w.signal(all[0], all[1], 10);
    assert_eq!(w.result(all[1]), None);
    assert_eq!(wake(&mut w, all[0], word(0), 1), Some(1));
}

#[test]
fn a_shared_word_waits_on_the_host() {
    let (mut w, all) = World::with_threads(1);
    w.kernel.m.state().host_answers.push(word(100) as isize);
    const MAP_SHARED_ANONYMOUS: u64 = 0x21;
    let at = w.call(all[0], nr::MMAP, [0, 4096, 3, MAP_SHARED_ANONYMOUS, u64::MAX, 0]);
    assert_eq!(at, Some(word(100) as isize));
    assert_eq!(w.futex(all[0], FUTEX_WAKE, [word(100), 1, 0, 0, 0]), Some(0));
    let last = *w.kernel.m.state().host_calls.last().unwrap();
    assert_eq!((last.nr, last.args[0]), (nr::FUTEX, word(100)));
    assert_eq!(w.futex(all[0], FUTEX_WAIT, [word(100), 0, 0, 0, 0]), None);
    assert_eq!(w.waiting_on_host.len(), 1);
}
