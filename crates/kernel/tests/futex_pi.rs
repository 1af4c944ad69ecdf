//! Priority inheritance: the word, hand-over, chains, death of an owner, condition variables.

use crate::common::{World, err, word};
use abi::futex::*;
use abi::{Errno, nr};
use ids::{RtPriority, ThreadIdx};
use sched::Urgency;

const PRIVATE: u32 = FUTEX_PRIVATE_FLAG;

fn lock(w: &mut World, t: ThreadIdx, addr: u64) -> Option<isize> {
    w.futex(t, FUTEX_LOCK_PI | PRIVATE, [addr, 0, 0, 0, 0])
}

fn trylock(w: &mut World, t: ThreadIdx, addr: u64) -> Option<isize> {
    w.futex(t, FUTEX_TRYLOCK_PI | PRIVATE, [addr, 0, 0, 0, 0])
}

fn unlock(w: &mut World, t: ThreadIdx, addr: u64) -> Option<isize> {
    w.futex(t, FUTEX_UNLOCK_PI | PRIVATE, [addr, 0, 0, 0, 0])
}

fn rt(n: u8) -> Urgency {
    Urgency::Rt(RtPriority(n))
}

fn urgency(w: &World, t: ThreadIdx) -> Urgency {
    w.kernel.sched.urgency(t)
}

#[test]
fn a_free_lock_is_taken_in_the_word() {
    let (mut w, t) = World::with_threads(2);
    let (a, b) = (w.tid(t[0]), w.tid(t[1]));
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.peek(word(0)), a);
    assert_eq!(lock(&mut w, t[0], word(0)), err(Errno::EDEADLK));
    assert_eq!(trylock(&mut w, t[0], word(0)), err(Errno::EDEADLK));
    assert_eq!(unlock(&mut w, t[1], word(0)), err(Errno::EPERM));
    assert_eq!(trylock(&mut w, t[1], word(0)), err(Errno::EAGAIN));
    assert_eq!(w.peek(word(0)), a | FUTEX_WAITERS, "as Linux leaves it");
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.peek(word(0)), 0);
    // Left by somebody who died: the bit stays for the program to see.
    w.poke(word(0), FUTEX_OWNER_DIED);
    assert_eq!(trylock(&mut w, t[1], word(0)), Some(0));
    assert_eq!(w.peek(word(0)), b | FUTEX_OWNER_DIED);
    assert_eq!(unlock(&mut w, t[1], word(0)), Some(0));
    assert_eq!(w.peek(word(0)), 0);
}

#[test]
fn errors() {
    let (mut w, t) = World::with_threads(2);
    assert_eq!(lock(&mut w, t[0], word(0) + 2), err(Errno::EINVAL));
    assert_eq!(lock(&mut w, t[0], 0x5000), err(Errno::EFAULT));
    assert_eq!(unlock(&mut w, t[0], 0x5000), err(Errno::EFAULT));
    w.poke(word(0), 4_000_000);
    assert_eq!(lock(&mut w, t[0], word(0)), err(Errno::ESRCH));
    assert_eq!(w.peek(word(0)), 4_000_000 | FUTEX_WAITERS);
    assert_eq!(unlock(&mut w, t[0], word(0)), err(Errno::EPERM));
    // Waiters without inheritance are not affected.
    let other = w.tid(t[1]);
    w.poke(word(1), 77);
    assert_eq!(w.futex(t[1], FUTEX_WAIT | PRIVATE, [word(1), 77, 0, 0, 0]), None);
    assert_eq!(lock(&mut w, t[0], word(1)), err(Errno::EINVAL));
    w.poke(word(1), w.tid(t[0]));
    assert_eq!(unlock(&mut w, t[0], word(1)), err(Errno::EINVAL));
    assert_ne!(other, 0);
}

