//! Masks, and the calls that wait with a mask of their own: `sigprocmask`, `sigsuspend`
//! and its kin, `sigtimedwait`.

use crate::{MaskHow, ProcessSignals, Retarget, ThreadSignals};
use abi::SigSet;

impl ProcessSignals {
    /// `sigprocmask(2)`: changes the mask and returns the old one. The thread asks for its
    /// next action afterwards.
    pub fn set_mask(&mut self, thread: &mut ThreadSignals, how: MaskHow, set: SigSet) -> (SigSet, Retarget) {
        let old = thread.blocked;
        let new = how.apply(old, set);
        self.note_stops(thread, new);
        (old, self.set_blocked(thread, new))
    }

    /// Replaces the mask; what the thread no longer takes needs another taker
    /// (`__set_task_blocked`).
    pub(crate) fn set_blocked(&mut self, thread: &mut ThreadSignals, mask: SigSet) -> Retarget {
        let mask = mask.blockable();
        let newly = mask.without(thread.blocked);
        if mask != thread.blocked {
            thread.blocked = mask;
            self.note_mask(thread);
        }
        Retarget::new(self.shared.set() & newly)
    }

    /// sigsuspend, ppoll, pselect, epoll_pwait: `mask` is in force until the call ends
    /// (`set_user_sigmask`).
    pub fn begin_mask(&mut self, thread: &mut ThreadSignals, mask: SigSet) -> Retarget {
        thread.saved = Some(thread.blocked);
        self.set_blocked(thread, mask)
    }

    /// Such a call ends by itself: the mask is as before. If instead a signal interrupted
    /// it, the mask stays until the handler's frame has saved the old one
    /// ([`ProcessSignals::delivered`]) or there turns out to be no handler
    /// ([`ProcessSignals::restore_mask`]).
    pub fn end_mask(&mut self, thread: &mut ThreadSignals, interrupted: bool) -> Retarget {
        if interrupted { Retarget::NONE } else { self.restore_mask(thread) }
    }

    /// Puts the mask before such a call back, if there was one (`restore_saved_sigmask`).
    pub fn restore_mask(&mut self, thread: &mut ThreadSignals) -> Retarget {
        match thread.saved.take() {
            Some(mask) => self.set_blocked(thread, mask),
            None => Retarget::NONE,
        }
    }

    /// sigtimedwait found nothing ([`ProcessSignals::take`]) and waits: signals of `set`
    /// now wake the thread though it blocks them (`do_sigtimedwait`).
    pub fn begin_wait(&mut self, thread: &mut ThreadSignals, set: SigSet) {
        thread.awaiting = Some(thread.blocked);
        thread.blocked = thread.blocked.without(set.blockable());
        self.note_mask(thread);
    }

    /// The wait is over, for whatever reason: restores the mask. Then call [`ProcessSignals::take`] once more; if there
    /// is nothing, the result is EAGAIN after the time limit, EINTR otherwise.
    pub fn end_wait(&mut self, thread: &mut ThreadSignals) -> Retarget {
        match thread.awaiting.take() {
            Some(mask) => self.set_blocked(thread, mask),
            None => Retarget::NONE,
        }
    }
}
