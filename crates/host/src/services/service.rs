//! The service thread: the one host thread that receives the program's asynchronous signals.
//!
//! It blocks them and asks for them with `rt_sigtimedwait`. So no handler is needed, no call of a carrier is
//! interrupted, and the host's dispositions stay as the program's children must inherit them. It sleeps until a signal
//! arrives.

use crate::base::dispositions::{FAULTS, REAL_TIME, SERVICE_SET, is_ours};
use crate::base::os::{self, nr};
use crate::base::page::Publisher;
use crate::base::{neighbour, report, request};
use crate::carriers::carrier::{Carrier, NO_IDENTITY, SERVICE};
use crate::carriers::receive::STANDARD;
use crate::carriers::seat::Seat;
use crate::carriers::service_state::{CALL, CALL_NO_ROOM};
use crate::carriers::{alarms, outside};
use crate::process::Process;
use crate::services::watch::Watch;
use crate::services::{alone, stops};
use crate::serving::{identity, takeover};
use abi::clone_flags as cf;
use abi::{Errno, SigInfo, SigSet, Signal, si_code};
use alloc::collections::VecDeque;
use arch::syscall;
use ids::{CpuId, Nanos};
use linux::{Linux, left};
use sync::atomic::Ordering::*;

/// Starts it, as the second host thread of the process, and publishes the page that it answers for.
///
/// If the host allows no second host thread (RLIMIT_NPROC, `pids.max`, memory), the program has a single thread: others
/// are refused with EAGAIN, as the host would refuse them, because nobody would watch over them. Its carrier takes
/// signals when it is idle (`stand_in`), and a later attempt may succeed.
pub(crate) fn start(k: &Process) {
    takeover::prepare();
    if let Err(error) = try_to_start(k) {
        k.m.service.missing.store(true, Relaxed);
        report::say(format_args!(
            "no service thread (error {error}): threads are refused, and signals from outside arrive when the program sleeps"
        ));
    }
}

/// Whether there is one, after another attempt. The caller serves the process's only thread.
#[cold]
pub(crate) fn start_again(k: &Process) -> bool {
    let there = try_to_start(k).is_ok();
    k.m.service.missing.store(!there, Relaxed);
    there
}

/// Publishes the page in any case.
fn try_to_start(k: &Process) -> Result<(), isize> {
    let mut started = Ok(());
    k.m.page.announce_once(|| {
        started = create(k);
        k.m.service.tid()
    });
    started
}

/// Creates the service thread. Its block is that of a carrier that never gets a seat.
fn create(k: &Process) -> Result<(), isize> {
    let carriers = &k.m.carriers;
    let Some(carrier) = carriers.take_ended().or_else(|| carriers.create()) else { return Err(Errno::ENOMEM.to_ret()) };
    carrier.identity.store(Carrier::me().identity.load(Relaxed), Relaxed);
    const FLAGS: u64 = cf::VM | cf::FS | cf::FILES | cf::SIGHAND | cf::THREAD | cf::SYSVSEM | cf::PARENT_SETTID;
    let gs = core::ptr::from_ref(&carrier.gs).cast_mut();
    // Blocked from the beginning: a call that arrived before it asks for signals would go to a handler and be lost.
    let before = os::sigprocmask(2, !FAULTS);
    // SAFETY: nobody else uses the block; 2 marks it as the service thread's.
    let r = unsafe {
        (*gs).borrowed = SERVICE;
        arch::entry::clone_carrier(FLAGS, gs, k.m.service.tid.as_ptr())
    };
    os::sigprocmask(2, before);
    if r > 0 {
        return Ok(());
    }
    // The block has no host thread that could follow a change of rights.
    carrier.identity.store(NO_IDENTITY, Relaxed);
    // SAFETY: as above.
    unsafe { (*gs).borrowed = 0 };
    carriers.give_ended(carrier);
    Err(-r)
}

/// The interval between two checks of [`stand_in`].
pub(crate) const STAND_IN: Nanos = Nanos::from_millis(10);

/// Takes a signal that has arrived, on the carrier of a process without a service thread; false if there is none.
#[cold]
pub(crate) fn stand_in(k: &Process) -> bool {
    outside::serve(|info| deliver(k, info));
    let mut info = [0u8; 128];
    let set = SERVICE_SET & !k.m.service.left.load(SeqCst);
    let there = take(set, Some(Nanos::ZERO), &mut info) > 0;
    let refused = if there { SigInfo::read(&info).ok().and_then(|info| deliver(k, info)) } else { None };
    // The process is at its limit of pending signals: the host keeps the signal until there is room.
    match refused {
        Some(info) => !left::queue(&k.m, &info),
        None => there,
    }
}

