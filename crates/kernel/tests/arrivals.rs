//! Which calls are answered only when the signals that they cause have arrived, and which do not pay for that.

use crate::common::{World, word};
use abi::{Errno, Signal, nr};
use entresol_kernel::Trap;
use ids::{CpuId, ThreadIdx};
use linux::Linux;

const SIGUSR1: u64 = 10;
const F_SETFL: u64 = 4;
const F_SETOWN: u64 = 8;
const O_ASYNC: u64 = 0o20000;
const TIOCSWINSZ: u64 = 0x5414;
const TIOCGWINSZ: u64 = 0x5413;

/// What was asked for by the time at which the call had been answered.
fn received(w: &mut World, nr: usize, args: [u64; 6]) -> Vec<Option<Signal>> {
    w.kernel.m.state().received.clear();
    assert!(w.call(ThreadIdx(0), nr, args).is_some(), "call {nr} is answered");
    w.kernel.m.state().received.clone()
}

fn answer(w: &World, result: isize) {
    w.kernel.m.state().host_answers.push(result);
}

#[test]
fn calls_that_cause_signals_wait_for_them() {
    let (mut w, _) = World::with_threads(1);
    answer(&w, 77);
    assert_eq!(received(&mut w, nr::WAIT4, [77, 0, 0, 0, 0, 0]), [None]);
    assert_eq!(received(&mut w, nr::IOCTL, [0, TIOCSWINSZ, 0, 0, 0, 0]), [None]);
    assert_eq!(received(&mut w, nr::RT_SIGPENDING, [word(0), 8, 0, 0, 0, 0]), [None]);
    assert_eq!(received(&mut w, nr::KILL, [0, SIGUSR1, 0, 0, 0, 0]), [Some(Signal::USR1)]);
    assert_eq!(received(&mut w, nr::PIDFD_SEND_SIGNAL, [3, SIGUSR1, 0, 0, 0, 0]), [Some(Signal::USR1)]);
}

/// A timer that may have come with exec, and one that was armed here; a child has none.
#[test]
fn a_timer_that_is_not_armed_sends_nothing() {
    let (mut w, _) = World::with_threads(1);
    let alarm = |w: &mut World, seconds| received(w, nr::ALARM, [seconds, 0, 0, 0, 0, 0]);
    assert_eq!(received(&mut w, nr::SETITIMER, [0; 6]), [None]);
    assert_eq!(received(&mut w, nr::SETITIMER, [0; 6]), []);
    assert_eq!(alarm(&mut w, 0), []);
    assert_eq!(alarm(&mut w, 5), []);
    assert_eq!(alarm(&mut w, 5), [None]);
    assert_eq!(received(&mut w, nr::SETITIMER, [7, 0, 0, 0, 0, 0]), []);
    assert_eq!(alarm(&mut w, 0), [None]);
    assert_eq!(alarm(&mut w, 0), []);
}

/// SIGURG goes to the owner of the descriptor at the other end.
#[test]
fn what_is_sent_out_of_band_sends_a_signal_to_an_owner() {
    const MSG_OOB: u64 = 1;
    let (mut w, all) = World::with_threads(1);
    let thread = all[0];
    let send = |w: &mut World, flags| {
        w.kernel.m.state().received.clear();
        assert_eq!(w.call(thread, nr::SENDTO, [3, word(0), 1, flags, 0, 0]), None, "it may wait");
        assert!(w.waiting_on_host.pop().is_some());
        let next = w.kernel.trap(CpuId(0), Trap::HostReturn { thread, result: 1 });
        w.follow(0, next);
        w.settle();
        assert_eq!(w.result(thread), Some(1));
        w.kernel.m.state().received.clone()
    };
    assert_eq!(send(&mut w, MSG_OOB), []);
    w.call(thread, nr::FCNTL, [4, F_SETOWN, 500, 0, 0, 0]);
    assert_eq!((send(&mut w, MSG_OOB), send(&mut w, 0)), (vec![None], vec![]));
}

