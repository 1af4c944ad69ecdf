//! What reaches the kernel from outside any CPU: signals that the service thread received, carriers that take a seat
//! over, a fork while signals arrive.

use crate::common::machine::TestMachine;
use crate::common::{World, word};
use abi::{Errno, SigInfo, Signal, nr};
use entresol_kernel::{Kernel, Trap};
use ids::{CpuId, ThreadIdx};
use linux::Linux;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const SIGUSR1: u64 = 10;
const SIG_BLOCK: u64 = 0;
const FUTEX_WAIT: u32 = 0;
const SCHED_BATCH: u64 = 3;

fn block_usr1(w: &mut World, t: ThreadIdx) {
    w.poke_u64(word(9), 1 << (SIGUSR1 - 1));
    assert_eq!(w.call(t, nr::RT_SIGPROCMASK, [SIG_BLOCK, word(9), 0, 8, 0, 0]), Some(0));
}

fn from_host() -> SigInfo {
    SigInfo::user(Signal::from_raw(SIGUSR1 as i32).unwrap(), 1, 0)
}

/// The host takes its time to end a process, and meanwhile a thread hands the signal on, as one does that exits: nobody sees
/// what this does to a call.
#[test]
fn no_call_returns_while_the_process_ends() {
    let mut w = World::new(2);
    let main = ThreadIdx(0);
    let t = w.spawn(main);
    assert_eq!(w.futex(t, FUTEX_WAIT, [word(1), 0, 0, 0, 0]), None);
    w.kernel.m.state().dies_slowly = true;
    w.kernel.send_to_process(CpuId::NONE, None, from_host()).unwrap();
    block_usr1(&mut w, main);
    assert_eq!(w.results(t), []);
}

/// A call that starts over without a signal, as when its carrier was wanted elsewhere, takes none that another thread
/// has been notified of.
#[test]
fn a_call_that_starts_over_takes_no_signal_of_another_thread() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    let t = w.spawn(main);
    w.handle(main, SIGUSR1, 0);
    // Its wake-up does not preempt.
    w.poke(word(7), 0);
    assert_eq!(w.call(main, nr::SCHED_SETSCHEDULER, [0, SCHED_BATCH, word(7), 0, 0, 0]), Some(0));
    assert_eq!(w.futex(main, FUTEX_WAIT, [word(1), 0, 0, 0, 0]), None);
    assert_eq!(w.on(0), Some(t));
    w.kernel.send_to_process(CpuId::NONE, None, from_host()).unwrap();
    w.kernel.restart_at_exit(t);
    assert!(w.call(t, nr::GETTID, [0; 6]).is_some());
    assert_eq!(w.handled, [main]);
}

/// The service thread wakes a fair thread on a busy CPU while another one is parked: it nudges that one, and
/// has no pace of its own to look up.
#[test]
fn a_wake_up_without_a_cpu_nudges_a_parked_one() {
    let mut w = World::new(2);
    let main = ThreadIdx(0);
    let t = w.spawn(main);
    w.pin(t, 0);
    w.handle(t, SIGUSR1, 0);
    block_usr1(&mut w, main);
    assert_eq!(w.call(t, nr::PAUSE, [0; 6]), None);
    // It may run on both from now on, but was on the busy one last.
    w.poke_u64(word(8), 3);
    let tid = u64::from(w.tid(t));
    assert_eq!(w.call(main, nr::SCHED_SETAFFINITY, [tid, 8, word(8), 0, 0, 0]), Some(0));
    w.pin(main, 0);
    // It does not displace who runs there when it wakes up.
    w.poke(word(7), 0);
    assert_eq!(w.call(main, nr::SCHED_SETSCHEDULER, [tid, SCHED_BATCH, word(7), 0, 0, 0]), Some(0));
    assert_eq!((w.on(0), w.on(1)), (Some(main), None));
    assert!(w.kernel.sched.idle_state(CpuId(1), sched::Idle::Parked));
    w.kernel.m.state().kicked.clear();
    // Nobody has been nudged for long.
    w.kernel.m.state().now += 10_000_000;

    Linux(&w.kernel).signal_from_host(CpuId::NONE, from_host()).unwrap();
    assert!(w.kernel.m.state().kicked.contains(&1), "the parked CPU is told");
    // It fetches what has waited for long enough.
    w.kernel.m.state().now += 10_000_000;
    w.settle();
    assert_eq!(w.on(1), Some(t));
    assert_eq!(w.results(t).last(), Some(&Errno::EINTR.to_ret()));
}

