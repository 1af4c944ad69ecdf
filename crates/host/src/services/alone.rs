//! A process without a service thread. Every process begins like this, and one with a single thread may stay so.
//!
//! The only carrier leaves those of the program's signals unblocked that the thread does not block. Where the program
//! has no handler, the host does what the program wants: it ends, stops or continues the process, or ignores the
//! signal. Standard signals with a handler arrive at `on_arrival`, which makes the carrier pass them to the kernel. All
//! others stay pending at the host. They are received when the thread unblocks them or makes a call before whose return
//! they must have arrived ([`service::settle`](super::service::settle)).
//!
//! After a few milliseconds a process publishes its page ([`look`]). From then on a handler removes the page before a
//! signal ends the process (`on_fatal`), and another receives requests of tools (`on_request`).
//!
//! The process gets a service thread ([`end`]) before anything that involves a second host thread: a thread, a borrower
//! that runs beside it, a host thread bound to one thread (`ptrace`), the first request. It also gets one before it
//! waits for signals, before it waits where the handler of a queueing signal may interrupt it ([`QUEUEING`]), and before
//! a call that shows interrupts ([`before_call`]).
//!
//! **Queueing signals are not lost.** The carrier cannot block tick and interrupt, so signals of these numbers that
//! others send arrive at a handler, which notes one of each number and blocks them ([`note`]). They stay blocked, and
//! further ones stay at the host, until there is a service thread to which handlers can forward them. This is why the
//! mask is only changed by differences.
//!
//! | word of `Service` | meaning while `alone` is set; only the carrier uses them |
//! |---|---|
//! | `open` | the signals that the carrier leaves unblocked |
//! | `installed` | the signals whose action at the host is `on_arrival` |
//! | `until` | when it publishes its page; MAX: it has |

use crate::base::dispositions::{self, CARRIER_MASK, FAULTS, HostInfo, SERVICE_SET};
use crate::base::os::nr;
use crate::base::{os, report};
use crate::carriers::carrier::{Carrier, UNTOLD};
use crate::carriers::outside;
use crate::carriers::preempt::{look as look_from, stir};
use crate::carriers::receive::{STANDARD, URGENT};
use crate::process::Process;
use crate::services::{caught, service};
use abi::{SigSet, Signal, si_code};
use arch::context::pending;
use arch::frame::HostFrame;
use ids::{Nanos, ThreadIdx};
use kernel::machine::Received;
use kernel::wait::Wait;
use kernel::{Call, Machine, Next, Trap};
use linux::Linux;
use sync::atomic::Ordering::*;

/// The age at which a process publishes its page.
pub(crate) const PATIENCE: Nanos = Nanos::from_millis(4);
const LEFT: u64 = u64::MAX;
/// The signals whose handlers the carrier runs without a service thread. Only one of each kind is pending at a time, so
/// one slot each suffices to note them.
const HANDLED: u64 = STANDARD;
/// The signals whose handlers need the service thread in advance. Those of faults do not queue, and have a handler of
/// ours in any case: many programs report their own crashes. For tick and interrupt the service thread can begin when
/// one arrives, because the carrier blocks neither. glibc before 2.34 has handlers of both in each program that is
/// linked with its library for threads.
const QUEUEING: u64 = !(HANDLED | FAULTS | outside::SIGNALS);

/// Begins the process without a service thread. False if it needs one: records are written out by that thread; without
/// it, a fatal signal that the host handles would end the process without a summary; and without a timer nobody would
/// notice that the page is due. The caller is the only host thread.
pub(crate) fn begin(k: &Process) -> bool {
    let me = Carrier::me();
    if k.m.records.are_made() || k.m.settings.summary {
        return false;
    }
    let until = os::clock_gettime(1) + PATIENCE;
    if !me.alarms.can_be_set(me.tid.load(Relaxed), until) {
        return false;
    }
    k.m.service.until.store(until.0, Relaxed);
    k.m.service.alone.store(true, Relaxed);
    begin_mask(k);
    heed(me);
    true
}