#[test]
fn calls_that_cause_none_do_not() {
    let (mut w, _) = World::with_threads(1);
    let group = -(500i64) as u64;
    for (nr, args) in [
        (nr::GETPPID, [0; 6]),
        (nr::READ, [0, word(0), 8, 0, 0, 0]),
        (nr::PIPE2, [word(0), 0, 0, 0, 0, 0]),
        (nr::FCNTL, [0, F_SETFL, 0, 0, 0, 0]),
        (nr::IOCTL, [0, TIOCGWINSZ, word(0), 0, 0, 0]),
        (nr::KILL, [group, 0, 0, 0, 0, 0]),
        (nr::KILL, [77, SIGUSR1, 0, 0, 0, 0]),
    ] {
        assert_eq!(received(&mut w, nr, args), [], "call {nr}");
    }
    answer(&w, Errno::ESRCH.to_ret());
    assert_eq!(received(&mut w, nr::KILL, [group, SIGUSR1, 0, 0, 0, 0]), []);
}

/// Once a descriptor sends signals, any call may make it do so; a call of ours does not.
#[test]
fn descriptors_that_send_signals_are_remembered() {
    let (mut w, _) = World::with_threads(1);
    assert_eq!(received(&mut w, nr::PIPE2, [word(0), 0, 0, 0, 0, 0]), []);
    w.call(ThreadIdx(0), nr::FCNTL, [0, F_SETFL, O_ASYNC, 0, 0, 0]);
    assert_eq!(received(&mut w, nr::PIPE2, [word(0), 0, 0, 0, 0, 0]), [None]);
    assert_eq!(received(&mut w, nr::SCHED_YIELD, [0; 6]), []);
    assert_eq!(received(&mut w, nr::RT_SIGPROCMASK, [0, 0, 0, 8, 0, 0]), []);
}

/// A thread that blocks signals is given those of others before it sends itself one that may be pending beside them, and before
/// pending ones are let through; else it does not ask for them.
#[test]
fn pending_signals_are_joined_by_those_of_others() {
    const SIGTSTP: u64 = 20;
    let (mut w, all) = World::with_threads(1);
    w.handle(all[0], SIGUSR1, 0);
    w.poke_u64(word(0), 1 << (SIGUSR1 - 1));
    let asked = |w: &mut World, (nr, args): (usize, [u64; 6])| {
        w.kernel.m.state().received.clear();
        assert_eq!(w.call(all[0], nr, args), Some(0));
        w.kernel.m.state().received.len()
    };
    let [block, unblock] = [0, 1].map(|how| (nr::RT_SIGPROCMASK, [how, word(0), 0, 8, 0, 0]));
    let send = |signal| (nr::KILL, [500, signal, 0, 0, 0, 0]);
    let steps = [block, unblock, block, send(SIGUSR1), unblock, block, unblock];
    assert_eq!(steps.map(|step| asked(&mut w, step)), [0, 0, 0, 1, 1, 0, 0]);
    w.handle(all[0], SIGTSTP, 0);
    assert_eq!(asked(&mut w, send(SIGTSTP)), 1);
}

/// The process becomes a child of what it was.
fn fork(w: &World) {
    let linux = Linux(&*w.kernel);
    let inherited = linux.inheritance(ThreadIdx(0), 0, &linux.memory().stacks().hold());
    linux.take_inheritance(ThreadIdx(0), inherited);
}

