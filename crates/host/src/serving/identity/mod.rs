//! Identities: the state that Linux keeps per host thread and that decides what a thread may do.
//!
//! A thread of ours runs on many carriers, so its credentials must follow it. Every thread and every carrier, including
//! the service thread, has the number of an **identity**, and a thread runs only on a carrier with the same number (law
//! 2: [`crate::traps::run`] compares the two before it loads a thread). All begin with the *base*. A call that changes
//! credentials is made on the caller's carrier. If the credentials differ afterwards, the thread and its carrier get
//! another identity; equal credentials are the same identity.
//!
//! - **A single thread has changed** (`setfsuid` in a file server): it has carriers of its own. A CPU that chooses it
//!   is handed to one of them, and back to one of the base for the next thread. A carrier of the base takes on another
//!   identity by making the same calls; no carrier ever changes back.
//! - **All threads have made the same change**, after glibc's `setuid`, which makes each thread repeat the call: it
//!   becomes the new base. Before the last of these calls returns, every host thread of the process has made the calls:
//!   running, parked, spare or in a host call (`adopt`). The result of a repeated call is known then, so a thread whose
//!   new identity has a spare carrier moves there instead.
//! - **An identity without threads** ends with its carriers, except those that tracees or children need.
//! - **A tracer** has an identity that differs only in its number, with one carrier (`tracer`). So has a thread to
//!   whose host thread the host has bound something, a counter or a ring (`bind`).
//!
//! So a carrier that runs threads never has an identity without threads. Otherwise only the exceptions above keep one,
//! and the base while threads differ: the service thread has it, and clones missing carriers from it.

mod adopt;
pub(crate) mod seats;
pub(crate) mod tracer;

use crate::base::report;
use crate::carriers::carrier::{Carrier, NO_IDENTITY};
use crate::carriers::credentials::{self, Change, Credentials};
use crate::carriers::identities::{Identities, Identity, Table};
use crate::process::Process;
use crate::serving::scarce;
use abi::Errno;
use abi::args::{WALL, WEXITED, WNOHANG, WNOTHREAD, WNOWAIT};
use arch::syscall;
use ids::ThreadIdx;
use kernel::Call;
use sync::atomic::Ordering::*;

/// The most identities at a time. More are refused with EAGAIN.
const IDENTITIES_MAX: usize = 1024;

fn set(k: &Process, t: ThreadIdx, number: u32) {
    // SAFETY: contexts live for ever; the caller is the thread's own carrier.
    unsafe { (*k.m.contexts.get(t)).identity.store(number, Relaxed) };
}

/// Whether the calling carrier may leave its identity: another carrier must have it if threads need it. If the
/// process's first host thread ended before the others, the process would be seen as dead, so while there are others it
/// never has an identity of its own.
fn may_change(me: &Carrier, mine: u32) -> bool {
    let k = me.process();
    if me.is_first() {
        return k.threads().live() == 1;
    }
    let alone = k.m.identities.lock().get(mine).is_none_or(|i| i.threads <= 1);
    alone || has_another(me, mine)
}

/// Whether a carrier other than `than` has this identity.
fn has_another(than: &Carrier, identity: u32) -> bool {
    than.process().m.carriers.with_identity(identity).any(|c| c.number != than.number && c.gs.borrowed == 0)
}

/// A tracer's requests must come from the host thread that its tracees know: ties the thread to this carrier.
fn tie(me: &'static Carrier, t: ThreadIdx) {
    let k = me.process();
    let all = &k.m.identities;
    let mut table = all.lock();
    let from = k.m.identity_of(t);
    // Without memory the thread is not tied, and the host may refuse its requests.
    if table.untied(from).is_some() || table.others.len() >= IDENTITIES_MAX || table.others.try_reserve(1).is_err() {
        return;
    }
    let base = *table.base.get_or_insert_with(|| Credentials::mine(0));
    let credentials = table.get(from).map_or(base, |i| i.credentials);
    table.last += 1;
    let number = table.last;
    table.others.push(Identity { number, credentials, from, change: None, result: 0, threads: 1 });
    all.mixed.store(true, SeqCst);
    set(k, t, number);
    me.owner.store(t.0, Relaxed);
    me.untied.store(from, SeqCst);
    me.identity.store(number, SeqCst);
    count(k, &mut table, from, -1);
}

/// Unties a thread before its rights change.
fn untie(me: &'static Carrier, t: ThreadIdx) {
    let k = me.process();
    let mut table = k.m.identities.lock();
    let number = k.m.identity_of(t);
    if let Some(from) = table.untied(number) {
        count(k, &mut table, from, 1);
        set(k, t, from);
        end_tie(&mut table, me, number, from);
        settle(k, &mut table);
    }
}

fn end_tie(table: &mut Table, me: &Carrier, number: u32, from: u32) {
    me.identity.store(from, SeqCst);
    me.untied.store(NO_IDENTITY, SeqCst);
    table.others.retain(|i| i.number != number);
}