/// The service thread's loop.
pub(crate) fn run(me: &'static Carrier) -> ! {
    let k = me.process();
    let (m, service) = (&k.m, &k.m.service);
    m.places.release();
    let mut watch = Watch::new(k.config().cpus);
    let mut page = Publisher::default();
    // Signals that did not fit. Until they do, others of their kind stay at the host, where their senders meet the
    // host's limit. Signals with our own numbers are still taken, so some of them are held here.
    let mut held = VecDeque::new();
    let hold = |held: &mut VecDeque<SigInfo>, info| {
        if held.len() < HELD_MAX && held.try_reserve(1).is_ok() {
            held.push_back(info);
        }
    };
    let mut order = Order::default();
    let rounds = &m.receiving.rounds;
    loop {
        while let Some(&info) = held.front()
            && deliver(k, info).is_none()
        {
            held.pop_front();
        }
        outside::serve(|info| match Publisher::is_request(&info) {
            true => page.ask(),
            false => deliver(k, info).into_iter().for_each(|refused| hold(&mut held, refused)),
        });
        // Before the set, so that the number never tells of more than has been read.
        let changes = service.changes.load(SeqCst);
        let left = service.left.load(SeqCst);
        stops::serve(k, left);
        let simple = stops::adopt(k, left);
        let queueing = if held.is_empty() { 0 } else { REAL_TIME };
        let called = outside::SIGNALS | 1 << (CALL - 1) | u64::from(service.called.load(SeqCst)) << (CALL_NO_ROOM - 1);
        let set = SERVICE_SET & !left & !queueing & !simple | called;
        let patience = (!held.is_empty()).then_some(PATIENCE);
        let sleep =
            [m.records.sooner(k.config(), watch.sleep()), page.sleep(), alarms::sleep(service, &m.carriers), patience];
        let sleep = sleep.into_iter().flatten().min();
        let mut info = [0u8; 128];
        rounds.begin(set);
        service.heeded.store(changes, SeqCst);
        let r = order.next(set, sleep, &mut info);
        rounds.deliver();
        if r == CALL as isize && is_call(&info) || r == CALL_NO_ROOM as isize && is_ours(&info, m.pid) {
            service.called.store(false, SeqCst);
            follow(me, &mut page);
            kick_unserved(k);
            watch.begin();
        } else if r > 0
            && let Ok(info) = SigInfo::read(&info)
        {
            if Publisher::is_request(&info) {
                page.ask();
            } else if !held.is_empty() && REAL_TIME & 1 << (info.signo() - 1) != 0 {
                hold(&mut held, outside::forwarded(info));
            } else if let Some(refused) = deliver(k, outside::forwarded(info)) {
                hold(&mut held, refused);
            }
        }
        rounds.end();
        alarms::ring(service, &m.carriers);
        watch.look(k);
        m.records.look(k, &m.contexts);
        page.look(k, &m.page, service.tid(), |t| m.position(t));
    }
}

/// Kicks the CPUs without a carrier that borrowers have asked for.
fn kick_unserved(k: &Process) {
    let wanted = k.m.service.unserved.swap(0, SeqCst);
    if wanted == 0 {
        return;
    }
    let cpus = (0..k.config().cpus).map(|i| CpuId(i as u16)).filter(|cpu| wanted >> (cpu.0 % 64) & 1 != 0);
    let unserved = |&cpu: &CpuId| matches!(k.m.seats.look(cpu).0, Seat::Empty | Seat::Host);
    cpus.filter(unserved).for_each(|cpu| kernel::Machine::kick(&k.m, cpu));
}

/// Serves the requests of the table of identities. If its rights change, the service thread unmaps the page first; the
/// call that changes them waits for this before it returns.
fn follow(me: &Carrier, page: &mut Publisher) {
    let m = &me.process().m;
    if identity::serve(me, || page.withdraw(&m.page)) {
        m.page.announce(m.service.tid());
    }
}

/// The order in which real-time signals are taken from the host.
///
/// The host's queue is one list. The host searches all of it for the wanted signal and for another one of the same
/// number (`collect_signal`). Taking the lowest number first passes all others each time: with some thousand signals of
/// eight numbers in the queue, one took a millisecond. Taking the numbers in turn finds each near the head of the list.
/// The kernel decides which of the signals queued *here* is delivered first.
#[derive(Default)]
struct Order {
    /// The last real-time signal.
    last: u32,
    /// Signals of different numbers arrived one after the other.
    mixed: bool,
}

impl Order {
    /// Takes the next signal of the set; 0 or less if none arrived in this time.
    fn next(&mut self, set: u64, patience: Option<Nanos>, info: &mut [u8; 128]) -> isize {
        let above = set & (!REAL_TIME | 1 << (CALL - 1) | (!0u64).checked_shl(self.last).unwrap_or(0));
        let mut r = if self.mixed { take(above, Some(Nanos::ZERO), info) } else { 0 };
        if r <= 0 {
            r = take(set, patience, info);
        }
        if let Ok(signal @ 34..) = u32::try_from(r) {
            self.mixed = signal != self.last;
            self.last = signal;
        }
        r
    }
}

