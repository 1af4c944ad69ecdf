//! From a trap to the kernel, and from the kernel's decision to a resumed thread.
//!
//! All of this runs on the carrier's kernel stack, which is empty at every entry. Nothing here waits except [`idle`]
//! and the users of [`away`].

use crate::base::{os, report};
use crate::carriers::ahead::Seen;
use crate::carriers::carrier::{Carrier, IDLE_LOOKS, SERVICE, UNBORN};
use crate::carriers::poller::{EVENTS, Poller};
use crate::carriers::polling;
use crate::process::Host;
use crate::process::{end, survey};
use crate::services::exec;
use crate::services::{alone, borrower, fork, service, unborn};
use crate::serving::away::{away, wait_for_seat, waiting_call};
use crate::serving::identity::seats::{binds, carry_out_change, leave_idle, pass_on};
use crate::serving::identity::tracer::to_first;
use crate::serving::{delegate, identity, lookout, scarce, takeover};
use crate::traps::controlled;
use abi::SigInfo;
use arch::context::{UNKNOWN_WORDS, pending};
use arch::{Context, Gs, Kind, base, entry, xstate};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Call, Chosen, Here, Next, Process, Trap, Wanted};
use linux::Linux;
use sched::Idle;
use sync::atomic::Ordering::*;

/// The library number of calls that arrived by dispatch.
pub const DISPATCHED: u32 = 0;

/// The fewest polls of an idle CPU before its carrier sleeps; the most is [`IDLE_LOOKS`]. See [`looks_after`].
const IDLE_LOOKS_MIN: u32 = 20;
/// About how long a poll takes, in nanoseconds.
const LOOK_NS: u64 = 66;

/// Sets the functions that the entries call.
pub(crate) fn set_up() {
    entry::set_handlers(&entry::Handlers {
        call: on_other,
        sched_yield: on_yield,
        futex: on_futex,
        shared_futex: on_futex_beside_borrowers,
        copied: on_copied,
        preempt: on_preempt,
        carrier: on_carrier,
        again: on_again,
    });
}

const _: () = assert!(entry::SCHED_YIELD == abi::nr::SCHED_YIELD && entry::FUTEX == abi::nr::FUTEX);

/// The start of every call; `None` if it is not for the kernel.
#[inline(always)]
fn enter(context: *mut Context) -> Option<Here<'static, Host>> {
    if Carrier::is_borrowed() {
        return None;
    }
    // SAFETY: the entry filled it for this carrier; the kernel has not been called yet.
    let c = unsafe { &mut *context };
    let here = Carrier::my_process().here(Carrier::my_cpu());
    here.count_call(c.library);
    if !c.xbuf.is_null() {
        release_buffer(Carrier::me(), c);
    }
    Some(here)
}

/// A copy of a context's call, because the kernel overwrites the registers while it handles the call. Copied word by
/// word: a load wider than the entry's recent stores would stall.
#[inline(always)]
fn call_of(context: *const Context) -> Call {
    use arch::context::reg;
    // The host uses only the lower half of the number (`do_syscall_64`).
    let nr = word_of(context, reg::RAX) as i32 as usize;
    Call { nr, args: reg::ARGUMENTS.map(|at| word_of(context, at)) }
}

#[inline(always)]
fn word_of(context: *const Context, register: usize) -> u64 {
    // SAFETY: the entry filled it for this carrier.
    unsafe { (&raw const (*context).r[register]).read_volatile() }
}

/// A system call that the kernel nearly always answers in registers. The entry function says which call it is, so the
/// compiler keeps only that part of [`Here::call`].
#[inline(always)]
fn on_call(context: *mut Context, call: impl FnOnce() -> Call) -> ! {
    leave(match enter(context) {
        None => borrowed_call(context),
        Some(here) => match here.call(&call()) {
            Some(Chosen::Run(t)) => load(Carrier::me(), t),
            chosen => follow_long(context, chosen),
        },
    })
}

