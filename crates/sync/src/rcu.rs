//! Read-copy-update: readers announce themselves in a word of their own and write nothing else; a slot that was
//! unlinked is reused only when no reader can still use it.
//!
//! There are no pointers here and no unsafe code: what is protected are **slots** of tables that never move. An
//! unlinked slot goes to a [`Limbo`], marked with the epoch, and leaves it after a grace period. The
//! kernel runs a trap to its end on one CPU and never waits in one, so a CPU has at most one reader, and a reader
//! lasts for microseconds: one word a CPU is enough, and a grace period is short.
//!
//! | word | value | who writes it |
//! |---|---|---|
//! | a reader's | 0: not reading; else 1 + 2 × the epoch in which it began | that reader alone |
//! | the epoch | counts retirements | who retires |
//!
//! **Why no reader uses a slot that is reused.** A writer unlinks it, passes a full fence, and advances the
//! epoch `T` while it marks the slot with `T`. It reuses the slot once each reader's word is 0 or of an epoch above
//! `T`. Consider a reader's section that found the slot before it was unlinked:
//! 1. If the writer's load of the reader's word sees the section's own value, that is of an epoch of `T` or less:
//!    had the reader seen a later epoch (acquire; the epoch is raised with release), the unlinking would have happened
//!    before its section, and it could not have found the slot. So the writer waits.
//! 2. If the load sees an older value, the reader's fence (between its word and its first load) comes after the
//!    writer's (between unlinking and that load), so the reader's loads see the unlinking: it cannot have found the
//!    slot.
//!    Where the system can make all processors pass a fence ([`Rcu::with_barrier`]), the writer requests that before
//!    its
//!    load, and the reader needs no fence: wherever that one falls in the reader's section, either the word is stored
//!    before it, and the writer sees it, or the reader's loads come after it, and see the unlinking.
//! 3. If the load sees a later value, the section is over: it ended with a release store that the load acquires, so
//!    all that the section read was read before the slot is written again.

use crate::CachePadded;
use crate::atomic::{AtomicU64, Ordering::*, fence};
use alloc::boxed::Box;
use alloc::collections::{TryReserveError, VecDeque};

/// The readers of one structure, or of many.
#[derive(Debug)]
pub struct Rcu {
    epoch: CachePadded<AtomicU64>,
    barrier: Option<Barrier>,
    readers: Box<[CachePadded<AtomicU64>]>,
}

/// Makes every processor that runs this program pass a full fence; false if that was not possible.
pub type Barrier = fn() -> bool;

/// A reader's section; dropping it ends it.
#[derive(Debug)]
pub struct Reading<'a>(&'a AtomicU64);

