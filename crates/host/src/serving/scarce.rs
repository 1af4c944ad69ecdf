//! Too few carriers: what happens when the host allows no more (RLIMIT_NPROC, `pids.max`, memory).
//!
//! Waiting calls are put off (`linux/src/put_off.rs`). This module decides which threads run.
//!
//! **A thread whose credentials no free carrier has** is held back for two milliseconds ([`Kernel::without_carrier`]),
//! and its CPU runs others. Each identity of a thread has at least one carrier: a change of credentials happens on a
//! carrier of the thread's own, and the first host thread stays with the base. That carrier is *asked*: if it serves a
//! thread, the thread is held back a little longer, which makes the carrier free or lets it sleep on its CPU; then its
//! seat is exchanged with the asker's. If all carriers of the identity are in host calls, one is recalled. An idle CPU
//! keeps its carrier, whatever its credentials.
//!
//! **A CPU without a carrier** is *visited*: each round the watcher asks a carrier of another CPU to serve it, which
//! leaves that CPU without one. If there are more CPUs than carriers, they take turns of a round or more each.
//!
//! Both requests are a mark and a kick. A carrier reads the mark after it has answered a tick or a kick, before it
//! sleeps, and when it wakes up. A carrier that has a mark is not asked again, so none sleeps with one.
//!
//! [`Kernel::without_carrier`]: kernel::Kernel::without_carrier

use crate::base::os;
use crate::carriers::carrier::Carrier;
use crate::carriers::seat::Seat;
use crate::process::Process;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Machine, Next, Unserved};
use sync::atomic::Ordering::*;

/// How long a thread without a carrier is held back.
const HELD_BACK: Nanos = Nanos::from_millis(2);
/// How long a thread whose carrier is wanted is held back: longer, so that the asker comes first.
const GIVES_WAY: Nanos = Nanos::from_millis(5);

const NOTHING: u32 = 0;
/// The request to hold its thread back, because another thread needs a carrier with these rights.
const TO_GIVE_WAY: u32 = 1;
/// The request to serve a CPU, whose number is this less two.
const TO_VISIT: u32 = 2;

/// Holds back the chosen thread `t` of the caller's CPU, which is not loaded: it needs a carrier with the identity
/// `wanted`, and none is to be had.
#[cold]
pub(crate) fn hold_back(me: &'static Carrier, t: ThreadIdx, wanted: u32) -> Next {
    ask_for(me, wanted);
    me.process().without_carrier(me.cpu(), t, HELD_BACK)
}

/// Asks a thread on a carrier with this identity to give the carrier up soon.
fn ask_for(me: &Carrier, identity: u32) {
    let k = me.process();
    let m = &k.m;
    let all = || m.carriers.with_identity(identity).filter(|c| c.gs.borrowed == 0 && c.number != me.number);
    for carrier in all().filter(|c| !c.waits.load(SeqCst)) {
        match seat_of(k, carrier) {
            // The next attempt gets this carrier.
            Some((_, Seat::Parked)) => return,
            Some((cpu, Seat::Running)) => {
                carrier.asked.0.store(TO_GIVE_WAY, SeqCst);
                return m.kick(cpu);
            }
            _ => {}
        }
    }
    let _ = all().find(|c| c.recall(m.pid));
}

/// The CPU that the carrier has a seat at.
fn seat_of(k: &Process, carrier: &Carrier) -> Option<(CpuId, Seat)> {
    let cpu = carrier.cpu();
    let at = cpu.index() < k.config().cpus;
    let (seat, who) = at.then(|| k.m.seats.look(cpu))?;
    (seat != Seat::Empty && who == carrier.number).then_some((cpu, seat))
}

/// A carrier with this identity that sleeps on an idle CPU, and that CPU.
pub(crate) fn asleep(k: &Process, identity: u32) -> Option<(&'static Carrier, CpuId)> {
    let all = k.m.carriers.with_identity(identity).filter(|c| c.gs.borrowed == 0);
    all.filter_map(|c| seat_of(k, c).filter(|&(_, seat)| seat == Seat::Parked).map(|(cpu, _)| (c, cpu))).next()
}