/// `sched_yield(2)`: called from [`entry::entresol_entry_call`] and its twin, as are the next two.
///
/// Each of the commonest calls has its own function and so its own stack frame: what one of them spills does not affect
/// the others.
extern "C" fn on_yield(context: *mut Context) -> ! {
    on_call(context, || Call { nr: entry::SCHED_YIELD, args: [0; 6] })
}

/// `futex(2)`: the operations that are answered at once have four arguments.
extern "C" fn on_futex(context: *mut Context) -> ! {
    use arch::context::reg;
    on_call(context, || {
        let [addr, op, value, timeout] = [reg::RDI, reg::RSI, reg::RDX, reg::R10].map(|at| word_of(context, at));
        Call { nr: entry::FUTEX, args: [addr, op, value, timeout, 0, 0] }
    })
}

/// `futex(2)` while there are borrowers, which wait for our words at the host.
extern "C" fn on_futex_beside_borrowers(context: *mut Context) -> ! {
    if !Carrier::is_borrowed()
        && let Some(woken) = borrower::wake_borrowers(Carrier::my_process(), &call_of(context))
        && enter(context).is_some()
    {
        // SAFETY: the entry filled it for this carrier.
        unsafe { (*context).r[arch::context::reg::RAX] = woken as u64 };
        leave(context);
    }
    on_futex(context)
}

/// Ends a system call.
#[inline(always)]
fn leave(context: *mut Context) -> ! {
    // SAFETY: `load` has claimed and loaded it, or it was not given away; the functions for calls leave nothing to
    // drop.
    unsafe { entry::resume(context) }
}

/// Any other call.
#[inline(never)]
extern "C" fn on_other(context: *mut Context) -> ! {
    let Some(here) = enter(context) else { leave(borrowed_call(context)) };
    let call = call_of(context);
    if let Some(result) = linux::call_at_once(here, &call) {
        // SAFETY: the entry filled it for this carrier.
        unsafe { (*context).r[arch::context::reg::RAX] = result as u64 };
        leave(context);
    }
    let next = here.call_other(&call);
    let me = Carrier::me();
    leave(match next {
        Ok(Chosen::Run(t)) if alone::host_knows(me) => load(me, t),
        Ok(Chosen::Run(t)) => follow_slow(me, Next::Run(t)),
        Ok(chosen) => follow_long(context, Some(chosen)),
        Err(next) => follow_slow(me, next),
    })
}

/// Any call for which the handler of a host signal has copied the whole state into the context.
extern "C" fn on_copied(context: *mut Context) -> ! {
    let call = call_of(context);
    let me = unborn::born();
    let k = me.process();
    me.refill(&k.m.buffers);
    // SAFETY: the handler filled it for this carrier.
    k.here(me.cpu()).count_call(unsafe { (*context).library });
    leave(follow(me, k.trap(me.cpu(), Trap::Call(call))))
}

#[inline(never)]
fn follow_long(context: *const Context, chosen: Option<Chosen>) -> *mut Context {
    let me = Carrier::me();
    follow(me, me.process().conclude(me.cpu(), &call_of(context), chosen))
}

#[cold]
#[inline(never)]
fn borrowed_call(context: *mut Context) -> *mut Context {
    let (me, call) = (Carrier::me(), call_of(context));
    // SAFETY: the entry filled it for this carrier.
    let c = unsafe { &mut *context };
    if me.gs.borrowed == UNBORN {
        let Some(result) = unborn::call(me, &call) else {
            let me = unborn::be_born_to_answer(me);
            return follow(me, me.process().trap(me.cpu(), Trap::Call(call)));
        };
        c.r[arch::context::reg::RAX] = result as u64;
        return context;
    }
    borrower::call(me, c, call);
    context
}

/// Releases the buffer of a preemption from which the thread has returned.
#[cold]
fn release_buffer(me: &Carrier, c: &mut Context) {
    let buffer = core::mem::replace(&mut c.xbuf, core::ptr::null_mut());
    if me.buffer.load(Relaxed).is_null() {
        me.buffer.store(buffer, Relaxed);
    } else {
        me.process().m.buffers.give(buffer);
    }
}

