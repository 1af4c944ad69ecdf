//! Identities: the state that Linux keeps per host thread and that decides what a thread may do.
//!
//! A thread of ours runs on many carriers, so its credentials must follow it. Every thread and every carrier, the
//! service thread included, has the number of an **identity**, and a thread runs only on a carrier with the same
//! number (law 2:
//! [`crate::run`] compares the two before it loads a thread). All begin with the *base*. A call that changes credentials is
//! made on the caller's carrier. If the credentials differ afterwards, the thread and its carrier get another
//! identity; equal credentials are the same identity.
//!
//! - **One thread alone has changed** (`setfsuid` in a file server): it has carriers of its own. A CPU that chooses it is
//!   handed to one of them, and back to one of the base for the next thread. A carrier of the base becomes one of another
//!   identity by making the same calls; no carrier ever goes back.
//! - **All threads have changed to the same one**, after glibc's `setuid`, which makes each thread repeat the call: it is the
//!   new base. Before the last of these calls returns, every host thread of the process has made the calls: running, parked,
//!   spare or in a host call (`adopt`). The result of a repeated call is known then, so a thread whose new identity has a spare
//!   carrier goes there instead.
//! - **An identity without threads** ends with its carriers, except those that tracees or children need.
//! - **A tracer** has an identity that differs in the number alone, with one carrier (`tracer`). So has a thread whose host
//!   thread the host has bound to something else, a counter or a ring (`bind`).
//!
//! So no carrier that runs threads has an identity without threads. Otherwise only those exceptions keep one, and the
//! base while threads differ: the service thread has it, and clones missing carriers from it.

mod adopt;
mod credentials;
mod tracer;

use crate::carrier::Carrier;
use crate::machine::kernel;
use crate::os::{self, nr};
use crate::{report, scarce, service};
use abi::Errno;
use alloc::vec::Vec;
use credentials::{Change, Credentials};
use ids::{CpuId, ThreadIdx};
use kernel::{Call, Machine, Next};
use sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use sync::{Guard, Lock};

pub(crate) use adopt::adopt_here;
pub(crate) use tracer::{Tracing, keep, to_first};

/// No identity: a carrier that has not begun, or has ended.
pub(crate) const NONE: u32 = u32::MAX;
/// The most identities at a time. More are refused with EAGAIN.
const IDENTITIES_MAX: usize = 1024;

/// The identities of a process.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    table: Lock<Table>,
    /// Every thread that is not in one of `others` has this one.
    base: AtomicU32,
    /// Some thread may have another.
    mixed: AtomicBool,
    /// A spare of the base is missing.
    missing: AtomicBool,
    /// How often the host has refused the service thread a carrier.
    refused: AtomicU32,
    order: AtomicPtr<adopt::Order>,
    /// The base that the order is to leave, plus one; 0: there has been none.
    left: AtomicU32,
    /// How many host threads have followed orders.
    followed: AtomicU32,
}

impl Identities {
    /// The table's lock. A carrier that changes the base holds it and waits for all host threads, so only carriers
    /// may take it, which follow the change while they wait. The service thread must not (`adopt`).
    fn lock(&self) -> Guard<'_, Table> {
        assert!(Carrier::me().gs.borrowed == 0, "the service thread must not wait for the table of identities");
        self.table.lock()
    }
}

#[derive(Debug, Default)]
struct Table {
    /// The base's credentials, once they have been needed.
    base: Option<Credentials>,
    others: Vec<Identity>,
    /// The last number that was given out.
    last: u32,
    opaque: u32,
}

/// One that is not the base.
#[derive(Debug)]
struct Identity {
    number: u32,
    credentials: Credentials,
    /// The identity from which this change led here; what the call answered. Without a change it is the
    /// same but for the number, and one carrier's own.
    from: u32,
    change: Option<Change>,
    result: isize,
    /// How many threads have it.
    threads: u32,
}

impl Table {
    fn get(&mut self, number: u32) -> Option<&mut Identity> {
        self.others.iter_mut().find(|i| i.number == number)
    }

    /// Forgets identities that no thread has, unless another began with them.
    fn forget_unused(&mut self) {
        let used: Vec<u32> = self.others.iter().map(|i| i.from).collect();
        self.others.retain(|i| i.threads > 0 || used.contains(&i.number));
    }

