//! Limits and groups beyond Linux, in time that is told to go on.

use crate::common::{World, err, word};
use abi::{Signal, nr};
use entresol_kernel::limits::{GroupSpec, Limit, Limits, Share};
use entresol_kernel::{Config, PRIVATE_JOIN_GROUP};
use ids::{Nanos, ThreadIdx};

const MS: u64 = 1_000_000;
const PR_SET_NAME: u64 = 15;
const MAIN: ThreadIdx = ThreadIdx(0);

fn share(quota_ms: u64, period_ms: u64) -> Option<Share> {
    Some(Share { quota: Nanos(quota_ms * MS), period: Nanos(period_ms * MS) })
}

fn group(name: &str, share: Option<Share>, pattern: &str) -> GroupSpec {
    GroupSpec { name: name.into(), share, cpus: None, exclusive: false, patterns: vec![pattern.into()] }
}

fn world(cpus: usize, limits: Limits) -> World {
    World::with(cpus, |config: &mut Config| config.limits = limits)
}

fn rename(w: &mut World, t: ThreadIdx, name: &str) {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    for (i, half) in bytes.as_chunks::<8>().0.iter().enumerate() {
        w.poke_u64(word(20) + 8 * i as u64, u64::from_le_bytes(*half));
    }
    assert_eq!(w.call(t, nr::PRCTL, [PR_SET_NAME, word(20), 0, 0, 0, 0]), Some(0));
}

/// What a thread has consumed, nanoseconds.
fn consumed(w: &World, t: ThreadIdx) -> u64 {
    w.kernel.sched.runtime(t, Nanos(w.now())).0
}

#[test]
fn a_group_has_its_share_exactly_in_the_long_run_and_others_the_rest() {
    let limits = Limits { groups: vec![group("slow", share(3, 10), "slow-*")], ..Limits::default() };
    let mut w = world(1, limits);
    let slow = w.spawn(MAIN);
    rename(&mut w, slow, "slow-1");
    let (before, other) = (consumed(&w, slow), consumed(&w, MAIN));
    w.advance(1000 * MS);
    let got = consumed(&w, slow) - before;
    // A tick is a millisecond: one more than the share may be owed at the end.
    assert!((299 * MS..=302 * MS).contains(&got), "{got}");
    assert!(consumed(&w, MAIN) - other >= 697 * MS, "who is in no group has the CPU meanwhile");
    let stats = w.kernel.groups().next().expect("one group");
    assert_eq!((stats.name, stats.threads), (&b"slow"[..], 1));
    assert!(stats.throttled >= 90, "{stats:?}");
    assert!(stats.consumed.0.abs_diff(consumed(&w, slow)) <= MS, "{stats:?}");
}

#[test]
fn all_threads_of_a_group_share_what_it_has_on_all_cpus() {
    let limits = Limits { groups: vec![group("both", share(10, 20), "b?")], ..Limits::default() };
    let mut w = world(2, limits);
    let all = [MAIN, w.spawn(MAIN)];
    for (t, name) in all.into_iter().zip(["b1", "b2"]) {
        rename(&mut w, t, name);
    }
    let before: u64 = all.iter().map(|&t| consumed(&w, t)).sum();
    w.advance(2000 * MS);
    let got: u64 = all.iter().map(|&t| consumed(&w, t)).sum::<u64>() - before;
    assert!((997 * MS..=1004 * MS).contains(&got), "{got}");
    assert!(w.on(0).is_none() || w.on(1).is_none(), "two CPUs are not needed for half of one");
}

#[test]
fn a_thread_that_waits_for_its_share_has_its_registers_and_hears_signals_later() {
    let limits = Limits { process: Limit { share: share(2, 100), ..Limit::default() }, ..Limits::default() };
    let mut w = world(1, limits);
    w.handle(MAIN, 10, 0);
    w.advance(30 * MS);
    assert_eq!(w.on(0), None, "it has had its share");
    // A spurious wake-up changes nothing: the signal waits with it.
    let info = abi::SigInfo::user(Signal::from_raw(10).expect("it is one"), 1, 0);
    linux::Linux(&w.kernel).signal_from_host(ids::CpuId(0), info).unwrap();
    w.settle();
    assert_eq!((w.on(0), w.handled.len()), (None, 0));
    w.advance(90 * MS);
    assert_eq!(w.handled, [MAIN]);
    assert_eq!(w.call(MAIN, nr::GETTID, [0; 6]), None, "it waits again");
    w.advance(100 * MS);
    assert_eq!(w.result(MAIN), Some(500), "a result is not disturbed");
}

#[test]
fn each_thread_has_a_share_of_its_own() {
    let limits = Limits { thread: Limit { share: share(2, 10), ..Limit::default() }, ..Limits::default() };
    let mut w = world(1, limits);
    let all = [MAIN, w.spawn(MAIN), w.spawn(MAIN)];
    let before: Vec<u64> = all.iter().map(|&t| consumed(&w, t)).collect();
    w.advance(1000 * MS);
    for (&t, before) in all.iter().zip(before) {
        let got = consumed(&w, t) - before;
        assert!((197 * MS..=204 * MS).contains(&got), "{t:?}: {got}");
    }
}