#[test]
fn plain_calls_keep_off_waiters_with_inheritance() {
    let (mut w, t) = World::with_threads(2);
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(lock(&mut w, t[1], word(0)), None);
    let cases: &[(u32, [u64; 5])] = &[
        (FUTEX_WAKE, [word(0), 1, 0, 0, 0]),
        (FUTEX_REQUEUE, [word(0), 1, 1, word(1), 0]),
        (FUTEX_WAKE_OP, [word(0), 1, 1, word(1), 0]),
    ];
    for (op, args) in cases {
        assert_eq!(w.futex(t[0], op | PRIVATE, *args), err(Errno::EINVAL));
    }
    assert_eq!(w.result(t[1]), None);
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.result(t[1]), Some(0));
}

#[test]
fn the_lock_goes_to_the_most_urgent_then_to_the_first() {
    let (mut w, t) = World::with_threads(5);
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    for (i, priority) in [(1, 0), (2, 10), (3, 20), (4, 10)] {
        w.set_priority(t[0], t[i], priority);
        assert_eq!(lock(&mut w, t[i], word(0)), None);
    }
    assert_eq!(urgency(&w, t[0]), rt(20));
    let mut owner = t[0];
    for i in [3, 2, 4, 1] {
        assert_eq!(unlock(&mut w, owner, word(0)), Some(0));
        assert_eq!(w.result(t[i]), Some(0), "thread {i}");
        assert_eq!(w.peek(word(0)), w.tid(t[i]) | FUTEX_WAITERS);
        owner = t[i];
    }
    assert_eq!(urgency(&w, t[0]), Urgency::Fair);
    assert_eq!(unlock(&mut w, owner, word(0)), Some(0));
    assert_eq!(w.peek(word(0)), 0);
}

#[test]
fn a_meddled_word_is_noticed() {
    let (mut w, t) = World::with_threads(3);
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(lock(&mut w, t[1], word(0)), None);
    w.poke(word(0), w.tid(t[2]) | FUTEX_WAITERS);
    assert_eq!(unlock(&mut w, t[2], word(0)), err(Errno::EINVAL), "it is not the owner we know");
    assert_eq!(unlock(&mut w, t[0], word(0)), err(Errno::EPERM));
    w.poke(word(0), 123_456 | FUTEX_WAITERS);
    assert_eq!(lock(&mut w, t[2], word(0)), err(Errno::EINVAL));
    w.poke(word(0), w.tid(t[0]) | FUTEX_WAITERS);
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.result(t[1]), Some(0));
}

/// `t[i]` owns `word(i)` and waits for `word(i + 1)`, for three locks; `t[3]` owns the last.
fn chain(n: usize) -> (World, Vec<ThreadIdx>) {
    let (mut w, t) = World::with_threads(n + 2);
    for (i, &t) in t.iter().enumerate().take(n + 1) {
        assert_eq!(lock(&mut w, t, word(i as u64)), Some(0));
    }
    for (i, &t) in t.iter().enumerate().take(n) {
        assert_eq!(lock(&mut w, t, word(i as u64 + 1)), None);
    }
    (w, t)
}

#[test]
fn urgency_runs_along_a_chain_of_three_and_back() {
    let (mut w, t) = chain(3);
    let high = t[4];
    w.set_priority(high, high, 40);
    let end = w.timespec(1_700_000_000_000_000_000 + w.now() + 1_000_000);
    assert_eq!(w.futex(high, FUTEX_LOCK_PI | PRIVATE, [word(0), 0, end, 0, 0]), None);
    assert!((0..4).all(|i| urgency(&w, t[i]) == rt(40)));
    // The deadline takes it back from all of them.
    w.advance(1_000_000);
    assert_eq!(w.result(high), err(Errno::ETIMEDOUT));
    assert!((0..4).all(|i| urgency(&w, t[i]) == Urgency::Fair));
    // Again, and resolve it from the end.
    assert_eq!(lock(&mut w, high, word(0)), None);
    for i in (1..=3).rev() {
        assert_eq!(urgency(&w, t[i]), rt(40));
        assert_eq!(unlock(&mut w, t[i], word(i as u64)), Some(0));
        assert_eq!(w.result(t[i - 1]), Some(0));
        assert_eq!(urgency(&w, t[i]), Urgency::Fair);
    }
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.result(high), Some(0));
    assert_eq!(urgency(&w, t[0]), Urgency::Fair);
}

