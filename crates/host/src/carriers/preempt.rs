//! Called in handlers of host signals: interrupts what a carrier is doing.

use crate::base::dispositions::in_image;
use crate::carriers::carrier::Carrier;
use arch::entry;
use arch::frame::HostFrame;
use sync::atomic::Ordering::*;

/// Makes the carrier check what is pending, wherever it was interrupted.
pub(crate) fn look(me: &Carrier, frame: &mut HostFrame) {
    let rip = frame.rip();
    if !in_image(rip) {
        preempt(me, frame);
    } else if (entry::resume_start()..entry::resume_end()).contains(&rip) {
        frame.divert(entry::again(), me.gs.kernel_stack);
    } else if me.brief.load(Relaxed) {
        me.gs.interrupt.store(1, Relaxed);
        if let Some(to) = entry::interrupted(rip) {
            frame.set_rip(to);
        }
    }
}

/// Copies the thread's state out of the frame, so that the carrier continues in the kernel. False without memory for
/// it: the thread continues, and the next tick tries again.
pub(crate) fn preempt(me: &Carrier, frame: &mut HostFrame) -> bool {
    // SAFETY: the carrier is in user code, so it has a current thread, whose context is its own.
    let context = unsafe { &mut *me.gs.context };
    let mut buffer = context.xbuf;
    if buffer.is_null() {
        buffer = me.buffer.swap(core::ptr::null_mut(), Relaxed);
        if buffer.is_null() {
            return false;
        }
    }
    // SAFETY: the frame is the host's, the buffer one of ours.
    unsafe { frame.copy_out(context, buffer) };
    frame.land(entry::entresol_entry_preempt as *const () as u64, me.gs.kernel_stack);
    true
}

/// Makes the carrier of a process without a service thread check what has arrived, whatever it sleeps or waits in.
pub(crate) fn stir(me: &Carrier, frame: &mut HostFrame) {
    me.stirred.store(true, SeqCst);
    me.park.store(1, SeqCst);
    me.gs.interrupt.store(1, SeqCst);
    if let Some(to) = entry::interrupted(frame.rip()) {
        frame.set_rip(to);
    }
}