/// `rt_sigtimedwait`.
fn take(set: u64, patience: Option<Nanos>, info: &mut [u8; 128]) -> isize {
    let time = patience.map(|t| [t.0 / 1_000_000_000, t.0 % 1_000_000_000]);
    let time = time.as_ref().map_or(core::ptr::null(), |t| t.as_ptr());
    // SAFETY: all three are ours.
    unsafe { syscall!(nr::RT_SIGTIMEDWAIT, &raw const set, info.as_mut_ptr(), time, 8) }
}

/// The most signals that the service thread holds.
const HELD_MAX: usize = 1024;
/// The pause before checking again whether a signal fits.
const PATIENCE: Nanos = Nanos(1_000_000);

/// Whether a signal with the number of [`CALL`] is our call, by its cookie.
fn is_call(info: &[u8; 128]) -> bool {
    [os::COOKIE, os::IDENTITY_COOKIE].iter().any(|cookie| info[24..32] == cookie.to_ne_bytes())
}

/// Leaves the signals of this set pending from now on, and receives all others.
///
/// When it returns, none of the set is received any more: the service thread, which may be asking for some of them, has
/// been called and has started over. Otherwise it could take a signal that the caller queues next, and a program that
/// reads its descriptor at once would find nothing.
///
/// The service thread itself calls this between two rounds, when it asks for none. The caller holds no lock, so that
/// the round can end.
pub(crate) fn leave(k: &Process, set: u64) {
    let service = &k.m.service;
    if service.is_alone() {
        // Whether it needs a service thread is decided before the thread returns to the program.
        alone::forget_told();
    }
    if service.left.swap(set, SeqCst) != set {
        service.changes.fetch_add(1, SeqCst);
        service.call();
    }
    if service.tid() == 0 || Carrier::me().gs.borrowed == SERVICE {
        return;
    }
    // Later changes need not be waited for, but another thread may have made this one.
    let change = service.changes.load(SeqCst);
    // Do not wait for signals that other threads take out of the set meanwhile.
    for round in 0.. {
        if set & service.left.load(SeqCst) == 0 || service.heeded.load(SeqCst) >= change {
            return;
        }
        os::relax(round);
    }
}

/// Returns the signal if there is no room for it.
fn deliver(k: &Process, info: SigInfo) -> Option<SigInfo> {
    // The service thread has no CPU, so every CPU with something to do is kicked.
    deliver_on(k, CpuId::NONE, info)
}

/// Delivers a signal on the carrier of a CPU, which checks its own run queue itself.
fn deliver_on(k: &Process, cpu: CpuId, info: SigInfo) -> Option<SigInfo> {
    if request::serve(k, &info) || neighbour::serve(k, &info) {
        return None;
    }
    let refused = Linux(k).signal_from_host(cpu, info) == Err(Errno::EAGAIN);
    (refused && info.code() != si_code::TIMER).then_some(info)
}

/// See [`kernel::Machine::receive`].
pub(crate) fn settle(k: &Process, awaited: Option<Signal>) {
    let receiving = &k.m.receiving;
    if k.m.service.is_alone() && !settle_alone(k) {
        return;
    }
    if k.m.service.tid() == 0 {
        let _turn = receiving.turn.lock();
        while stand_in(k) {}
        return;
    }
    k.m.service.catch_up();
    let taken = {
        let _turn = receiving.turn.lock();
        receive(k, STANDARD & receiving.rounds.asked.load(SeqCst))
    };
    if !awaited.is_some_and(|signal| taken.contains(signal)) {
        receiving.rounds.settle(&k.m, &k.m.service);
    }
}

/// Passes noted signals to the kernel, on the carrier of a process without a service thread. Requests and queueing
/// signals are left to the service thread; true if there are any.
pub(crate) fn serve_noted(k: &Process) -> bool {
    let mut rest = false;
    outside::serve(|info| {
        if request::is_one(&info) || outside::SIGNALS & 1 << (info.signo() - 1) != 0 {
            outside::keep(&info.to_bytes());
            rest = true;
        } else {
            deliver_on(k, Carrier::me().cpu(), info);
        }
    });
    rest
}

/// [`settle`] in a process without a service thread. True if something was left for the service thread, which it has
/// then started.
fn settle_alone(k: &Process) -> bool {
    let asked = serve_noted(k);
    let due = left::pending(&k.m).0 & SERVICE_SET & !k.m.service.left.load(SeqCst);
    if due & STANDARD != 0 {
        receive(k, STANDARD);
    }
    let others = asked || due & !STANDARD != 0;
    if others {
        alone::end(k);
    }
    others
}

/// Passes all signals of the set from the host to the kernel; returns those taken. One that a descriptor is to read
/// goes back to the host and stays there.
fn receive(k: &Process, set: u64) -> SigSet {
    let mut taken = SigSet::EMPTY;
    while let Some(info) = left::take(&k.m, SigSet(set & !k.m.service.left.load(SeqCst))) {
        // A standard signal always fits.
        let _ = Linux(k).signal_from_host(Carrier::me().cpu(), info);
        taken.0 |= info.signal().map_or(0, |signal| SigSet::only(signal).0);
    }
    taken
}