#[test]
fn the_most_urgent_over_all_locks_counts() {
    let (mut w, t) = World::with_threads(4);
    for i in 0..3 {
        assert_eq!(lock(&mut w, t[0], word(i)), Some(0));
    }
    for (i, priority) in [(1, 10), (2, 30), (3, 20)] {
        w.set_priority(t[0], t[i], priority);
        assert_eq!(lock(&mut w, t[i], word(i as u64 - 1)), None);
    }
    assert_eq!(urgency(&w, t[0]), rt(30));
    assert_eq!(unlock(&mut w, t[0], word(1)), Some(0));
    assert_eq!(urgency(&w, t[0]), rt(20));
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(urgency(&w, t[0]), rt(20));
    assert_eq!(unlock(&mut w, t[0], word(2)), Some(0));
    assert_eq!(urgency(&w, t[0]), Urgency::Fair);
}

#[test]
fn a_change_of_a_waiters_priority_is_followed() {
    let (mut w, t) = chain(2);
    let other = t[3];
    w.set_priority(other, t[0], 25);
    assert!((0..3).all(|i| urgency(&w, t[i]) == rt(25)));
    w.set_priority(other, t[0], 5);
    assert!((0..3).all(|i| urgency(&w, t[i]) == rt(5)));
    w.set_priority(other, t[1], 15);
    assert_eq!((urgency(&w, t[1]), urgency(&w, t[2])), (rt(15), rt(15)));
    w.set_priority(other, t[0], 0);
    w.set_priority(other, t[1], 0);
    assert!((0..3).all(|i| urgency(&w, t[i]) == Urgency::Fair));
}

#[test]
fn a_change_of_priority_changes_who_is_next() {
    let (mut w, t) = World::with_threads(3);
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(lock(&mut w, t[1], word(0)), None);
    assert_eq!(lock(&mut w, t[2], word(0)), None);
    w.set_priority(t[0], t[2], 3);
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!((w.result(t[1]), w.result(t[2])), (None, Some(0)));
}

#[test]
fn a_circle_is_refused() {
    let (mut w, t) = chain(3);
    assert_eq!(lock(&mut w, t[3], word(0)), err(Errno::EDEADLK));
    assert_eq!(urgency(&w, t[3]), Urgency::Fair);
    assert_eq!(unlock(&mut w, t[3], word(3)), Some(0));
    assert_eq!(w.result(t[2]), Some(0));
}

#[test]
fn inversion_is_resolved_on_one_cpu() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    let (low, middle, high) = (w.spawn(main), w.spawn(main), w.spawn(main));
    // The main thread stands aside so that it decides nothing.
    w.set_priority(main, main, 99);
    assert_eq!(w.futex(main, FUTEX_WAIT | PRIVATE, [word(9), 0, 0, 0, 0]), None);
    w.set_priority(low, low, 1);
    assert_eq!(lock(&mut w, low, word(0)), Some(0));
    w.later(high, nr::FUTEX, [word(0), u64::from(FUTEX_LOCK_PI | PRIVATE), 0, 0, 0, 0]);
    w.set_priority(low, high, 30);
    assert!(w.is_waiting(high));
    assert_eq!(urgency(&w, low), rt(30));
    w.set_priority(low, middle, 20);
    assert_eq!(w.on(0), Some(low), "the middle one does not get in between");
    assert_eq!(unlock(&mut w, low, word(0)), None, "the high one runs at once");
    assert_eq!(w.on(0), Some(high));
    assert_eq!(w.result(high), Some(0));
}