/// The result of a call that changes credentials.
enum Changed {
    /// The call's result.
    Result(isize),
    /// A carrier with the resulting identity exists and is busy: the call must be made again.
    Busy(u32),
}

/// Makes the call. If not `here`, on this carrier, only a free carrier with the resulting identity is of use.
fn change(me: &'static Carrier, t: ThreadIdx, call: &Call, here: bool) -> Changed {
    let k = me.process();
    let Ok(change) = Change::new(call, k.tid(t).0) else { return Changed::Result(refused(call)) };
    let alone = k.threads().live() == 1;
    if change.is_opaque() && !alone {
        // Another carrier could not be given the same: answer like a host without Landlock.
        return Changed::Result(Errno::EOPNOTSUPP.to_ret());
    }
    let all = &k.m.identities;
    let mut table = all.lock();
    let from = k.m.identity_of(t);
    let known = table.others.iter().find(|i| i.from == from && i.change.as_ref() == Some(&change));
    let known = known.map(|i| (i.number, i.result));
    let is_free = |number| k.m.carriers.has_spare(number) || !here && scarce::asleep(k, number).is_some();
    let free = known.filter(|&(number, _)| is_free(number));
    let (to, result) = match (free, known) {
        (Some(free), _) => free,
        (None, Some((busy, _))) if !here && has_another(me, busy) => return Changed::Busy(busy),
        // The host allows no further carrier (RLIMIT_NPROC, `pids.max`, memory), and only another one could.
        _ if !here && has_another(me, from) => return Changed::Busy(from),
        _ if !here => return Changed::Result(Errno::EAGAIN.to_ret()),
        _ => match k.m.natives.around_change(call, || make(&mut table, all, from, change)) {
            Ok(made) => made,
            Err(result) => return Changed::Result(result),
        },
    };
    if to != from {
        all.mixed.store(true, SeqCst);
        set(k, t, to);
        if free.is_none() {
            me.identity.store(to, SeqCst);
        }
        count(k, &mut table, to, 1);
        count(k, &mut table, from, -1);
        settle(k, &mut table);
    }
    Changed::Result(result)
}

/// Makes the change on this carrier: the new identity and the call's result; only the result if nothing has changed.
fn make(table: &mut Table, all: &Identities, from: u32, change: Change) -> Result<(u32, isize), isize> {
    let base = all.base.load(Relaxed);
    let before = match table.others.iter().find(|i| i.number == from) {
        Some(identity) => identity.credentials,
        None => *table.base.get_or_insert_with(|| Credentials::mine(0)),
    };
    if table.others.len() >= IDENTITIES_MAX {
        table.forget_unused();
    }
    // Everything that can fail comes before the call, which cannot be undone.
    if table.others.len() >= IDENTITIES_MAX || table.others.try_reserve(1).is_err() {
        return Err(Errno::EAGAIN.to_ret());
    }
    let opaque = change.is_opaque();
    let result = change.make();
    if result < 0 {
        return Err(result);
    }
    if opaque {
        table.opaque += 1;
    }
    let now = Credentials::mine(if opaque { table.opaque } else { before.opaque() });
    if now == before {
        return Err(result);
    }
    if now.comparable() && table.base == Some(now) {
        return Ok((base, result));
    }
    let equal = table.others.iter_mut().find(|i| now.comparable() && i.change.is_some() && i.credentials == now);
    if let Some(equal) = equal {
        return Ok((equal.number, result));
    }
    table.last += 1;
    let number = table.last;
    table.others.push(Identity { number, credentials: now, from, change: Some(change), result, threads: 0 });
    Ok((number, result))
}

/// The process leaves what it shares with others if this carrier is its only host thread: later ones begin with what it has then. Its
/// rights may be others, too.
pub(crate) fn leave(k: &Process, call: &Call) -> isize {
    if !k.m.service.is_alone() {
        return Errno::EINVAL.to_ret();
    }
    let result = credentials::make(call);
    if result == 0 {
        k.m.identities.lock().look_again();
    }
    result
}

/// Makes a call with an argument that cannot be copied: the host returns the right error.
fn refused(call: &Call) -> isize {
    let result = credentials::make(call);
    if result >= 0 {
        report::fatal(format_args!("system call {} changed the rights of one host thread only", call.nr));
    }
    result
}

fn count(k: &Process, table: &mut Table, number: u32, by: i32) {
    let Some(identity) = table.get(number) else { return };
    identity.threads = identity.threads.wrapping_add_signed(by);
    if identity.threads == 0 {
        k.m.carriers.end_spares(number);
    }
}

