//! Signals under their lock, with a copy of what `/proc` shows of them that is read without a write, so that readers
//! of many threads' files do not contend for the process's lock.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | the sequence count | the lock's holder at release, if a word has changed | anybody |
//! | the words ([`Show::words`]) | the same, between two steps of the count | anybody; consistent if the count is the same before and after |

use crate::{ProcessSignals, ThreadSignals};
use abi::SigSet;
use core::ops::{Deref, DerefMut};
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{Guard, Lock, SeqCount};

const WORDS: usize = 4;
/// A writer is at work for some nanoseconds, unless the host takes the processor from it.
const LOOKS: usize = 3;

/// The words of a value that readers see.
pub trait Show {
    /// All of it.
    fn words(&self) -> [u64; WORDS];
}

impl Show for ProcessSignals {
    fn words(&self) -> [u64; WORDS] {
        let actions = self.actions();
        [self.shared_set().0, actions.ignored().0, actions.caught().0, self.flushes()]
    }
}

impl Show for ThreadSignals {
    fn words(&self) -> [u64; WORDS] {
        [self.queued_set().0, self.mask_to_show().0, self.settled(), 0]
    }
}

/// Something under its lock, parts of which are shown.
#[derive(Debug)]
pub struct Shown<T: Show> {
    lock: Lock<T>,
    seq: SeqCount,
    words: [AtomicU64; WORDS],
}

/// A guard of the value. Dropping it publishes the new state.
#[derive(Debug)]
pub struct ShownGuard<'a, T: Show> {
    of: &'a Shown<T>,
    value: Guard<'a, T>,
}

impl<T: Show> Shown<T> {
    /// Shows this value.
    pub fn new(value: T) -> Shown<T> {
        let words = value.words().map(AtomicU64::new);
        Shown { lock: Lock::new(value), seq: SeqCount::default(), words }
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn lock(&self) -> ShownGuard<'_, T> {
        ShownGuard { of: self, value: self.lock.lock() }
    }

    /// The words, perhaps from two moments.
    fn look(&self) -> [u64; WORDS] {
        core::array::from_fn(|i| self.words[i].load(Relaxed))
    }

    /// The lock is held.
    #[inline]
    fn show(&self, value: &T) {
        let words = value.words();
        // Word by word, from registers: as arrays they would go through memory on every way out of the lock.
        if words.iter().zip(&self.words).any(|(word, shown)| *word != shown.load(Relaxed)) {
            let _writing = self.seq.write();
            self.words.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        }
    }
}

impl<T: Show> Deref for ShownGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Show> DerefMut for ShownGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Show> Drop for ShownGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.of.show(&self.value);
    }
}

impl Shown<ProcessSignals> {
    /// The signals that are pending for the process as a whole, as its last change left them.
    #[inline]
    pub fn shown_shared(&self) -> SigSet {
        SigSet(self.words[0].load(Relaxed))
    }

    /// The signals that the process ignores, and those that have handlers, as its last change left them.
    #[inline]
    pub fn shown_actions(&self) -> [SigSet; 2] {
        [1, 2].map(|i| SigSet(self.words[i].load(Relaxed)))
    }
}

impl Shown<ThreadSignals> {
    /// The signals that are queued for the thread, as the last change left them. Some may have been flushed since.
    #[inline]
    pub fn shown_queued(&self) -> SigSet {
        SigSet(self.words[0].load(Relaxed))
    }

    /// The mask, as its last change left it.
    #[inline]
    pub fn shown_mask(&self) -> SigSet {
        SigSet(self.words[1].load(Relaxed))
    }
}

/// The five sets that `/proc` has of a thread (`task_sig`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sets {
    /// Pending for the thread.
    pub private: SigSet,
    /// Pending for the process.
    pub shared: SigSet,
    /// Blocked by the thread.
    pub blocked: SigSet,
    /// Ignored.
    pub ignored: SigSet,
    /// With a handler of the program.
    pub caught: SigSet,
}