    /// If the thread with this identity is tied to its carrier: what it has without that.
    fn untied(&self, number: u32) -> Option<u32> {
        self.others.iter().find(|i| i.number == number && i.change.is_none()).map(|i| i.from)
    }

    /// The changes that lead from `base` to `to`.
    fn path(&self, base: u32, to: u32) -> Option<Vec<Change>> {
        let mut path = Vec::new();
        let mut at = to;
        while at != base {
            let identity = self.others.iter().find(|i| i.number == at)?;
            path.push(identity.change.clone()?);
            at = identity.from;
        }
        path.reverse();
        Some(path)
    }
}

fn identities() -> &'static Identities {
    &kernel().m.identities
}

/// The identity of a thread.
pub(crate) fn of(t: ThreadIdx) -> u32 {
    // SAFETY: contexts live for ever; only the thread's own carrier writes this word.
    unsafe { (*kernel().m.contexts.get(t)).identity.load(Relaxed) }
}

fn set(t: ThreadIdx, number: u32) {
    // SAFETY: as above; the caller is the thread's own carrier.
    unsafe { (*kernel().m.contexts.get(t)).identity.store(number, Relaxed) };
}

/// The current thread `t` makes a call that changes rights.
pub(crate) fn carry_out(me: &'static Carrier, t: ThreadIdx, call: &Call) -> Next {
    let k = kernel();
    match call.nr {
        nr::PTRACE => return tracer::request(me, t, call),
        nr::PERF_EVENT_OPEN | nr::IO_URING_SETUP | nr::IO_URING_REGISTER => return bind(me, t, call),
        _ => {}
    }
    untie(me, t);
    let here = may_change(me, of(t));
    if !here && let Some(free) = find(me, of(t)) {
        k.m.leave_behind(t);
        k.m.restart_call(t, None);
        return give_up_seat(me, free, true).unwrap_or_else(|| scarce::hold_back(me, t, of(t)));
    }
    let result = match change(me, t, call, here) {
        Changed::Result(result) => result,
        Changed::Busy(wanted) => {
            k.m.leave_behind(t);
            k.m.restart_call(t, None);
            return scarce::hold_back(me, t, wanted);
        }
    };
    let next = linux::Linux(k).rights_done(me.cpu(), result);
    if of(t) != me.identity.load(Relaxed) {
        // Another carrier continues the thread, so its state must leave this one's registers. The kernel has saved it
        // already if it chose anew.
        k.m.leave_behind(t);
    }
    next
}

/// Whether the carrier is the process's first host thread, whose end ends the process in the host's eyes.
fn is_first(carrier: &Carrier) -> bool {
    carrier.tid.load(Relaxed) == kernel().m.pid as u32
}

/// Whether the calling carrier may leave its identity: another carrier must have it if threads need it. The process's
/// first host thread cannot end before the others without being seen dead, so while there are others it never has an
/// identity of its own.
fn may_change(me: &Carrier, mine: u32) -> bool {
    if is_first(me) {
        return kernel().threads().live() == 1;
    }
    let alone = identities().lock().get(mine).is_none_or(|i| i.threads <= 1);
    alone || has_another(me, mine)
}

/// Whether there is a carrier with this identity beside that one.
fn has_another(than: &Carrier, identity: u32) -> bool {
    carriers().with_identity(identity).any(|c| c.number != than.number && c.gs.borrowed == 0)
}

/// A tracer's requests must come from the host thread that its tracees know: from now on the thread has
/// this carrier for itself.
fn tie(me: &'static Carrier, t: ThreadIdx) {
    let all = identities();
    let mut table = all.lock();
    let from = of(t);
    // Without room it stays as it is, and its requests may be refused.
    if table.untied(from).is_some() || table.others.len() >= IDENTITIES_MAX || table.others.try_reserve(1).is_err() {
        return;
    }
    let base = *table.base.get_or_insert_with(|| Credentials::mine(0));
    let credentials = table.get(from).map_or(base, |i| i.credentials);
    table.last += 1;
    let number = table.last;
    table.others.push(Identity { number, credentials, from, change: None, result: 0, threads: 1 });
    all.mixed.store(true, SeqCst);
    set(t, number);
    me.owner.store(t.0, Relaxed);
    me.untied.store(from, SeqCst);
    me.identity.store(number, SeqCst);
    count(&mut table, from, -1);
}

