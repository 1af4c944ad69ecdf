//! The lookout: a spare that sleeps in the poller while every CPU is busy.
//!
//! Busy CPUs poll for events at their ticks only, which is late for a real-time thread that waits for a descriptor. A
//! tick posts a lookout if no idle CPU has polled since the tick before.
//!
//! **It takes nothing from idle carriers.** Linux wakes the sleeper that came last (`__add_wait_queue_exclusive` in
//! `ep_poll`), so carriers that become idle after the lookout are woken before it. Returning from an event would make
//! the lookout the last. So it leaves if a carrier sleeps there by then, and the next tick that needs one posts
//! another.
//!
//! **It does not wake a saturated server for each request.** If events arrive so fast that it hardly sleeps, it pauses
//! between two polls, each time longer, up to a few ticks. It does not pause while real-time threads are parked.

use crate::base::os;
use crate::carriers::carrier::{Carrier, LOOK_OUT};
use crate::carriers::poller::EVENTS;
use crate::process::Process;
use abi::epoll::Readiness;
use ids::{CpuId, Nanos};
use linux::Linux;
use sync::atomic::Ordering::*;

/// A shorter sleep means that events arrive fast.
const SHORT: Nanos = Nanos(100_000);
/// The lookout leaves after this many successive events that no thread waited for.
const USELESS_MAX: u32 = 16;
/// The longest pause.
const PAUSE_MAX: Nanos = Nanos(4_000_000);

/// Called at a tick by the carrier `me`: posts a lookout if threads are parked and no carrier attends to the poller.
#[inline]
pub(crate) fn post_if_needed(me: &Carrier) {
    let k = me.process();
    if k.parked.is_any() && k.m.poller.is_abandoned(&k.parked) {
        post(me, k);
    }
}

#[cold]
fn post(me: &Carrier, k: &Process) {
    let (m, all) = (&k.m, &k.m.identities);
    let base = all.base.load(SeqCst);
    // A carrier that nobody needs in particular, and that follows every change of the process's rights.
    let fits = |c: &Carrier| !c.is_first() && c.identity.load(SeqCst) == base && c.tracing.parent.load(Relaxed) == 0;
    if all.mixed.load(SeqCst) || me.identity.load(SeqCst) != base || !m.poller.set_lookout() {
        return;
    }
    match m.carriers.take_spare_if(fits).or_else(|| m.carriers.new_carrier()) {
        Some(spare) => {
            spare.assigned.store(LOOK_OUT, SeqCst);
            spare.wake();
        }
        None => m.poller.clear_lookout(),
    }
}

/// Runs the lookout on the caller, woken as a spare. It becomes a spare again afterwards.
pub(crate) fn look_out(me: &'static Carrier) {
    let k = me.process();
    let (m, poller) = (&k.m, &k.m.poller);
    // A new carrier has inherited a mask that is bound to a host CPU.
    me.placed.store(0, Relaxed);
    m.places.release();
    let (mut events, mut pause, mut useless) = ([Readiness::default(); EVENTS], Nanos::ZERO, 0);
    while useless < USELESS_MAX && !k.parked.is_slept_for() {
        me.park.store(0, SeqCst);
        let asleep = k.now();
        let found = poller.sleep(me, None, &mut events);
        useless = if k.parked.is_any() { 0 } else { useless + 1 };
        Linux(k).descriptors_ready(CpuId::NONE, &events[..found]);
        let fast = k.now().since(asleep) < SHORT;
        pause = if fast { Nanos((2 * pause.0).clamp(SHORT.0, PAUSE_MAX.0)) } else { Nanos(pause.0 / 2) };
        if found > 0 && pause >= SHORT && !k.parked.is_urgent() {
            os::futex_wait(&me.park, 0, Some(pause));
        }
    }
    poller.clear_lookout();
    me.gs.pending.store(0, Relaxed);
    m.carriers.give_spare(me);
}
