//! What a program sees of calls that the host answers.

mod common;

use abi::{Errno, nr};
use common::{World, word};

/// `poll(2)` with a timeout of zero says EINTR if a tick is pending at the host.
#[test]
fn a_tick_in_the_first_try_does_not_show() {
    for timeout in [1000, 0] {
        let (mut w, all) = World::with_threads(1);
        w.kernel.m.state().host_answers.push(Errno::EINTR.to_ret());
        assert_eq!(w.call(all[0], nr::POLL, [word(0), 1, timeout, 0, 0, 0]), None);
        let (thread, call) = w.waiting_on_host[0];
        assert_eq!((thread, call.nr, call.args[2]), (all[0], nr::POLL, timeout));
    }
}

#[test]
fn a_tick_in_a_short_call_does_not_show() {
    let (mut w, all) = World::with_threads(1);
    w.kernel.m.state().host_answers.push(Errno::EINTR.to_ret());
    assert_eq!(w.call(all[0], nr::UNAME, [word(0), 0, 0, 0, 0, 0]), None);
    assert_eq!(w.waiting_on_host.len(), 1);
}

#[test]
fn memory_for_stacks_has_a_name() {
    const CHUNK: u64 = 64 << 20;
    let (mut w, all) = World::with_threads(1);
    let (at, stack) = (0x7f00_0000_0000, 0x20022);
    w.kernel.m.state().host_answers.push(at as isize);
    let found = w.call(all[0], nr::MMAP, [0, 1 << 20, 0, stack, u64::MAX, 0]);
    assert_eq!(found, Some((at + CHUNK - (1 << 20)) as isize));
    let calls = w.kernel.m.state().host_calls.clone();
    let named = calls.iter().find(|call| call.nr == nr::PRCTL).expect("it is named");
    assert_eq!(named.args[..4], [0x5356_4d41, 0, at, CHUNK]);
    assert_ne!(named.args[4], 0);
}