/// The current thread `t` asks the host for something that stays with the host thread that asks: a count of what that
/// consumes, a ring that it alone may use. So if it gets it, it has this one for itself.
fn bind(me: &'static Carrier, t: ThreadIdx, call: &Call) -> Next {
    let result = credentials::make(call);
    if result >= 0 {
        tie(me, t);
    }
    kernel().process_done(me.cpu(), result)
}

/// Before its rights change, a thread is like all others.
fn untie(me: &'static Carrier, t: ThreadIdx) {
    let mut table = identities().lock();
    let number = of(t);
    if let Some(from) = table.untied(number) {
        count(&mut table, from, 1);
        set(t, from);
        end_tie(&mut table, me, number, from);
        settle(&mut table, identities());
    }
}

/// The thread that is tied to this carrier, the caller.
fn owner_of(me: &Carrier) -> Option<ThreadIdx> {
    (me.untied.load(Relaxed) != NONE).then(|| ThreadIdx(me.owner.load(Relaxed)))
}

fn end_tie(table: &mut Table, me: &Carrier, number: u32, from: u32) {
    me.identity.store(from, SeqCst);
    me.untied.store(NONE, SeqCst);
    table.others.retain(|i| i.number != number);
}

/// The result of a call that changes credentials.
enum Changed {
    /// Its result.
    Result(isize),
    /// A carrier with the identity that it leads to is there, and serves others: it is to be made again.
    Busy(u32),
}

/// Makes the call; if not `here`, on this carrier, only a free one with the identity to be is of use.
fn change(me: &'static Carrier, t: ThreadIdx, call: &Call, here: bool) -> Changed {
    let Ok(change) = Change::new(call, kernel().tid(t).0) else { return Changed::Result(refused(call)) };
    let alone = kernel().threads().live() == 1;
    if change.is_opaque() && !alone {
        // Another carrier could not be given the same: as a host without Landlock answers.
        return Changed::Result(Errno::EOPNOTSUPP.to_ret());
    }
    let all = identities();
    let mut table = all.lock();
    let from = of(t);
    let known = table.others.iter().find(|i| i.from == from && i.change.as_ref() == Some(&change));
    let known = known.map(|i| (i.number, i.result));
    let is_free = |number| carriers().has_spare(number) || !here && scarce::asleep(number).is_some();
    let free = known.filter(|&(number, _)| is_free(number));
    let (to, result) = match (free, known) {
        (Some(free), _) => free,
        (None, Some((busy, _))) if !here && has_another(me, busy) => return Changed::Busy(busy),
        // The host gives us no further carrier (RLIMIT_NPROC, `pids.max`, memory), and only another one could.
        _ if !here && has_another(me, from) => return Changed::Busy(from),
        _ if !here => return Changed::Result(Errno::EAGAIN.to_ret()),
        _ => match make(&mut table, all, from, change) {
            Ok(made) => made,
            Err(result) => return Changed::Result(result),
        },
    };
    if to != from {
        all.mixed.store(true, SeqCst);
        set(t, to);
        if free.is_none() {
            me.identity.store(to, SeqCst);
        }
        count(&mut table, to, 1);
        count(&mut table, from, -1);
        settle(&mut table, all);
    }
    Changed::Result(result)
}

