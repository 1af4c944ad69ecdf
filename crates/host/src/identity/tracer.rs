//! Requests of tracers, and what must be done by the host thread that a tracer knows.
//!
//! The host takes a request from one host thread only, the tracer that the tracee knows (`ptrace_check_attach`): the one
//! that attached or, for a child that asked to be traced (PTRACE_TRACEME), the one that made the fork (`real_parent`). So a
//! thread is **tied** to its carrier by its first request that succeeds, and forks there, too. What was forked before is
//! found when a request answers ESRCH: the host says which of our host threads is the tracer. An untied thread goes on
//! there and is tied to that one, if nobody needs it: it is a spare, or sleeps on an idle CPU, with whose seat the caller's
//! is exchanged. Otherwise that host thread makes the request for us, in the handler of a signal that finds it
//! wherever it is. A fork itself costs a store; which of its children wants to be traced is not known
//! then, and most want not.
//!
//! The other way round, a tracer that does not follow clones knows the **first host thread** of its tracee, and that
//! alone is still traced after an exec. So a main thread that asks to be traced or that executes a program goes there first.

use super::{carriers, credentials, give_up_seat_to, is_first, of, tie};
use crate::carrier::Carrier;
use crate::machine::kernel;
use crate::os::{self, nr};
use crate::report::Text;
use crate::{run, scarce, survey};
use abi::Errno;
use arch::syscall;
use core::fmt::Write;
use core::sync::atomic::AtomicPtr;
use ids::ThreadIdx;
use kernel::{Call, Machine, Next};
use sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering::*};

const PTRACE_TRACEME: u64 = 0;
const PTRACE_ATTACH: u64 = 16;
const PTRACE_SEIZE: u64 = 0x4206;

/// How often a carrier is asked for that other threads may keep busy for ever.
const ROUNDS_BESIDE_OTHERS: u32 = 10;

/// More than one thread, in [`Tracing::parent`].
const SEVERAL: i32 = -1;

/// A carrier's tracing state.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    /// The thread whose tracees this host thread may trace, because it made children or requests here; 0: none.
    parent: AtomicI32,
    /// A request that it shall make.
    errand: AtomicPtr<Errand>,
    /// It has outlived its identity, and is not among the spares. Under the lock of the identities.
    kept: AtomicBool,
}

impl Tracing {
    /// Thread `t` has made a child, or traces, on this carrier, the caller.
    pub(crate) fn is_parent(&self, t: ThreadIdx) {
        let tid = kernel().tid(t).0;
        let several = ![0, tid].contains(&self.parent.load(Relaxed));
        self.parent.store(if several { SEVERAL } else { tid }, Release);
    }

    fn may_be_parent(&self, t: ThreadIdx) -> bool {
        [kernel().tid(t).0, SEVERAL].contains(&self.parent.load(Acquire))
    }

    /// It shall be asked again whether it is needed, or end. False if it was not kept.
    pub(crate) fn let_go(&self) -> bool {
        self.kept.load(SeqCst) && self.kept.swap(false, SeqCst)
    }

    /// The host thread ends.
    pub(crate) fn forget(&self) {
        self.parent.store(0, Release);
    }
}

/// A request that another carrier makes. It lies on the requester's kernel stack.
#[derive(Debug)]
struct Errand {
    call: Call,
    result: AtomicI64,
    done: AtomicBool,
}

/// The current thread `t` makes a request.
pub(super) fn request(me: &'static Carrier, t: ThreadIdx, call: &Call) -> Next {
    let k = kernel();
    if call.args[0] == PTRACE_TRACEME {
        return to_first(me, t).unwrap_or_else(|| {
            let result = credentials::make(call);
            if result == 0 {
                k.set_traced();
            }
            k.process_done(me.cpu(), result)
        });
    }
    let result = credentials::make(call);
    if result == Errno::ESRCH.to_ret()
        && let Some(tracer) = tracer_of(me, t, call)
    {
        if me.untied.load(Relaxed) == super::NONE {
            for round in 0..ROUNDS_BESIDE_OTHERS {
                if let Some(next) = go_on_at(me, t, tracer) {
                    return next;
                }
                os::relax(round);
            }
        }
        let busy = k.leave_for_host(me.cpu(), t, 0);
        return run::away(me, t, busy, |_| ask(tracer, call));
    }
    if result >= 0 {
        tie(me, t);
        me.tracing.is_parent(t);
    }
    k.process_done(me.cpu(), result)
}

