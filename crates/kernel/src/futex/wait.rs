//! FUTEX_WAIT: compares the word and joins the queue in one critical section.

use super::queue::{NodeId, Role};
use super::word_of;
use crate::Kernel;
use crate::machine::Machine;
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use abi::{Errno, nr};
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// FUTEX_WAIT_BITSET: waits while the word holds `expected`
    /// (`futex_wait_setup`: EAGAIN if it does not, EFAULT if it cannot be read).
    #[inline(always)]
    pub(crate) fn futex_wait(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        addr: u64,
        expected: u32,
        bitset: u32,
        deadline: Option<Deadline>,
    ) -> Out {
        if bitset == 0 {
            return Errno::EINVAL.into();
        }
        let mut bucket = self.futexes.lock(addr);
        match self.load_u32(word_of(addr)) {
            Err(_) => return Errno::EFAULT.into(),
            Ok(found) if found != expected => return Errno::EAGAIN.into(),
            Ok(_) => {}
        }
        self.begin_wait(t, Wait::Futex);
        self.enqueue(&mut bucket, t, addr, bitset, Role::Plain);
        drop(bucket);
        // How to continue after a signal: 0 restarts as without a deadline, otherwise by restart_syscall(2).
        self.thread(t).wait.b.store(0, Relaxed);
        if let Some(deadline) = deadline {
            self.arm_timeout(cpu, t, deadline);
        }
        Out::Blocked
    }

    /// FUTEX_WAIT and FUTEX_WAIT_BITSET with a deadline: a signal without a handler does not extend it; a handler ends
    /// the wait, even with SA_RESTART (`futex_wait_restart`).
    #[inline(never)]
    pub(crate) fn futex_wait_until(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        addr: u64,
        expected: u32,
        bitset: u32,
        deadline: Deadline,
    ) -> Out {
        let out = self.futex_wait(cpu, t, addr, expected, bitset, Some(deadline));
        if out == Out::Blocked {
            self.thread(t).wait.a.store(u64::from(expected), Relaxed);
            self.thread(t).wait.b.store(1, Relaxed);
        }
        out
    }

    /// A thread that waits on a futex has been chosen: 0 if it was taken out of its queue.
    pub(crate) fn futex_finished(&self, t: ThreadIdx) -> Option<isize> {
        let thread = self.thread(t);
        if !thread.node.queued() {
            return Some(0);
        }
        let timed_out = thread.wait.timed_out();
        if !timed_out && !self.interrupted(t) {
            return None;
        }
        match self.futexes.lock_of(&thread.node) {
            None => Some(0),
            Some(mut bucket) => {
                self.dequeue(&mut bucket, NodeId::own(t));
                Some(if timed_out { Errno::ETIMEDOUT } else { self.wait_interrupted(t) }.to_ret())
            }
        }
    }

    fn wait_interrupted(&self, t: ThreadIdx) -> Errno {
        let wait = &self.thread(t).wait;
        if wait.b.load(Relaxed) == 0 {
            return Errno::ERESTARTSYS;
        }
        wait.keep_for_restart(nr::FUTEX)
    }

    /// `restart_syscall(2)` of a wait with a deadline. Its word, bits and deadline are still recorded from the
    /// interrupted wait.
    pub(crate) fn futex_wait_again(&self, cpu: CpuId, t: ThreadIdx) -> Out {
        let (wait, node) = (&self.thread(t).wait, &self.thread(t).node);
        let expected = wait.a.load(Relaxed) as u32;
        self.futex_wait_until(cpu, t, node.addr.load(Relaxed), expected, node.bitset.load(Relaxed), wait.kept())
    }
}
