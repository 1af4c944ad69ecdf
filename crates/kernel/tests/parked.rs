//! Threads that wait for descriptors without a host thread.

use crate::common::{World, word};
use abi::epoll::Readiness;
use abi::{Errno, nr};
use entresol_kernel::{Io, Kernel};
use ids::{CpuId, ThreadIdx};
use linux::Linux;
use std::sync::Arc;

const FD: u64 = 5;
const MAIN: ThreadIdx = ThreadIdx(0);

/// There is something to read, as an idle carrier learns of it.
fn event(kernel: &Kernel<crate::common::machine::TestMachine>) {
    Linux(kernel).descriptors_ready(CpuId::NONE, &[Readiness { events: Readiness::IN, token: FD }]);
}

/// The host's answers to come, in that order.
fn answers(w: &World, all: &[isize]) {
    w.kernel.m.state().host_answers = all.iter().rev().copied().collect();
}

fn receive(w: &mut World) -> Option<isize> {
    w.call(MAIN, nr::RECVFROM, [FD, word(0), 64, 0, 0, 0])
}

/// A thread that has waited once, so that its descriptor is registered.
fn registered() -> World {
    let mut w = World::with(1, |config| config.io = Io::Poller);
    w.kernel.m.state().polls = true;
    answers(&w, &[Errno::EAGAIN.to_ret(), 0]);
    assert_eq!(receive(&mut w), None);
    answers(&w, &[1]);
    event(&w.kernel);
    w.settle();
    assert_eq!(w.result(MAIN), Some(1));
    w
}

#[test]
fn an_event_between_the_try_and_the_queue_is_not_lost() {
    let mut w = registered();
    answers(&w, &[Errno::EAGAIN.to_ret(), 0, 2]);
    let kernel = Arc::clone(&w.kernel);
    w.kernel.m.state().meanwhile = Some(Box::new(move || event(&kernel)));
    assert_eq!(receive(&mut w), Some(2));
}

#[test]
fn a_thread_that_was_woken_for_nothing_waits_on() {
    let mut w = registered();
    answers(&w, &[Errno::EAGAIN.to_ret(), 0]);
    assert_eq!(receive(&mut w), None);
    answers(&w, &[Errno::EAGAIN.to_ret(), 0]);
    event(&w.kernel);
    w.settle();
    assert!(w.is_waiting(MAIN));
    answers(&w, &[3]);
    event(&w.kernel);
    w.settle();
    assert_eq!(w.result(MAIN), Some(3));
}

#[test]
fn a_thread_that_was_woken_keeps_its_file_when_the_number_is_closed() {
    const STAND_IN: isize = 600;
    let mut w = registered();
    let closer = w.spawn(MAIN);
    answers(&w, &[Errno::EAGAIN.to_ret(), 0]);
    assert_eq!(receive(&mut w), None);
    w.set_priority(closer, closer, 1);
    event(&w.kernel);
    answers(&w, &[STAND_IN, 0]);
    assert_eq!(w.call(closer, nr::CLOSE, [FD, 0, 0, 0, 0, 0]), Some(0));
    assert_eq!(w.result(MAIN), None);
    w.kernel.m.state().host_calls.clear();
    answers(&w, &[7, 0]);
    w.call(closer, nr::PAUSE, [0; 6]);
    assert_eq!(w.result(MAIN), Some(7));
    let calls: Vec<_> = w.kernel.m.state().host_calls.iter().map(|call| (call.nr, call.args[0] as isize)).collect();
    assert_eq!(calls, [(nr::RECVFROM, STAND_IN), (nr::CLOSE, STAND_IN)]);
}
