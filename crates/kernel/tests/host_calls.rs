//! What a program sees of calls that the host answers.

use crate::common::{World, word};
use abi::{Errno, nr};
use entresol_kernel::{Trap, Wanted};
use ids::{CpuId, Nanos};

/// `poll(2)` with a timeout of zero says EINTR if a tick is pending at the host: it is asked again.
#[test]
fn a_tick_in_the_first_try_does_not_show() {
    for (timeout, result) in [(1000, None), (0, Some(0))] {
        let (mut w, all) = World::with_threads(1);
        w.kernel.m.state().host_answers.push(Errno::EINTR.to_ret());
        assert_eq!(w.call(all[0], nr::POLL, [word(0), 1, timeout, 0, 0, 0]), result);
        let waits: Vec<_> = w.waiting_on_host.iter().map(|(t, call)| (*t, call.nr, call.args[2])).collect();
        assert_eq!(waits, if result.is_none() { vec![(all[0], nr::POLL, timeout)] } else { vec![] });
    }
}

#[test]
fn a_tick_in_a_short_call_does_not_show() {
    let (mut w, all) = World::with_threads(1);
    w.kernel.m.state().host_answers.push(Errno::EINTR.to_ret());
    assert_eq!(w.call(all[0], nr::UNAME, [word(0), 0, 0, 0, 0, 0]), None);
    assert_eq!(w.waiting_on_host.len(), 1);
}

/// It starts over: as a call that waits, a signal could end it, and `close(2)` would seem done.
#[test]
fn a_short_call_that_has_not_begun_is_made_again() {
    let (mut w, all) = World::with_threads(1);
    w.kernel.m.state().host_answers = vec![0, Errno::ERESTARTNOINTR.to_ret()];
    assert_eq!(w.call(all[0], nr::CLOSE, [7, 0, 0, 0, 0, 0]), Some(0));
    let made = w.kernel.m.state().host_calls.iter().filter(|call| call.nr == nr::CLOSE).count();
    assert_eq!(made, 2);
}

#[test]
fn memory_is_given_back_at_once_and_the_hosts_refusal_is_told() {
    let (mut w, all) = World::with_threads(1);
    w.kernel.m.state().host_answers.extend([0, Errno::EINVAL.to_ret()]);
    let mut give_back = || w.call(all[0], nr::MADVISE, [0x7e00_0000_0000, 0x1000, 4, 0, 0, 0]);
    assert_eq!([give_back(), give_back()], [Some(Errno::EINVAL.to_ret()), Some(0)]);
}

#[test]
fn arguments_of_clone_that_are_longer_than_ours_must_be_zero_there() {
    let (mut w, all) = World::with_threads(1);
    let flags = abi::clone_flags::VM | abi::clone_flags::SIGHAND | abi::clone_flags::THREAD;
    w.poke_u64(word(0), flags);
    let clone = |w: &mut World, size| w.call(all[0], nr::CLONE3, [word(0), size, 0, 0, 0, 0]);
    w.poke_u64(word(0) + 88, 1);
    assert_eq!(clone(&mut w, 96), Some(Errno::E2BIG.to_ret()));
    assert_eq!(clone(&mut w, 63), Some(Errno::EINVAL.to_ret()));
    assert_eq!(clone(&mut w, 4097), Some(Errno::E2BIG.to_ret()));
}

/// A nonblocking socket takes of several messages what there is, without a carrier that waits.
#[test]
fn several_messages_of_a_nonblocking_socket_do_not_wait() {
    const O_NONBLOCK: isize = 0o4000;
    const MSG_DONTWAIT: u64 = 0x40;
    let eagain = Errno::EAGAIN.to_ret();
    for (flags, answers) in [(0, vec![3, O_NONBLOCK]), (0, vec![eagain, O_NONBLOCK]), (MSG_DONTWAIT, vec![3])] {
        for nr in [nr::RECVMMSG, nr::SENDMMSG] {
            let (mut w, all) = World::with_threads(1);
            w.kernel.m.state().host_answers.clone_from(&answers);
            assert_eq!(w.call(all[0], nr, [3, word(0), 20, flags, 0, 0]), Some(answers[0]));
            assert!(w.waiting_on_host.is_empty());
        }
    }
    let (mut w, all) = World::with_threads(1);
    assert_eq!(w.call(all[0], nr::RECVMMSG, [3, word(0), 20, 0, 0, 0]), None, "one that blocks waits for all");
    assert_eq!(w.waiting_on_host.len(), 1);
}