/// Replaces the process's former mask by one that blocks all the program's signals.
fn begin_mask(k: &Process) {
    os::sigprocmask(0, CARRIER_MASK | outside::SIGNALS);
    let queueing = if outside::is_due(k.m.pid) { outside::SIGNALS } else { 0 };
    os::sigprocmask(2, CARRIER_MASK | queueing);
}

/// Blocks and unblocks what differs between the sets of unblocked signals `before` and `after`.
pub(crate) fn change_mask(before: u64, after: u64) {
    for (how, set) in [(0, before & !after), (1, after & !before)] {
        if set != 0 {
            os::sigprocmask(how, set);
        }
    }
}

/// Gives the process a service thread, if it has none because it needed none.
#[inline]
pub(crate) fn end(k: &Process) {
    if k.m.service.is_alone() {
        end_now(k);
    }
}

#[cold]
fn end_now(k: &Process) {
    os::sigprocmask(0, CARRIER_MASK | outside::SIGNALS);
    k.m.service.open.store(0, Relaxed);
    k.m.service.alone.store(false, Relaxed);
    os::open_room();
    service::start(k);
    os::close_room();
    os::sigprocmask(2, CARRIER_MASK);
}

/// Does what a handler has asked for, at a moment when the carrier holds no lock: publishes the page, or starts the
/// service thread because of a tool's request.
#[inline]
pub(crate) fn look(k: &Process) {
    if k.m.service.is_alone() {
        look_now(k);
    }
}

#[cold]
fn look_now(k: &Process) {
    Carrier::me().stirred.store(false, SeqCst);
    if outside::is_due(k.m.pid) && service::serve_noted(k) {
        return end_now(k);
    }
    let until = k.m.service.until.load(Relaxed);
    if until == LEFT {
        return;
    }
    if os::clock_gettime(1).0 >= until {
        return leave_page(k);
    }
    // The timer may have been armed for an earlier time since.
    let me = Carrier::me();
    me.alarms.set(&k.m.service, me.tid.load(Relaxed), Nanos(until), None);
}

/// Changes the rights of the process. Its page is removed before, while it can be, and published for the new user
/// afterwards; a service thread would do that.
pub(crate) fn with_other_rights<T>(k: &Process, change: impl FnOnce() -> T) -> T {
    let had_page = k.m.service.is_alone() && k.m.page.withdraw();
    let result = change();
    if had_page {
        k.m.page.announce(k.m.pid);
    }
    result
}

/// Called before an exec, during which another handler takes signals: stops our handlers from receiving any. True if a
/// signal that has arrived must be handled first.
pub(crate) fn close(k: &Process) -> bool {
    if !k.m.service.is_alone() {
        return false;
    }
    // First, because it may change the mask.
    look_now(k);
    os::sigprocmask(0, CARRIER_MASK);
    k.m.service.open.store(0, Relaxed);
    forget_told();
    look(k);
    k.interrupted(THREAD)
}

/// Publishes the page, because the process is old enough.
fn leave_page(k: &Process) {
    let [blocked, ignored, caught] = k.shown_signals(THREAD);
    if needs_service_thread(k, blocked.0, ignored.0, caught.0) {
        return end_now(k);
    }
    k.m.service.until.store(LEFT, Relaxed);
    let set = |signal, handler: u64| report::sigaction(signal, Some(&dispositions::action(handler, 0)));
    set(Signal::URG.raw(), on_request as *const () as u64);
    for signal in FATAL.into_iter().filter(|signal| !(ignored | caught).contains(*signal)) {
        set(signal.raw(), on_fatal as *const () as u64);
    }
    k.m.page.announce(k.m.pid);
    heed(Carrier::me());
}

