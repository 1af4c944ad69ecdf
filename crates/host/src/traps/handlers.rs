//! Handlers of the host's signals.
//!
//! Every handler runs on the carrier's signal stack with all signals blocked, checks where the carrier was, and does
//! one of three things: it leaves a mark (the carrier is in the kernel and will check), changes where the carrier
//! continues (the entry, a fixup, the kernel stack), or reports and ends the process.

use crate::base::catch;
use crate::base::dispositions::*;
use crate::base::{os, points, report, sites};
use crate::carriers::carrier::{BORROWED, Carrier, UNBORN};
use crate::carriers::outside;
use crate::carriers::preempt::{look, preempt, stir};
use crate::process::{end, states};
use crate::services::{alone, borrower};
use crate::serving::identity;
use crate::traps::{controlled, run};
use abi::si_code;
use arch::context::{flag, pending, reg};
use arch::frame::HostFrame;
use arch::{entry, user};
use sync::atomic::Ordering::*;

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// Installs the handlers of the process.
pub fn install() {
    end::prepare();
    run::set_up();
    let action = |handler: u64| action(handler, 0);
    report::sigaction(os::SIGNAL_TICK, Some(&action(on_tick as *const () as u64)));
    report::sigaction(os::SIGNAL_INTERRUPT, Some(&action(on_interrupt as *const () as u64)));
    report::sigaction(SIGSYS, Some(&action(on_dispatch as *const () as u64)));
    for signal in [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV] {
        report::sigaction(signal, Some(&action(on_fault as *const () as u64)));
    }
}

/// The signal in place of a kick or an interrupt that the host had no room to queue: does what both would.
fn without_room(me: &Carrier, frame: &mut HostFrame) {
    identity::called(me);
    me.called_in_poller();
    let rung = if me.alarms.was_rung() { pending::TIMER } else { 0 };
    me.gs.pending.fetch_or(kicked(me) | rung, AcqRel);
    end_short_call(me, frame);
    match entry::interrupted(frame.rip()) {
        Some(to) if me.gs.interrupt.load(SeqCst) != 0 => frame.set_rip(to),
        _ => look(me, frame),
    }
}

/// Ends a call that was expected to be short, or keeps it from beginning, so that the kernel sees what has arrived.
fn end_short_call(me: &Carrier, frame: &mut HostFrame) {
    if me.inline.current().is_none() {
        return;
    }
    me.gs.interrupt.store(1, SeqCst);
    if let Some(to) = entry::interrupted(frame.rip()) {
        frame.set_rip(to);
    }
}

/// The mark of a kick that has arrived.
fn kicked(me: &Carrier) -> u32 {
    me.kicked.store(false, Release);
    pending::KICK
}

/// Tick, kick and ring. Each clears only its own mark, because the other signal may still be on its way.
unsafe extern "C" fn on_tick(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    let rings = info.value() == os::RING_COOKIE;
    if info.value() != os::COOKIE && !rings {
        return note(info, frame);
    }
    if !arch::base::has_gs() {
        return;
    }
    let me = Carrier::me();
    let bits = if info.code == si_code::TIMER {
        me.alarms.went_off(info.timer());
        pending::TIMER
    } else if rings {
        me.alarms.was_rung();
        pending::TIMER
    } else {
        kicked(me)
    };
    me.gs.pending.fetch_or(bits, AcqRel);
    end_short_call(me, frame);
    if me.process().m.service.is_alone() {
        stir(me, frame);
    }
    look(me, frame);
}

/// Ends a host call.
unsafe extern "C" fn on_interrupt(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    if info.value() == os::IDENTITY_COOKIE {
        if arch::base::has_gs() && Carrier::me().gs.borrowed == 0 {
            identity::called(Carrier::me());
        }
        return;
    }
    if info.value() != os::COOKIE {
        return note(info, frame);
    }
    if arch::base::has_gs() {
        Carrier::me().called_in_poller();
    }
    if let Some(to) = entry::interrupted(frame.rip()) {
        frame.set_rip(to);
    }
}

/// A signal that another process has sent.
fn note(info: &HostInfo, frame: &mut HostFrame) {
    let me = arch::base::has_gs().then(Carrier::me);
    match me {
        Some(me) if me.gs.borrowed == UNBORN => alone::note(me, info, frame),
        Some(me) if me.gs.borrowed == 0 && me.process().m.service.is_alone() => alone::note(me, info, frame),
        Some(me) if me.gs.borrowed == BORROWED => borrower::sent(me, info, frame),
        _ => outside::note(me.map(|me| &me.process().m.service), &info_bytes(info)),
    }
}

/// A system call from a site that is not patched.
unsafe extern "C" fn on_dispatch(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    if !catch::way().has_caught(info) {
        return sent_or_fault(info, frame);
    }
    if info.architecture() != AUDIT_ARCH_X86_64 {
        // The call came by `int $0x80`, which uses another table of numbers. Answer like a host without 32-bit calls.
        return frame.set_reg(reg::RAX, abi::Errno::ENOSYS.to_ret() as u64);
    }
    begin_call(frame);
}

