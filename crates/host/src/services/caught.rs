//! Signals that arrive during an exec.
//!
//! `execve(2)` passes on the host thread's mask. So the calling carrier has the program's mask during the call, and
//! signals from outside reach it instead of the service thread. The host performs default actions itself. For signals
//! with a handler of the program's, one of ours is installed for that time: the host drops it when the call succeeds,
//! so that later signals find the default action, as natively. If the call fails, or a signal arrives before it begins,
//! the kernel gets the signal here.

use crate::base::dispositions::{self, CARRIER_MASK, HostInfo, REAL_TIME, SERVICE_SET};
use crate::base::{os, report};
use crate::carriers::carrier::Carrier;
use crate::services::alone;
use abi::{Errno, SigInfo, SigSet, Signal};
use arch::entry;
use arch::frame::HostFrame;
use linux::{Linux, left};
use sync::atomic::Ordering::*;

/// Calls `call` while signals with handlers of the program's are caught. `call` must end with ERESTARTNOINTR if one
/// arrives before the host has begun it.
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

/// Calls `call`, in a child that has no kernel, while these signals, which have handlers of the program's, are caught.
/// Afterwards, queueing ones get their default action back; the others get the handler that the child's kernel gives
/// them.
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

/// Called before the first handler is installed.
fn begin(me: &Carrier) {
    me.gs.interrupt.store(0, SeqCst);
    me.fault.catches.store(true, SeqCst);
}

/// Called when the handlers that must not stay have been removed.
fn end(me: &Carrier) {
    me.fault.catches.store(false, SeqCst);
    me.gs.interrupt.store(0, SeqCst);
}

/// Passes a caught signal to the kernel.
pub(crate) fn hand_in(me: &Carrier) {
    if !me.fault.pending.swap(false, Relaxed) {
        return;
    }
    // SAFETY: written by the handler on this carrier; plain data.
    let bytes: [u8; 128] = unsafe { core::mem::transmute(*me.fault.info.get()) };
    if let Ok(info) = SigInfo::read(&bytes)
        && Linux(me.process()).signal_from_host(me.cpu(), info) == Err(Errno::EAGAIN)
    {
        // The process has reached its limit of pending signals: the host keeps the signal until there is room.
        left::queue(&me.process().m, &info);
    }
}

fn each(set: u64, mut f: impl FnMut(Signal)) {
    SigSet(set).iter().for_each(&mut f);
}

/// Installs a handler for a signal that is ignored by default and blocked by all carriers, so that the host keeps it
/// pending.
pub(crate) fn keep_pending(signal: Signal, flags: u64) {
    report::sigaction(signal.raw(), Some(&dispositions::action(on_caught as *const () as u64, flags)));
}

/// Sets a handler, and keeps the flags that concern children.
pub(crate) fn set(signal: Signal, handler: u64) {
    const OF_CHILDREN: u64 = abi::SaFlags::NOCLDSTOP.0 | abi::SaFlags::NOCLDWAIT.0;
    let flags = report::sigaction(signal.raw(), None).flags & OF_CHILDREN;
    let action = match handler {
        0 => os::HostAction { flags, ..os::HostAction::default() },
        _ => dispositions::action(handler, flags),
    };
    report::sigaction(signal.raw(), Some(&action));
}

/// Takes one signal: from here on the carrier blocks them all, and the service thread takes the next.
unsafe extern "C" fn on_caught(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    let me = Carrier::me();
    // A handler that was left in place after a failed exec acts as one of a process without a service thread.
    if !me.fault.catches.load(Relaxed) {
        return alone::note(me, info, frame);
    }
    // SAFETY: only this carrier uses it, and it is in the kernel, so no fault uses it.
    unsafe { (*me.fault.info.get()).as_mut_ptr().cast::<HostInfo>().write(*info) };
    me.fault.pending.store(true, Relaxed);
    me.gs.interrupt.store(1, SeqCst);
    frame.sigmask = CARRIER_MASK;
    if let Some(to) = entry::interrupted(frame.rip()) {
        frame.set_rip(to);
    }
}