#[test]
fn who_holds_a_lock_with_inheritance_that_others_want_is_not_held_back() {
    const FUTEX_LOCK_PI: u32 = 6 | 128;
    let limits = Limits { groups: vec![group("slow", share(1, 1000), "slow")], ..Limits::default() };
    let mut w = world(1, limits);
    let slow = w.spawn(MAIN);
    rename(&mut w, slow, "slow");
    // The program takes a free lock by itself.
    w.poke(word(1), w.tid(slow));
    w.advance(20 * MS);
    let held = consumed(&w, slow);
    w.advance(20 * MS);
    assert_eq!(consumed(&w, slow), held, "it has had its share");
    assert_eq!(w.futex(MAIN, FUTEX_LOCK_PI, [word(1), 0, 0, 0, 0]), None, "the lock is taken");
    assert_eq!(w.on(0), Some(slow), "who is waited for goes on at once");
    w.advance(20 * MS);
    assert_eq!(consumed(&w, slow) - held, 20 * MS);
    const FUTEX_UNLOCK_PI: u32 = 7 | 128;
    w.futex(slow, FUTEX_UNLOCK_PI, [word(1), 0, 0, 0, 0]);
    assert_eq!(w.result(MAIN), Some(0));
    w.advance(50 * MS);
    let now = consumed(&w, slow);
    w.advance(500 * MS);
    assert_eq!(consumed(&w, slow), now, "what it consumed for others is owed");
}

#[test]
fn soft_limits_are_told_once_and_never_early() {
    let soft = |signal: i32, ms| Some((Nanos(ms * MS), Signal::from_raw(signal).expect("it is one")));
    let limits = Limits {
        process: Limit { soft: soft(10, 30), ..Limit::default() },
        thread: Limit { soft: soft(12, 20), ..Limit::default() },
        ..Limits::default()
    };
    let mut w = world(1, limits);
    w.handle(MAIN, 10, 0);
    w.handle(MAIN, 12, 0);
    w.advance(19 * MS);
    assert!(w.handled.is_empty());
    w.advance(3 * MS);
    assert_eq!(w.handled.len(), 1, "the thread's");
    w.advance(7 * MS);
    assert_eq!(w.handled.len(), 1);
    w.advance(3 * MS);
    assert_eq!(w.handled.len(), 2, "the process's");
    w.advance(200 * MS);
    assert_eq!(w.handled.len(), 2, "once");
}

#[test]
fn a_thread_ends_at_its_hard_limit_and_others_go_on() {
    let limits = Limits { thread: Limit { hard: Some(Nanos(20 * MS)), ..Limit::default() }, ..Limits::default() };
    let mut w = world(1, limits);
    let other = w.spawn(MAIN);
    // The main thread sleeps: only the other one consumes.
    let request = w.timespec(500 * MS);
    assert_eq!(w.call(MAIN, nr::NANOSLEEP, [request, 0, 0, 0, 0, 0]), None);
    w.advance(18 * MS);
    assert!(!w.is_gone(other));
    w.advance(5 * MS);
    assert!(w.is_gone(other));
    assert!(!w.is_gone(MAIN));
}

#[test]
fn names_inheritance_and_wishes_decide_who_belongs_where() {
    let limits = Limits { groups: vec![group("a", None, "a*"), group("b", None, "b*")], ..Limits::default() };
    let mut w = world(1, limits);
    let threads = |w: &World| w.kernel.groups().map(|g| g.threads).collect::<Vec<u32>>();
    assert_eq!(threads(&w), [0, 0]);
    rename(&mut w, MAIN, "abc");
    assert_eq!(threads(&w), [1, 0]);
    let child = w.spawn(MAIN);
    assert_eq!(threads(&w), [2, 0], "as its maker");
    rename(&mut w, child, "b");
    assert_eq!(threads(&w), [1, 1]);
    rename(&mut w, child, "neither");
    assert_eq!(threads(&w), [1, 1], "a name that says nothing changes nothing");
    w.poke_u64(word(20), u64::from(b'a'));
    let tid = u64::from(w.tid(child));
    assert_eq!(w.call(MAIN, PRIVATE_JOIN_GROUP, [tid, word(20), 0, 0, 0, 0]), Some(0));
    assert_eq!(threads(&w), [2, 0]);
    w.poke_u64(word(20), u64::from(b'c'));
    assert_eq!(w.call(MAIN, PRIVATE_JOIN_GROUP, [0, word(20), 0, 0, 0, 0]), err(abi::Errno::EINVAL));
    assert_eq!(w.call(MAIN, PRIVATE_JOIN_GROUP, [0, 8, 0, 0, 0, 0]), err(abi::Errno::EFAULT));
    assert_eq!(w.call(MAIN, PRIVATE_JOIN_GROUP, [7, word(20), 0, 0, 0, 0]), err(abi::Errno::ESRCH));
    w.later(child, nr::EXIT, [0; 6]);
    w.settle();
    assert_eq!(threads(&w), [1, 0]);
    let (mut without, _) = World::with_threads(1);
    assert_eq!(without.call(MAIN, PRIVATE_JOIN_GROUP, [0, word(20), 0, 0, 0, 0]), err(abi::Errno::ENOSYS));
}