#[test]
fn a_signal_makes_the_wait_start_over() {
    let (mut w, t) = World::with_threads(2);
    w.handle(t[0], 10, 0);
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(lock(&mut w, t[1], word(0)), None);
    w.signal(t[0], t[1], 10);
    assert_eq!(w.result(t[1]), None, "no EINTR, whatever the handler's flags");
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.result(t[1]), Some(0));
}

#[test]
fn lock_pi2_names_its_clock() {
    let (mut w, t) = World::with_threads(3);
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    let end = w.timespec(w.now() + 1000);
    assert_eq!(w.futex(t[1], FUTEX_LOCK_PI2 | PRIVATE, [word(0), 0, end, 0, 0]), None);
    let end = w.timespec(1_700_000_000_000_000_000 + w.now() + 2000);
    assert_eq!(w.futex(t[2], FUTEX_LOCK_PI2 | PRIVATE | FUTEX_CLOCK_REALTIME, [word(0), 0, end, 0, 0]), None);
    w.advance(1000);
    assert_eq!((w.result(t[1]), w.result(t[2])), (err(Errno::ETIMEDOUT), None));
    w.advance(1000);
    assert_eq!(w.result(t[2]), err(Errno::ETIMEDOUT));
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.peek(word(0)), 0);
}

#[test]
fn a_dead_owners_locks_go_to_those_who_wait() {
    let (mut w, t) = World::with_threads(4);
    for i in 0..3 {
        assert_eq!(lock(&mut w, t[3], word(i)), Some(0));
    }
    assert_eq!(lock(&mut w, t[0], word(0)), None);
    assert_eq!(lock(&mut w, t[1], word(1)), None);
    let dead = w.tid(t[3]);
    assert_eq!(w.call(t[3], nr::EXIT, [0; 6]), None);
    assert!(w.is_gone(t[3]));
    assert_eq!((w.result(t[0]), w.result(t[1])), (Some(0), Some(0)));
    assert_eq!(w.peek(word(0)), w.tid(t[0]) | FUTEX_WAITERS | FUTEX_OWNER_DIED);
    // Nobody waited for the third: its word still names the dead.
    assert_eq!(w.peek(word(2)), dead);
    assert_eq!(lock(&mut w, t[2], word(2)), err(Errno::ESRCH));
    assert_eq!(unlock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.peek(word(0)), 0);
}

#[test]
fn an_unwritable_word_of_a_dead_owner_is_a_fault_of_those_who_wait() {
    let (mut w, t) = World::with_threads(3);
    let far = word(0) + 0x4_0000;
    assert_eq!(lock(&mut w, t[2], far), Some(0));
    assert_eq!(lock(&mut w, t[0], far), None);
    assert_eq!(lock(&mut w, t[1], far), None);
    w.kernel.m.state().unmap(far);
    assert_eq!(w.call(t[2], nr::EXIT, [0; 6]), None);
    assert_eq!((w.result(t[0]), w.result(t[1])), (err(Errno::EFAULT), err(Errno::EFAULT)));
}

#[test]
fn a_new_thread_in_a_dead_ones_slot_owes_nothing() {
    let (mut w, t) = World::with_threads(3);
    assert_eq!(lock(&mut w, t[2], word(0)), Some(0));
    w.set_priority(t[0], t[1], 50);
    assert_eq!(lock(&mut w, t[1], word(0)), None);
    assert_eq!(urgency(&w, t[2]), rt(50));
    assert_eq!(w.call(t[2], nr::EXIT, [0; 6]), None);
    let new = w.spawn(t[0]);
    assert_eq!(new, t[2], "the slot is used again");
    w.pin(new, 2);
    assert_eq!(urgency(&w, new), Urgency::Fair);
    assert_eq!(lock(&mut w, new, word(0)), None);
    assert_eq!(unlock(&mut w, t[1], word(0)), Some(0));
    assert_eq!(w.result(new), Some(0));
}

fn wait_requeue(w: &mut World, t: ThreadIdx, timeout: u64) -> Option<isize> {
    w.futex(t, FUTEX_WAIT_REQUEUE_PI | PRIVATE, [COND, 0, timeout, MUTEX, 0])
}