/// A host signal found user code: from [`entry::entresol_entry_preempt`].
extern "C" fn on_preempt(_context: *mut Context, _: *mut Gs) -> *mut Context {
    let me = unborn::born();
    let k = me.process();
    me.refill(&k.m.buffers);
    if me.fault.pending.swap(false, Relaxed) && !controlled::note(me) {
        // SAFETY: written by the handler on this carrier just now; plain data.
        let bytes: [u8; 128] = unsafe { core::mem::transmute(*me.fault.info.get()) };
        let t = k.current(me.cpu());
        let info = SigInfo::read(&bytes).unwrap_or_else(|_| {
            report::fatal(format_args!("the host gave an unreadable siginfo"));
        });
        // SAFETY: as above.
        k.m.note_fault(t, &info, unsafe { *me.fault.trapped.get() });
        k.fault(t, Linux(k).fault_as_mapped(info));
    }
    let next = interrupted(me);
    follow(me, scarce::look(me, next))
}

/// A handler left a mark while the thread was on its way out. Called from `entresol_again`.
extern "C" fn on_again(context: *mut Context, _: *mut Gs) -> *mut Context {
    let me = unborn::born();
    if Carrier::is_borrowed() {
        borrower::again(me);
    }
    if me.gs.pending.load(Relaxed) & pending::TIMER != 0 {
        me.process().cpu(me.cpu()).tick_hit_kernel();
    }
    // SAFETY: the current thread's context.
    if unsafe { (*context).kind } == Kind::Full as u32 {
        // The thread's x87 registers may be loaded already, but a thread that resumes from a plain call must find the
        // x87 stack empty.
        xstate::empty_x87();
    }
    let next = interrupted(me);
    follow(me, scarce::look(me, next))
}

fn interrupted(me: &Carrier) -> Next {
    let bits = me.gs.pending.swap(0, AcqRel);
    if bits & pending::TIMER != 0 {
        lookout::post_if_needed(me);
        me.part(me.cpu());
    }
    alone::look(me.process());
    controlled::note_interrupt(me.process(), bits & pending::TIMER != 0);
    let trap = Trap::Interrupt { timer: bits & pending::TIMER != 0, kick: bits & pending::KICK != 0 };
    me.process().trap(me.cpu(), trap)
}

/// A new carrier begins: from `entresol_entry_carrier`.
extern "C" fn on_carrier(_: *mut Gs) -> *mut Context {
    let me = Carrier::me();
    match me.gs.borrowed {
        0 => {}
        SERVICE => service::run(me),
        _ => return borrower::begin(me),
    }
    me.settle(&me.process().m.buffers);
    follow(me, wait_for_seat(me))
}

/// Carries out the kernel's decisions until a thread can be resumed.
#[inline(always)]
fn follow(me: &'static Carrier, next: Next) -> *mut Context {
    match next {
        Next::Run(t) if alone::host_knows(me) => load(me, t),
        other => follow_slow(me, other),
    }
}

#[inline(never)]
fn follow_slow(mut me: &'static Carrier, mut next: Next) -> *mut Context {
    loop {
        if let Next::Host { wanted, .. } = next {
            alone::before_host(me, wanted != Wanted::Never);
        }
        next = match next {
            // A forked child continues in its parent's context.
            Next::Run(t) if me.gs.borrowed == UNBORN => return me.process().m.contexts.get(t),
            Next::Run(t) if !alone::host_knows(me) && alone::heed(me) => alone::after_heed(me, t),
            Next::Run(t) if fits(me, t) => return load(me, t),
            Next::Run(t) => pass_on(me, t),
            Next::Idle { until } => idle(me, until),
            Next::Host { thread, call, wanted: Wanted::Now } if delegate::hand_out(me, thread, &call) => {
                me.process().resched(me.cpu())
            }
            Next::Host { thread, call, wanted } => wait_in_host(me, thread, call, wanted),
            Next::Inline { thread, call } => takeover::call(me, thread, call),
            Next::Process(what) => {
                let next = carry_out(me, what);
                // A forked child continues here on the first carrier of its own kernel.
                me = Carrier::me();
                next
            }
        };
    }
}

