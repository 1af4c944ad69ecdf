//! The host's `status` of the process, cached for its threads: a scan reads as many at once as there are threads.

use super::FACTS_LAST;
use crate::{Host, Linux};
use alloc::vec::Vec;
use ids::Nanos;
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{Lock, SeqCount};

/// A longer text is not kept.
const WORDS: usize = 384;
const LEN_MAX: usize = 8 * WORDS;

/// The text, to be read without a write.
#[derive(Debug)]
pub(super) struct KnownStatus {
    /// Around all that follows.
    seq: SeqCount,
    /// When it was read, by the scheduler's clock; 0: never.
    at: AtomicU64,
    /// How often rights had changed by then.
    changes: AtomicU64,
    len: AtomicU64,
    words: [AtomicU64; WORDS],
    writer: Lock<()>,
}

impl Default for KnownStatus {
    fn default() -> KnownStatus {
        let words = core::array::from_fn(|_| AtomicU64::new(0));
        let (at, changes, len) = Default::default();
        KnownStatus { seq: SeqCount::default(), at, changes, len, words, writer: Lock::new(()) }
    }
}

/// A text of at most [`LEN_MAX`] bytes.
struct Text {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl KnownStatus {
    /// The text, if it was read after `since`, and rights have not changed.
    fn get(&self, since: Nanos, changes: u64) -> Option<Text> {
        let begun = self.seq.begin();
        if self.at.load(Relaxed) <= since.0 || self.changes.load(Relaxed) != changes {
            return None;
        }
        // Read in the middle of a change it may be anything.
        let len = (self.len.load(Relaxed) as usize).min(LEN_MAX);
        let mut text = Text { bytes: [0; LEN_MAX], len };
        for (to, word) in text.bytes.as_chunks_mut::<8>().0.iter_mut().zip(&self.words).take(len.div_ceil(8)) {
            *to = word.load(Relaxed).to_le_bytes();
        }
        self.seq.holds(begun).then_some(text)
    }

    fn set(&self, at: Nanos, changes: u64, text: &[u8]) {
        if text.len() > LEN_MAX {
            return;
        }
        let _one_writer = self.writer.lock();
        let _writing = self.seq.write();
        self.at.store(at.0, Relaxed);
        self.changes.store(changes, Relaxed);
        self.len.store(text.len() as u64, Relaxed);
        for (to, part) in self.words.iter().zip(text.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            to.store(u64::from_le_bytes(word), Relaxed);
        }
    }
}

impl<M: Host> Linux<'_, M> {
    /// The host's text of the process, for somebody to use. Of a thread it is at most [`FACTS_LAST`] old; of the process
    /// it is of this moment, because programs measure their memory by it.
    pub(super) fn host_status<R>(&self, whole: bool, using: impl FnOnce(&[u8]) -> R) -> R {
        let (now, changes) = (self.m.now(), self.state().proc.changes.load(Relaxed));
        let since = Nanos(now.0.saturating_sub(FACTS_LAST.0));
        if !whole && let Some(text) = self.state().proc.status.get(since, changes) {
            return using(&text.bytes[..text.len]);
        }
        using(&self.ask_for_status(now, changes))
    }

    #[cold]
    #[inline(never)]
    fn ask_for_status(&self, now: Nanos, changes: u64) -> Vec<u8> {
        let text = self.read_host_file(c"/proc/self/status");
        self.state().proc.status.set(now, changes, &text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_until_it_is_old() {
        let known = KnownStatus::default();
        assert!(known.get(Nanos(0), 0).is_none());
        for len in [0, 1, 7, 8, 9, 1500, LEN_MAX] {
            let text: Vec<u8> = (0..len).map(|n| n as u8 | 1).collect();
            known.set(Nanos(10), 3, &text);
            let found = known.get(Nanos(9), 3).unwrap();
            assert_eq!(found.bytes[..found.len], text[..]);
            assert!(known.get(Nanos(10), 3).is_none(), "too old");
            assert!(known.get(Nanos(9), 4).is_none(), "rights have changed");
        }
        known.set(Nanos(20), 3, &[1; LEN_MAX + 1]);
        assert!(known.get(Nanos(15), 3).is_none(), "too long to be kept");
    }
}