/// Whether signals or requests would not arrive while a process with a page computes: a queueing signal has a handler,
/// the request signal does not have its default action, or a descriptor of the program reads it.
///
/// While the program blocks the request signal, requests stay pending at the host like all others of that number. Many
/// programs block all signals for a moment, for example in `posix_spawn(3)`. If the thread waits meanwhile, the service
/// thread answers ([`before_wait`]).
fn needs_service_thread(k: &Process, blocked: u64, ignored: u64, caught: u64) -> bool {
    let left = k.m.service.left.load(SeqCst);
    caught & !blocked & QUEUEING != 0 || (ignored | caught | left) & URGENT != 0
}

/// The signals that end a process by default and that others may send. Real-time signals are omitted: readers remove
/// the page then.
const FATAL: [Signal; 12] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::ABRT,
    Signal::USR1,
    Signal::USR2,
    Signal::PIPE,
    Signal::ALRM,
    Signal::TERM,
    Signal::XCPU,
    Signal::VTALRM,
    Signal::PROF,
];

/// Whether the host knows the thread's mask and the process's actions, or need not.
#[inline(always)]
pub(crate) fn host_knows(me: &Carrier) -> bool {
    let told = || me.told.each_ref().map(|set| SigSet(set.load(Relaxed)));
    !me.process().m.service.is_alone() || told() == me.process().shown_signals(THREAD)
}

/// Makes the next [`heed`] tell the host even what has not changed. Signals do not arrive anew by that, so the mask and
/// those with handlers stay known.
pub(crate) fn forget_told() {
    let [_, ignored, _] = &Carrier::me().told;
    ignored.store(UNTOLD, Relaxed);
}

/// Called before the thread returns to user code: tells the host of changes of the thread's mask and the process's
/// actions. True if that let a blocked signal arrive.
#[inline]
pub(crate) fn heed(me: &Carrier) -> bool {
    let (k, service) = (me.process(), &me.process().m.service);
    let [blocked, ignored, caught] = k.shown_signals(THREAD).map(|set| set.0);
    let told = me.told.each_ref().map(|set| set.load(Relaxed));
    me.told.iter().zip([blocked, ignored, caught]).for_each(|(told, set)| told.store(set, Relaxed));
    let left = service.until.load(Relaxed) == LEFT;
    if left && needs_service_thread(k, blocked, ignored, caught) {
        end_now(k);
        // If the signal was pending, it must arrive before the thread continues.
        k.m.receive(Received::All);
        return k.interrupted(THREAD);
    }
    let handled = caught & HANDLED;
    if handled != service.installed.load(Relaxed) {
        install(k, handled);
    }
    let requests = if left { URGENT & !blocked } else { 0 };
    let open = open(blocked, caught & !handled) & !held(blocked, caught) | requests;
    let before = service.open.load(Relaxed);
    if open != before {
        service.open.store(open, Relaxed);
        change_mask(before, open);
    }
    let takes = |[blocked, _, caught]: [u64; 3]| caught & !blocked;
    match takes([blocked, ignored, caught]) & !takes(told) {
        0 => return false,
        // Pending signals have arrived at the handler.
        news if news & !HANDLED == 0 => look_now(k),
        _ => k.m.receive(Received::All),
    }
    k.interrupted(THREAD)
}

/// A signal may have arrived for `t`, which was to continue. If it was put back into the queue before it was chosen, its
/// state is saved already, and must not be saved again.
#[cold]
pub(crate) fn after_heed(me: &'static Carrier, t: ThreadIdx) -> Next {
    let k = me.process();
    match k.m.claim(t).load(Relaxed) == me.number + 1 {
        true => k.trap(me.cpu(), Trap::Interrupt { timer: false, kick: true }),
        false => k.resched(me.cpu()),
    }
}

