//! For traces: what ended a thread's wait.
//!
//! A waker notes itself in the thread before it wakes it, and the CPU that turns to the thread takes the note. Of two
//! wakers that come at the same moment one overwrites the other; both were there. The second may also come to wake the
//! thread only when its note has been taken and the thread waits again: that wake-up is told as one from outside.

use crate::Kernel;
use crate::machine::Machine;
use crate::wait::Wait;
use abi::nr;
use ids::{CpuId, Nanos, ThreadIdx, Wake, Waker};
use sched::Prev;
use sync::atomic::{AtomicU64, Ordering::*};

/// The note of a thread's last waker.
#[derive(Debug, Default)]
pub(crate) struct ThreadWoken {
    at: AtomicU64,
    /// [`Waker::to_word`]; 0: taken; [`WAITS`].
    by: AtomicU64,
}

/// The thread has left its CPU to wait, and no waker has noted itself since.
const WAITS: u64 = u64::MAX;

impl ThreadWoken {
    // Relaxed: the run queue's lock orders the note before the switch to the thread.
    fn note(&self, wake: Wake) {
        self.at.store(wake.at.0, Relaxed);
        self.by.store(wake.by.to_word(), Relaxed);
    }

    fn leave(&self) {
        // A waker may have been faster.
        let _ = self.by.compare_exchange(0, WAITS, Relaxed, Relaxed);
    }

    fn take(&self, now: Nanos) -> Option<Wake> {
        let at = Nanos(self.at.load(Relaxed));
        match self.by.swap(0, Relaxed) {
            WAITS => Some(Wake { at: now, by: Waker::Outside }),
            word => Waker::from_word(word).map(|by| Wake { at, by }),
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// The wake-up of `t`, which runs from `now` on, since this was asked last; `None`: it has been runnable all the time.
    pub fn take_woken(&self, t: ThreadIdx, now: Nanos) -> Option<Wake> {
        self.thread(t).woken.take(now)
    }

    /// `last` is about to leave its CPU: from then on it may be woken, and run elsewhere.
    pub(crate) fn note_wait(&self, last: Option<ThreadIdx>, prev: Prev) {
        if let Some(last) = last
            && self.config.tracing
            && prev == Prev::Block
        {
            self.thread(last).woken.leave();
        }
    }

    /// `t` is about to be woken; `cpu` is the caller's own, if it has one.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_waker(&self, cpu: CpuId, t: ThreadIdx) {
        if self.config.tracing && self.thread(t).wait.kind() != Wait::None {
            let by = self.waker(cpu, t);
            self.thread(t).woken.note(Wake { at: self.now(), by });
        }
    }

    /// `child` is about to run for the first time.
    pub(crate) fn note_creator(&self, parent: ThreadIdx, child: ThreadIdx, at: Nanos) {
        if self.config.tracing {
            self.thread(child).woken.note(Wake { at, by: Waker::Creator(self.tid(parent)) });
        }
    }

    fn waker(&self, cpu: CpuId, t: ThreadIdx) -> Waker {
        let wait = &self.thread(t).wait;
        match wait.kind() {
            _ if wait.timed_out() => Waker::Time,
            Wait::CpuSleep | Wait::Throttled => Waker::Time,
            Wait::Host if writes_to_device(wait.call.load(Relaxed) as usize) => Waker::Time,
            Wait::Host | Wait::Terminal => Waker::Outside,
            _ if cpu == CpuId::NONE || self.cpu(cpu).in_timer.load(Relaxed) => Waker::Outside,
            _ => match self.sched.current(cpu) {
                Some(current) if current != t => Waker::Thread(self.tid(current)),
                _ => Waker::Outside,
            },
        }
    }
}

/// Whether a host call takes the time that a device needs, whenever it is made.
fn writes_to_device(call: usize) -> bool {
    matches!(call, nr::FSYNC | nr::FDATASYNC | nr::SYNC | nr::SYNCFS | nr::MSYNC | nr::SYNC_FILE_RANGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Tid;

    #[test]
    fn a_wait_always_has_an_end_and_a_preemption_none() {
        let woken = ThreadWoken::default();
        let wake = |at, by| Wake { at: Nanos(at), by };
        assert_eq!(woken.take(Nanos(5)), None);
        // Noted before and after it left.
        woken.note(wake(7, Waker::Time));
        woken.leave();
        assert_eq!(woken.take(Nanos(9)), Some(wake(7, Waker::Time)));
        woken.leave();
        woken.note(wake(11, Waker::Thread(Tid(3))));
        assert_eq!(woken.take(Nanos(12)), Some(wake(11, Waker::Thread(Tid(3)))));
        // By a waker whose note was taken at the last time.
        woken.leave();
        assert_eq!(woken.take(Nanos(20)), Some(wake(20, Waker::Outside)));
        assert_eq!(woken.take(Nanos(21)), None);
    }
}