/// Makes a call that may wait.
fn wait_in_host(me: &'static Carrier, t: ThreadIdx, call: Call, wanted: Wanted) -> Next {
    let k = me.process();
    let until = match wanted {
        Wanted::At(at) => Some(at),
        Wanted::Now | Wanted::Never => None,
    };
    alone::before_call(me, &call, until);
    away(me, t, wanted == Wanted::Now, |kept| {
        if kept && Linux(k).would_wait(&call) {
            return linux::TRY_AGAIN;
        }
        if kept {
            k.m.service.watch();
        }
        waiting_call(me, t, call, until, alone::look)
    })
}

/// Carries out what the kernel leaves to the machine.
///
/// Each of these has its own stack frame. A frame with room for all of them would make an ending process touch stack
/// pages on which fork builds a kernel, and each process two pages that it does not need.
fn carry_out(me: &'static Carrier, what: Process) -> Next {
    let k = me.process();
    Linux(k).prepare(me.cpu(), &what);
    let result = match what {
        Process::Exit(status) => end::exit(k, status),
        Process::Exec(call) => {
            let t = k.current(me.cpu());
            if let Some(next) = to_first(me, t) {
                return next;
            }
            k.m.records.flush();
            exec::by_thread(&k.m.handover, t, &call)
        }
        Process::Rights(call) => {
            let t = k.current(me.cpu());
            // The call binds this host thread to `t`, and the other threads need one that is not bound.
            if binds(&call) {
                alone::end(k);
            }
            return alone::with_other_rights(k, || carry_out_change(me, t, &call));
        }
        Process::Leave(call) => {
            let result = identity::leave(k, &call);
            return Linux(k).has_left(me.cpu(), &call, result);
        }
        Process::Clone(args) if args.flags & abi::clone_flags::VM != 0 => return borrower::lend(me, &args),
        Process::Clone(args) => return fork::fork(me, &args),
    };
    k.process_done(me.cpu(), result)
}

/// Makes `t` the thread of this carrier (law 2: by an atomic claim).
#[inline(always)]
fn load(me: &'static Carrier, t: ThreadIdx) -> *mut Context {
    load_here(me, t).unwrap_or_else(|| load_elsewhere(t))
}

/// Makes `t` the thread of this carrier; `None` if they have different rights.
#[inline(always)]
fn load_here(me: &'static Carrier, t: ThreadIdx) -> Option<*mut Context> {
    #[cfg(feature = "planted")]
    let t = crate::traps::twist::twist(me, t);
    let context = Carrier::my_process().m.contexts.get(t);
    // SAFETY: contexts live for ever; the claim decides who may touch the rest.
    let c = unsafe { &mut *context };
    let owner = c.claim.load(Acquire);
    if owner == me.number + 1 {
        return Some(context);
    }
    if c.identity.load(Relaxed) != me.identity.load(Relaxed) {
        return None;
    }
    if owner != 0 {
        resumed_twice(me, t, owner);
    }
    c.take(me.number);
    // SAFETY: the thread is ours now; this loads what was saved of it.
    unsafe {
        let gs = base::gs();
        (*gs).fs_base_due = 1;
        let words = c.control_words();
        if c.kind == Kind::Full as u32 {
            (*gs).control_words = UNKNOWN_WORDS;
        } else if (*gs).control_words != words {
            xstate::set_control_words(c.mxcsr, c.fcw);
            (*gs).control_words = words;
        }
        (*gs).context = context;
    }
    Some(context)
}

/// Whether `t` has the rights of this carrier.
fn fits(me: &Carrier, t: ThreadIdx) -> bool {
    me.process().m.identity_of(t) == me.identity.load(Relaxed)
}

/// Hands the CPU to a carrier with the thread's rights. Returns when this carrier has a seat again, with the thread to
/// run there.
#[cold]
fn load_elsewhere(t: ThreadIdx) -> *mut Context {
    let me = Carrier::me();
    let next = pass_on(me, t);
    follow_slow(me, next)
}

