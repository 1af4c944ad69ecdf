//! Signals from the host, which both the service thread and carriers receive.
//!
//! The service thread receives what arrives at any time. A carrier receives what must be with the kernel before a call
//! returns (`service::settle`): signals that the call has caused, or that the program can learn of through it.
//!
//! # The protocol
//! The service thread works in rounds. In each it is *asking* (it is in `rt_sigtimedwait`, or about to be, or has just
//! returned), then *delivering*, then *elsewhere* ([`Rounds`]).
//!
//! 1. A signal for the process is pending at the host, or held by one host thread, or with the kernel.
//! 2. The service thread holds one only while asking or delivering, until the round ends.
//! 3. A carrier holds one only while it has the turn ([`Receiving::turn`]).
//! 4. While a signal that the service thread asks for is pending at the host, that thread does not sleep in its asking:
//!    Linux wakes it under the lock under which it queues the signal (`complete_signal`), and under the same lock it takes
//!    a signal before it sleeps again (`do_sigtimedwait`).
//!
//! So if the host says that the service thread sleeps, and it is asking before and after the host is asked, then it
//! holds nothing and nothing that it asks for is pending (2, 4). If the caller has had its turn since the signal
//! arrived, no carrier holds it either (3). It is with the kernel (1).
//!
//! The same follows without asking whether it sleeps, if nothing is pending any more and the round that was under way
//! at that moment has ended.
//!
//! The set that it asks for changes when a program makes descriptors read signals, and around an exec
//! ([`Service::left`]). A carrier first waits until the service thread asks for the present set
//! ([`Service::catch_up`]).
//!
//! A signal that carriers cannot block arrives at a handler, which notes it and then calls the service thread
//! (`outside`). For the protocol it is still pending.
//!
//! Carriers take standard signals only. One of each kind is pending at a time, so it does not matter which of two host
//! threads delivers first. Real-time signals keep their order because only the service thread takes them. SIGURG is
//! left to it because it answers the requests of tools. For both, a carrier waits.

use crate::base::dispositions::SERVICE_SET;
use crate::base::{os, task};
use crate::carriers::outside;
use crate::carriers::service_state::Service;
use abi::Signal;
use linux::left;
use sync::Lock;
use sync::atomic::{AtomicU64, Ordering::*};

/// The signals that carriers receive.
pub(crate) const STANDARD: u64 = SERVICE_SET & ((1 << 31) - 1) & !URGENT;
/// The signal that tools use for requests.
pub(crate) const URGENT: u64 = 1 << (Signal::URG.raw() - 1);

/// The state of receiving a process's signals.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// The state of the service thread.
    pub rounds: Rounds,
    /// Held by a carrier from before it takes signals until it has delivered them. No host call in between waits.
    pub turn: Lock<()>,
}

/// The rounds of the service thread.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The number of the round, shifted left by two; the low bits say what the service thread is doing.
    state: AtomicU64,
    /// The signals it asks for in this round.
    pub asked: AtomicU64,
}

const DOING: u64 = 3;
const ELSEWHERE: u64 = 0;
const ASKING: u64 = 1;
const DELIVERING: u64 = 2;

impl Default for Rounds {
    /// Until the first round begins, everything is left to the service thread.
    fn default() -> Rounds {
        Rounds { state: AtomicU64::new(ELSEWHERE), asked: AtomicU64::new(SERVICE_SET) }
    }
}

/// The service thread's side.
impl Rounds {
    /// The service thread is about to ask the host for a signal of `set`.
    pub fn begin(&self, set: u64) {
        self.asked.store(set, SeqCst);
        self.state.store(self.state.load(Relaxed) | ASKING, SeqCst);
    }

    /// The host has answered the service thread.
    pub fn deliver(&self) {
        self.state.store(self.state.load(Relaxed) & !DOING | DELIVERING, SeqCst);
    }

    /// The service thread has delivered the signal to the kernel.
    pub fn end(&self) {
        self.state.store((self.state.load(Relaxed) | DOING) + 1, SeqCst);
    }
}

/// The carriers' side.
impl Rounds {
    /// Whether the service thread sleeps while asking; `None` if the host does not say.
    fn is_asleep(&self, service: &Service) -> Option<bool> {
        let state = self.state.load(SeqCst);
        if state & DOING != ASKING {
            return Some(false);
        }
        let mut bytes = [0; 512];
        let stat = task::read(service.tid() as u32, "stat", &mut bytes);
        let sleeps = task::after_name(stat)?.starts_with('S');
        Some(sleeps && self.state.load(SeqCst) == state)
    }

    /// Whether something is pending that the service thread will take, or has been noted for it by a handler.
    fn is_due(&self, m: &impl linux::Host) -> bool {
        left::pending(m).0 & self.asked.load(SeqCst) != 0 || outside::is_due(os::getpid())
    }

    /// Whether the round that was under way in `state` has ended.
    fn is_over(&self, state: u64) -> bool {
        state & DOING == ELSEWHERE || self.state.load(SeqCst) / (DOING + 1) != state / (DOING + 1)
    }

    /// Waits until everything that was pending for the service thread is with the kernel.
    pub fn settle(&self, m: &impl linux::Host, service: &Service) {
        for round in 0.. {
            match self.is_asleep(service) {
                Some(true) => return,
                None => return self.settle_unseen(m, service),
                Some(false) if self.is_due(m) => os::relax(round),
                Some(false) => break,
            }
        }
        let state = self.state.load(SeqCst);
        for round in 0.. {
            if self.is_over(state) || self.is_asleep(service) == Some(true) {
                return;
            }
            os::relax(round);
        }
    }

    /// The same if the host does not say whether the service thread sleeps: calls it for as many rounds as standard
    /// signals can be pending. Signals that it cannot take for lack of room stay pending.
    fn settle_unseen(&self, m: &impl linux::Host, service: &Service) {
        for _ in 0..32 {
            let (due, state) = (self.is_due(m), self.state.load(SeqCst));
            service.call();
            for round in 0.. {
                if self.is_over(state) {
                    break;
                }
                os::relax(round);
            }
            if !due {
                return;
            }
        }
    }
}
