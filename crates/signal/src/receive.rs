use crate::{ProcessSignals, ThreadSignals, Wake};
use abi::{SigSet, Signal};
use ids::ThreadIdx;

/// What the caller knows of a thread that signals care about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadState {
    /// Which thread.
    pub thread: ThreadIdx,
    /// On a CPU now.
    pub running: bool,
    /// Exiting or gone.
    pub exiting: bool,
    /// Stopped by job control or a tracer.
    pub stopped: bool,
    /// Has been told of a signal and not looked since ([`crate::Summary::is_set`], Linux's
    /// TIF_SIGPENDING): when it looks, it sees every other signal, too.
    pub notified: bool,
}

/// A thread as a possible receiver of signals: see [`ThreadSignals::candidate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// What the caller told.
    pub state: ThreadState,
    /// Its mask.
    pub(crate) blocked: SigSet,
    /// Its mask before sigtimedwait, or empty.
    pub(crate) real_blocked: SigSet,
}

impl Candidate {
    /// Whether this thread would take the signal at once (`wants_signal`).
    pub const fn wants(&self, signal: Signal) -> bool {
        if self.blocked.contains(signal) || self.state.exiting {
            return false;
        }
        signal.raw() == Signal::KILL.raw() || (!self.state.stopped && (self.state.running || !self.state.notified))
    }
}

impl ThreadSignals {
    /// How the thread stands towards signals now.
    pub fn candidate(&self, state: ThreadState) -> Candidate {
        Candidate { state, blocked: self.blocked, real_blocked: self.awaiting.unwrap_or_default() }
    }
}

impl ProcessSignals {
    /// Looks for a thread that takes `signal`, which has been queued for the process and
    /// which the first choice did not want (`complete_signal`). `threads` is how many steps go round all of them: those of threads that are
    /// gone count.
    pub fn search(&self, signal: Signal, first: ThreadIdx, threads: usize) -> Search {
        let at = if self.last_receiver.is_some() { self.last_receiver } else { first };
        Search { signal, at, left: threads }
    }
}

/// A search for a receiver in progress, going round the threads from where the last one
/// ended, so that receivers take turns. The lock may be released between steps: a thread
/// that unblocks the signal meanwhile looks at the process's queue itself.
#[derive(Debug)]
#[must_use]
pub struct Search {
    signal: Signal,
    at: ThreadIdx,
    left: usize,
}

/// What a step of a [`Search`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum SearchStep {
    /// This is to be done, and the search is over.
    Done(Wake),
    /// Threads are left to ask.
    More,
}

impl Search {
    /// Asks up to `budget` threads. `look` tells how a thread stands, or `None` if it is
    /// gone; `next` names the one after it, going round.
    pub fn step(
        &mut self,
        process: &mut ProcessSignals,
        budget: usize,
        mut look: impl FnMut(ThreadIdx) -> Option<Candidate>,
        mut next: impl FnMut(ThreadIdx) -> ThreadIdx,
    ) -> SearchStep {
        for _ in 0..budget {
            if self.left == 0 || !process.shared.set().contains(self.signal) {
                return SearchStep::Done(Wake::Nobody);
            }
            if let Some(c) = look(self.at).filter(|c| c.wants(self.signal)) {
                process.last_receiver = self.at;
                return SearchStep::Done(process.wake_for(self.signal, &c));
            }
            self.at = next(self.at);
            self.left -= 1;
        }
        SearchStep::More
    }
}

/// Signals of the process's queue that the thread which was to take them has just blocked
/// (or it exits): other threads that can take them must be woken
/// (`retarget_shared_pending`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Retarget {
    left: SigSet,
}

impl Retarget {
    /// Nothing to do.
    pub const NONE: Retarget = Retarget { left: SigSet::EMPTY };

    pub(crate) const fn new(left: SigSet) -> Retarget {
        Retarget { left }
    }

    /// Whether every signal has a taker, or there was none.
    pub const fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Offers what is left to a thread: true if it must be woken for it.
    pub fn offer(&mut self, to: &Candidate) -> bool {
        let takes = self.left.without(to.blocked);
        if to.state.exiting || takes.is_empty() {
            return false;
        }
        self.left = self.left.without(takes);
        true
    }
}
