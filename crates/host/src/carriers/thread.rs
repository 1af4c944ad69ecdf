//! The host thread of a carrier: how it is cloned, set up and ended.

use crate::base::catch;
use crate::base::contexts::StateBuffers;
use crate::base::dispositions::{CARRIER_MASK, CLONING_MASK};
use crate::base::os::{self, nr};
use crate::carriers::carrier::{Carrier, NO_IDENTITY};
use crate::carriers::table::Carriers;
use abi::clone_flags as cf;
use arch::syscall;
use sync::atomic::Ordering::*;

impl Carrier {
    /// Clones the host thread. It begins as a spare.
    pub(super) fn start(&'static self, all: &Carriers) -> bool {
        const FLAGS: u64 = cf::VM | cf::FS | cf::FILES | cf::SIGHAND | cf::THREAD | cf::SYSVSEM | cf::PARENT_SETTID;
        let gs = core::ptr::from_ref(&self.gs).cast_mut();
        // Signals are blocked because the new thread shares its creator's GS base until it has its own: it would take a
        // kick for the creator's, and a kick for itself would count as on its way for ever. `settle` unblocks them. The
        // creator's identity must not change before the new thread has it (`identity/adopt.rs`).
        #[cfg(feature = "planted")]
        crate::carriers::planted::begin_to_make();
        let before = os::sigprocmask(2, CLONING_MASK);
        let started = {
            let _guard = all.lock_cloning();
            self.identity.store(Carrier::me().identity_for_new(), SeqCst);
            #[cfg(feature = "planted")]
            let refused = crate::carriers::planted::refuses_carrier(all);
            #[cfg(not(feature = "planted"))]
            let refused = false;
            // SAFETY: the block is complete and never freed.
            let started = !refused && unsafe { arch::entry::clone_carrier(FLAGS, gs, self.tid.as_ptr()) > 0 };
            if !started {
                self.identity.store(NO_IDENTITY, SeqCst);
            }
            started
        };
        os::sigprocmask(2, before);
        started
    }

    /// The identity of a carrier that the calling carrier clones: its own, except for a tie. Takes no lock, because the
    /// service thread clones carriers, too. It cannot change while the caller has signals blocked, or a tie.
    pub(crate) fn identity_for_new(&self) -> u32 {
        match self.untied.load(SeqCst) {
            NO_IDENTITY => self.identity.load(SeqCst),
            untied => untied,
        }
    }

    /// The first steps of a carrier on its host thread: mask, signal stack, dispatch.
    pub fn settle(&self, buffers: &StateBuffers) {
        // A pending kick may have been meant for the block's previous host thread.
        self.kicked.store(false, Release);
        self.tid.store(os::gettid() as u32, Release);
        // The host thread inherits its creator's affinity, which may be any CPU's.
        self.placed.store(u32::MAX, Relaxed);
        os::sigprocmask(2, CARRIER_MASK);
        self.use_signal_stack();
        os::set_timer_slack(os::FINEST);
        catch::way().begin_thread();
        self.refill(buffers);
    }

    /// Makes the host run handlers of the calling host thread on it.
    pub(crate) fn use_signal_stack(&self) {
        let stack = self.signal_stack();
        // SAFETY: the stack is this carrier's own.
        unsafe { syscall!(nr::SIGALTSTACK, stack.as_ptr(), 0) };
    }

    /// Ends a spare that was taken off the list, so that nobody will give it a seat.
    pub(super) fn end(&self, how: u32) {
        self.assigned.store(how, SeqCst);
        self.wake();
    }

    /// Ends the host thread and frees the block for another.
    pub(crate) fn leave(&self, all: &Carriers) -> ! {
        assert!(!self.is_first(), "the first host thread must outlive the others");
        self.alarms.delete();
        self.placed.store(0, Relaxed);
        self.tracing.forget();
        self.identity.store(NO_IDENTITY, SeqCst);
        // SAFETY: the host clears the word as the last use of the stack.
        unsafe {
            syscall!(nr::SET_TID_ADDRESS, self.tid.as_ptr());
            all.give_ended(self);
            loop {
                syscall!(nr::EXIT, 0);
            }
        }
    }
}