#[cold]
fn resumed_twice(me: &Carrier, t: ThreadIdx, owner: u32) -> ! {
    report::say(format_args!(
        "thread {} ({t:?}) was to be resumed on {:?} by carrier {}, but carrier {} has it; the process ends \
         before it is corrupted",
        me.process().tid(t).0,
        me.cpu(),
        me.number,
        owner.wrapping_sub(1)
    ));
    survey::end(me.process())
}

/// The CPU has nothing to run: polls for a while, then sleeps until kicked or until the time.
fn idle(me: &'static Carrier, until: Option<Nanos>) -> Next {
    alone::before_wait(me);
    if me.process().is_controlled() {
        return leave_idle(me).or_else(|| controlled::idle(me, until)).unwrap_or_else(|| sleep(me, until));
    }
    let look = || if polls(me, until) { poll(me) } else { look_around(me) };
    match leave_idle(me).or_else(look).or_else(|| look_ahead(me, until)) {
        // The kick may have been that of a request.
        Some(next) => scarce::look(me, next),
        None => sleep(me, until),
    }
}

/// Polls for something to do, as often as recent polls were useful.
fn look_around(me: &'static Carrier) -> Option<Next> {
    (0..me.idle_looks.load(Relaxed)).find_map(|_| look_once(me))
}

#[inline(always)]
fn look_once(me: &'static Carrier) -> Option<Next> {
    let (k, cpu) = (me.process(), me.cpu());
    if me.gs.pending.load(Relaxed) != 0 || k.sched.need_resched(cpu) {
        return Some(interrupted(me));
    }
    let next = k.idle_look(cpu);
    if next.is_none() {
        (0..8).for_each(|_| sync::atomic::spin_hint());
    }
    next
}

/// Polls while a real-time thread's sleep is about to end.
fn look_ahead(me: &'static Carrier, until: Option<Nanos>) -> Option<Next> {
    let k = me.process();
    match k.m.ahead.look(k, me.cpu(), until, || look_once(me)) {
        Seen::Nothing => None,
        Seen::Due => Some(k.trap(me.cpu(), Trap::Interrupt { timer: true, kick: true })),
        Seen::Found(next) => Some(next),
    }
}

/// Whether the carrier polls for events before it sleeps: if that pays, and if no timeout or real-time thread relies on
/// the host CPU, because another program to which it yields may keep the host CPU for its slice.
fn polls(me: &Carrier, until: Option<Nanos>) -> bool {
    let k = me.process();
    if !k.m.poller.polling.pays() || !k.parked.is_any() || k.sched.has_been_urgent() || is_attended(k, me.cpu()) {
        return false;
    }
    until.is_none_or(|at| at.since(os::clock_gettime(1)) > polling::HOST_SLICE)
}

/// Polls for events, and yields the host CPU between two polls.
fn poll(me: &'static Carrier) -> Option<Next> {
    let (k, cpu, polling) = (me.process(), me.cpu(), &me.process().m.poller.polling);
    let (begun, before) = (k.now(), polling.events());
    let mut events = [abi::epoll::Readiness::default(); EVENTS];
    loop {
        let found = k.m.poller.look(me, &mut events);
        let now = k.now();
        k.parked.note_look(cpu, now);
        let span = now.since(begun);
        if found > 0 {
            polling.add_events(found);
            polling.polled(span, false, before);
            Linux(k).descriptors_ready(cpu, &events[..found]);
            return Some(k.trap(cpu, Trap::Interrupt { timer: false, kick: true }));
        }
        if let Some(next) = look_once(me) {
            polling.interrupted(span, before);
            return Some(next);
        }
        if span >= polling::SPAN {
            polling.polled(span, true, before);
            return None;
        }
        os::relax(0);
    }
}

