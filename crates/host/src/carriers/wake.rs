//! How a carrier is woken, kicked and recalled from a host call.

use crate::base::os;
use crate::carriers::carrier::{ASLEEP, AWAKE, CALL, CALLED, Carrier};
use arch::context::pending;
use ids::CpuId;
use sync::atomic::Ordering::*;

impl Carrier {
    /// Wakes the carrier, so that it checks its words.
    pub fn wake(&self) {
        self.park.store(1, SeqCst);
        if self.polls.compare_exchange(ASLEEP, CALLED, SeqCst, SeqCst).is_ok() {
            self.gs.interrupt.store(1, SeqCst);
            if !os::signal_thread(self.pid, self.tid.load(Relaxed) as i32, os::SIGNAL_INTERRUPT) {
                // A borrower with other rights, or in another PID namespace, may not be allowed to send it.
                let _ = self.polls.compare_exchange(CALLED, ASLEEP, SeqCst, SeqCst);
            }
        } else {
            os::futex_wake(&self.park);
        }
    }

    /// Called before the carrier sleeps in the poller.
    pub(crate) fn fall_asleep_in_poller(&self) {
        self.polls.store(ASLEEP, SeqCst);
    }

    /// Called after the carrier has slept in the poller. Waits for a signal that is on its way, which would otherwise
    /// interrupt a later call.
    pub(crate) fn wake_up_in_poller(&self) {
        for round in 0.. {
            match self.polls.compare_exchange(ASLEEP, AWAKE, SeqCst, SeqCst) {
                Ok(_) | Err(AWAKE) => break,
                Err(_) => os::relax(round),
            }
        }
        self.gs.interrupt.store(0, SeqCst);
    }

    /// Notes in the carrier's handler that the signal that wakes it has arrived.
    pub(crate) fn called_in_poller(&self) {
        let _ = self.polls.compare_exchange(CALLED, AWAKE, SeqCst, SeqCst);
    }

    /// Stops all kicks, including one in flight: a new program has no handler, so a late kick would be fatal. The
    /// caller has the signal unblocked.
    pub(crate) fn refuse_kicks(&self) {
        for round in 0.. {
            // Whoever has set `kicked` either sends the kick or takes the mark back; try again until it is ours.
            if !self.kicked.swap(true, SeqCst) {
                return;
            }
            os::relax(round);
        }
    }

    /// After a failed exec: handles kicks and rings that were refused meanwhile.
    pub(crate) fn accept_kicks(&self) {
        self.kicked.store(false, SeqCst);
        self.gs.pending.fetch_or(pending::KICK | pending::TIMER, SeqCst);
    }

    /// Called before a host call that waits.
    pub(crate) fn begin_waiting(&self) {
        self.recalled.store(false, SeqCst);
        self.waits.store(true, SeqCst);
    }

    /// Called when that call is over.
    pub(crate) fn end_waiting(&self) {
        self.waits.store(false, SeqCst);
    }

    /// Whether the carrier has been recalled.
    pub(crate) fn is_recalled(&self) -> bool {
        self.recalled.load(SeqCst)
    }

    /// Recalls the carrier from a host call that waits, because its CPU has other work and the host gives us no other
    /// carrier. The thread makes its call again. False if the carrier is in no such call.
    pub(crate) fn recall(&self, pid: i32) -> bool {
        let waits = self.waits.load(SeqCst);
        if waits {
            self.recalled.store(true, SeqCst);
            self.gs.interrupt.store(1, SeqCst);
            os::signal_thread(pid, self.tid.load(Relaxed) as i32, os::SIGNAL_INTERRUPT);
        }
        waits
    }

    /// Makes a spare that was taken off the list carry out the host call it was given ([`Delegated`]).
    pub(crate) fn make_call(&self) {
        self.assigned.store(CALL, SeqCst);
        self.wake();
    }

    /// Gives it a seat and wakes it.
    pub fn assign(&self, cpu: CpuId) {
        self.assigned.store(u32::from(cpu.0) + 1, SeqCst);
        self.wake();
    }
}
