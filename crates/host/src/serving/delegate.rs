//! Hands a host call that waits to a spare, so that the calling carrier keeps its CPU.
//!
//! While a thread waits in the host and its CPU has other work, one carrier is in the call and another serves the CPU.
//! Which one makes the call decides how fast its end is noticed. Linux runs a woken thread at once if it has positive
//! lag (`place_entity` and `check_preempt_wakeup_fair` in kernel/sched/fair.c); others wait for the next tick, up to 4
//! ms with HZ=250. A carrier that has just served a CPU has no lag left. A spare that only makes calls has waited
//! nearly all its life, like a thread that waits natively, and keeps its lag.
//!
//! If no spare has the thread's credentials, the caller makes the call itself and a new carrier gets the CPU (`away`).
//! Next time the caller is the spare.

use crate::carriers::carrier::Carrier;
use crate::serving::away;
use ids::ThreadIdx;
use kernel::{Call, Next};

/// Gives the call to a spare with the rights of `t`, which is off the CPU of the caller `me`. False if there is none.
pub(crate) fn hand_out(me: &Carrier, t: ThreadIdx, call: &Call) -> bool {
    let m = &me.process().m;
    let Some(spare) = m.carriers.take_spare_of(m.identity_of(t)) else { return false };
    spare.delegated.put(t, me.cpu(), call);
    spare.make_call();
    true
}

/// Makes the call that the caller, woken as a spare, has been given. `None`: it is a spare again.
pub(crate) fn carry_out(me: &'static Carrier) -> Option<Next> {
    let (t, cpu, call) = me.delegated.get();
    let k = me.process();
    k.m.places.leave(me);
    k.change_carrier(t);
    let result = away::waiting_call(me, t, call, None, |_| {});
    away::deliver(me, cpu, t, result)
}
