use crate::{ProcessSignals, ThreadSignals};
use abi::SigSet;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a CPU must know of a thread's signals at every trap, readable without the lock:
/// "is there anything to deliver?".
///
/// A hint: written under the lock by [`Summary::publish`], read relaxed. Whoever makes a
/// signal pending publishes and then wakes or kicks the thread; the kick orders the two.
/// A set bit may be stale and costs one call of [`ProcessSignals::next_action`]; the
/// process's queue and end are in the hint of every thread that was chosen to receive.
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

    /// Makes the thread look, whatever is deliverable: the process ends.
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
