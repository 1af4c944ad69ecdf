use crate::{ProcessSignals, ThreadSignals, Wake};
use abi::{SigSet, Signal};
use ids::ThreadIdx;

/// The caller's knowledge of a thread, as far as signals need it.
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
    /// Has been notified of a signal and not checked since ([`crate::Summary::is_set`], Linux's TIF_SIGPENDING): when
    /// it checks, it sees every other signal, too.
    pub notified: bool,
}

/// A thread as a possible receiver of signals: see [`ThreadSignals::candidate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The state that the caller passed.
    pub state: ThreadState,
    /// The thread's mask.
    pub(crate) blocked: SigSet,
    /// The thread's mask before `sigtimedwait(2)`, or empty.
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

/// The number of threads that are asked whether they want a signal. A thread that unblocks it and does not want it
/// has been notified of another, will check, and finds this one, too.
const ASKED_MAX: usize = 64;

impl ProcessSignals {
    /// Looks for a thread that takes `signal`, which has been queued for the process and which the first choice did not
    /// want (`complete_signal`). The search continues round robin from where the last one ended, so that receivers take
    /// turns. `look` returns the state of a thread, or `None` if it is gone.
    ///
    /// A thread that unblocks the signal meanwhile checks the process's queue itself.
    pub fn find_receiver(
        &mut self,
        signal: Signal,
        first: ThreadIdx,
        mut look: impl FnMut(ThreadIdx) -> Option<Candidate>,
    ) -> Wake {
        let mut at = if self.last_receiver.is_some() { self.last_receiver } else { first };
        let mut begin = ThreadIdx::NONE;
        for _ in 0..ASKED_MAX {
            if !self.shared.set().contains(signal) {
                break;
            }
            let Some(t) = self.takers.find(signal, at).filter(|&t| t != begin) else { break };
            if let Some(c) = look(t).filter(|c| c.wants(signal)) {
                self.last_receiver = t;
                return self.wake_for(signal, &c);
            }
            if !begin.is_some() {
                begin = t;
            }
            at = ThreadIdx(t.0 + 1);
        }
        Wake::Nobody
    }

    /// The next thread after `me` that takes some of the remaining signals and must be woken for them; `None` if no
    /// thread takes any. Each call that returns a thread leaves fewer signals.
    pub fn next_taker(
        &self,
        left: &mut Retarget,
        me: ThreadIdx,
        mut look: impl FnMut(ThreadIdx) -> Option<Candidate>,
    ) -> Option<ThreadIdx> {
        while let Some(signal) = left.left.lowest() {
            let taker = self.takers.find(signal, ThreadIdx(me.0.wrapping_add(1)));
            if let Some(t) = taker
                && look(t).is_some_and(|c| left.offer(&c))
            {
                return Some(t);
            }
            left.left.remove(signal);
        }
        None
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

    /// Offers the remaining signals to a thread: true if it takes some and must be woken.
    pub fn offer(&mut self, to: &Candidate) -> bool {
        let takes = self.left.without(to.blocked);
        if to.state.exiting || takes.is_empty() {
            return false;
        }
        self.left = self.left.without(takes);
        true
    }
}
