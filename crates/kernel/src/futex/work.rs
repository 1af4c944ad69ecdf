//! The rest of a call after its first 64 items (law 4).
//!
//! The thread stays runnable but has work to do in the kernel before it may return. Its wait is [`Wait::Work`], and
//! the words of [`WaitState`] and of its own node, which is in no queue, describe the rest. It does one round each
//! time it is chosen; between rounds more urgent threads get the CPU, and due timers are served.

use super::wake::{Batch, Which};
use crate::machine::{Clock, Machine};
use crate::thread::Thread;
use crate::trap::Out;
use crate::wait::Wait;
use crate::{Kernel, WAKES_MAX};
use abi::Errno;
use ids::ThreadIdx;
use sync::atomic::Ordering::*;

/// Which call the rest belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Kind {
    /// Wakes on one word, then on another.
    Wake = 0,
    /// FUTEX_REQUEUE and FUTEX_CMP_REQUEUE.
    Requeue = 1,
    /// FUTEX_CMP_REQUEUE_PI.
    RequeuePi = 2,
    /// The robust list of an exiting thread.
    Robust = 3,
}

/// The rest of the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub kind: Kind,
    pub addr: u64,
    /// How many at `addr`.
    pub count: u32,
    /// Only waiters that joined before this number.
    pub before: u32,
    pub bitset: u32,
    pub addr2: u64,
    /// How many at `addr2`, or to be moved there.
    pub count2: u32,
    pub before2: u32,
    /// The result so far.
    pub done: u32,
}

impl Rest {
    pub fn wake(addr: u64, count: u32, before: u32, bitset: u32, done: u32) -> Rest {
        Rest { kind: Kind::Wake, addr, count, before, bitset, addr2: 0, count2: 0, before2: 0, done }
    }

    pub fn then_wake(self, addr2: u64, count2: u32, before2: u32) -> Rest {
        Rest { addr2, count2, before2, ..self }
    }

    fn store(&self, thread: &Thread) {
        let (wait, node) = (&thread.wait, &thread.node);
        wait.a.store(self.addr, Relaxed);
        wait.b.store(self.addr2, Relaxed);
        wait.deadline.store(u64::from(self.count) | u64::from(self.count2) << 32, Relaxed);
        wait.value.store(i64::from(self.done), Relaxed);
        wait.clock.store(self.kind as u32, Relaxed);
        node.bitset.store(self.bitset, Relaxed);
        node.joined.store(self.before, Relaxed);
        node.rank.store(self.before2, Relaxed);
    }

    fn load(thread: &Thread) -> Rest {
        let (wait, node) = (&thread.wait, &thread.node);
        let counts = wait.deadline.load(Relaxed);
        Rest {
            kind: [Kind::Wake, Kind::Requeue, Kind::RequeuePi, Kind::Robust][wait.clock.load(Relaxed) as usize],
            addr: wait.a.load(Relaxed),
            count: counts as u32,
            before: node.joined.load(Relaxed),
            bitset: node.bitset.load(Relaxed),
            addr2: wait.b.load(Relaxed),
            count2: (counts >> 32) as u32,
            before2: node.rank.load(Relaxed),
            done: wait.value.load(Relaxed) as u32,
        }
    }
}

/// The result of a round.
pub(super) enum Round {
    /// The call is done, with this result.
    Done(isize),
    /// This much is left.
    More(Rest),
}

impl<M: Machine> Kernel<M> {
    /// The current thread has more to do than one round.
    pub(super) fn begin_work(&self, t: ThreadIdx, rest: Rest) -> Out {
        rest.store(self.thread(t));
        self.thread(t).wait.set_kind(Wait::Work);
        Out::Work
    }

    /// Repeats the call from the start after others had their turn, because the words it needs kept changing.
    pub fn start_over(&self, t: ThreadIdx) -> Out {
        self.restart_at_exit(t);
        Out::Yield(Errno::ERESTARTNOINTR.to_ret())
    }

    /// A thread with work left has been chosen: does one round; returns whether it was the last.
    pub(crate) fn work(&self, t: ThreadIdx) -> bool {
        let cpu = self.sched.cpu_of(t);
        if self.cpu(cpu).timer_is_due(self.clock(Clock::Monotonic)) {
            let _ = self.on_timer(cpu);
        }
        let rest = Rest::load(self.thread(t));
        let round = match rest.kind {
            Kind::Wake => self.wake_round(t, rest),
            Kind::Requeue => self.requeue_round(cpu, rest),
            Kind::RequeuePi => self.requeue_pi_round(cpu, rest),
            Kind::Robust => self.robust_round(cpu, t, rest),
        };
        match round {
            Round::Done(result) => {
                self.finish_wait(t, result);
                true
            }
            Round::More(rest) => {
                rest.store(self.thread(t));
                false
            }
        }
    }

    fn wake_round(&self, t: ThreadIdx, rest: Rest) -> Round {
        let cpu = self.sched.cpu_of(t);
        let mut batch = Batch::new();
        let taken = {
            let which = Which { addr: rest.addr, bitset: rest.bitset, before: Some(rest.before) };
            let mut bucket = self.futexes.lock(rest.addr);
            self.take_waiters(&mut bucket, which, rest.count as usize, &mut batch)
        };
        self.wake_batch(cpu, &batch);
        let n = match taken {
            Err(e) => return Round::Done(e.to_ret()),
            Ok(n) => n as u32,
        };
        let (left, done) = (rest.count - n, rest.done + n);
        if n as usize == WAKES_MAX && left > 0 {
            return Round::More(Rest { count: left, done, ..rest });
        }
        if rest.count2 == 0 {
            return Round::Done(done as isize);
        }
        Round::More(Rest::wake(rest.addr2, rest.count2, rest.before2, rest.bitset, done))
    }
}