/// Installs our handler at the host for these signals, and the default action for those that had it before.
#[cold]
fn install(k: &Process, handled: u64) {
    let before = k.m.service.installed.swap(handled, Relaxed);
    let each = |set: u64, handler: u64| SigSet(set).iter().for_each(|signal| caught::set(signal, handler));
    each(handled & !before, on_arrival as *const () as u64);
    let gone = before & !handled & !k.ignored().0;
    let fatal = FATAL.iter().fold(0, |set, signal| set | SigSet::only(*signal).0);
    let fatal = if k.m.service.until.load(Relaxed) == LEFT { gone & fatal } else { 0 };
    each(gone & !fatal, 0);
    each(fatal, on_fatal as *const () as u64);
}

/// Called when the program changes a signal's action. If it is a handler, installs one of ours at the host where the
/// default action would do harm: to a signal that arrives before the carrier updates its mask on the way out, or to a
/// pending one. Returns whether it is a handler.
pub(crate) fn catch(k: &Process, signal: Signal) -> bool {
    if kernel::machine::NEVER_LEFT.contains(signal) || !k.caught_signals().contains(signal) {
        return false;
    }
    let (bit, flags) = (SigSet::only(signal).0, Linux(k).flags_of_children(signal));
    let service = &k.m.service;
    if service.is_alone() && HANDLED & bit != 0 {
        service.installed.fetch_or(bit, Relaxed);
        report::sigaction(signal.raw(), Some(&dispositions::action(on_arrival as *const () as u64, flags)));
        return true;
    }
    if service.is_alone() {
        change_mask(service.open.fetch_and(!bit, Relaxed) & bit, 0);
    }
    let is_kept = SigSet::IGNORED_BY_DEFAULT.contains(signal);
    if is_kept {
        caught::keep_pending(signal, flags);
    }
    is_kept
}

/// Has our handlers of these signals installed again, because the host may have lost them.
pub(crate) fn reinstall(k: &Process, set: u64) {
    k.m.service.installed.fetch_and(!set, Relaxed);
    forget_told();
}

/// Called before the carrier waits in the host. `busy`: its CPU has other work meanwhile.
#[inline]
pub(crate) fn before_host(me: &Carrier, busy: bool) {
    let k = me.process();
    if busy {
        end(k);
    }
    before_wait(me);
    look(k);
}

/// Called before a call that waits, if our own signals must not end it in a way that the program notices. `until` is
/// the time of the CPU's first timeout.
///
/// Starts the service thread, which takes these signals. For a call with a time limit it suffices to publish the page
/// now: the remaining time of `poll(2)` and similar calls is known, and requests of tools are rare.
pub(crate) fn before_call(me: &Carrier, call: &Call, until: Option<Nanos>) {
    let (k, service) = (me.process(), &me.process().m.service);
    if !service.is_alone() {
        return;
    }
    let linux = Linux(k);
    if linux::shows_interrupts(call) || linux.sets_time_limits() && linux.has_time_limit(THREAD, call.nr) {
        return end(k);
    }
    // A socket with a time limit may have been inherited.
    let is_young = service.until.load(Relaxed) != LEFT;
    if is_young && (linux::polls_for_a_time(call) || linux.has_time_limit(THREAD, call.nr)) {
        leave_page(k);
        me.alarms.disarm();
        if let Some(at) = until {
            me.alarms.set(service, me.tid.load(Relaxed), at, None);
        }
    }
}

/// Called before the carrier sleeps, or waits in the host.
#[inline]
pub(crate) fn before_wait(me: &Carrier) {
    if me.process().m.service.is_alone() {
        before_wait_now(me);
    }
}

#[cold]
fn before_wait_now(me: &Carrier) {
    let k = me.process();
    let [blocked, _, caught] = k.shown_signals(THREAD);
    let wait = &k.thread(THREAD).wait;
    let is_vfork = wait.kind() == Wait::Host && wait.call.load(Relaxed) == nr::VFORK as u32;
    let hides_requests = blocked.0 & URGENT != 0 && k.m.service.until.load(Relaxed) == LEFT && !is_vfork;
    if caught.0 & !blocked.0 & QUEUEING != 0 || wait.kind() == Wait::Signal || hides_requests {
        end_now(k);
        // Those that are pending end the wait before its time does.
        return k.m.receive(Received::All);
    }
    // The call may have a mask of its own.
    heed(me);
}

