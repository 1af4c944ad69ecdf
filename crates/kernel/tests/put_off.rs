//! Calls that wait where the machine has no carrier to wait on.

use crate::common::{World, err, word};
use abi::{Errno, nr};
use entresol_kernel::Trap;
use ids::{CpuId, ThreadIdx};
use linux::TRY_AGAIN;

const MS: u64 = 1_000_000;
const USR1: u64 = 10;

/// A thread on CPU 0 that makes the call, which must wait; there is no carrier for it.
fn given_up(nr: usize, args: [u64; 6]) -> (World, ThreadIdx, ThreadIdx) {
    let (mut w, all) = World::with_threads(2);
    w.handle(all[1], USR1, 0);
    if nr == nr::FLOCK {
        w.kernel.m.state().host_answers.push(Errno::EAGAIN.to_ret());
    }
    assert_eq!(w.call(all[0], nr, args), None);
    give_up(&mut w, all[0]);
    (w, all[0], all[1])
}

fn give_up(w: &mut World, t: ThreadIdx) {
    assert_eq!(w.waiting_on_host.pop().map(|(thread, _)| thread), Some(t));
    let next = w.kernel.trap(CpuId(0), Trap::HostReturn { thread: t, result: TRY_AGAIN });
    w.follow(0, next);
    assert!(w.is_waiting(t) && w.on(0).is_none(), "its CPU is not free for others");
}

fn looks(w: &World) -> usize {
    w.kernel.m.state().host_calls.iter().filter(|call| call.nr == nr::POLL && call.args[2] == 0).count()
}

fn poll(timeout_ms: i64) -> [u64; 6] {
    [word(0), 1, timeout_ms as u64, 0, 0, 0]
}

#[test]
fn a_poll_is_looked_at_until_it_is_through() {
    let (mut w, t, _) = given_up(nr::POLL, poll(-1));
    let before = looks(&w);
    w.advance(100 * MS);
    assert!((10..100).contains(&(looks(&w) - before)));
    assert_eq!(w.result(t), None);
    w.kernel.m.state().host_answers.push(1);
    w.advance(100 * MS);
    assert_eq!(w.result(t), Some(1));
    // It was made by nobody, and nobody makes it again.
    assert!(w.waiting_on_host.is_empty());
    let after = looks(&w);
    w.advance(100 * MS);
    assert_eq!(looks(&w), after);
}

#[test]
fn its_time_counts_from_the_beginning_and_ends() {
    let (mut w, all) = World::with_threads(1);
    assert_eq!(w.call(all[0], nr::POLL, poll(50)), None);
    // It was with the host for this long before its CPU was wanted.
    w.advance(20 * MS);
    give_up(&mut w, all[0]);
    w.advance(29 * MS);
    assert_eq!(w.result(all[0]), None, "too early");
    w.advance(3 * MS);
    assert_eq!(w.result(all[0]), Some(0));
}

#[test]
fn another_call_starts_over_after_a_while() {
    let (mut w, t, _) = given_up(nr::FLOCK, [0; 6]);
    w.kernel.m.state().host_answers.push(Errno::EAGAIN.to_ret());
    w.advance(MS);
    assert!(w.waiting_on_host.is_empty());
    w.advance(2 * MS);
    assert_eq!(w.waiting_on_host.len(), 1);
    give_up(&mut w, t);
    w.kernel.m.state().host_answers.push(7);
    w.advance(3 * MS);
    assert_eq!(w.result(t), Some(7));
}

/// It kept its CPU for 40 ms, so it leaves it to others for as long.
#[test]
fn what_must_be_made_to_know_leaves_others_half_the_time() {
    let (mut w, t, _) = given_up(nr::SEMOP, [0; 6]);
    w.advance(39 * MS);
    assert!(w.waiting_on_host.is_empty());
    w.advance(2 * MS);
    assert_eq!(w.waiting_on_host.pop().map(|(thread, _)| thread), Some(t));
}

#[test]
fn a_signal_ends_it() {
    for (nr, args) in [(nr::POLL, poll(-1)), (nr::SEMOP, [0; 6])] {
        let (mut w, t, other) = given_up(nr, args);
        w.signal(other, t, USR1);
        assert_eq!((w.result(t), w.handled.as_slice()), (err(Errno::EINTR), [t].as_slice()));
    }
}
