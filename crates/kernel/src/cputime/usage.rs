//! A thread's user and system time as last shown.

use ids::Nanos;
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{Lock, SeqCount};
use time::cpu::{Adjuster, Cputime, Usage};

/// The times, readable without a write. New ones are published under the lock, so neither ever decreases.
#[derive(Debug, Default)]
pub(super) struct ShownUsage {
    adjuster: Lock<Adjuster>,
    /// Protects all that follows.
    seq: SeqCount,
    /// When they were shown, by scheduling time; 0: never.
    at: AtomicU64,
    utime: AtomicU64,
    stime: AtomicU64,
}

impl ShownUsage {
    /// The times to show for these readings, taken at `now`.
    pub(super) fn show(&self, now: Nanos, sample: Cputime) -> Usage {
        let mut adjuster = self.adjuster.lock();
        let usage = adjuster.adjust(sample);
        self.publish(now, usage);
        usage
    }

    /// The times last shown, if that was after `since`.
    #[inline]
    pub(super) fn last(&self, since: Nanos) -> Option<Usage> {
        let begun = self.seq.begin();
        let word = |word: &AtomicU64| Nanos(word.load(Relaxed));
        let (at, usage) = (word(&self.at), Usage { utime: word(&self.utime), stime: word(&self.stime) });
        (at > since && self.seq.holds(begun)).then_some(usage)
    }

    /// Resets the times for another thread in the slot.
    pub(super) fn reset(&self) {
        let mut adjuster = self.adjuster.lock();
        *adjuster = Adjuster::new();
        self.publish(Nanos::ZERO, Usage::default());
    }

    /// The lock is held.
    fn publish(&self, at: Nanos, usage: Usage) {
        let _writing = self.seq.write();
        let words = [(&self.at, at), (&self.utime, usage.utime), (&self.stime, usage.stime)];
        words.into_iter().for_each(|(to, word)| to.store(word.0, Relaxed));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_was_shown_is_known_for_a_while() {
        let (shown, sample) = (ShownUsage::default(), |exec| Cputime { exec: Nanos(exec), ..Cputime::ZERO });
        assert_eq!(shown.last(Nanos::ZERO), None);
        let first = shown.show(Nanos(100), sample(40));
        assert_eq!((first.utime, first.stime), (Nanos(40), Nanos::ZERO));
        assert_eq!((shown.last(Nanos(99)), shown.last(Nanos(100))), (Some(first), None));
        // A reading that is late does not take anything back.
        assert_eq!(shown.show(Nanos(90), sample(30)), first);
        assert_eq!(shown.last(Nanos(80)), Some(first));
        shown.reset();
        assert_eq!(shown.last(Nanos::ZERO), None);
    }
}
