//! Robust lists at exit.

use crate::common::{World, word};
use abi::futex::*;
use abi::nr;
use ids::ThreadIdx;

const HEAD: u64 = crate::common::WORDS + 0x2_0000;
/// From an entry to its word.
const OFFSET: u64 = 16;

fn entry(i: u64) -> u64 {
    HEAD + 64 * (i + 1)
}

/// A list with these entries (with their lowest bits) and a pending one, registered by `t`.
fn register(w: &mut World, t: ThreadIdx, entries: &[u64], pending: u64) {
    let mut at = HEAD;
    for e in entries {
        w.poke_u64(at, *e);
        at = e & !1;
    }
    w.poke_u64(at, HEAD);
    w.poke_u64(HEAD + 8, OFFSET);
    w.poke_u64(HEAD + 16, pending);
    assert_eq!(w.call(t, nr::SET_ROBUST_LIST, [HEAD, 24, 0, 0, 0, 0]), Some(0));
}

fn hold(w: &World, t: ThreadIdx, i: u64, bits: u32) {
    w.poke(entry(i) + OFFSET, w.tid(t) | bits);
}

fn held(w: &World, i: u64) -> u32 {
    w.peek(entry(i) + OFFSET)
}

fn exit(w: &mut World, t: ThreadIdx) {
    assert_eq!(w.call(t, nr::EXIT, [0; 6]), None);
    assert!(w.is_gone(t));
}

#[test]
fn locks_of_the_dead_are_marked_and_one_waiter_woken() {
    let (mut w, t) = World::with_threads(4);
    register(&mut w, t[3], &[entry(0), entry(1), entry(2)], 0);
    hold(&w, t[3], 0, FUTEX_WAITERS);
    hold(&w, t[3], 1, 0);
    hold(&w, t[0], 2, FUTEX_WAITERS);
    let value = u64::from(held(&w, 0));
    for &t in &t[1..3] {
        assert_eq!(w.futex(t, FUTEX_WAIT, [entry(0) + OFFSET, value, 0, 0, 0]), None);
    }
    exit(&mut w, t[3]);
    assert_eq!((w.result(t[1]), w.result(t[2])), (Some(0), None));
    assert_eq!(held(&w, 0), FUTEX_WAITERS | FUTEX_OWNER_DIED);
    assert_eq!(held(&w, 1), FUTEX_OWNER_DIED);
    assert_eq!(held(&w, 2), w.tid(t[0]) | FUTEX_WAITERS, "somebody else's");
}

#[test]
fn the_pending_lock_is_done_once_and_last() {
    let (mut w, t) = World::with_threads(2);
    register(&mut w, t[1], &[entry(0), entry(1)], entry(1));
    hold(&w, t[1], 0, 0);
    hold(&w, t[1], 1, 0);
    exit(&mut w, t[1]);
    assert_eq!((held(&w, 0), held(&w, 1)), (FUTEX_OWNER_DIED, FUTEX_OWNER_DIED));
}

#[test]
fn a_pending_release_that_had_no_owner_any_more_wakes() {
    let (mut w, t) = World::with_threads(2);
    register(&mut w, t[1], &[], entry(0));
    assert_eq!(w.futex(t[0], FUTEX_WAIT, [entry(0) + OFFSET, 0, 0, 0, 0]), None);
    exit(&mut w, t[1]);
    assert_eq!(w.result(t[0]), Some(0));
    assert_eq!(held(&w, 0), 0);
}

#[test]
fn a_lock_with_inheritance_is_handed_over_with_the_mark() {
    let (mut w, t) = World::with_threads(2);
    register(&mut w, t[1], &[entry(0) | 1, entry(1) | 1], 0);
    hold(&w, t[1], 0, 0);
    hold(&w, t[1], 1, 0);
    let lock = FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG;
    assert_eq!(w.futex(t[0], lock, [entry(0) + OFFSET, 0, 0, 0, 0]), None);
    exit(&mut w, t[1]);
    assert_eq!(w.result(t[0]), Some(0));
    assert_eq!(held(&w, 0), w.tid(t[0]) | FUTEX_WAITERS | FUTEX_OWNER_DIED);
    // Nobody waited for the other: who comes now gets it, and is told.
    assert_eq!(held(&w, 1), FUTEX_OWNER_DIED);
    assert_eq!(w.futex(t[0], lock, [entry(1) + OFFSET, 0, 0, 0, 0]), Some(0));
    assert_eq!(held(&w, 1), w.tid(t[0]) | FUTEX_OWNER_DIED);
}

#[test]
fn bad_lists_end_the_walk_and_nothing_else() {
    for case in 0..7 {
        let (mut w, t) = World::with_threads(2);
        register(&mut w, t[1], &[entry(0), entry(1)], 0);
        hold(&w, t[1], 0, 0);
        hold(&w, t[1], 1, 0);
        match case {
            0 => w.poke_u64(HEAD, 0x5000),
            1 => w.poke_u64(entry(0), 0x5000),
            2 => w.poke_u64(entry(1), entry(0)),
            3 => w.poke_u64(HEAD + 8, 17),
            4 => w.poke_u64(HEAD + 16, 0x5000),
            5 => w.poke_u64(HEAD + 8, u64::MAX / 2),
            _ => {
                let bad = w.call(t[1], nr::SET_ROBUST_LIST, [0x5000, 24, 0, 0, 0, 0]);
                assert_eq!(bad, Some(0));
            }
        }
        exit(&mut w, t[1]);
        let first_done = matches!(case, 1 | 2 | 4);
        assert_eq!(held(&w, 0) == FUTEX_OWNER_DIED, first_done, "case {case}");
    }
}

#[test]
fn a_long_list_is_walked_in_rounds_and_not_beyond_its_limit() {
    let (mut w, t) = World::with_threads(2);
    let n = ROBUST_LIST_LIMIT as u64 + 10;
    let all: Vec<u64> = (0..n).map(entry).collect();
    register(&mut w, t[1], &all, 0);
    (0..n).for_each(|i| hold(&w, t[1], i, 0));
    // A signal that arrives in the middle is nobody's business.
    w.handle(t[0], 10, 0);
    exit(&mut w, t[1]);
    let marked = (0..n).filter(|&i| held(&w, i) == FUTEX_OWNER_DIED).count();
    assert_eq!(marked, ROBUST_LIST_LIMIT);
    assert_ne!(w.peek(word(0)), 1);
}
