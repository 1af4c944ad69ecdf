//! FUTEX_REQUEUE and FUTEX_CMP_REQUEUE: wake some waiters and move others to another word.

use super::queue::{Role, Two};
use super::wake::Batch;
use super::word_of;
use super::work::{Kind, Rest, Round};
use crate::machine::Machine;
use crate::trap::Out;
use crate::{Kernel, WAKES_MAX};
use abi::Errno;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

/// The arguments of the requeueing calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequeueArgs {
    pub from: u64,
    pub to: u64,
    pub wake: i32,
    pub moved: i32,
    /// The expected value of the word at `from`; EAGAIN if it differs.
    pub expected: Option<u32>,
}

impl<M: Machine> Kernel<M> {
    /// `futex_requeue`: returns how many were woken and moved.
    pub(crate) fn futex_requeue(&self, cpu: CpuId, t: ThreadIdx, a: RequeueArgs) -> Out {
        if a.wake < 0 || a.moved < 0 {
            return Errno::EINVAL.into();
        }
        let mut two = self.futexes.lock_two(a.from, a.to);
        if let Err(e) = self.check_expected(&a) {
            return e.into();
        }
        let rest = Rest {
            kind: Kind::Requeue,
            addr: a.from,
            count: a.wake as u32,
            before: two.first.joined(),
            bitset: u32::MAX,
            addr2: a.to,
            count2: a.moved as u32,
            before2: 0,
            done: 0,
        };
        let mut batch = Batch::new();
        let round = self.requeue_some(&mut two, rest, &mut batch);
        drop(two);
        self.wake_batch(cpu, &batch);
        match round {
            Round::Done(result) => Out::Done(result),
            Round::More(rest) => self.begin_work(t, rest),
        }
    }

    /// EFAULT and EAGAIN of the comparing forms. Under the queues' locks.
    pub(super) fn check_expected(&self, a: &RequeueArgs) -> Result<(), Errno> {
        match a.expected {
            None => Ok(()),
            Some(expected) => match self.load_u32(word_of(a.from)) {
                Err(_) => Err(Errno::EFAULT),
                Ok(found) if found != expected => Err(Errno::EAGAIN),
                Ok(_) => Ok(()),
            },
        }
    }

    pub(super) fn requeue_round(&self, cpu: CpuId, rest: Rest) -> Round {
        let mut batch = Batch::new();
        let round = {
            let mut two = self.futexes.lock_two(rest.addr, rest.addr2);
            self.requeue_some(&mut two, rest, &mut batch)
        };
        self.wake_batch(cpu, &batch);
        round
    }

    fn requeue_some(&self, two: &mut Two<'_>, rest: Rest, batch: &mut Batch) -> Round {
        let mut left = rest;
        let mut waiters = self.waiters(&two.first, rest.addr);
        for _ in 0..WAKES_MAX {
            if left.count == 0 && left.count2 == 0 {
                break;
            }
            // Skip waiters that joined after the call began; moved within one queue, waiters join it again.
            let early = |joined: u32| (joined.wrapping_sub(rest.before) as i32) < 0;
            let next = waiters.find(|&id| early(self.node(id).joined.load(Relaxed)));
            let Some(id) = next else { return Round::Done(left.done as isize) };
            if self.node(id).role() > Role::Vector {
                return Round::Done(Errno::EINVAL.to_ret());
            }
            left.done += 1;
            if left.count > 0 {
                left.count -= 1;
                batch.push(self.thread_of(id));
                self.dequeue(&mut two.first, id);
            } else {
                left.count2 -= 1;
                let role = self.node(id).role();
                self.transfer(two, id, rest.addr2, role);
            }
        }
        if left.count == 0 && left.count2 == 0 { Round::Done(left.done as isize) } else { Round::More(left) }
    }
}
