//! Handing CPUs over because threads have different identities.

use super::{Changed, change, may_change, tie, tracer, untie};
use crate::base::os;
use crate::carriers::carrier::{Carrier, NO_IDENTITY};
use crate::carriers::credentials;
use crate::process::Process;
use crate::serving::away::wait_for_seat;
use crate::serving::scarce;
use ids::{CpuId, ThreadIdx};
use kernel::{Call, Next};
use linux::Linux;
use os::nr;
use sync::atomic::Ordering::*;

/// Whether a call that changes rights may bind the thread to a host thread of its own.
pub(crate) fn binds(call: &Call) -> bool {
    matches!(call.nr, nr::PTRACE | nr::PERF_EVENT_OPEN | nr::IO_URING_SETUP | nr::IO_URING_REGISTER)
}

/// Makes a call of the current thread `t` that changes rights.
pub(crate) fn carry_out_change(me: &'static Carrier, t: ThreadIdx, call: &Call) -> Next {
    let k = me.process();
    match call.nr {
        nr::PTRACE => return tracer::request(me, t, call),
        nr::PERF_EVENT_OPEN | nr::IO_URING_SETUP | nr::IO_URING_REGISTER => return bind(me, t, call),
        _ => {}
    }
    untie(me, t);
    let here = may_change(me, k.m.identity_of(t));
    if !here && let Some(free) = find(me, k.m.identity_of(t)) {
        k.m.leave_behind(t);
        k.restart_call(t, None);
        return give_up_seat(me, free, true).unwrap_or_else(|| scarce::hold_back(me, t, k.m.identity_of(t)));
    }
    let result = match change(me, t, call, here) {
        Changed::Result(result) => result,
        Changed::Busy(wanted) => {
            k.m.leave_behind(t);
            k.restart_call(t, None);
            return scarce::hold_back(me, t, wanted);
        }
    };
    let next = Linux(k).rights_done(me.cpu(), result);
    if k.m.identity_of(t) != me.identity.load(Relaxed) {
        // Another carrier continues the thread, so its state must leave this one's registers. If the kernel chose anew,
        // it has saved the state already.
        k.m.leave_behind(t);
    }
    next
}

/// Makes a call of the current thread `t` that asks the host for something bound to the calling host thread: a counter
/// of what that consumes, a ring that only it may use. On success the thread keeps this carrier for itself.
fn bind(me: &'static Carrier, t: ThreadIdx, call: &Call) -> Next {
    let result = credentials::make(call);
    if result >= 0 {
        tie(me, t);
    }
    me.process().process_done(me.cpu(), result)
}

/// The chosen thread `t`, which is not loaded, has another identity than this carrier: hands the CPU to a carrier with
/// that identity. This one becomes a spare, or takes the other's seat.
#[cold]
pub(crate) fn pass_on(me: &'static Carrier, t: ThreadIdx) -> Next {
    let wanted = me.process().m.identity_of(t);
    find(me, wanted).and_then(|free| give_up_seat(me, free, false)).unwrap_or_else(|| scarce::hold_back(me, t, wanted))
}

/// The CPU is idle: a carrier that does not have the base identity leaves it, if another carrier can wait there.
/// Carriers of other identities are then either with a thread of that identity or spares, which end with its last
/// thread.
#[inline]
pub(crate) fn leave_idle(me: &'static Carrier) -> Option<Next> {
    let base = me.process().m.identities.base.load(Relaxed);
    if me.identity.load(Relaxed) == base {
        return None;
    }
    give_up_seat(me, Free::Spare(carrier_of(me, base)?), true)
}

