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