/// Makes the identity that all threads have the base. Not while a carrier is tied: it has a number of its own even if
/// its thread has just ended, and would not be found by the base's.
///
/// The counts alone do not suffice: a thread that ends leaves the living threads a moment before it is uncounted, and
/// two that end at once could hide one that has another identity. So if the counts allow it, every living thread is
/// checked; a thread in the making has the identity of its creator, which lives.
fn settle(k: &Process, table: &mut Table) {
    let threads = k.threads();
    let all_have = |number| threads.living().all(|t| k.m.identity_of(t) == number);
    let common = |i: &Identity| i.change.is_some() && i.threads >= threads.live() && all_have(i.number);
    let tied = table.others.iter().any(|i| i.change.is_none());
    if let Some(at) = table.others.iter().position(|i| !tied && common(i)) {
        adopt::everywhere(k, table, at);
    }
    k.m.identities.mixed.store(table.others.iter().any(|i| i.threads > 0), SeqCst);
}

/// A thread inherits its creator's identity.
#[inline]
pub(crate) fn inherit(k: &Process, parent: ThreadIdx, child: ThreadIdx) {
    let mut number = k.m.identity_of(parent);
    set(k, child, number);
    if k.m.identities.mixed.load(Relaxed) {
        let mut table = k.m.identities.lock();
        if let Some(from) = table.untied(number) {
            number = from;
            set(k, child, from);
        }
        count(k, &mut table, number, 1);
        settle(k, &mut table);
    }
}

/// A thread with this identity has ended and is no longer counted among the living.
#[inline]
pub(crate) fn gone(k: &Process, number: u32) {
    if k.m.identities.mixed.load(Relaxed) {
        let mut table = k.m.identities.lock();
        if let Some(from) = table.untied(number) {
            // The caller is the carrier that it was tied to.
            end_tie(&mut table, Carrier::me(), number, from);
        }
        count(k, &mut table, number, -1);
        settle(k, &mut table);
    }
}

/// This host thread has received the signal that concerns its identity, wherever it is.
pub(crate) fn called(me: &Carrier) {
    adopt::adopt_here(me);
    run_errand(me);
}

/// The service thread has been called, perhaps for this.
///
/// `leaving` is called before its rights change. Returns whether they have.
pub(crate) fn serve(me: &Carrier, leaving: impl FnOnce()) -> bool {
    let m = &me.process().m;
    let changes = adopt::is_to_change(me);
    if changes {
        leaving();
        adopt::adopt_here(me);
    }
    if m.identities.missing.swap(false, SeqCst) {
        match m.carriers.new_carrier() {
            Some(carrier) => m.carriers.give_spare(carrier),
            None => drop(m.identities.refused.fetch_add(1, SeqCst)),
        }
    }
    changes
}

/// The calling carrier has been given a seat for a thread of the identity `wanted`.
pub(crate) fn become_wanted(me: &Carrier, wanted: u32) {
    let all = &me.process().m.identities;
    let path = {
        let table = all.lock();
        let mine = me.identity.load(SeqCst);
        if mine == wanted {
            return;
        }
        let base = all.base.load(SeqCst);
        let Some(identity) = table.others.iter().find(|i| i.number == wanted) else { return };
        table.path(base, wanted).filter(|_| mine == base).map(|path| (base, path, identity.credentials))
    };
    if let Some((base, path, credentials)) = path {
        adopt::become_one(me, base, wanted, &path, &credentials);
    }
}

/// Whether the caller, a spare whose identity has no threads, must stay: its end would release its tracees and give its
/// children another parent (`exit_ptrace`, `forget_original_parent`). It is asked again when the next identity ends.
/// When all threads change their credentials it ends anyway, because keeping old ones would be worse.
pub(crate) fn keep(me: &Carrier) -> bool {
    if me.tracing.parent.load(Acquire) == 0 {
        return false;
    }
    let table = me.process().m.identities.lock();
    let mine = me.identity.load(SeqCst);
    let keep = table.others.iter().any(|i| i.number == mine) && has_tracees_or_children();
    me.tracing.kept.store(keep, SeqCst);
    keep
}

/// Whether the calling host thread has any (`do_wait` with `__WNOTHREAD`).
fn has_tracees_or_children() -> bool {
    // SAFETY: takes nothing and writes nothing.
    let r = unsafe { syscall!(abi::nr::WAITID, 0, 0, 0, WNOHANG | WEXITED | WNOWAIT | WNOTHREAD | WALL, 0) };
    r != Errno::ECHILD.to_ret()
}

/// Makes the request that the calling host thread has been given. Runs in the handler of the interrupt signal, so it
/// takes no locks and allocates nothing.
fn run_errand(me: &Carrier) {
    let errand = me.tracing.errand.swap(core::ptr::null_mut(), SeqCst);
    // SAFETY: the requester waits until it is done, because nobody else can take the request back now.
    let Some(errand) = (unsafe { errand.as_ref() }) else { return };
    errand.result.store(credentials::make(&errand.call) as i64, Relaxed);
    errand.done.store(true, Release);
}