fn requeue(w: &mut World, t: ThreadIdx, moved: u64) -> Option<isize> {
    w.futex(t, FUTEX_CMP_REQUEUE_PI | PRIVATE, [COND, 1, moved, MUTEX, 0])
}

const COND: u64 = crate::common::WORDS + 64 * 50;
const MUTEX: u64 = crate::common::WORDS + 64 * 51;

#[test]
fn a_signalled_condition_gives_a_free_mutex_to_the_waiter() {
    let (mut w, t) = World::with_threads(2);
    assert_eq!(requeue(&mut w, t[0], 0), Some(0), "nobody waits");
    assert_eq!(wait_requeue(&mut w, t[1], 0), None);
    assert_eq!(w.futex(t[0], FUTEX_WAKE | PRIVATE, [COND, 1, 0, 0, 0]), err(Errno::EINVAL));
    assert_eq!(requeue(&mut w, t[0], 0), Some(1));
    assert_eq!(w.result(t[1]), Some(0));
    assert_eq!(w.peek(MUTEX), w.tid(t[1]), "the mutex is its own");
}

#[test]
fn a_broadcast_moves_all_to_a_held_mutex_with_their_urgency() {
    let (mut w, t) = World::with_threads(4);
    assert_eq!(lock(&mut w, t[0], MUTEX), Some(0));
    for (i, priority) in [(1, 5), (2, 15), (3, 0)] {
        w.set_priority(t[0], t[i], priority);
        assert_eq!(wait_requeue(&mut w, t[i], 0), None);
    }
    assert_eq!(requeue(&mut w, t[0], i32::MAX as u64), Some(3));
    assert_eq!(urgency(&w, t[0]), rt(15));
    let mut owner = t[0];
    for i in [2, 1, 3] {
        assert_eq!(unlock(&mut w, owner, MUTEX), Some(0));
        assert_eq!(w.result(t[i]), Some(0));
        owner = t[i];
    }
    assert_eq!(unlock(&mut w, owner, MUTEX), Some(0));
    assert_eq!(w.peek(MUTEX), 0);
}

#[test]
fn a_broadcast_over_a_free_mutex_gives_it_to_the_first() {
    let (mut w, t) = World::with_threads(4);
    for &t in &t[1..] {
        assert_eq!(wait_requeue(&mut w, t, 0), None);
    }
    assert_eq!(requeue(&mut w, t[0], i32::MAX as u64), Some(3));
    assert_eq!((w.result(t[1]), w.result(t[2]), w.result(t[3])), (Some(0), None, None));
    assert_eq!(w.peek(MUTEX), w.tid(t[1]) | FUTEX_WAITERS);
    assert_eq!(unlock(&mut w, t[1], MUTEX), Some(0));
    assert_eq!(w.result(t[2]), Some(0));
}

#[test]
fn a_broadcast_to_a_hundred_goes_in_rounds() {
    let mut w = World::new(2);
    let main = ThreadIdx(0);
    w.pin(main, 0);
    assert_eq!(lock(&mut w, main, MUTEX), Some(0));
    let mut all = Vec::new();
    for _ in 0..100 {
        let t = w.spawn(main);
        w.pin(t, 1);
        assert_eq!(wait_requeue(&mut w, t, 0), None);
        all.push(t);
    }
    assert_eq!(requeue(&mut w, main, i32::MAX as u64), Some(100));
    let mut owner = main;
    for t in all {
        assert_eq!(unlock(&mut w, owner, MUTEX), Some(0));
        assert_eq!(w.result(t), Some(0));
        owner = t;
    }
}