/// Makes the change on this carrier: the identity it has then, and the call's result; or the result
/// alone if nothing has changed.
fn make(table: &mut Table, all: &Identities, from: u32, change: Change) -> Result<(u32, isize), isize> {
    let base = all.base.load(Relaxed);
    let before = match table.others.iter().find(|i| i.number == from) {
        Some(identity) => identity.credentials,
        None => *table.base.get_or_insert_with(|| Credentials::mine(0)),
    };
    if table.others.len() >= IDENTITIES_MAX {
        table.forget_unused();
    }
    // All that can fail comes before the call.
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

/// An argument that cannot be copied is an error; the host says which.
fn refused(call: &Call) -> isize {
    let result = credentials::make(call);
    if result >= 0 {
        report::fatal(format_args!("system call {} changed the rights of one host thread only", call.nr));
    }
    result
}

fn count(table: &mut Table, number: u32, by: i32) {
    let Some(identity) = table.get(number) else { return };
    identity.threads = identity.threads.wrapping_add_signed(by);
    if identity.threads == 0 {
        carriers().end_spares(number);
    }
}

/// The identity of a carrier that `me`, the caller, clones: its own, except for a tie. Takes no lock, because the
/// service thread clones carriers, too. It cannot change while the caller has signals blocked, or a tie.
pub(crate) fn for_new(me: &Carrier) -> u32 {
    match me.untied.load(SeqCst) {
        NONE => me.identity.load(SeqCst),
        untied => untied,
    }
}

/// If all threads have one identity that is not the base, it is the base from now on. Not while a carrier is tied: one whose
/// thread is no longer among the living still has a number of its own, by which nobody would find it.
///
/// The counts alone do not tell: a thread that ends is no longer among the living a moment before it is
/// uncounted, and two that end at once would stand for one that has another identity. So every living thread is
/// looked at when the counts allow it; one that is being made has the identity of its maker, who lives.
fn settle(table: &mut Table, all: &Identities) {
    let threads = kernel().threads();
    let common =
        |i: &Identity| i.change.is_some() && i.threads >= threads.live() && threads.living().all(|t| of(t) == i.number);
    let tied = table.others.iter().any(|i| i.change.is_none());
    if let Some(at) = table.others.iter().position(|i| !tied && common(i)) {
        adopt::everywhere(table, all, at);
    }
    all.mixed.store(table.others.iter().any(|i| i.threads > 0), SeqCst);
}

/// A thread begins with its maker's identity.
#[inline]
pub(crate) fn inherit(parent: ThreadIdx, child: ThreadIdx) {
    let mut number = of(parent);
    set(child, number);
    if identities().mixed.load(Relaxed) {
        let mut table = identities().lock();
        if let Some(from) = table.untied(number) {
            number = from;
            set(child, from);
        }
        count(&mut table, number, 1);
        settle(&mut table, identities());
    }
}

/// A thread with this identity is no more, and no longer counted among the living.
#[inline]
pub(crate) fn gone(number: u32) {
    if identities().mixed.load(Relaxed) {
        let mut table = identities().lock();
        if let Some(from) = table.untied(number) {
            // The caller is the carrier that it was tied to.
            end_tie(&mut table, Carrier::me(), number, from);
        }
        count(&mut table, number, -1);
        settle(&mut table, identities());
    }
}

/// The chosen thread `t`, which nobody has loaded, has another identity than this carrier: the CPU goes to a carrier
/// of its own, and this one becomes a spare, or goes where that one was.
#[cold]
pub(crate) fn pass_on(me: &'static Carrier, t: ThreadIdx) -> Next {
    let wanted = of(t);
    find(me, wanted).and_then(|free| give_up_seat(me, free, false)).unwrap_or_else(|| scarce::hold_back(me, t, wanted))
}

/// The CPU is idle. A carrier that is not of the base does not wait on it, if there is another: what has an identity of its own is either
/// with a thread that has it or a spare, which ends with the last of them.
#[inline]
pub(crate) fn leave_idle(me: &'static Carrier) -> Option<Next> {
    let base = identities().base.load(Relaxed);
    if me.identity.load(Relaxed) == base {
        return None;
    }
    give_up_seat(me, Free::Spare(carrier_of(me, base)?), true)
}

/// A carrier that can take a CPU over.
enum Free {
    /// Out of the list of spares.
    Spare(&'static Carrier),
    /// One thread's own. It has no other thread, and is a spare or about to be one: nobody waits for it here, for it may have to
    /// wait for this carrier in the same way.
    Tied(&'static Carrier),
    /// It sleeps on the idle CPU.
    Asleep(&'static Carrier, CpuId),
}

/// A carrier with this identity, if there is one or the host gives us one.
fn find(me: &'static Carrier, wanted: u32) -> Option<Free> {
    if let Some(carrier) = tied_carrier(wanted) {
        return Some(Free::Tied(carrier));
    }
    let spare = carrier_of(me, wanted).map(Free::Spare);
    spare.or_else(|| scarce::asleep(wanted).map(|(carrier, cpu)| Free::Asleep(carrier, cpu)))
}

/// That carrier gets the CPU of the caller, whose current thread has run there or has only been chosen. `None` if it no longer
/// sleeps.
#[cold]
fn give_up_seat(me: &'static Carrier, free: Free, has_run: bool) -> Option<Next> {
    match free {
        Free::Spare(carrier) => return Some(give_up_seat_to(me, carrier, has_run)),
        Free::Asleep(carrier, cpu) => return scarce::exchange(me, carrier, cpu),
        Free::Tied(carrier) => {
            let cpu = me.cpu();
            kernel().seat_is_passed_on(cpu, owner_of(me), has_run);
            kernel().m.seats.pass_on(cpu, carrier);
            carriers().assign_when_free(carrier, cpu);
        }
    }
    Some(become_spare(me))
}

/// A carrier that is free, for it was taken out of the list, gets the CPU.
fn give_up_seat_to(me: &'static Carrier, carrier: &Carrier, has_run: bool) -> Next {
    let cpu = me.cpu();
    kernel().seat_is_passed_on(cpu, owner_of(me), has_run);
    kernel().m.seats.pass_on(cpu, carrier);
    carrier.assign(cpu);
    become_spare(me)
}

fn become_spare(me: &'static Carrier) -> Next {
    me.cpu.store(0, Relaxed);
    me.gs.pending.store(0, Relaxed);
    carriers().give_spare(me);
    // The last thread that had it may have gone while this carrier was no spare.
    let mine = me.identity.load(SeqCst);
    {
        let table = identities().lock();
        let base = identities().base.load(SeqCst);
        if mine != base && !table.others.iter().any(|i| i.number == mine && i.threads > 0) {
            carriers().end_spares(mine);
        }
    }
    me.wait_for_seat()
}

/// The one carrier with this identity, if it is one's that is tied to it.
fn tied_carrier(wanted: u32) -> Option<&'static Carrier> {
    identities().lock().untied(wanted)?;
    (0..carriers().count()).map(|i| carriers().get(i)).find(|c| c.identity.load(SeqCst) == wanted)
}

/// A carrier that is free, with that identity or about to have it. `None` if the host gives us no more.
fn carrier_of(me: &'static Carrier, wanted: u32) -> Option<&'static Carrier> {
    let refused = identities().refused.load(SeqCst);
    for round in 0.. {
        if let Some(carrier) = carriers().take_spare_of(wanted) {
            return Some(carrier);
        }
        let base = identities().base.load(SeqCst);
        let is_base = me.identity.load(SeqCst) == base;
        // It will have the other identity: not the one that must outlive all.
        let other = carriers()
            .take_spare_if(|c| c.identity.load(SeqCst) == base && !is_first(c))
            .or_else(|| is_base.then(|| carriers().new_carrier()).flatten());
        if let Some(carrier) = other {
            carrier.wanted.store(wanted, SeqCst);
            return Some(carrier);
        }
        if is_base || identities().refused.load(SeqCst) != refused {
            return None;
        }
        identities().missing.store(true, SeqCst);
        if !service::call() {
            return None;
        }
        os::relax(round);
    }
    unreachable!()
}

/// This host thread, wherever it is, has got the signal that is about its identity.
pub(crate) fn called() {
    adopt_here();
    tracer::run_errand(Carrier::me());
}

/// The service thread has been called: it may be for this.
///
/// `leaving` is called before its rights change. The answer is whether they have.
pub(crate) fn serve(leaving: impl FnOnce()) -> bool {
    let changes = adopt::is_to_change();
    if changes {
        leaving();
        adopt_here();
    }
    if identities().missing.swap(false, SeqCst) {
        match carriers().new_carrier() {
            Some(carrier) => carriers().give_spare(carrier),
            None => drop(identities().refused.fetch_add(1, SeqCst)),
        }
    }
    changes
}

/// The carrier, the caller, has been given a seat for a thread of the identity `wanted`.
pub(crate) fn become_wanted(me: &Carrier, wanted: u32) {
    let all = identities();
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

fn carriers() -> &'static crate::carrier::Carriers {
    &kernel().m.carriers
}
