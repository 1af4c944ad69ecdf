//! Two words of a carrier that decide whether it keeps its CPU during a host call that was expected to be short.
//! `takeover` has the protocol.

use crate::base::os;
use sync::atomic::{AtomicU32, Ordering::*};

pub(crate) const FREE: u32 = 0;
pub(crate) const ASKED: u32 = 1;
pub(crate) const TAKEN: u32 = 2;
pub(crate) const GIVEN: u32 = 3;

/// A carrier's two words.
#[derive(Debug, Default)]
pub struct Inline {
    /// Odd during a call; different for each call.
    pub(crate) call: AtomicU32,
    pub(crate) taken: AtomicU32,
}

impl Inline {
    /// The call that the carrier is in.
    pub fn current(&self) -> Option<u32> {
        let call = self.call.load(Acquire);
        (call & 1 != 0).then_some(call)
    }

    /// Called when the carrier returns: whether it still has the CPU.
    #[inline(always)]
    pub(crate) fn keeps(&self) -> bool {
        self.taken.load(Relaxed) == FREE || self.settle()
    }

    #[cold]
    fn settle(&self) -> bool {
        for round in 0.. {
            match self.taken.compare_exchange(ASKED, FREE, AcqRel, Acquire) {
                Ok(_) | Err(FREE) => return true,
                Err(GIVEN) => break,
                // The watcher is between its two stores.
                Err(_) => os::relax(round),
            }
        }
        self.taken.store(FREE, Relaxed);
        false
    }
}