#[test]
fn waits_on_a_condition_end_early_before_and_after_the_move() {
    let (mut w, t) = World::with_threads(3);
    w.handle(t[0], 10, 0);
    assert_eq!(lock(&mut w, t[0], MUTEX), Some(0));
    // Before: a deadline; a signal makes it start over.
    let end = w.timespec(w.now() + 1000);
    assert_eq!(wait_requeue(&mut w, t[1], end), None);
    w.signal(t[0], t[1], 10);
    assert_eq!(w.result(t[1]), None);
    w.advance(1000);
    assert_eq!(w.result(t[1]), err(Errno::ETIMEDOUT));
    // After: a deadline; a signal is EAGAIN, since starting over cannot work.
    let end = w.timespec(w.now() + 1000);
    assert_eq!(wait_requeue(&mut w, t[1], end), None);
    assert_eq!(wait_requeue(&mut w, t[2], 0), None);
    w.set_priority(t[0], t[1], 9);
    assert_eq!(requeue(&mut w, t[0], 9), Some(2));
    assert_eq!(urgency(&w, t[0]), rt(9));
    w.advance(1000);
    assert_eq!(w.result(t[1]), err(Errno::ETIMEDOUT));
    assert_eq!(urgency(&w, t[0]), Urgency::Fair);
    w.signal(t[0], t[2], 10);
    assert_eq!(w.result(t[2]), err(Errno::EAGAIN));
    assert_eq!(unlock(&mut w, t[0], MUTEX), Some(0));
    assert_eq!(w.peek(MUTEX), 0);
}

#[test]
fn errors_of_requeueing_with_inheritance() {
    let (mut w, t) = World::with_threads(3);
    let op = |op: u32| op | PRIVATE;
    let wait = op(FUTEX_WAIT_REQUEUE_PI);
    let move_ = op(FUTEX_CMP_REQUEUE_PI);
    assert_eq!(w.futex(t[0], wait, [COND, 0, 0, COND, 0]), err(Errno::EINVAL));
    assert_eq!(w.futex(t[0], wait, [COND, 1, 0, MUTEX, 0]), err(Errno::EAGAIN));
    assert_eq!(w.futex(t[0], wait, [COND, 0, 0, MUTEX + 1, 0]), err(Errno::EINVAL));
    assert_eq!(w.futex(t[0], move_, [COND, 1, 0, COND, 0]), err(Errno::EINVAL));
    assert_eq!(w.futex(t[0], move_, [COND, 2, 0, MUTEX, 0]), err(Errno::EINVAL));
    assert_eq!(w.futex(t[0], move_, [COND, 1, 0, MUTEX, 1]), err(Errno::EAGAIN));
    // To another mutex than the waiter's; from a plain wait; by plain calls.
    assert_eq!(wait_requeue(&mut w, t[1], 0), None);
    assert_eq!(w.futex(t[0], move_, [COND, 1, 0, word(3), 0]), err(Errno::EINVAL));
    assert_eq!(w.futex(t[0], op(FUTEX_CMP_REQUEUE), [COND, 1, 1, MUTEX, 0]), err(Errno::EINVAL));
    assert_eq!(w.futex(t[2], op(FUTEX_WAIT), [word(4), 0, 0, 0, 0]), None);
    assert_eq!(w.futex(t[0], move_, [word(4), 1, 0, MUTEX, 0]), err(Errno::EINVAL));
    // The mutex's owner is nobody.
    w.poke(MUTEX, 4_000_000);
    assert_eq!(requeue(&mut w, t[0], 0), err(Errno::ESRCH));
    // The waiter owns it already.
    w.poke(MUTEX, w.tid(t[1]));
    assert_eq!(requeue(&mut w, t[0], 0), err(Errno::EDEADLK));
    assert_eq!(w.result(t[1]), None, "it still waits");
    w.poke(MUTEX, 0);
    assert_eq!(requeue(&mut w, t[0], 0), Some(1));
}

#[test]
fn a_word_that_changes_under_the_claim_is_claimed_again() {
    let (mut w, t) = World::with_threads(2);
    w.poke(word(0), FUTEX_OWNER_DIED);
    w.kernel.m.state().interference = Some((word(0), 0));
    assert_eq!(lock(&mut w, t[0], word(0)), Some(0));
    assert_eq!(w.peek(word(0)), w.tid(t[0]));
}