/// Exchanges the caller's seat with that of `sleeper`. `None` if that one has woken up.
pub(crate) fn exchange(me: &'static Carrier, sleeper: &Carrier, other: CpuId) -> Option<Next> {
    me.process().m.seats.exchange_parked(other, sleeper, me).then(|| exchanged(me, sleeper, other))
}

/// Called with both seats, while nobody else looks for that carrier.
pub(crate) fn exchanged(me: &'static Carrier, sleeper: &Carrier, other: CpuId) -> Next {
    let cpu = me.cpu();
    me.process().m.seats.pass_on(cpu, sleeper);
    sleeper.assign(cpu);
    sit_down(me, other)
}

fn sit_down(me: &'static Carrier, cpu: CpuId) -> Next {
    me.sit_down(cpu);
    me.process().take_seat(cpu)
}

/// Answers a request, if the caller has one; otherwise its CPU does `next`. Called after a kick or a wake-up.
#[inline]
pub(crate) fn look(me: &'static Carrier, next: Next) -> Next {
    if is_asked(me) { answer(me, next) } else { next }
}

/// Whether somebody waits for this carrier's answer.
#[inline]
pub(crate) fn is_asked(me: &Carrier) -> bool {
    me.asked.0.load(Relaxed) != NOTHING
}

#[cold]
fn answer(me: &'static Carrier, next: Next) -> Next {
    let k = me.process();
    match (me.asked.0.swap(NOTHING, SeqCst), &next) {
        (TO_GIVE_WAY, &Next::Run(t)) if k.m.identity_of(t) == me.identity.load(SeqCst) => {
            k.m.leave_behind(t);
            k.without_carrier(me.cpu(), t, GIVES_WAY)
        }
        (cpu @ TO_VISIT.., Next::Run(_) | Next::Idle { .. }) => {
            visit(me, CpuId((cpu - TO_VISIT) as u16)).unwrap_or(next)
        }
        _ => next,
    }
}

/// The caller leaves its CPU and serves `cpu`. `None` if another carrier does.
fn visit(me: &'static Carrier, cpu: CpuId) -> Option<Next> {
    let (k, mine) = (me.process(), me.cpu());
    if !k.m.seats.take_empty(cpu, me) {
        return None;
    }
    if let Some(t) = k.sched.current(mine) {
        k.m.leave_behind(t);
    }
    k.leave_seat(mine);
    k.m.seats.leave_empty(mine);
    // Wake-ups until then have kicked the caller: the watcher checks that CPU next.
    k.m.service.watch();
    Some(sit_down(me, cpu))
}

/// The watcher's check of a CPU without a carrier. Returns whether it must check again.
pub(crate) fn look_after(k: &Process, cpu: CpuId) -> bool {
    let due = match k.unserved(cpu) {
        Unserved::Nothing => return false,
        Unserved::Threads => true,
        Unserved::Until(at) => at <= os::clock_gettime(1),
    };
    if due {
        // Tries to get a new carrier from the host.
        k.m.seats.kick(cpu, &k.m.carriers);
        if k.m.seats.look(cpu).0 == Seat::Empty {
            ask_to_visit(k, cpu);
        }
    }
    true
}

/// Asks the next CPU's carrier; recalls it if it is in a host call.
fn ask_to_visit(k: &Process, cpu: CpuId) {
    let (m, cpus) = (&k.m, k.config().cpus);
    for other in (1..cpus).map(|i| CpuId(((cpu.index() + i) % cpus) as u16)) {
        let (seat, number) = m.seats.look(other);
        if seat == Seat::Empty {
            continue;
        }
        let carrier = m.carriers.get(number);
        let asked = carrier.asked.0.compare_exchange(NOTHING, TO_VISIT + u32::from(cpu.0), SeqCst, SeqCst).is_ok();
        if asked {
            m.seats.kick(other, &m.carriers);
            let _ = carrier.recall(m.pid);
            return;
        }
    }
}
