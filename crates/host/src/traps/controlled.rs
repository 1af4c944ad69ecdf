//! Controlled runs (`entresol chaos`): virtual time, breakpoints, and what happens when nothing can run.

use crate::base::os;
use crate::base::points::{self, Point};
use crate::carriers::carrier::Carrier;
use crate::carriers::preempt::preempt;
use crate::process::{Host, Process};
use crate::services::alone;
use abi::args::CLOCK_THREAD_CPUTIME_ID;
use arch::context::{pending, reg};
use arch::frame::HostFrame;
use chaos::log::State;
use chaos::{Access, Log};
use ids::Nanos;
use kernel::{Arrival, Next, Trap};
use patch::Operand;
use sync::atomic::{AtomicU32, Ordering::*};

/// How long threads that wait for the outside world get before virtual time leaps over a sleep.
const GRACE: Nanos = Nanos::from_millis(20);
/// The time between two checks of the running thread, which may be waiting for others in a loop.
const WATCH: Nanos = Nanos::from_millis(5);
/// The time between two checks whether the command has seen a state.
const LOOK: Nanos = Nanos::from_micros(200);

/// Our index of each general register, by the processor's number.
const BY_NUMBER: [usize; 16] = [
    reg::RAX,
    reg::RCX,
    reg::RDX,
    reg::RBX,
    reg::RSP,
    reg::RBP,
    reg::RSI,
    reg::RDI,
    reg::R8,
    reg::R9,
    reg::R10,
    reg::R11,
    reg::R12,
    reg::R13,
    reg::R14,
    reg::R15,
];

impl Host {
    /// Advances virtual time by what a scheduling point takes.
    pub(crate) fn pass_point(&self, step: Nanos) {
        self.pass_to(self.clock.now() + step);
    }

    pub(crate) fn pass_to(&self, at: Nanos) {
        self.clock.set(at);
        self.bounds.set(at);
    }
}

/// When the host's clock must interrupt the running thread for a check.
pub(crate) fn look_at() -> Nanos {
    os::clock_gettime(1) + WATCH
}

/// Tells the kernel of an interruption, if the run is controlled. `timer`: a timer of the host has gone off.
#[inline]
pub(crate) fn note_interrupt(k: &Process, timer: bool) {
    if !k.is_controlled() {
        return;
    }
    if timer && let Some(log) = k.controlled_log() {
        end_without_command(&log);
    }
    k.note_interrupt(|| os::clock_gettime(CLOCK_THREAD_CPUTIME_ID));
}

/// How long the carrier of an idle CPU may really sleep before virtual time leaps to `until`.
pub(crate) fn sleep_until(k: &Process, until: Nanos) -> Nanos {
    os::clock_gettime(1) + until.since(k.m.clock.now()).min(GRACE)
}

/// Makes virtual time leap to `until`, unless it is past it.
pub(crate) fn leap(k: &Process, until: Nanos) {
    k.m.pass_to(until.max(k.m.clock.now()));
}

/// The CPU of a controlled run has nothing to run until this time. `None`: the carrier must sleep, because something
/// may arrive from outside.
pub(crate) fn idle(me: &Carrier, until: Option<Nanos>) -> Option<Next> {
    let (k, cpu) = (me.process(), me.cpu());
    if me.gs.pending.load(Relaxed) != 0 || k.waits_for_outside() {
        return None;
    }
    match until {
        Some(at) => {
            leap(k, at);
            Some(k.trap(cpu, Trap::Interrupt { timer: true, kick: true }))
        }
        None => {
            hold(k, State::Stuck);
            None
        }
    }
}

/// Called in the handler when a thread has reached a breakpoint. It continues in the copy of the instruction; in a
/// controlled run, after threads that are chosen first. A child is not controlled and continues at once.
pub(crate) fn come(point: &Point, frame: &mut HostFrame) {
    frame.set_rip(point.stub);
    if !arch::base::has_gs() || Carrier::me().gs.borrowed != 0 || !Carrier::my_process().is_controlled() {
        return;
    }
    let me = Carrier::me();
    if preempt(me, frame) {
        me.fault.point.store(point.place, Relaxed);
        me.fault.pending.store(true, Relaxed);
        me.gs.pending.fetch_or(pending::KICK, AcqRel);
    }
}

/// Called on the kernel stack: notes the thread's position if it is at a breakpoint; returns whether it is.
pub(crate) fn note(me: &Carrier) -> bool {
    let place = me.fault.point.swap(0, Relaxed);
    if place == 0 {
        return false;
    }
    me.process().note_place(place);
    let Some(point) = points::breakpoint(place) else { return true };
    if let Some(operand) = &point.operand {
        note_access(me, point, operand);
    }
    if point.come()
        && let Some(byte) = point.byte
    {
        os::change_text(place, byte);
    }
    true
}

/// Tells the kernel what the thread is about to access.
fn note_access(me: &Carrier, point: &Point, operand: &Operand) {
    // SAFETY: the current thread's context, which the handler has saved.
    let context = unsafe { &*me.gs.context };
    let address = operand.address(|register| context.r[BY_NUMBER[usize::from(register)]]);
    let (size, reads, writes, atomic) = (operand.size, operand.reads, operand.writes, operand.atomic);
    // As in `Machine::save`: the register is the thread's until another one is loaded.
    let block = if me.gs.fs_base_due == 0 { arch::base::fs_base() } else { context.fs_base };
    let is_own = chaos::races::is_own(address, context.r[reg::RSP], block);
    let access = Access { place: point.place, address, size, reads, writes, atomic };
    me.process().note_access(Arrival { access, is_own, number: point.number });
}

/// Ends this process if the command has ended. The host does so with the process that the command has started, but not
/// with its children.
fn end_without_command(log: &Log<'_>) {
    if !os::is_there(log.command() as i32) {
        os::kill_self();
    }
}

/// Waits until the command has seen this state.
pub(crate) fn hold(k: &Process, state: State) {
    let Some(log) = k.controlled_log() else { return };
    // The service thread answers when the command asks where threads are.
    alone::end(k);
    let word = AtomicU32::new(0);
    log.set_state(state);
    while log.state() == state {
        end_without_command(&log);
        os::futex_wait(&word, 0, Some(LOOK));
    }
    // The clock of a process without a service thread is another one, and may have come meanwhile: it is set anew.
    Carrier::me().gs.pending.fetch_or(pending::TIMER, AcqRel);
}