/// The only thread of such a process.
const THREAD: ThreadIdx = ThreadIdx(0);

/// The signals that the only carrier leaves unblocked while its thread waits for a child of `vfork`: none with a
/// handler of ours, because the child begins with the same mask and carrier block, and would take its own signals for
/// its parent's. Empty if the process has a service thread.
pub(crate) fn let_through(k: &Process) -> u64 {
    let service = &k.m.service;
    let handled = service.installed.load(Relaxed) | URGENT;
    if service.is_alone() { service.open.load(Relaxed) & !handled } else { 0 }
}

/// The signals with handlers of ours at the host, though the program may have none. A borrower begins with them.
pub(crate) fn installed(k: &Process) -> SigSet {
    let left = k.m.service.is_alone() && k.m.service.until.load(Relaxed) == LEFT;
    SigSet(k.m.service.installed.load(Relaxed) | if left { URGENT } else { 0 })
}

/// The signals that the only carrier leaves unblocked: those that its thread does not block and that have no handler.
/// Requests of tools are added when there is a handler for them.
fn open(blocked: u64, caught: u64) -> u64 {
    SERVICE_SET & !blocked & !caught & !URGENT
}

/// SIGCONT without a handler does nothing but void stops that are pending. While the thread blocks such a stop, it stays at the host,
/// so that the kernel learns of it before the stop is delivered.
fn held(blocked: u64, caught: u64) -> u64 {
    let cont = SigSet::only(Signal::CONT).0;
    if blocked & SigSet::STOP.0 != 0 && caught & cont == 0 { cont } else { 0 }
}

/// The signals that the only carrier of a child forked by `t` leaves unblocked.
pub(crate) fn open_for(k: &Process, t: ThreadIdx) -> u64 {
    let [blocked, _, caught] = k.shown_signals(t).map(|set| set.0);
    open(blocked, caught) & !held(blocked, caught)
}

/// Called in a handler for a signal that another process sent and the carrier cannot block. Further queueing signals
/// stay at the host until this one is delivered.
pub(crate) fn note(me: &Carrier, info: &HostInfo, frame: &mut HostFrame) {
    outside::note(None, &dispositions::info_bytes(info));
    if outside::SIGNALS & 1 << (info.signal - 1) != 0 {
        frame.sigmask |= outside::SIGNALS;
    }
    stir(me, frame);
    me.gs.pending.fetch_or(pending::KICK, AcqRel);
    look_from(me, frame);
}

/// The host's handler for a signal for which the program has a handler.
unsafe extern "C" fn on_arrival(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    if arch::base::has_gs() {
        note(Carrier::me(), info, frame);
    }
}

/// The host's handler for requests of tools. Other uses of this signal are ignored, as by default.
unsafe extern "C" fn on_request(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    if !arch::base::has_gs() || info.code != si_code::QUEUE {
        return;
    }
    let me = Carrier::me();
    if me.gs.borrowed != 0 || !me.process().m.service.is_alone() {
        return;
    }
    note(me, info, frame);
}

/// The host's handler for a signal that ends the process by default.
unsafe extern "C" fn on_fatal(signal: i32, _: *const HostInfo, _: *mut HostFrame) {
    arch::base::allow_misaligned();
    let pid = os::getpid();
    // A child may have its parent's handler and carrier block, but not its page.
    if arch::base::has_gs() && Carrier::my_process().m.pid == pid {
        Carrier::my_process().m.page.remove();
    }
    dispositions::die_again(signal);
    // The signal is delivered when the handler returns.
    os::send(pid, os::gettid(), signal);
}
