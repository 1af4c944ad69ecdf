use crate::{ProcessSignals, ThreadSignals};
use abi::SigSet;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A summary of a thread's signals for every trap, readable without the lock:
/// "is there anything to deliver?".
///
/// Published under the lock, read relaxed without it:
/// - for the thread of [`Wake::Thread`](crate::Wake::Thread), and for one that
///   [`Retarget::offer`](crate::Retarget::offer) chose, before it is woken or kicked (which
///   orders the two);
/// - by a thread itself after it changed its mask or asked for its next action.
///
/// A thread is not notified of signals of the process's queue for which others were chosen. A set bit may be stale and
/// costs one call of [`ProcessSignals::next_action`].
#[derive(Debug, Default)]
pub struct Summary(AtomicU64);

impl Summary {
    /// Nothing to deliver.
    pub const fn new() -> Summary {
        Summary(AtomicU64::new(0))
    }

    /// Stores what is deliverable to `thread` now.
    pub fn publish(&self, process: &ProcessSignals, thread: &ThreadSignals) {
        self.0.store(process.deliverable(thread).0, Relaxed);
    }

    /// Makes the thread check, whatever is deliverable: the process ends.
    pub fn publish_end(&self) {
        self.0.store(SigSet::only(abi::Signal::KILL).0, Relaxed);
    }

    /// Whether the thread should ask for its next action.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// The signals that were deliverable when last published.
    pub fn deliverable(&self) -> SigSet {
        SigSet(self.0.load(Relaxed))
    }
}
