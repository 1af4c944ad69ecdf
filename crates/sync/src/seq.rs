//! A sequence count: readers copy words and learn afterwards whether a writer interfered.
//!
//! | value | meaning | next writer |
//! |---|---|---|
//! | even | no writer | a writer, by [`SeqCount::write`], or [`SeqCount::invalidate`] |
//! | odd | a writer is active | that writer, by dropping the guard of `write` |
//!
//! Writers exclude each other by a lock of their own (`d_seq` under `d_lock`). Readers write nothing. The protected
//! words must be atomics, because readers may load them while they change.
//!
//! 1. A writer makes the count odd and orders that before its data (release fence).
//! 2. A reader that has seen any of that data orders its second load of the count behind it (acquire fence), so it sees the
//!    odd count or a later one.
//! 3. The reader's first load is ordered before the data by acquire.

use crate::atomic::{AtomicU32, Ordering::*, fence, spin_hint};

/// The count.
#[derive(Debug, Default)]
pub struct SeqCount(AtomicU32);

impl SeqCount {
    /// The value a reader must find again. While a writer is active it is one that never occurs again
    /// (`raw_seqcount_begin`), so readers never wait.
    #[inline(always)]
    pub fn begin(&self) -> u32 {
        self.0.load(Acquire) & !1
    }

    /// Whether all that was read since `begin` belongs together.
    #[inline(always)]
    pub fn holds(&self, begun: u32) -> bool {
        fence(Acquire);
        self.0.load(Relaxed) == begun
    }

    /// A consistent copy. Waits for an active writer.
    #[inline(always)]
    pub fn read<T>(&self, copy: impl Fn() -> T) -> T {
        loop {
            let begun = self.begin();
            let copied = copy();
            if self.holds(begun) {
                return copied;
            }
            spin_hint();
        }
    }

    /// Begins a change; dropping the result ends it. The caller has the right to write.
    pub fn write(&self) -> Writing<'_> {
        let now = self.0.load(Relaxed);
        self.0.store(now.wrapping_add(1), Relaxed);
        fence(Release);
        Writing(self)
    }

    /// Makes all readers retry, although nothing changes (`write_seqcount_invalidate`). The caller has the right to
    /// write.
    pub fn invalidate(&self) {
        drop(self.write());
    }
}

/// A change under way.
#[derive(Debug)]
pub struct Writing<'a>(&'a SeqCount);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let now = self.0.0.load(Relaxed);
        self.0.0.store(now.wrapping_add(1), Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_change_between_is_noticed() {
        let seq = SeqCount::default();
        let begun = seq.begin();
        assert!(seq.holds(begun));
        let writing = seq.write();
        assert!(!seq.holds(begun));
        let during = seq.begin();
        assert!(!seq.holds(during), "what is read during a change never counts");
        drop(writing);
        assert!(!seq.holds(begun) && !seq.holds(during));
        let after = seq.begin();
        seq.invalidate();
        assert!(!seq.holds(after));
    }
}

/// Every order of the steps, and every value that a relaxed load may return.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn two_words_are_read_together_or_not_at_all() {
        loom::model(|| {
            let shared = Arc::new((SeqCount::default(), AtomicU32::new(0), AtomicU32::new(0)));
            let writer = {
                let shared = shared.clone();
                thread::spawn(move || {
                    for n in 1..=2 {
                        let _writing = shared.0.write();
                        shared.1.store(n, Relaxed);
                        shared.2.store(n, Relaxed);
                    }
                })
            };
            let begun = shared.0.begin();
            let (a, b) = (shared.1.load(Relaxed), shared.2.load(Relaxed));
            if shared.0.holds(begun) {
                assert_eq!(a, b);
            }
            writer.join().unwrap();
        });
    }
}
