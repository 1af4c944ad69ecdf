//! `futex_waitv(2)` and the calls of futex2.

use crate::common::{World, err, word};
use abi::futex::*;
use abi::{Errno, nr};
use ids::ThreadIdx;

const FLAGS: u32 = FUTEX2_SIZE_U32 | FUTEX2_PRIVATE;
const LIST: u64 = crate::common::WORDS + 0x1_0000;

/// Writes a list of words, each with value and flags.
fn list(w: &World, words: &[(u64, u64, u32)]) -> u64 {
    for (i, (addr, value, flags)) in words.iter().enumerate() {
        let at = LIST + 24 * i as u64;
        w.poke_u64(at, *value);
        w.poke_u64(at + 8, *addr);
        w.poke_u64(at + 16, u64::from(*flags));
    }
    LIST
}

fn waitv(w: &mut World, t: ThreadIdx, n: u64, timeout: u64, clock: u64) -> Option<isize> {
    w.call(t, nr::FUTEX_WAITV, [LIST, n, 0, timeout, clock, 0])
}

fn wake(w: &mut World, t: ThreadIdx, addr: u64, n: u64) -> Option<isize> {
    w.call(t, nr::FUTEX_WAKE, [addr, u64::from(u32::MAX), n, u64::from(FLAGS), 0, 0])
}

#[test]
fn the_number_of_the_woken_word_is_the_result() {
    let (mut w, t) = World::with_threads(2);
    for k in 0..3 {
        list(&w, &[(word(0), 0, FLAGS), (word(1), 0, FLAGS), (word(2), 0, FLAGS)]);
        assert_eq!(waitv(&mut w, t[1], 3, 0, 0), None);
        assert_eq!(wake(&mut w, t[0], word(k), 1), Some(1));
        assert_eq!(w.result(t[1]), Some(k as isize));
        // It waits nowhere any more.
        assert!((0..3).all(|i| wake(&mut w, t[0], word(i), 1) == Some(0)));
    }
}

#[test]
fn of_several_woken_words_the_last_counts() {
    let (mut w, t) = World::with_threads(2);
    list(&w, &[(word(0), 0, FLAGS), (word(0), 0, FLAGS), (word(2), 0, FLAGS)]);
    assert_eq!(waitv(&mut w, t[1], 3, 0, 0), None);
    assert_eq!(wake(&mut w, t[0], word(0), 5), Some(2), "each word counts for itself");
    assert_eq!(w.result(t[1]), Some(1));
}

#[test]
fn all_hundred_and_twenty_eight() {
    let (mut w, t) = World::with_threads(2);
    let words: Vec<_> = (0..128).map(|i| (word(i), 0, FLAGS)).collect();
    list(&w, &words);
    for _ in 0..20 {
        assert_eq!(waitv(&mut w, t[1], 128, 0, 0), None);
        assert_eq!(w.futex(t[0], FUTEX_WAKE | FUTEX_PRIVATE_FLAG, [word(127), 1, 0, 0, 0]), Some(1));
        assert_eq!(w.result(t[1]), Some(127));
    }
    assert_eq!(waitv(&mut w, t[1], 129, 0, 0), err(Errno::EINVAL));
}

#[test]
fn a_word_that_differs_ends_it_and_leaves_nothing() {
    let (mut w, t) = World::with_threads(2);
    list(&w, &[(word(0), 0, FLAGS), (word(1), 1, FLAGS)]);
    w.kernel.m.state().saved.clear();
    assert_eq!(waitv(&mut w, t[1], 2, 0, 0), err(Errno::EAGAIN));
    // It goes on, so its state is where it was. Were it preempted now, it would be saved a second time.
    assert!(!w.kernel.m.state().saved.contains(&t[1]));
    assert_eq!(wake(&mut w, t[0], word(0), 1), Some(0));
    list(&w, &[(word(0), 0, FLAGS), (0x5000, 1, FLAGS)]);
    assert_eq!(waitv(&mut w, t[1], 2, 0, 0), err(Errno::EFAULT));
    assert_eq!(wake(&mut w, t[0], word(0), 1), Some(0));
}

/// A waiter's word, value and flags; the call's arguments; what it answers.
type Refused = ((u64, u64, u32), [u64; 6], Errno);

#[test]
fn errors() {
    let (mut w, t) = World::with_threads(1);
    let time = w.timespec(5);
    let rows: &[Refused] = &[
        ((word(0), 0, FLAGS), [LIST, 1, 1, 0, 0, 0], Errno::EINVAL),
        ((word(0), 0, FLAGS), [LIST, 0, 0, 0, 0, 0], Errno::EINVAL),
        ((word(0), 0, FLAGS), [0, 1, 0, 0, 0, 0], Errno::EINVAL),
        ((word(0), 0, FLAGS), [0x5000, 1, 0, 0, 0, 0], Errno::EFAULT),
        ((word(0), 0, FLAGS), [LIST, 1, 0, time, 7, 0], Errno::EINVAL),
        ((word(0), 0, FLAGS), [LIST, 1, 0, 0x5000, 0, 0], Errno::EFAULT),
        ((word(0), 0, FUTEX2_PRIVATE), [LIST, 1, 0, 0, 0, 0], Errno::EINVAL),
        ((word(0), 0, FLAGS | 0x40), [LIST, 1, 0, 0, 0, 0], Errno::EINVAL),
        ((word(0), 1 << 32, FLAGS), [LIST, 1, 0, 0, 0, 0], Errno::EINVAL),
        ((word(0) + 1, 0, FLAGS), [LIST, 1, 0, 0, 0, 0], Errno::EINVAL),
        ((1 << 60, 0, FLAGS), [LIST, 1, 0, 0, 0, 0], Errno::EFAULT),
    ];
    for (i, (entry, args, expected)) in rows.iter().enumerate() {
        list(&w, &[*entry]);
        assert_eq!(w.call(t[0], nr::FUTEX_WAITV, *args), err(*expected), "row {i}");
    }
    list(&w, &[(word(0), 0, FLAGS)]);
    w.poke(LIST + 20, 1);
    assert_eq!(waitv(&mut w, t[0], 1, 0, 0), err(Errno::EINVAL), "the reserved word");
}