/// A carrier that can take a CPU over.
enum Free {
    /// Taken off the list of spares.
    Spare(&'static Carrier),
    /// One thread's own. It runs no other thread, and is a spare or about to be one. Do not wait for it, because it may
    /// have to wait for this carrier in the same way.
    Tied(&'static Carrier),
    /// A carrier that sleeps on an idle CPU.
    Asleep(&'static Carrier, CpuId),
}

/// A carrier with this identity, if there is one or the host allows a new one.
fn find(me: &'static Carrier, wanted: u32) -> Option<Free> {
    if let Some(carrier) = tied_carrier(me.process(), wanted) {
        return Some(Free::Tied(carrier));
    }
    let spare = carrier_of(me, wanted).map(Free::Spare);
    spare.or_else(|| scarce::asleep(me.process(), wanted).map(|(carrier, cpu)| Free::Asleep(carrier, cpu)))
}

/// Hands the caller's CPU to the `free` carrier. `has_run`: the current thread has run here, and was not only chosen.
/// `None` if the carrier no longer sleeps.
#[cold]
fn give_up_seat(me: &'static Carrier, free: Free, has_run: bool) -> Option<Next> {
    match free {
        Free::Spare(carrier) => return Some(give_up_seat_to(me, carrier, has_run)),
        Free::Asleep(carrier, cpu) => return scarce::exchange(me, carrier, cpu),
        Free::Tied(carrier) => {
            let (k, cpu) = (me.process(), me.cpu());
            k.seat_is_passed_on(cpu, owner_of(me), has_run);
            k.m.seats.pass_on(cpu, carrier);
            k.m.carriers.assign_when_free(carrier, cpu);
        }
    }
    Some(become_spare(me))
}

/// Hands the CPU to a carrier that was taken off the list of spares.
pub(super) fn give_up_seat_to(me: &'static Carrier, carrier: &Carrier, has_run: bool) -> Next {
    let (k, cpu) = (me.process(), me.cpu());
    k.seat_is_passed_on(cpu, owner_of(me), has_run);
    k.m.seats.pass_on(cpu, carrier);
    carrier.assign(cpu);
    become_spare(me)
}

/// The thread that is tied to the calling carrier.
fn owner_of(me: &Carrier) -> Option<ThreadIdx> {
    (me.untied.load(Relaxed) != NO_IDENTITY).then(|| ThreadIdx(me.owner.load(Relaxed)))
}

fn become_spare(me: &'static Carrier) -> Next {
    me.cpu.store(0, Relaxed);
    me.gs.pending.store(0, Relaxed);
    let m = &me.process().m;
    m.carriers.give_spare(me);
    // The last thread with this identity may have ended while this carrier was not a spare.
    let mine = me.identity.load(SeqCst);
    {
        let table = m.identities.lock();
        let base = m.identities.base.load(SeqCst);
        if mine != base && !table.others.iter().any(|i| i.number == mine && i.threads > 0) {
            m.carriers.end_spares(mine);
        }
    }
    wait_for_seat(me)
}

/// The only carrier with this identity, if it is tied to a thread.
fn tied_carrier(k: &Process, wanted: u32) -> Option<&'static Carrier> {
    k.m.identities.lock().untied(wanted)?;
    (0..k.m.carriers.count()).map(|i| k.m.carriers.get(i)).find(|c| c.identity.load(SeqCst) == wanted)
}

/// A free carrier that has this identity or is about to. `None` if the host allows no more.
fn carrier_of(me: &'static Carrier, wanted: u32) -> Option<&'static Carrier> {
    let m = &me.process().m;
    let (all, carriers) = (&m.identities, &m.carriers);
    let refused = all.refused.load(SeqCst);
    for round in 0.. {
        if let Some(carrier) = carriers.take_spare_of(wanted) {
            return Some(carrier);
        }
        let base = all.base.load(SeqCst);
        let is_base = me.identity.load(SeqCst) == base;
        // Not the first carrier, which must outlive all others: the one taken here changes its identity for good.
        let other = carriers
            .take_spare_if(|c| c.identity.load(SeqCst) == base && !c.is_first())
            .or_else(|| is_base.then(|| carriers.new_carrier()).flatten());
        if let Some(carrier) = other {
            carrier.wanted.store(wanted, SeqCst);
            return Some(carrier);
        }
        if is_base || all.refused.load(SeqCst) != refused {
            return None;
        }
        all.missing.store(true, SeqCst);
        if !m.service.call() {
            return None;
        }
        os::relax(round);
    }
    unreachable!()
}
