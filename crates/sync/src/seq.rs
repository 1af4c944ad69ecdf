//! A sequence count: readers copy words and learn afterwards whether a writer came between.
//!
//! | value | meaning | who leaves it |
//! |---|---|---|
//! | even | nobody writes | a writer, by [`SeqCount::write`], or [`SeqCount::invalidate`] |
//! | odd | somebody writes | that writer, by dropping what `write` gave |
//!
//! Writers exclude each other by a lock of their own (`d_seq` under `d_lock`). Readers write nothing. What
//! they read between must be atomics, because they may well read it while it changes.
//!
//! Why it holds: a writer's first step makes the count odd and then orders it before its data (release fence).
//! A reader that has seen any of that data orders its second look at the count behind it (acquire fence), so it
//! sees the odd count or a later one; and its first look is ordered before the data by acquire.

use crate::atomic::{AtomicU32, Ordering::*, fence, spin_hint};

/// The count.
#[derive(Debug, Default)]
pub struct SeqCount(AtomicU32);

impl SeqCount {
    /// What a reader must find again. While somebody writes it is a value that will not be found again
    /// (`raw_seqcount_begin`), so that readers never wait.
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

    /// What `copy` reads, all of it from between two changes. Waits for a writer that is at work.
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

    /// Begins a change; dropping the answer ends it. The caller has the right to write.
    pub fn write(&self) -> Writing<'_> {
        let now = self.0.load(Relaxed);
        self.0.store(now.wrapping_add(1), Relaxed);
        fence(Release);
        Writing(self)
    }

    /// All readers shall begin anew, though nothing changes here (`write_seqcount_invalidate`).
    /// The caller has the right to write.
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
