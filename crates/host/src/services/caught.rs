//! Signals that arrive while a program is being executed.
//!
//! `execve(2)` hands the host thread's mask on, so the calling carrier has the program's during the call and signals from
//! outside reach it, not the service thread. Of those with default actions the host does what is right. Those with a handler
//! of the program get one of ours for that time: the host drops it when the call succeeds, so that what arrives later finds
//! the default action, as natively. If the call fails, or a signal comes before it begins, the kernel gets the signal here.

use crate::base::dispositions::{self, CARRIER_MASK, HostInfo, REAL_TIME, SERVICE_SET};
use crate::base::{os, report};
use crate::carriers::carrier::Carrier;
use crate::services::alone;
use abi::{Errno, SigInfo, SigSet, Signal};
use arch::entry;
use arch::frame::HostFrame;
use linux::{Linux, left};
use sync::atomic::Ordering::*;

/// Calls `call` while signals of the program's handlers that arrive are caught. `call` ends with ERESTARTNOINTR if one
/// does before the host has begun.
pub(crate) fn with_handlers_caught(me: &Carrier, call: impl FnOnce() -> isize) -> isize {
    let k = me.process();
    let caught = &k.m.caught;
    begin(me);
    {
        let mut state = caught.0.lock();
        state.0 += 1;
        let new = k.caught_signals() & SigSet(SERVICE_SET & !state.1);
        state.1 |= new.without(SigSet::IGNORED_BY_DEFAULT).0;
        catch(new);
    }
    let result = call();
    {
        let mut state = caught.0.lock();
        state.0 -= 1;
        if state.0 == 0 {
            each(core::mem::take(&mut state.1), |signal| set(signal, 0));
        }
    }
    end(me);
    result
}

/// Calls `call`, in a child that has no kernel, while these signals, which have handlers of the program's, are caught. Those that
/// queue get their default action back; the others get the handler that the child's kernel gives them.
pub(crate) fn with_caught(me: &Carrier, signals: SigSet, call: impl FnOnce() -> isize) {
    begin(me);
    catch(signals);
    call();
    each(signals.0 & SERVICE_SET & REAL_TIME, |signal| set(signal, 0));
    end(me);
}

fn catch(signals: SigSet) {
    each(signals.0 & SERVICE_SET, |signal| set(signal, on_caught as *const () as u64));
}

/// Before the first handler is there.
fn begin(me: &Carrier) {
    me.gs.interrupt.store(0, SeqCst);
    me.fault.catches.store(true, SeqCst);
}

/// After all that could find no other place have lost their handler.
fn end(me: &Carrier) {
    me.fault.catches.store(false, SeqCst);
    me.gs.interrupt.store(0, SeqCst);
}

/// Hands the caught signals to the kernel.
pub(crate) fn hand_in(me: &Carrier) {
    if !me.fault.pending.swap(false, Relaxed) {
        return;
    }
    // SAFETY: written by the handler on this carrier; plain data.
    let bytes: [u8; 128] = unsafe { core::mem::transmute(*me.fault.info.get()) };
    if let Ok(info) = SigInfo::read(&bytes)
        && Linux(me.process()).signal_from_host(me.cpu(), info) == Err(Errno::EAGAIN)
    {
        // The process has reached its limit of pending signals: the host keeps it until there is room.
        left::queue(&me.process().m, &info);
    }
}

fn each(set: u64, mut f: impl FnMut(Signal)) {
    SigSet(set).iter().for_each(&mut f);
}

/// The host keeps what is pending of a signal that it would ignore by default, and that all carriers block: it has a handler.
pub(crate) fn keep_pending(signal: Signal, flags: u64) {
    report::sigaction(signal.raw(), Some(&dispositions::action(on_caught as *const () as u64, flags)));
}

/// Sets a handler, and leaves the flags that say what becomes of children.
pub(crate) fn set(signal: Signal, handler: u64) {
    const OF_CHILDREN: u64 = abi::SaFlags::NOCLDSTOP.0 | abi::SaFlags::NOCLDWAIT.0;
    let flags = report::sigaction(signal.raw(), None).flags & OF_CHILDREN;
    let action = match handler {
        0 => os::HostAction { flags, ..os::HostAction::default() },
        _ => dispositions::action(handler, flags),
    };
    report::sigaction(signal.raw(), Some(&action));
}

/// One at a time: from here on the carrier blocks them all, and the service thread takes the next.
unsafe extern "C" fn on_caught(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    let me = Carrier::me();
    // A handler that was left in its place after an exec failed: it is like those of a process that is alone.
    if !me.fault.catches.load(Relaxed) {
        return alone::note(me, info, frame);
    }
    // SAFETY: only this carrier uses it, and it is in the kernel, so there is no fault.
    unsafe { (*me.fault.info.get()).as_mut_ptr().cast::<HostInfo>().write(*info) };
    me.fault.pending.store(true, Relaxed);
    me.gs.interrupt.store(1, SeqCst);
    frame.sigmask = CARRIER_MASK;
    if let Some(to) = entry::interrupted(frame.rip()) {
        frame.set_rip(to);
    }
}
