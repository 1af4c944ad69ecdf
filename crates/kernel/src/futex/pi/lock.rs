//! FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_TRYLOCK_PI (`futex_lock_pi`).

use super::claim::{Claim, Refused};
use crate::Kernel;
use crate::futex::queue::{NodeId, Role};
use crate::machine::Machine;
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use abi::Errno;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// Takes the lock or waits for it.
    pub(crate) fn futex_lock_pi(&self, cpu: CpuId, t: ThreadIdx, addr: u64, deadline: Option<Deadline>) -> Out {
        let mut later = self.later(cpu);
        let mut bucket = self.futexes.lock(addr);
        let joined = match self.claim(&bucket, addr, t, false) {
            Ok(Claim::Taken) => return Out::Done(0),
            Ok(Claim::Contended(at)) => self.join_lock(addr, t, at, &mut later),
            Err(refused) => Err(refused),
        };
        if let Err(refused) = joined {
            drop(bucket);
            return self.refuse(t, refused);
        }
        self.begin_wait(t, Wait::FutexPi);
        self.thread(t).wait.value.store(0, Relaxed);
        self.enqueue(&mut bucket, t, addr, u32::MAX, Role::Pi);
        drop(bucket);
        self.settle(cpu, later);
        if let Some(deadline) = deadline {
            self.arm_timeout(cpu, t, deadline);
        }
        Out::Blocked
    }

    /// Takes the lock if it can: also one whose owner died, which a program alone cannot tell from a taken one. EAGAIN
    /// if not; the word has FUTEX_WAITERS then.
    pub(crate) fn futex_trylock_pi(&self, t: ThreadIdx, addr: u64) -> Out {
        let claim = {
            let bucket = self.futexes.lock(addr);
            self.claim(&bucket, addr, t, false)
        };
        match claim {
            Ok(Claim::Taken) => Out::Done(0),
            Ok(Claim::Contended(_)) => Errno::EAGAIN.into(),
            Err(refused) => self.refuse(t, refused),
        }
    }

    fn refuse(&self, t: ThreadIdx, refused: Refused) -> Out {
        match refused {
            Refused::With(e) => e.into(),
            Refused::TryAgain => self.start_over(t),
        }
    }

    /// A thread that waits for a lock has been chosen. It owns the lock if it was taken out of the queue. Otherwise it
    /// may leave at its deadline or for a signal, after which it always tries again (`-ERESTARTNOINTR`).
    pub(crate) fn futex_pi_finished(&self, t: ThreadIdx) -> Option<isize> {
        self.lock_wait_finished(t, Errno::ERESTARTNOINTR)
    }

    pub(super) fn lock_wait_finished(&self, t: ThreadIdx, interrupted: Errno) -> Option<isize> {
        let thread = self.thread(t);
        let handed_over = || Some(thread.wait.value.load(Relaxed) as isize);
        if !thread.node.queued() {
            return handed_over();
        }
        let timed_out = thread.wait.timed_out();
        if !timed_out && !self.interrupted(t) {
            return None;
        }
        let cpu = self.sched.cpu_of(t);
        let mut later = self.later(cpu);
        let Some(mut bucket) = self.futexes.lock_of(&thread.node) else { return handed_over() };
        {
            let mut pi = self.futexes.pi.lock();
            if let Some(ts) = self.turnstile_of(t) {
                let owner = self.owner_of(ts);
                self.leave(&mut pi, ts, t);
                self.follow_chain(&mut pi, owner, &mut later.kicks);
            }
        }
        self.dequeue(&mut bucket, NodeId::own(t));
        drop(bucket);
        self.settle(cpu, later);
        Some(if timed_out { Errno::ETIMEDOUT } else { interrupted }.to_ret())
    }
}
