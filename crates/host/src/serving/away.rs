//! Carriers in the host: they leave a CPU for a call that waits, return, and wait for a seat.

use crate::base::dispositions::{CARRIER_MASK, WAITING_MASK};
use crate::base::os;
use crate::carriers::carrier::{CALL, Carrier, END, LOOK_OUT, NO_IDENTITY, RETIRE};
use crate::process::Process;
use crate::serving::timed::{Ended, TimedWait};
use crate::serving::{delegate, identity, lookout};
use abi::nr;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Call, Clock, Machine, Next, Trap};
use linux::{Linux, Portion};
use sched::Idle;
use sync::atomic::Ordering::*;

/// Runs `wait`, which may wait in the host and whose result is for `t`. The thread is off the CPU. If the CPU has
/// nothing else to do, the carrier keeps the seat loosely (`HOST`); otherwise a spare takes the CPU over first.
///
/// `wait` is told whether it keeps a CPU that others want, because there is no spare and the host allows no new
/// carrier.
pub(crate) fn away(me: &'static Carrier, t: ThreadIdx, busy: bool, wait: impl FnOnce(bool) -> isize) -> Next {
    let k = me.process();
    let cpu = me.cpu();
    let (mut seated, mut kept) = (!busy, false);
    if seated {
        me.find_place(cpu);
        k.m.seats.leave_for_host(cpu, me);
        let wanted = k.sched.need_resched(cpu) || k.sched.queued(cpu) != 0;
        if wanted && k.m.seats.return_from_host(cpu, me) {
            kept = !k.m.seats.hand_over(cpu, &k.m.carriers);
            seated = kept;
        }
    } else {
        kept = !k.m.seats.hand_over(cpu, &k.m.carriers);
        seated = kept;
    }
    // Without a service thread, only an idle carrier receives signals, so the call must not wait here either.
    let result = wait(kept || k.m.service.is_missing());
    if seated && (k.m.seats.return_from_host(cpu, me) || k.m.seats.is_mine(cpu, me)) {
        return k.trap(cpu, Trap::HostReturn { thread: t, result });
    }
    come_back(me, cpu, t, result)
}

/// A carrier returns from the host without a seat. It takes `cpu` back if no other carrier serves it; otherwise it
/// becomes a spare.
pub(crate) fn come_back(me: &'static Carrier, cpu: CpuId, t: ThreadIdx, result: isize) -> Next {
    deliver(me, cpu, t, result).unwrap_or_else(|| wait_for_seat(me))
}

/// Like [`come_back`], but returns `None` instead of waiting as a spare.
pub(crate) fn deliver(me: &'static Carrier, cpu: CpuId, t: ThreadIdx, result: isize) -> Option<Next> {
    let k = me.process();
    if k.m.seats.take_parked(cpu, me, &k.m.carriers) {
        me.sit_down(cpu);
        k.sched.idle_state(cpu, Idle::Spinning);
        k.seat_changed(cpu);
        return Some(k.trap(cpu, Trap::HostReturn { thread: t, result }));
    }
    me.cpu.store(0, Relaxed);
    me.gs.pending.store(0, Relaxed);
    k.m.carriers.give_spare(me);
    k.host_returned(cpu, t, result);
    None
}

/// Makes the call with tick and kick blocked; only an interrupt for a signal that `t` can take ends it early.
///
/// `until` is when the CPU, which the carrier keeps loosely, is wanted. `look` runs in a process without a service
/// thread when a handler has something for the carrier.
pub(crate) fn waiting_call(
    me: &'static Carrier,
    t: ThreadIdx,
    call: Call,
    until: Option<Nanos>,
    look: impl Fn(&Process),
) -> isize {
    let k = me.process();
    let host_carrier = k.m.host_carrier(t);
    host_carrier.store(me.number + 1, SeqCst);
    let mut portion = Portion::whole(call);
    let mut mask = Mask { closed: false };
    // Until the call has begun, a signal counts as one that came before it, if the call may start over.
    let (mut has_begun, starts_over) = (false, Linux(k).may_start_over(t, &call));
    // In a process without a service thread, the tick ends the wait.
    let mut timed = None;
    if !k.m.service.is_alone() {
        timed = mask.close(k, &call, until);
    }
    me.begin_waiting();
    let result = loop {
        if me.stirred.load(SeqCst) {
            look(k);
        }
        if timed.is_none() && !mask.closed && !k.m.service.is_alone() {
            // The time limit keeps running while the call is repeated.
            let gone = k.now().since(Nanos(k.thread(t).wait.b.load(Relaxed)));
            timed = mask.close(k, &shortened(&portion.call, gone), until);
        }
        if k.host_interrupted(t) {
            break interrupted(has_begun || !starts_over);
        }
        let clock = || k.m.clock(Clock::Monotonic);
        let made = match &mut timed {
            Some(wait) => wait.make(clock),
            None => os::interruptible(&portion.call),
        };
        let ended = timed.as_mut().map_or(Ended::Answered, |wait| wait.ended_by(made, clock));
        if ended != Ended::Answered {
            if ended == Ended::Forbidden {
                timed = None;
                mask.close_for_all();
            }
            if until.is_none() || give_cpu_up(me) {
                continue;
            }
            break linux::TRY_AGAIN;
        }
        let r = match made {
            r if r == abi::Errno::ERESTARTNOINTR.to_ret() => abi::Errno::EINTR.to_ret(),
            r if r == abi::Errno::EAGAIN.to_ret() && starts_over && !has_begun => {
                Linux(k).note_refusal(&call);
                r
            }
            r if r == abi::Errno::EAGAIN.to_ret() => wait_still(k, t, &portion.call).unwrap_or(r),
            r => r,
        };
        has_begun |= made != abi::Errno::ERESTARTNOINTR.to_ret();
        me.gs.interrupt.store(0, SeqCst);
        // It may have been cut short by a recall or, without a service thread, by a tick or a request.
        let recalled = me.is_recalled();
        if r > 0
            && !k.host_interrupted(t)
            && !(recalled && portion.is_of_pieces())
            && let Some(next) = portion.next(Linux(k), r, me.stirred.load(SeqCst) || recalled)
        {
            k.thread(t).wait.a.fetch_add(r as u64, Relaxed);
            if recalled {
                break linux::TRY_AGAIN;
            }
            portion = next;
            continue;
        }
        if r != abi::Errno::EINTR.to_ret() {
            break r;
        }
        // An interrupt meant for an earlier call of this carrier is no reason to return.
        if k.host_interrupted(t) {
            break interrupted(has_begun || !starts_over);
        }
        if me.is_recalled() {
            break if portion.is_rest_of_pieces() { abi::Errno::EINTR.to_ret() } else { linux::TRY_AGAIN };
        }
    };
    me.end_waiting();
    host_carrier.store(0, SeqCst);
    me.gs.interrupt.store(0, SeqCst);
    mask.open();
    k.m.accompany(t, result)
}