/// The current thread of a seat that a new carrier takes was never loaded there: its state is where it was saved, and
/// saving it again would put the carrier's registers in its place.
#[test]
fn a_new_carrier_saves_nothing_of_the_thread_that_it_finds() {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    let other = w.spawn(main);
    let found = w.on(0).expect("somebody runs");
    w.kernel.m.state().saved.clear();
    // Nothing more urgent: it goes on.
    let next = w.kernel.trap(CpuId(0), Trap::Seated);
    w.follow(0, next);
    assert!(!w.kernel.m.state().saved.contains(&found));
    // Something more urgent has come meanwhile: it does not, and is not saved either.
    let running = w.on(0).expect("somebody runs");
    let urgent = if running == main { other } else { main };
    let attr = sched::Attr::fifo(10);
    let _ = w.kernel.sched.set_attr(urgent, &attr, ids::Nanos(w.now()), &mut NoKicks);
    w.kernel.m.state().saved.clear();
    let next = w.kernel.trap(CpuId(0), Trap::Seated);
    assert!(w.kernel.m.state().saved.is_empty());
    w.follow(0, next);
    assert_eq!(w.on(0), Some(urgent));
}

struct NoKicks;

impl sched::Kick for NoKicks {
    fn kick(&mut self, _: CpuId) {}
}

/// A fork collects what the child inherits while the service thread delivers: the first wants the thread's signals
/// and then the process's, the other takes them the other way round.
#[test]
fn inheritance_and_delivery_do_not_wait_for_each_other() {
    const ROUNDS: usize = 100_000;
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    block_usr1(&mut w, main);
    let kernel: Arc<Kernel<TestMachine>> = w.kernel;
    let (tell, told) = mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let (k, end, done) = (kernel.clone(), over.clone(), tell.clone());
    std::thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            Linux(&k).signal_from_host(CpuId::NONE, from_host()).unwrap();
        }
        done.send(()).unwrap();
    });
    std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let linux = Linux(&kernel);
            let _ = linux.inheritance(main, 0, &linux.memory().stacks().hold());
        }
        over.store(true, Ordering::Relaxed);
        tell.send(()).unwrap();
    });
    for _ in 0..2 {
        told.recv_timeout(Duration::from_secs(120)).expect("both come to an end");
    }
}

/// A tick may come while the host makes a call in a form that cannot wait, and the host then answers EINTR: no answer
/// for a program that no signal was sent to.
#[test]
fn a_tick_cuts_no_call_short_that_was_only_tried() {
    const POLLIN: u64 = 1;
    let (eintr, eagain) = (Errno::EINTR.to_ret(), Errno::EAGAIN.to_ret());
    // With what the host says when it is asked again, where it is.
    let tries = [
        (nr::POLL, [word(0), POLLIN, u64::MAX, 0, 0, 0], 0),
        (nr::EPOLL_WAIT, [3, word(0), 1, u64::MAX, 0, 0], 0),
        (nr::RECVFROM, [3, word(0), 8, 0, 0, 0], eagain),
        (nr::MSGRCV, [3, word(0), 8, 0, 0, 0], eagain),
        (nr::WAIT4, [u64::MAX, 0, 0, 0, 0, 0], 0),
    ];
    for (nr, args, again) in tries {
        let mut w = World::new(1);
        // The last is taken first.
        w.kernel.m.state().host_answers = vec![again, eintr];
        assert_eq!(w.call(ThreadIdx(0), nr, args), None, "call {nr}");
        let waits: Vec<_> = w.waiting_on_host.iter().map(|(_, call)| call.nr).collect();
        assert_eq!(waits, [nr]);
    }
}
