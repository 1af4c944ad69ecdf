//! FUTEX_WAIT_REQUEUE_PI and FUTEX_CMP_REQUEUE_PI: a waiter of a condition variable is
//! handed to its mutex, with inheritance, without running in between.
//!
//! While it waits, the waiter's node is in the first word's queue with
//! [`Role::RequeuePi`]; once moved, in the second word's with [`Role::Pi`], and it waits like
//! any other for that lock. Which of the two it is changes under both queues' locks.

use super::claim::{Claim, Refused};
use super::later::Later;
use crate::Kernel;
use crate::WAKES_MAX;
use crate::futex::queue::{NodeId, Role, Two};
use crate::futex::requeue::RequeueArgs;
use crate::futex::work::{Kind, Rest, Round};
use crate::machine::Machine;
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use abi::Errno;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

/// The result for one waiter.
enum Step {
    /// The waiter has the lock now, or waits for it.
    Moved,
    /// There are no more waiters.
    End,
}

impl<M: Machine> Kernel<M> {
    /// Waits on `addr` to be given the lock at `lock` (`futex_wait_requeue_pi`).
    pub(crate) fn futex_wait_requeue_pi(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        addr: u64,
        expected: u32,
        lock: u64,
        deadline: Option<Deadline>,
    ) -> Out {
        let mut bucket = self.futexes.lock(addr);
        match self.load_u32(addr) {
            Err(_) => return Errno::EFAULT.into(),
            Ok(found) if found != expected => return Errno::EAGAIN.into(),
            Ok(_) => {}
        }
        self.begin_wait(t, Wait::FutexRequeuePi);
        let wait = &self.thread(t).wait;
        wait.a.store(lock, Relaxed);
        wait.value.store(0, Relaxed);
        self.enqueue(&mut bucket, t, addr, u32::MAX, Role::RequeuePi);
        drop(bucket);
        if let Some(deadline) = deadline {
            self.arm_timeout(cpu, t, deadline);
        }
        Out::Blocked
    }

    /// The end of FUTEX_WAIT_REQUEUE_PI. A signal before the move restarts the call (`handle_early_requeue_pi_wakeup`).
    /// After the move a restart would find another value, so the result is EAGAIN at once.
    pub(crate) fn futex_requeue_pi_finished(&self, t: ThreadIdx) -> Option<isize> {
        let thread = self.thread(t);
        if !thread.node.queued() {
            return Some(thread.wait.value.load(Relaxed) as isize);
        }
        let timed_out = thread.wait.timed_out();
        if !timed_out && !self.interrupted(t) {
            return None;
        }
        if let Some(mut bucket) = self.futexes.lock_of(&thread.node)
            && thread.node.role() == Role::RequeuePi
        {
            self.dequeue(&mut bucket, NodeId::own(t));
            return Some(if timed_out { Errno::ETIMEDOUT } else { Errno::ERESTARTNOINTR }.to_ret());
        }
        self.lock_wait_finished(t, Errno::EAGAIN)
    }

    /// Gives the lock at `a.to` to the first waiter at `a.from`, or makes it wait for that lock, and makes up to
    /// `a.moved` others wait for it (`futex_requeue` with `requeue_pi`).
    pub(crate) fn futex_requeue_pi(&self, cpu: CpuId, t: ThreadIdx, a: RequeueArgs) -> Out {
        let mut later = self.later(cpu);
        let mut two = self.futexes.lock_two(a.from, a.to);
        if let Err(e) = self.check_expected(&a) {
            return e.into();
        }
        // Checked before it is known whether anybody waits (`futex_proxy_trylock_atomic`).
        if self.load_u32(a.to).is_err() {
            return Errno::EFAULT.into();
        }
        let rest = Rest {
            kind: Kind::RequeuePi,
            addr: a.from,
            count: a.moved as u32 + 1,
            before: two.first.joined(),
            bitset: u32::MAX,
            addr2: a.to,
            count2: u32::from(a.moved > 0),
            before2: 0,
            done: 0,
        };
        let round = self.requeue_pi_some(&mut two, rest, &mut later);
        drop(two);
        self.settle(cpu, later);
        match round {
            Round::Done(result) => Out::Done(result),
            // Not even one was moved: compare everything again.
            Round::More(rest) if rest.done == 0 => self.start_over(t),
            Round::More(rest) => self.begin_work(t, rest),
        }
    }

    pub(in crate::futex) fn requeue_pi_round(&self, cpu: CpuId, rest: Rest) -> Round {
        let mut later = self.later(cpu);
        let round = {
            let mut two = self.futexes.lock_two(rest.addr, rest.addr2);
            self.requeue_pi_some(&mut two, rest, &mut later)
        };
        self.settle(cpu, later);
        round
    }

    fn requeue_pi_some(&self, two: &mut Two<'_>, rest: Rest, later: &mut Later<'_, M>) -> Round {
        let mut left = rest;
        for _ in 0..WAKES_MAX {
            if left.count == 0 {
                break;
            }
            match self.requeue_pi_one(two, &left, later) {
                Ok(Step::Moved) => {
                    left.count -= 1;
                    left.done += 1;
                    left.count2 = 0;
                }
                Ok(Step::End) => return Round::Done(left.done as isize),
                Err(Refused::With(e)) => return Round::Done(e.to_ret()),
                Err(Refused::TryAgain) => return Round::More(left),
            }
        }
        if left.count == 0 { Round::Done(left.done as isize) } else { Round::More(left) }
    }

    /// Handles the first waiter. EINVAL if it waits for something else (`futex_proxy_trylock_atomic`).
    fn requeue_pi_one(&self, two: &mut Two<'_>, left: &Rest, later: &mut Later<'_, M>) -> Result<Step, Refused> {
        let early = |id| (self.node(id).joined.load(Relaxed).wrapping_sub(left.before) as i32) < 0;
        let first = self.waiters(&two.first, left.addr).find(|&id| early(id));
        let Some(id) = first else { return Ok(Step::End) };
        let waiter = self.thread_of(id);
        if self.node(id).role() != Role::RequeuePi || self.thread(waiter).wait.a.load(Relaxed) != left.addr2 {
            return Err(Errno::EINVAL.into());
        }
        match self.claim(two.second(), left.addr2, waiter, left.count2 != 0)? {
            Claim::Taken => {
                self.dequeue(&mut two.first, id);
                later.batch.push(waiter);
            }
            Claim::Contended(at) => {
                self.join_lock(left.addr2, waiter, at, later)?;
                self.transfer(two, id, left.addr2, Role::Pi);
            }
        }
        Ok(Step::Moved)
    }
}