/// Begins the call whose instruction the host has not carried out.
fn begin_call(frame: &mut HostFrame) {
    let rip = frame.rip();
    if frame.flags() & (flag::TF | flag::AC) != 0 && copy_call(frame, rip, run::DISPATCHED) {
        return;
    }
    frame.set_reg(reg::RCX, rip);
    frame.set_reg(reg::R11, u64::from(run::DISPATCHED));
    frame.set_rip(entry::entresol_entry_vectors as *const () as u64);
    frame.clear_flags(flag::TF);
}

/// A system call with flags that the entries do not keep: copies the thread's whole state out, as for a preemption, so
/// that the flags are restored. False in a vfork child, which has no kernel to enter, or without memory.
fn copy_call(frame: &mut HostFrame, rip: u64, library: u32) -> bool {
    if !arch::base::has_gs() || Carrier::me().gs.borrowed == BORROWED || !preempt(Carrier::me(), frame) {
        return false;
    }
    // SAFETY: as in `preempt`, which has filled it.
    let context = unsafe { &mut *Carrier::me().gs.context };
    context.rip = rip;
    context.call = context.r[reg::RAX] as u32;
    context.library = library;
    // As the `syscall` instruction leaves them.
    context.r[reg::RCX] = rip;
    context.r[reg::R11] = context.rflags;
    frame.set_rip(entry::entresol_entry_copied as *const () as u64);
    true
}

/// Faults, and the same signals when they are sent.
unsafe extern "C" fn on_fault(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    let no_room = info.signal == os::SIGNAL_NO_ROOM && is_ours(&info_bytes(info), os::getpid());
    if no_room && arch::base::has_gs() && Carrier::me().gs.borrowed == 0 {
        return without_room(Carrier::me(), frame);
    }
    if catch::way().has_let_through(info, frame) {
        return begin_call(frame);
    }
    sent_or_fault(info, frame);
}

fn sent_or_fault(info: &HostInfo, frame: &mut HostFrame) {
    if info.was_sent() {
        return note(info, frame);
    }
    fault(info, frame);
}

/// A flag of the program's that traps in the image. False if the trap has another cause.
fn trapped_by_flag(info: &HostInfo, frame: &mut HostFrame) -> bool {
    let flag = match (info.signal, info.code) {
        (SIGTRAP, si_code::TRAP_TRACE) => flag::TF,
        (SIGBUS, si_code::BUS_ADRALN) => flag::AC,
        _ => return false,
    };
    if frame.flags() & flag == 0 {
        return false;
    }
    let (rip, back, library) = (frame.rip(), frame.reg(reg::RCX), frame.reg(reg::R11) as u32);
    if !entry::begins_call(rip) || !copy_call(frame, back, library) {
        frame.clear_flags(flag);
    }
    true
}

fn fault(info: &HostInfo, frame: &mut HostFrame) {
    let rip = frame.rip();
    if info.signal == SIGTRAP
        && let Some(point) = points::breakpoint(rip.wrapping_sub(1))
    {
        return controlled::come(point, frame);
    }
    if let Some(offset) = offset_in_image(rip) {
        if trapped_by_flag(info, frame) {
            return;
        }
        if let Some(to) = user::fixup(rip) {
            return frame.set_rip(to);
        }
        report::fatal(format_args!(
            "internal fault: signal {} at {:#x} (image + {:#x}), address {:#x}, stack {:#x}",
            info.signal,
            rip,
            offset,
            info.fields[0],
            frame.reg(reg::RSP)
        ));
    }
    if (info.signal, info.code) == (SIGTRAP, si_code::TRAP_TRACE) && sites::is_within(rip, frame.reg(reg::RCX)) {
        // For the program this is one instruction, which has not been executed yet.
        return;
    }
    if !arch::base::has_gs() {
        return die_again(info.signal);
    }
    if Carrier::me().gs.borrowed == BORROWED {
        return borrower::fault(info, frame);
    }
    let me = Carrier::me();
    let trapped = frame.trapped();
    states::note_form(frame);
    #[cfg(feature = "planted")]
    let trapped = if crate::carriers::planted::forgets_trap() { Default::default() } else { trapped };
    if !preempt(me, frame) {
        report::fatal(format_args!("no memory to handle signal {} at {rip:#x}", info.signal));
    }
    // SAFETY: only this carrier uses it, and it is not pending now.
    unsafe {
        (*me.fault.info.get()).as_mut_ptr().cast::<HostInfo>().write(*info);
        *me.fault.trapped.get() = trapped;
    }
    me.fault.pending.store(true, Relaxed);
    me.gs.pending.fetch_or(pending::KICK, AcqRel);
}
