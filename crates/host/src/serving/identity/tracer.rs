//! Requests of tracers, and what must be done by the host thread that a tracer knows.
//!
//! The host accepts a request only from one host thread, the tracer that the tracee knows (`ptrace_check_attach`): the
//! one that attached or, for a child that asked to be traced (PTRACE_TRACEME), the one that forked it (`real_parent`).
//! So a thread is **tied** to its carrier by its first successful request, and forks there, too. Earlier forks are
//! found when a request returns ESRCH: the host says which of our host threads is the tracer. An untied thread moves
//! there and is tied to that carrier if nobody needs it, which means that it is a spare, or sleeps on an idle CPU, with
//! whose seat the caller's is exchanged. Otherwise that host thread makes the request for us, in the handler of a
//! signal that finds it wherever it is. A fork itself costs a store: whether the child wants to be traced is not known
//! then, and most do not.
//!
//! Conversely, a tracer that does not follow clones knows only the **first host thread** of its tracee, and only that
//! one is still traced after an exec. So a main thread that asks to be traced or that executes a program moves there
//! first.

use super::seats::give_up_seat_to;
use super::tie;
use crate::base::report::Text;
use crate::base::{os, task};
use crate::carriers::carrier::{Carrier, NO_IDENTITY};
use crate::carriers::credentials;
use crate::carriers::mailbox::Errand;
use crate::serving::away::away;
use crate::serving::scarce;
use abi::Errno;
use abi::args::{PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_TRACEME};
use arch::context::pending;
use core::fmt::Write;
use ids::ThreadIdx;
use kernel::{Call, Next};
use sync::atomic::{AtomicBool, AtomicI64, Ordering::*};

/// How often to ask for a carrier that other threads may keep busy for ever.
const ROUNDS_BESIDE_OTHERS: u32 = 10;

/// Makes a tracer's request of the current thread `t`.
pub(super) fn request(me: &'static Carrier, t: ThreadIdx, call: &Call) -> Next {
    let k = me.process();
    if call.args[0] == PTRACE_TRACEME {
        return to_first(me, t).unwrap_or_else(|| {
            let result = credentials::make(call);
            if result == 0 {
                k.set_traced();
                arm_anew(me);
            }
            k.process_done(me.cpu(), result)
        });
    }
    let result = credentials::make(call);
    if result == Errno::ESRCH.to_ret()
        && let Some(tracer) = tracer_of(me, t, call)
    {
        if me.untied.load(Relaxed) == NO_IDENTITY {
            for round in 0..ROUNDS_BESIDE_OTHERS {
                if let Some(next) = go_on_at(me, t, tracer) {
                    return next;
                }
                os::relax(round);
            }
        }
        let busy = k.leave_for_host(me.cpu(), t, 0);
        return away(me, t, busy, |_| ask(tracer, call));
    }
    if result >= 0 {
        tie(me, t);
        me.tracing.is_parent(k.tid(t));
    }
    k.process_done(me.cpu(), result)
}

/// Arms the carrier's timer only for what is still to come. A young process has armed it to publish its page, and the
/// service thread has done that; its signal would stop the process, which its tracer does not expect.
fn arm_anew(me: &Carrier) {
    me.alarms.disarm();
    me.gs.pending.fetch_or(pending::TIMER, AcqRel);
}

/// The carrier that the host considers the tracee's tracer, if it is not `me`.
fn tracer_of(me: &Carrier, t: ThreadIdx, call: &Call) -> Option<&'static Carrier> {
    if [PTRACE_ATTACH, PTRACE_SEIZE].contains(&call.args[0]) {
        return None;
    }
    let mut path = Text::<64>::default();
    let _ = write!(path, "/proc/{}/status\0", call.args[1] as i32);
    let mut bytes = [0; 4096];
    let tid: u32 = task::labelled(os::read_file(path.as_bytes(), &mut bytes), "TracerPid:")?.parse().ok()?;
    let k = me.process();
    let all = (0..k.m.carriers.count()).map(|i| k.m.carriers.get(i));
    let mut ours = all.filter(|c| tid != 0 && c.gs.borrowed == 0 && c.number != me.number);
    ours.find(|c| c.tid.load(Acquire) == tid && c.tracing.may_be_parent(k.tid(t)))
}

/// Moves the main thread `t`, current on the caller's CPU, to the process's first host thread, where it makes its call
/// again. `None` if it is there already, or cannot be moved.
pub(crate) fn to_first(me: &'static Carrier, t: ThreadIdx) -> Option<Next> {
    /// About a second, longer than an idle host thread takes to go to sleep.
    const ROUNDS: u32 = 20_000;
    let k = me.process();
    if me.is_first() || k.tid(t).0 != k.m.pid {
        return None;
    }
    let first = k.m.carriers.get(0);
    let rounds = if k.threads().live() == 1 { ROUNDS } else { ROUNDS_BESIDE_OTHERS };
    for round in 0..rounds {
        if first.identity.load(SeqCst) != k.m.identity_of(t) {
            break;
        }
        if let Some(next) = go_on_at(me, t, first) {
            return Some(next);
        }
        os::relax(round);
    }
    None
}

/// Moves the current thread `t` to the carrier `to`, where it makes its call again. `None` if that one has other
/// credentials or is busy with a thread or a host call.
fn go_on_at(me: &'static Carrier, t: ThreadIdx, to: &'static Carrier) -> Option<Next> {
    let k = me.process();
    if to.identity.load(SeqCst) != k.m.identity_of(t) {
        return None;
    }
    let is_spare = k.m.carriers.take_spare_if(|c| c.number == to.number).is_some();
    let other = to.cpu();
    if !is_spare && (other.index() >= k.config().cpus || !k.m.seats.exchange_parked(other, to, me)) {
        return None;
    }
    k.m.leave_behind(t);
    k.restart_call(t, None);
    Some(if is_spare { give_up_seat_to(me, to, true) } else { scarce::exchanged(me, to, other) })
}

/// Makes that carrier make the request, wherever it is. ESRCH if it ends first, because then it traces nothing.
fn ask(tracer: &Carrier, call: &Call) -> isize {
    let errand = Errand { call: *call, result: AtomicI64::new(0), done: AtomicBool::new(false) };
    let at = core::ptr::from_ref(&errand).cast_mut();
    let tid = tracer.tid.load(Acquire);
    let has_ended = || tracer.identity.load(SeqCst) == NO_IDENTITY || tracer.tid.load(Acquire) != tid;
    let slot = &tracer.tracing.errand;
    let mut given = false;
    for round in 0.. {
        if !given && slot.compare_exchange(core::ptr::null_mut(), at, SeqCst, SeqCst).is_ok() {
            given = true;
            os::signal_for_identity(os::getpid(), tid as i32);
        }
        if errand.done.load(Acquire) {
            break;
        }
        let taken_back = || !given || slot.compare_exchange(at, core::ptr::null_mut(), SeqCst, SeqCst).is_ok();
        if has_ended() && taken_back() {
            return Errno::ESRCH.to_ret();
        }
        os::relax(round);
    }
    errand.result.load(Relaxed) as isize
}