/// The carrier waits in the host itself if the wait can end in time for the CPU's first timeout.
#[test]
fn a_cpu_is_wanted_when_its_first_timeout_is_due() {
    let at = 5_000_000;
    for (call, ends_in_time) in [(nr::POLL, true), (nr::EPOLL_WAIT, true), (nr::FLOCK, false)] {
        for sleeps in [false, true] {
            let (mut w, all) = World::with_threads(1 + usize::from(sleeps));
            let due = Nanos(w.now() + at);
            if sleeps {
                w.pin(all[1], 0);
                let time = w.timespec(at);
                assert_eq!(w.call(all[1], nr::NANOSLEEP, [time, 0, 0, 0, 0, 0]), None);
            }
            if call == nr::FLOCK {
                w.kernel.m.state().host_answers.push(Errno::EAGAIN.to_ret());
            }
            let forever = u64::from(u32::MAX);
            assert_eq!(w.call(all[0], call, [word(0), 1, forever, forever, 0, 0]), None);
            let wanted = match (sleeps, ends_in_time) {
                (false, _) => Wanted::Never,
                (true, true) => Wanted::At(due),
                (true, false) => Wanted::Now,
            };
            assert_eq!(w.wanted, Some(wanted), "call {call}");
        }
    }
}

/// The loop of a server that waits each time makes its call once, in the form that waits.
#[test]
fn who_always_waits_in_a_call_does_not_try_it_first() {
    for (nr, never) in [(nr::POLL, 2), (nr::EPOLL_WAIT, 3), (nr::EPOLL_PWAIT, 3)] {
        let (mut w, all) = World::with_threads(1);
        let mut args = [word(0), 1, 1, 0, 0, 8];
        args[never] = u64::from(u32::MAX);
        // Whether the call is tried before it waits for so long.
        let tries = |w: &mut World, waits: u64| {
            w.kernel.m.state().host_calls.clear();
            assert_eq!(w.call(all[0], nr, args), None);
            let tries = w.kernel.m.state().host_calls.iter().any(|call| [nr::POLL, nr::EPOLL_WAIT].contains(&call.nr));
            w.advance(waits);
            let next = w.kernel.trap(CpuId(0), Trap::HostReturn { thread: all[0], result: 1 });
            w.follow(0, next);
            assert_eq!(w.result(all[0]), Some(1));
            tries
        };
        let tried: Vec<_> = (0..12).map(|_| tries(&mut w, 100_000)).collect();
        assert_eq!(tried.iter().filter(|&&tried| tried).count(), 8, "call {nr}: {tried:?}");
        // Waits that were none.
        assert!(!tries(&mut w, 1_000));
        let tried: Vec<_> = (0..16).map(|_| tries(&mut w, 1_000)).collect();
        assert!(tried.iter().any(|&tried| tried), "call {nr}: {tried:?}");
    }
}

/// A call that waits for a message begins in the host if the descriptor is known to be blocking, and is not even tried if its
/// thread always waits.
#[test]
fn who_always_waits_to_receive_does_not_try_it_first() {
    for nr in [nr::RECVFROM, nr::RECVMSG] {
        let (mut w, all) = World::with_threads(1);
        let calls: Vec<Vec<usize>> = (0..12)
            .map(|round| {
                w.kernel.m.state().host_calls.clear();
                // The descriptor's flags, and before them the try.
                let answers = [0, Errno::EAGAIN.to_ret()];
                w.kernel.m.state().host_answers = answers[usize::from(round > 0)..].to_vec();
                let args = if nr == nr::RECVMSG { [3, word(0), 0, 0, 0, 0] } else { [3, word(0), 8, 0, 0, 0] };
                assert_eq!(w.call(all[0], nr, args), None);
                let calls = w.kernel.m.state().host_calls.iter().map(|call| call.nr).collect();
                w.advance(100_000);
                let next = w.kernel.trap(CpuId(0), Trap::HostReturn { thread: all[0], result: 1 });
                w.follow(0, next);
                assert_eq!(w.result(all[0]), Some(1));
                calls
            })
            .collect();
        let mut expected = vec![vec![nr, nr::FCNTL]];
        expected.extend(vec![vec![nr]; 7]);
        expected.extend(vec![vec![]; 4]);
        assert_eq!(calls, expected);
    }
}