fn mask(w: &World, t: ThreadIdx) -> Vec<u16> {
    w.kernel.sched.affinity(t).iter().map(|cpu| cpu.0).collect()
}

#[test]
fn a_group_has_its_cpus_and_others_keep_off_exclusive_ones() {
    let cpus = |all: &[u16]| {
        let mut mask = ids::CpuMask::empty();
        all.iter().for_each(|&cpu| mask.insert(ids::CpuId(cpu)));
        Some(mask)
    };
    let rt = GroupSpec { cpus: cpus(&[0]), exclusive: true, ..group("rt", None, "rt*") };
    let io = GroupSpec { cpus: cpus(&[1, 2]), ..group("io", None, "io*") };
    let mut w = world(4, Limits { groups: vec![rt, io], ..Limits::default() });
    w.kernel.begin_groups(MAIN);
    w.call(MAIN, nr::GETTID, [0; 6]);
    assert_eq!(mask(&w, MAIN), [1, 2, 3]);
    assert_ne!(w.on(0), Some(MAIN), "it has left the CPU that is not for it");
    let child = w.spawn(MAIN);
    assert_eq!(mask(&w, child), [1, 2, 3]);
    rename(&mut w, child, "rt-1");
    assert_eq!((mask(&w, child), w.on(0)), (vec![0], Some(child)));
    // Its domain is all that a deadline thread needs, and all that it may reserve.
    let setattr = |w: &mut World, t, percent: u64| {
        const DEADLINE: u64 = 6;
        let attr = [48 | DEADLINE << 32, 0, 0, percent * 1_000_000, 100_000_000, 100_000_000];
        attr.into_iter().enumerate().for_each(|(i, value)| w.poke_u64(word(40) + 8 * i as u64, value));
        let tid = u64::from(w.tid(t));
        w.call(MAIN, nr::SCHED_SETATTR, [tid, word(40), 0, 0, 0, 0])
    };
    assert_eq!((setattr(&mut w, child, 96), setattr(&mut w, child, 95)), (err(abi::Errno::EBUSY), Some(0)));
    let other = w.spawn(MAIN);
    rename(&mut w, other, "io-1");
    assert_eq!(setattr(&mut w, other, 1), err(abi::Errno::EPERM), "its set is a part of the rest");
    assert_eq!(mask(&w, other), [1, 2]);
    // A mask is cut down to the set; nothing left is an error.
    w.poke_u64(word(30), 0b1110);
    let tid = u64::from(w.tid(other));
    assert_eq!(w.call(MAIN, nr::SCHED_SETAFFINITY, [tid, 8, word(30), 0, 0, 0]), Some(0));
    assert_eq!(mask(&w, other), [1, 2]);
    w.poke_u64(word(30), 0b1001);
    assert_eq!(w.call(MAIN, nr::SCHED_SETAFFINITY, [tid, 8, word(30), 0, 0, 0]), err(abi::Errno::EINVAL));
    assert_eq!(w.call(MAIN, nr::SCHED_SETAFFINITY, [0, 8, word(30), 0, 0, 0]), Some(0));
    assert_eq!(mask(&w, MAIN), [3]);
}

/// A reservation is of one thread: it makes others only with SCHED_FLAG_RESET_ON_FORK, and those are fair (`sched_fork`).
#[test]
fn a_deadline_thread_makes_no_thread() {
    const DEADLINE: u64 = 6;
    const THREAD: u64 = abi::clone_flags::VM | abi::clone_flags::SIGHAND | abi::clone_flags::THREAD;
    let mut w = world(2, Limits::default());
    for (reset_on_fork, made) in [(0, false), (1, true)] {
        let attr = [48 | DEADLINE << 32, reset_on_fork, 0, 1_000_000, 100_000_000, 100_000_000];
        attr.into_iter().enumerate().for_each(|(i, value)| w.poke_u64(word(40) + 8 * i as u64, value));
        assert_eq!(w.call(MAIN, nr::SCHED_SETATTR, [0, word(40), 0, 0, 0, 0]), Some(0));
        if made {
            let child = w.spawn(MAIN);
            assert_eq!(w.kernel.sched.attr(child), sched::Attr::DEFAULT);
        } else {
            assert_eq!(w.call(MAIN, nr::CLONE, [THREAD, word(60), 0, 0, 0, 0]), err(abi::Errno::EAGAIN));
            assert_eq!(w.call(MAIN, nr::FORK, [0; 6]), err(abi::Errno::EAGAIN));
        }
    }
}