impl Rcu {
    /// For readers `0 .. readers`.
    pub fn new(readers: usize) -> Rcu {
        Rcu {
            epoch: CachePadded::default(),
            barrier: None,
            readers: (0..readers).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Readers need no fence of their own: a reclaimer calls this barrier before it reads their words.
    pub fn with_barrier(self, barrier: Option<Barrier>) -> Rcu {
        Rcu { barrier, ..self }
    }

    /// How many readers there may be.
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Reader `reader` begins. It alone uses that number, and has no section open.
    #[inline]
    pub fn read(&self, reader: usize) -> Reading<'_> {
        let word = &self.readers[reader];
        debug_assert_eq!(word.load(Relaxed), 0, "one section at a time");
        let value = self.epoch.load(Acquire) * 2 + 1;
        if self.barrier.is_some() {
            word.store(value, Relaxed);
            core::sync::atomic::compiler_fence(SeqCst);
        } else {
            announce(word, value);
        }
        Reading(word)
    }

    /// Whether `word` belongs to a reader: all that a reader may write.
    #[cfg(counting)]
    pub fn owns(&self, word: usize) -> bool {
        self.readers.iter().any(|reader| core::ptr::from_ref(&reader.0) as usize == word)
    }

    /// The mark of something that has just been unlinked.
    fn retire(&self) -> u64 {
        fence(SeqCst);
        self.epoch.fetch_add(1, AcqRel)
    }

    /// Slots retired in an epoch below this one have no reader.
    fn horizon(&self) -> u64 {
        if self.barrier.is_some_and(|pass| !pass()) {
            return 0;
        }
        let now = self.epoch.load(Acquire);
        let words = self.readers.iter().map(|reader| reader.load(Acquire));
        words.filter(|&word| word != 0).map(|word| word / 2).min().unwrap_or(now).min(now)
    }
}

/// Stores the word and passes a full fence. On x86-64 an exchange is one, of half the cost of `mfence`; the compiler
/// must not move loads before it either.
#[inline(always)]
fn announce(word: &AtomicU64, value: u64) {
    if cfg!(all(target_arch = "x86_64", not(any(loom, shuttle)))) {
        word.swap(value, SeqCst);
        core::sync::atomic::compiler_fence(SeqCst);
    } else {
        word.store(value, Relaxed);
        fence(SeqCst);
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// Slots that were unlinked and may still have readers, oldest first. Its owner's lock is held.
#[derive(Debug, Default)]
pub struct Limbo {
    waiting: VecDeque<(u64, u32)>,
    horizon: u64,
}

impl Limbo {
    /// Reserves room for this many slots in all, so that [`Limbo::retire`] need not ask for memory.
    pub fn reserve(&mut self, slots: usize) -> Result<(), TryReserveError> {
        self.waiting.try_reserve(slots.saturating_sub(self.waiting.len()))
    }

    /// Adds a slot that was unlinked: readers that begin now cannot find it.
    pub fn retire(&mut self, rcu: &Rcu, slot: u32) {
        self.waiting.push_back((rcu.retire(), slot));
    }

    /// The oldest slot, if its readers are gone. Each call takes one step; the readers' words are loaded only if the
    /// last known horizon is too early.
    pub fn take(&mut self, rcu: &Rcu) -> Option<u32> {
        let &(mark, slot) = self.waiting.front()?;
        if mark >= self.horizon {
            self.horizon = rcu.horizon();
        }
        if mark >= self.horizon {
            return None;
        }
        self.waiting.pop_front();
        Some(slot)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_waits_for_those_who_began_before() {
        let (rcu, mut limbo) = (Rcu::new(2), Limbo::default());
        let old = rcu.read(0);
        limbo.retire(&rcu, 7);
        assert_eq!(limbo.take(&rcu), None);
        let young = rcu.read(1);
        drop(old);
        assert_eq!(limbo.take(&rcu), Some(7), "the young one began after it was unlinked");
        limbo.retire(&rcu, 8);
        limbo.retire(&rcu, 9);
        assert_eq!(limbo.take(&rcu), None);
        drop(young);
        assert_eq!((limbo.take(&rcu), limbo.take(&rcu), limbo.take(&rcu)), (Some(8), Some(9), None));
        assert!(limbo.is_empty());
    }

    #[test]
    fn without_a_barrier_that_works_nothing_is_used_again() {
        for (barrier, expected) in [(Some((|| true) as Barrier), Some(1)), (Some((|| false) as Barrier), None)] {
            let (rcu, mut limbo) = (Rcu::new(1).with_barrier(barrier), Limbo::default());
            limbo.retire(&rcu, 1);
            assert_eq!(limbo.take(&rcu), expected);
        }
    }

    #[test]
    fn without_readers_nothing_waits() {
        let (rcu, mut limbo) = (Rcu::new(1), Limbo::default());
        limbo.retire(&rcu, 1);
        assert_eq!((limbo.len(), limbo.take(&rcu)), (1, Some(1)));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::atomic::AtomicU32;
    use loom::sync::Arc;
    use loom::thread;

    const NOBODY: u32 = 9;

    struct Shared {
        rcu: Rcu,
        link: AtomicU32,
        value: AtomicU32,
    }

    /// One slot, linked and with value 1; it is unlinked, and gets another value when it may.
    fn race(sections: usize) {
        loom::model(move || {
            let shared = Arc::new(Shared { rcu: Rcu::new(1), link: AtomicU32::new(0), value: AtomicU32::new(1) });
            let reader = {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..sections {
                        let _reading = shared.rcu.read(0);
                        if shared.link.load(Relaxed) != NOBODY {
                            assert_eq!(shared.value.load(Relaxed), 1, "used again under a reader");
                        }
                    }
                })
            };
            let mut limbo = Limbo::default();
            shared.link.store(NOBODY, Relaxed);
            limbo.retire(&shared.rcu, 0);
            for _ in 0..2 {
                if limbo.take(&shared.rcu).is_some() {
                    shared.value.store(2, Relaxed);
                }
            }
            reader.join().unwrap();
        });
    }

    #[test]
    fn a_slot_is_not_used_again_under_a_reader() {
        race(1);
    }

    #[test]
    fn nor_under_its_next_section() {
        race(2);
    }
}