/// Sleeps until kicked, or until the time or a little before it.
fn sleep(me: &'static Carrier, until: Option<Nanos>) -> Next {
    let (k, cpu) = (me.process(), me.cpu());
    let wake_up_at = until.map(|at| match k.is_controlled() {
        true => controlled::sleep_until(k, at),
        false => k.m.ahead.wake_up_at(k, cpu, at),
    });
    me.find_place(cpu);
    me.park.store(0, SeqCst);
    k.sched.idle_state(cpu, Idle::Parked);
    k.m.seats.park(cpu, me);
    let due = || wake_up_at.map(|at| at.since(os::clock_gettime(1)));
    let wanted = k.sched.need_resched(cpu) || k.sched.queued(cpu) != 0;
    let look = wanted || me.gs.pending.load(Relaxed) != 0 || scarce::is_asked(me);
    let mut left = due();
    let asleep = k.now();
    let (mut events, mut found) = ([abi::epoll::Readiness::default(); EVENTS], 0);
    let no_longer = |left: Option<Nanos>, span: Nanos| Some(left.map_or(span, |left| left.min(span)));
    while !look
        && found == 0
        && left != Some(Nanos::ZERO)
        && me.park.load(SeqCst) == 0
        && me.gs.pending.load(SeqCst) == 0
    {
        if k.m.service.is_missing() && !service::start_again(k) {
            service::stand_in(k);
            left = no_longer(left, service::STAND_IN);
        }
        if !k.parked.is_any() {
            os::futex_wait(&me.park, 0, left);
        } else if let Some(pause) = Poller::pause(me, is_attended(k, cpu)) {
            os::futex_wait(&me.park, 0, no_longer(left, pause));
        } else {
            let from = k.now();
            found = k.m.poller.wait(me, left, &mut events);
            let now = k.now();
            if found > 0 {
                k.m.poller.polling.add_events(found);
                k.m.poller.polling.slept(now.since(from));
            }
            k.parked.note_look(cpu, now);
        }
        left = due();
    }
    let woken = k.now();
    let looks = me.idle_looks.load(Relaxed);
    // Polling for work does not find what the poller reports.
    let looks = if found == 0 { looks_after(looks, woken.since(asleep)) } else { looks / 4 };
    me.idle_looks.store(looks, Relaxed);
    let early = match (wake_up_at, until) {
        (Some(_), Some(until)) if k.is_controlled() => {
            if left == Some(Nanos::ZERO) {
                controlled::leap(k, until);
            }
            false
        }
        (Some(at), Some(until)) if at != until && left == Some(Nanos::ZERO) => {
            k.m.ahead.woke(k, (&k.m.seats, &k.m.carriers), cpu, [at, woken, until])
        }
        _ => false,
    };
    let seated = k.m.seats.unpark(cpu, me);
    Linux(k).descriptors_ready(if seated { cpu } else { CpuId::NONE }, &events[..found]);
    if seated {
        me.part(cpu);
        k.sched.idle_state(cpu, Idle::Spinning);
        let due = left == Some(Nanos::ZERO) && !early;
        // A signal that arrives after the marks were taken sets them again.
        let timer = me.gs.pending.swap(0, AcqRel) & pending::TIMER != 0 || due;
        alone::look(k);
        let next = k.trap(cpu, Trap::Interrupt { timer, kick: true });
        return scarce::look(me, next);
    }
    // A carrier that returned from a host call has taken the seat; this one is a spare.
    me.gs.pending.store(0, Relaxed);
    wait_for_seat(me)
}

/// Whether another CPU attends to the poller. A real-time thread must not depend on that.
fn is_attended(k: &crate::process::Process, cpu: CpuId) -> bool {
    k.parked.is_attended(cpu, k.now()) && !k.parked.is_urgent()
}

/// The number of polls in the next idle period of a carrier that polled `looks` times and then slept for `slept`.
///
/// Polling that does not avoid a sleep is harmful: the host takes the carrier for a busy thread and lets others wait.
/// So the limit follows the length of recent sleeps, as in the haltpoll governor of Linux's cpuidle.
fn looks_after(looks: u32, slept: Nanos) -> u32 {
    let idle = slept.0 + u64::from(looks) * LOOK_NS;
    let spared = idle < u64::from(IDLE_LOOKS) * LOOK_NS;
    if spared { (looks * 2).clamp(IDLE_LOOKS_MIN, IDLE_LOOKS) } else { (looks / 4).max(IDLE_LOOKS_MIN) }
}