impl Sets {
    /// The sets at one moment. Nothing is written, unless they keep changing or the thread's queue holds what the
    /// process has flushed meanwhile: then the locks are taken, the process's first.
    pub fn of(process: &Shown<ProcessSignals>, thread: &Shown<ThreadSignals>) -> Sets {
        (0..LOOKS).find_map(|_| Sets::glance(process, thread)).unwrap_or_else(|| {
            let (process, thread) = (process.lock(), thread.lock());
            Sets {
                private: process.private_set(&thread),
                shared: process.shared_set(),
                blocked: thread.mask_to_show(),
                ignored: process.actions().ignored(),
                caught: process.actions().caught(),
            }
        })
    }

    fn glance(process: &Shown<ProcessSignals>, thread: &Shown<ThreadSignals>) -> Option<Sets> {
        let begun = (process.seq.begin(), thread.seq.begin());
        let ([shared, ignored, caught, flushes], [queued, blocked, settled, _]) = (process.look(), thread.look());
        let is_whole = process.seq.holds(begun.0) && thread.seq.holds(begun.1);
        let [private, shared, blocked, ignored, caught] = [queued, shared, blocked, ignored, caught].map(SigSet);
        let is_settled = queued == 0 || settled == flushes;
        (is_whole && is_settled).then_some(Sets { private, shared, blocked, ignored, caught })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Dispositions, MaskHow, Quota, Target, ThreadState};
    use abi::{SIG_IGN, SigAction, SigInfo, Signal};
    use ids::ThreadIdx;

    fn world() -> (Shown<ProcessSignals>, Shown<ThreadSignals>) {
        (
            Shown::new(ProcessSignals::new(Dispositions::DEFAULT)),
            Shown::new(ThreadSignals::new(SigSet::only(Signal::USR1))),
        )
    }

    fn send(process: &Shown<ProcessSignals>, thread: &Shown<ThreadSignals>, signal: Signal, to_thread: bool) {
        let (mut process, mut thread) = (process.lock(), thread.lock());
        let state =
            ThreadState { thread: ThreadIdx(0), running: true, exiting: false, stopped: false, notified: false };
        let candidate = thread.candidate(state);
        let target = if to_thread { Target::Thread(&mut thread, candidate) } else { Target::Process(candidate) };
        let _ = process.send(target, SigInfo::lost(signal), Quota::UNLIMITED).unwrap();
    }

    #[test]
    fn what_is_shown_is_what_is() {
        let (process, thread) = world();
        let ignore = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };
        let _ = process.lock().set_action(Signal::USR2, ignore).unwrap();
        let _ = process.lock().set_mask(&mut thread.lock(), MaskHow::Block, SigSet::only(Signal::HUP));
        send(&process, &thread, Signal::USR1, true);
        send(&process, &thread, Signal::HUP, false);
        let sets = Sets::glance(&process, &thread).expect("nobody is at work");
        assert_eq!(sets, Sets::of(&process, &thread));
        assert_eq!((sets.private, sets.shared), (SigSet::only(Signal::USR1), SigSet::only(Signal::HUP)));
        assert_eq!(sets.blocked, [Signal::USR1, Signal::HUP].into_iter().collect());
        assert!(sets.ignored.contains(Signal::USR2) && sets.caught.is_empty());
    }

    #[test]
    fn what_was_flushed_is_not_shown() {
        let (process, thread) = world();
        send(&process, &thread, Signal::USR1, true);
        let ignore = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };
        let _ = process.lock().set_action(Signal::USR1, ignore).unwrap();
        // The thread's queue has not heard of it.
        assert_eq!(Sets::glance(&process, &thread), None);
        assert!(Sets::of(&process, &thread).private.is_empty());
        process.lock().settle(&mut thread.lock());
        assert!(Sets::glance(&process, &thread).unwrap().private.is_empty());
    }

    #[test]
    fn a_change_between_is_noticed() {
        let (process, thread) = world();
        let writing = thread.seq.write();
        assert_eq!(Sets::glance(&process, &thread), None);
        drop(writing);
        assert!(Sets::glance(&process, &thread).is_some());
        // Releasing the lock without a change makes no reader retry.
        let begun = (process.seq.begin(), thread.seq.begin());
        drop((process.lock(), thread.lock()));
        assert!(process.seq.holds(begun.0) && thread.seq.holds(begun.1));
        let _ = process.lock().set_mask(&mut thread.lock(), MaskHow::Set, SigSet::EMPTY);
        assert!(process.seq.holds(begun.0) && !thread.seq.holds(begun.1));
    }
}
