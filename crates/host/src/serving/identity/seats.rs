//! CPUs change hands because threads have different identities.

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

/// Whether a call that changes rights may leave the thread with a host thread of its own.
pub(crate) fn binds(call: &Call) -> bool {
    matches!(call.nr, nr::PTRACE | nr::PERF_EVENT_OPEN | nr::IO_URING_SETUP | nr::IO_URING_REGISTER)
}

/// The current thread `t` makes a call that changes rights.
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
        // Another carrier continues the thread, so its state must leave this one's registers. The kernel has saved it
        // already if it chose anew.
        k.m.leave_behind(t);
    }
    next
}

/// The current thread `t` asks the host for something that stays with the host thread that asks: a count of what that
/// consumes, a ring that it alone may use. So if it gets it, it has this one for itself.
fn bind(me: &'static Carrier, t: ThreadIdx, call: &Call) -> Next {
    let result = credentials::make(call);
    if result >= 0 {
        tie(me, t);
    }
    me.process().process_done(me.cpu(), result)
}

/// The chosen thread `t`, which nobody has loaded, has another identity than this carrier: the CPU goes to a carrier
/// of its own, and this one becomes a spare, or goes where that one was.
#[cold]
pub(crate) fn pass_on(me: &'static Carrier, t: ThreadIdx) -> Next {
    let wanted = me.process().m.identity_of(t);
    find(me, wanted).and_then(|free| give_up_seat(me, free, false)).unwrap_or_else(|| scarce::hold_back(me, t, wanted))
}

/// The CPU is idle. A carrier that is not of the base does not wait on it, if there is another: what has an identity of its own is either
/// with a thread that has it or a spare, which ends with the last of them.
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
    /// Out of the list of spares.
    Spare(&'static Carrier),
    /// One thread's own. It has no other thread, and is a spare or about to be one: nobody waits for it here, for it may have to
    /// wait for this carrier in the same way.
    Tied(&'static Carrier),
    /// A carrier that sleeps on an idle CPU.
    Asleep(&'static Carrier, CpuId),
}

/// A carrier with this identity, if there is one or the host gives us one.
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

/// A carrier that is free, for it was taken out of the list, gets the CPU.
pub(super) fn give_up_seat_to(me: &'static Carrier, carrier: &Carrier, has_run: bool) -> Next {
    let (k, cpu) = (me.process(), me.cpu());
    k.seat_is_passed_on(cpu, owner_of(me), has_run);
    k.m.seats.pass_on(cpu, carrier);
    carrier.assign(cpu);
    become_spare(me)
}

/// The thread that is tied to this carrier, the caller.
fn owner_of(me: &Carrier) -> Option<ThreadIdx> {
    (me.untied.load(Relaxed) != NO_IDENTITY).then(|| ThreadIdx(me.owner.load(Relaxed)))
}

fn become_spare(me: &'static Carrier) -> Next {
    me.cpu.store(0, Relaxed);
    me.gs.pending.store(0, Relaxed);
    let m = &me.process().m;
    m.carriers.give_spare(me);
    // The last thread that had it may have gone while this carrier was no spare.
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

/// The one carrier with this identity, if it is one's that is tied to it.
fn tied_carrier(k: &Process, wanted: u32) -> Option<&'static Carrier> {
    k.m.identities.lock().untied(wanted)?;
    (0..k.m.carriers.count()).map(|i| k.m.carriers.get(i)).find(|c| c.identity.load(SeqCst) == wanted)
}

/// A carrier that is free, with that identity or about to have it. `None` if the host gives us no more.
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