/// What the parent owns sends nothing to its child, until the child owns something itself.
#[test]
fn descriptors_of_the_parent_send_nothing_to_a_child() {
    let (mut w, _) = World::with_threads(1);
    let any = |w: &mut World| received(w, nr::PIPE2, [word(0), 0, 0, 0, 0, 0]);
    w.call(ThreadIdx(0), nr::FCNTL, [3, F_SETFL, O_ASYNC, 0, 0, 0]);
    w.call(ThreadIdx(0), nr::FCNTL, [3, F_SETOWN, 500, 0, 0, 0]);
    assert_eq!(any(&mut w), [None]);
    fork(&w);
    assert_eq!(any(&mut w), []);
    w.call(ThreadIdx(0), nr::FCNTL, [3, F_SETOWN, 500, 0, 0, 0]);
    assert_eq!(any(&mut w), [None]);
    // One of a group is told of what the group owns, and so is its child.
    fork(&w);
    w.call(ThreadIdx(0), nr::FCNTL, [3, F_SETOWN, -77i64 as u64, 0, 0, 0]);
    assert_eq!(any(&mut w), [None]);
    fork(&w);
    assert_eq!(any(&mut w), [None]);
}

/// A descriptor may have had an owner before it was made to send.
#[test]
fn the_owner_of_a_descriptor_that_begins_to_send_is_asked_for() {
    let sends = |owner| {
        let (mut w, _) = World::with_threads(1);
        w.kernel.m.state().owner = owner;
        w.call(ThreadIdx(0), nr::FCNTL, [3, F_SETFL, O_ASYNC, 0, 0, 0]);
        let here = received(&mut w, nr::PIPE2, [word(0), 0, 0, 0, 0, 0]).len();
        fork(&w);
        (here, received(&mut w, nr::PIPE2, [word(0), 0, 0, 0, 0, 0]).len())
    };
    assert_eq!([sends(0), sends(500), sends(-77), sends(501)], [(1, 0), (1, 0), (1, 1), (0, 0)]);
}

/// A thread that waits for a child while a signal ends its host call.
fn interrupted_wait(call: usize, args: [u64; 6], found: isize) -> (World, ThreadIdx) {
    let (mut w, all) = World::with_threads(2);
    w.handle(all[1], SIGUSR1, 0);
    assert_eq!(w.call(all[0], call, args), None);
    w.signal(all[1], all[0], SIGUSR1);
    assert_eq!(w.waiting_on_host.pop().map(|(t, call)| (t, call.nr)), Some((all[0], call)));
    answer(&w, found);
    let next = w.kernel.trap(CpuId(0), Trap::HostReturn { thread: all[0], result: Errno::EINTR.to_ret() });
    w.follow(0, next);
    w.settle();
    (w, all[0])
}

/// The signal may be the child's own SIGCHLD, which came just before the call was made (`do_wait`).
#[test]
fn a_child_comes_before_a_signal() {
    let (w, t) = interrupted_wait(nr::WAIT4, [77, 0, 0, 0, 0, 0], 77);
    assert_eq!((w.result(t), w.handled.as_slice()), (Some(77), [t].as_slice()));
    let (w, t) = interrupted_wait(nr::WAIT4, [77, 0, 0, 0, 0, 0], 0);
    assert_eq!((w.result(t), w.handled.as_slice()), (Some(Errno::EINTR.to_ret()), [t].as_slice()));
    // It found nothing, and so has written nothing.
    let (w, t) = interrupted_wait(nr::WAITID, [0, 0, word(0), 4, 0, 0], 0);
    assert_eq!(w.result(t), Some(Errno::EINTR.to_ret()));
    let (w, t) = interrupted_wait(nr::WAITID, [0, 0, word(0), 4, 0, 0], Errno::ECHILD.to_ret());
    assert_eq!(w.result(t), Some(Errno::ECHILD.to_ret()));
}

/// `complete_signal`: whoever sends it, the main thread is asked first.
#[test]
fn a_signal_to_the_process_is_the_main_threads() {
    let (mut w, all) = World::with_threads(2);
    w.handle(all[0], SIGUSR1, 0);
    assert_eq!(w.call(all[0], nr::PAUSE, [0; 6]), None);
    assert_eq!(w.call(all[1], nr::KILL, [500, SIGUSR1, 0, 0, 0, 0]), Some(0));
    w.settle();
    assert_eq!((w.result(all[0]), w.handled.as_slice()), (Some(Errno::EINTR.to_ret()), [all[0]].as_slice()));
}