/// The other carrier of ours that the host takes for the tracer of the request's tracee.
fn tracer_of(me: &Carrier, t: ThreadIdx, call: &Call) -> Option<&'static Carrier> {
    if [PTRACE_ATTACH, PTRACE_SEIZE].contains(&call.args[0]) {
        return None;
    }
    let mut path = Text::<64>::default();
    let _ = write!(path, "/proc/{}/status\0", call.args[1] as i32);
    let mut bytes = [0; 4096];
    let tid: u32 = survey::labelled(os::read_file(path.as_bytes(), &mut bytes), "TracerPid:")?.parse().ok()?;
    let all = (0..carriers().count()).map(|i| carriers().get(i));
    let mut ours = all.filter(|c| tid != 0 && c.gs.borrowed == 0 && c.number != me.number);
    ours.find(|c| c.tid.load(Acquire) == tid && c.tracing.may_be_parent(t))
}

/// Moves the main thread `t`, current on the caller's CPU, to the process's first host thread, where it makes its
/// call again. `None` if it is there, or cannot be moved.
pub(crate) fn to_first(me: &'static Carrier, t: ThreadIdx) -> Option<Next> {
    /// About a second, more than a host thread without work takes to its sleep.
    const ROUNDS: u32 = 20_000;
    let k = kernel();
    if is_first(me) || k.tid(t).0 != k.m.pid {
        return None;
    }
    let first = (0..carriers().count()).map(|i| carriers().get(i)).find(|c| is_first(c))?;
    let rounds = if k.threads().live() == 1 { ROUNDS } else { ROUNDS_BESIDE_OTHERS };
    for round in 0..rounds {
        if first.identity.load(SeqCst) != of(t) {
            break;
        }
        if let Some(next) = go_on_at(me, t, first) {
            return Some(next);
        }
        os::relax(round);
    }
    None
}

/// Moves the current thread `t` to that very carrier, where it makes its call again. `None` if that one has other
/// credentials or is busy with a thread or a host call.
fn go_on_at(me: &'static Carrier, t: ThreadIdx, to: &'static Carrier) -> Option<Next> {
    let k = kernel();
    if to.identity.load(SeqCst) != of(t) {
        return None;
    }
    let is_spare = carriers().take_spare_if(|c| c.number == to.number).is_some();
    let other = to.cpu();
    if !is_spare && (other.index() >= k.config().cpus || !k.m.seats.exchange_parked(other, to, me)) {
        return None;
    }
    k.m.leave_behind(t);
    k.m.restart_call(t, None);
    Some(if is_spare { give_up_seat_to(me, to, true) } else { scarce::exchanged(me, to, other) })
}

/// Whether the caller, a spare whose identity has no threads, must stay: its end would set its tracees free and give
/// its children another parent (`exit_ptrace`, `forget_original_parent`). It is asked again when the next identity
/// ends. When all threads change their credentials it ends anyway, because keeping old ones would be worse.
pub(crate) fn keep(me: &Carrier) -> bool {
    if me.tracing.parent.load(Acquire) == 0 {
        return false;
    }
    let table = super::identities().lock();
    let mine = me.identity.load(SeqCst);
    let keep = table.others.iter().any(|i| i.number == mine) && has_tracees_or_children();
    me.tracing.kept.store(keep, SeqCst);
    keep
}

/// Whether the calling host thread itself has any (`do_wait` with `__WNOTHREAD`).
fn has_tracees_or_children() -> bool {
    const WNOHANG: usize = 1;
    const WEXITED: usize = 4;
    const WNOWAIT: usize = 0x0100_0000;
    const WNOTHREAD: usize = 0x2000_0000;
    const WALL: usize = 0x4000_0000;
    // SAFETY: takes nothing and writes nothing.
    let r = unsafe { syscall!(nr::WAITID, 0, 0, 0, WNOHANG | WEXITED | WNOWAIT | WNOTHREAD | WALL, 0) };
    r != Errno::ECHILD.to_ret()
}

/// Has that carrier make the request, wherever it is. ESRCH if it ends first, because then it traces nothing.
fn ask(tracer: &Carrier, call: &Call) -> isize {
    let errand = Errand { call: *call, result: AtomicI64::new(0), done: AtomicBool::new(false) };
    let at = core::ptr::from_ref(&errand).cast_mut();
    let tid = tracer.tid.load(Acquire);
    let has_ended = || tracer.identity.load(SeqCst) == super::NONE || tracer.tid.load(Acquire) != tid;
    let slot = &tracer.tracing.errand;
    let mut given = false;
    for round in 0.. {
        if !given && slot.compare_exchange(core::ptr::null_mut(), at, SeqCst, SeqCst).is_ok() {
            given = true;
            os::signal_for_identity(kernel().m.pid, tid as i32);
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

/// The calling host thread makes the request that it has been given. In the handler of the interrupt signal, so without
/// locks and memory of its own.
pub(super) fn run_errand(me: &Carrier) {
    let errand = me.tracing.errand.swap(core::ptr::null_mut(), SeqCst);
    // SAFETY: who gave it waits until it is done, for nobody else can take it back now.
    let Some(errand) = (unsafe { errand.as_ref() }) else { return };
    errand.result.store(credentials::make(&errand.call) as i64, Relaxed);
    errand.done.store(true, Release);
}