/// The result of a call that a signal has ended, before or after it began.
fn interrupted(has_begun: bool) -> isize {
    if has_begun { abi::Errno::EINTR.to_ret() } else { linux::NOT_BEGUN }
}

/// The mask of a waiting carrier.
struct Mask {
    /// Whether the tick is blocked.
    closed: bool,
}

impl Mask {
    /// Blocks the tick during the call: through a form of the call that takes a mask, if there is one.
    fn close(&mut self, k: &Process, call: &Call, until: Option<Nanos>) -> Option<TimedWait> {
        let timed = TimedWait::of(call, until, || k.m.clock(Clock::Monotonic));
        if timed.is_none() {
            self.close_for_all();
        }
        timed
    }

    fn close_for_all(&mut self) {
        self.closed = true;
        os::sigprocmask(2, WAITING_MASK);
    }

    fn open(self) {
        if self.closed {
            os::sigprocmask(2, CARRIER_MASK);
        }
    }
}

/// The call with its time limit reduced by `gone`.
fn shortened(call: &Call, gone: Nanos) -> Call {
    let mut call = *call;
    let at = match call.nr {
        nr::POLL => 2,
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT => 3,
        _ => return call,
    };
    if let Ok(ms) = u64::try_from(call.args[at] as i32) {
        call.args[at] = Nanos::from_millis(ms).since(gone).0.div_ceil(1_000_000);
    }
    call
}

/// Gives a spare the CPU that the carrier has kept loosely and that is wanted. False if there is no spare; then the
/// carrier serves the CPU again.
fn give_cpu_up(me: &'static Carrier) -> bool {
    let (k, cpu) = (me.process(), me.cpu());
    !k.m.seats.return_from_host(cpu, me) || k.m.seats.hand_over(cpu, &k.m.carriers)
}

/// Waits in place of a call that does not wait any more. EINTR, as if it had been interrupted, so that it is made
/// again; `None` if the call's result is final.
fn wait_still(k: &Process, t: ThreadIdx, call: &Call) -> Option<isize> {
    let mut one = Linux(k).waits_still(t, call)?;
    let signals = size_of::<u64>() as u64;
    os::interruptible(&Call { nr: nr::PPOLL, args: [one.as_mut_ptr() as u64, 1, 0, 0, signals, 0] });
    Some(abi::Errno::EINTR.to_ret())
}

/// Sleeps until another carrier assigns a seat or a host call. The caller is on the list of spares, where it or the
/// carrier that took its seat has put it.
pub(crate) fn wait_for_seat(me: &'static Carrier) -> Next {
    let k = me.process();
    loop {
        let assigned = me.assigned.swap(0, SeqCst);
        if assigned == END || assigned == RETIRE && !identity::keep(me) {
            me.leave(&k.m.carriers);
        }
        if assigned == RETIRE {
            continue;
        }
        if assigned == CALL {
            match delegate::carry_out(me) {
                Some(next) => return next,
                None => continue,
            }
        }
        if assigned == LOOK_OUT {
            lookout::look_out(me);
            continue;
        }
        if assigned != 0 {
            let wanted = me.wanted.swap(NO_IDENTITY, SeqCst);
            if wanted != NO_IDENTITY {
                identity::become_wanted(me, wanted);
            }
            let cpu = CpuId((assigned - 1) as u16);
            me.sit_down(cpu);
            return k.trap(cpu, Trap::Seated);
        }
        me.park.store(0, SeqCst);
        if me.assigned.load(SeqCst) == 0 {
            os::futex_wait(&me.park, 0, None);
        }
    }
}
