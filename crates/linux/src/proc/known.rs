//! A cached answer of the host about the process: threads read it often, and it rarely changes.

use alloc::boxed::Box;
use ids::Nanos;
use once_cell::race::OnceBox;
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{Lock, SeqCount};

/// The answer, and its place once there was one: most processes never ask, and a place is three kibibytes.
#[derive(Debug)]
pub(super) struct Known<const WORDS: usize>(OnceBox<Answer<WORDS>>);

/// The answer as words. Readers write nothing.
#[derive(Debug)]
struct Answer<const WORDS: usize> {
    /// Covers all fields below.
    seq: SeqCount,
    /// When the answer was obtained, by the scheduler's clock; 0: never.
    at: AtomicU64,
    /// How often credentials had changed by then.
    changes: AtomicU64,
    words: [AtomicU64; WORDS],
    writer: Lock<()>,
}

impl<const WORDS: usize> Default for Known<WORDS> {
    fn default() -> Self {
        Known(OnceBox::new())
    }
}

impl<const WORDS: usize> Answer<WORDS> {
    fn none() -> Box<Self> {
        let words = core::array::from_fn(|_| AtomicU64::new(0));
        let (at, changes) = Default::default();
        Box::new(Answer { seq: SeqCount::default(), at, changes, words, writer: Lock::new(()) })
    }
}

impl<const WORDS: usize> Known<WORDS> {
    /// The answer, if it was obtained after `since` and credentials have not changed.
    #[inline]
    pub(super) fn get(&self, since: Nanos, changes: u64) -> Option<[u64; WORDS]> {
        let answer = self.0.get()?;
        let begun = answer.seq.begin();
        if answer.at.load(Relaxed) <= since.0 || answer.changes.load(Relaxed) != changes {
            return None;
        }
        let words = answer.words.each_ref().map(|word| word.load(Relaxed));
        answer.seq.holds(begun).then_some(words)
    }

    pub(super) fn set(&self, at: Nanos, changes: u64, words: &[u64; WORDS]) {
        let answer = self.0.get_or_init(Answer::none);
        let _one_writer = answer.writer.lock();
        let _writing = answer.seq.write();
        answer.at.store(at.0, Relaxed);
        answer.changes.store(changes, Relaxed);
        for (to, word) in answer.words.iter().zip(words) {
            to.store(*word, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_until_it_is_old() {
        let known = Known::<2>::default();
        assert_eq!(known.get(Nanos(0), 0), None);
        known.set(Nanos(10), 3, &[7, 8]);
        assert_eq!(known.get(Nanos(9), 3), Some([7, 8]));
        assert_eq!(known.get(Nanos(10), 3), None, "too old");
        assert_eq!(known.get(Nanos(9), 4), None, "rights have changed");
    }
}