#[test]
fn deadlines_and_signals() {
    let (mut w, t) = World::with_threads(2);
    for (clock, offset) in [(1, 0), (0, 1_700_000_000_000_000_000)] {
        list(&w, &[(word(0), 0, FLAGS), (word(1), 0, FLAGS)]);
        let end = w.timespec(w.now() + offset + 500);
        assert_eq!(waitv(&mut w, t[1], 2, end, clock), None);
        w.advance(499);
        assert_eq!(w.result(t[1]), None);
        w.advance(1);
        assert_eq!(w.result(t[1]), err(Errno::ETIMEDOUT));
    }
    w.handle(t[0], 10, 0);
    assert_eq!(waitv(&mut w, t[1], 2, 0, 0), None);
    w.signal(t[0], t[1], 10);
    assert_eq!(w.result(t[1]), err(Errno::EINTR));
    assert_eq!(wake(&mut w, t[0], word(1), 1), Some(0));
}

#[test]
fn a_requeued_word_keeps_its_number() {
    let (mut w, t) = World::with_threads(2);
    list(&w, &[(word(0), 0, FLAGS), (word(1), 0, FLAGS)]);
    assert_eq!(waitv(&mut w, t[1], 2, 0, 0), None);
    assert_eq!(w.futex(t[0], FUTEX_REQUEUE | FUTEX_PRIVATE_FLAG, [word(1), 0, 1, word(5), 0]), Some(1));
    assert_eq!(wake(&mut w, t[0], word(5), 1), Some(1));
    assert_eq!(w.result(t[1]), Some(1));
}

#[test]
fn wait_wake_and_requeue_of_futex2() {
    let (mut w, t) = World::with_threads(3);
    let any = u64::from(u32::MAX);
    let flags = u64::from(FLAGS);
    let wait = |w: &mut World, t, addr, value, mask, flags: u64, time, clock| {
        w.call(t, nr::FUTEX_WAIT, [addr, value, mask, flags, time, clock])
    };
    assert_eq!(wait(&mut w, t[0], word(0), 0, any, flags | 0x100, 0, 0), err(Errno::EINVAL));
    assert_eq!(wait(&mut w, t[0], word(0), 0, 0, flags, 0, 0), err(Errno::EINVAL));
    assert_eq!(wait(&mut w, t[0], word(0), 0, 1 << 32, flags, 0, 0), err(Errno::EINVAL));
    assert_eq!(wait(&mut w, t[0], word(0), 1, any, flags, 0, 0), err(Errno::EAGAIN));
    assert_eq!(wait(&mut w, t[1], word(0), 0, 1, flags, 0, 0), None);
    assert_eq!(wait(&mut w, t[2], word(0), 0, 2, flags, 0, 0), None);
    // None for none, unlike FUTEX_WAKE.
    assert_eq!(wake(&mut w, t[0], word(0), 0), Some(0));
    assert_eq!(w.call(t[0], nr::FUTEX_WAKE, [word(0), 2, 9, flags, 0, 0]), Some(1));
    assert_eq!((w.result(t[1]), w.result(t[2])), (None, Some(0)));
    list(&w, &[(word(0), 0, FLAGS), (word(1), 0, FLAGS)]);
    assert_eq!(w.call(t[0], nr::FUTEX_REQUEUE, [LIST, 1, 1, 1, 0, 0]), err(Errno::EINVAL));
    assert_eq!(w.call(t[0], nr::FUTEX_REQUEUE, [LIST, 0, 0, 1, 0, 0]), Some(1));
    assert_eq!(wake(&mut w, t[0], word(1), 1), Some(1));
    assert_eq!(w.result(t[1]), Some(0));
    list(&w, &[(word(0), 3, FLAGS), (word(1), 0, FLAGS)]);
    assert_eq!(w.call(t[0], nr::FUTEX_REQUEUE, [LIST, 0, 0, 1, 0, 0]), err(Errno::EAGAIN));
    list(&w, &[(word(0), 3, FLAGS), (word(1), 0, FUTEX2_SIZE_U32)]);
    assert_eq!(w.call(t[0], nr::FUTEX_REQUEUE, [LIST, 0, 0, 1, 0, 0]), err(Errno::EINVAL));
    let end = w.timespec(w.now() + 100);
    assert_eq!(wait(&mut w, t[1], word(0), 0, any, flags, end, 1), None);
    w.advance(100);
    assert_eq!(w.result(t[1]), err(Errno::ETIMEDOUT));
}
