//! How a carrier is woken, kicked and called back from a host call.

use crate::base::os;
use crate::carriers::carrier::{ASLEEP, AWAKE, CALL, CALLED, Carrier};
use arch::context::pending;
use ids::CpuId;
use sync::atomic::Ordering::*;

impl Carrier {
    /// Makes it look at its words.
    pub fn wake(&self) {
        self.park.store(1, SeqCst);
        if self.polls.compare_exchange(ASLEEP, CALLED, SeqCst, SeqCst).is_ok() {
            self.gs.interrupt.store(1, SeqCst);
            if !os::signal_thread(self.pid, self.tid.load(Relaxed) as i32, os::SIGNAL_INTERRUPT) {
                // A borrower with other rights, or in another PID namespace, may not send it.
                let _ = self.polls.compare_exchange(CALLED, ASLEEP, SeqCst, SeqCst);
            }
        } else {
            os::futex_wake(&self.park);
        }
    }

    /// The carrier is about to sleep in the poller.
    pub(crate) fn fall_asleep_in_poller(&self) {
        self.polls.store(ASLEEP, SeqCst);
    }

    /// The carrier has slept in the poller. Waits for a signal that is on its way, which would interrupt a later call.
    pub(crate) fn wake_up_in_poller(&self) {
        for round in 0.. {
            match self.polls.compare_exchange(ASLEEP, AWAKE, SeqCst, SeqCst) {
                Ok(_) | Err(AWAKE) => break,
                Err(_) => os::relax(round),
            }
        }
        self.gs.interrupt.store(0, SeqCst);
    }

    /// The signal that wakes the carrier has arrived. Called in its handler.
    pub(crate) fn called_in_poller(&self) {
        let _ = self.polls.compare_exchange(CALLED, AWAKE, SeqCst, SeqCst);
    }

    /// Ends all kicks to it, including one in flight: in a new program, which has no handler for it, a late kick
    /// would be fatal. The caller has the signal open.
    pub(crate) fn refuse_kicks(&self) {
        for round in 0.. {
            // Another that has set it either sends or takes it back; in that case try again.
            if !self.kicked.swap(true, SeqCst) {
                return;
            }
            os::relax(round);
        }
    }

    /// The exec failed: answers kicks and rings that were refused meanwhile.
    pub(crate) fn accept_kicks(&self) {
        self.kicked.store(false, SeqCst);
        self.gs.pending.fetch_or(pending::KICK | pending::TIMER, SeqCst);
    }

    /// The carrier begins a host call that waits.
    pub(crate) fn begin_waiting(&self) {
        self.recalled.store(false, SeqCst);
        self.waits.store(true, SeqCst);
    }

    /// The call has returned for good.
    pub(crate) fn end_waiting(&self) {
        self.waits.store(false, SeqCst);
    }

    /// Whether somebody wants it back.
    pub(crate) fn is_recalled(&self) -> bool {
        self.recalled.load(SeqCst)
    }

    /// Wants it back from a host call that waits: its CPU has other work, and the host gives us no other carrier. The
    /// thread makes its call again.
    /// Says whether it is in one.
    pub(crate) fn recall(&self, pid: i32) -> bool {
        let waits = self.waits.load(SeqCst);
        if waits {
            self.recalled.store(true, SeqCst);
            self.gs.interrupt.store(1, SeqCst);
            os::signal_thread(pid, self.tid.load(Relaxed) as i32, os::SIGNAL_INTERRUPT);
        }
        waits
    }

    /// Makes it carry out what it has been given ([`Delegated`]): a spare, out of the list.
    pub(crate) fn make_call(&self) {
        self.assigned.store(CALL, SeqCst);
        self.wake();
    }

    /// Gives it a seat and makes it take it.
    pub fn assign(&self, cpu: CpuId) {
        self.assigned.store(u32::from(cpu.0) + 1, SeqCst);
        self.wake();
    }
}
