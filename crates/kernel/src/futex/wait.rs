//! WAIT, WAKE and their bitset forms.

use crate::machine::Machine;
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use crate::{Kernel, WAKES_MAX};
use abi::Errno;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// FUTEX_WAIT_BITSET: waits while the word holds `expected`
    /// (`futex_wait_setup`: EAGAIN if it does not, EFAULT if it cannot be read).
    pub(crate) fn futex_wait(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        addr: u64,
        expected: u32,
        bitset: u32,
        deadline: Option<Deadline>,
    ) -> Out {
        if bitset == 0 || addr % 4 != 0 {
            return Errno::EINVAL.into();
        }
        let mut bucket = self.futexes.lock(addr);
        match self.m.load_u32(addr) {
            Err(_) => return Errno::EFAULT.into(),
            Ok(found) if found != expected => return Errno::EAGAIN.into(),
            Ok(_) => {}
        }
        self.begin_wait(t, Wait::Futex);
        self.enqueue(&mut bucket, t, addr, bitset);
        drop(bucket);
        if let Some(deadline) = deadline {
            self.arm_timeout(cpu, t, deadline);
        }
        Out::Blocked
    }

    /// FUTEX_WAKE_BITSET: wakes at most `count` waiters and says how many.
    pub(crate) fn futex_wake(&self, cpu: CpuId, addr: u64, count: u32, bitset: u32) -> Out {
        if bitset == 0 || addr % 4 != 0 {
            return Errno::EINVAL.into();
        }
        let mut woken = 0;
        while woken < count {
            let round = (count - woken).min(WAKES_MAX as u32);
            let n = self.futex_wake_some(cpu, addr, round, bitset);
            woken += n;
            if n < round {
                break;
            }
        }
        Out::Done(woken as isize)
    }

    /// One bounded round of wakes: the sleepers leave the queue under its lock and are
    /// made runnable after it.
    pub(crate) fn futex_wake_some(&self, cpu: CpuId, addr: u64, count: u32, bitset: u32) -> u32 {
        let mut found = [ThreadIdx::NONE; WAKES_MAX];
        let mut n = 0;
        {
            let mut bucket = self.futexes.lock(addr);
            let mut waiters = self.waiters(&bucket, addr);
            while n < count as usize {
                let Some(t) = waiters.next() else { break };
                let thread = self.thread(t);
                if thread.node.bitset.load(Relaxed) & bitset != 0 && thread.wait.kind() == Wait::Futex {
                    self.dequeue(&mut bucket, t);
                    found[n] = t;
                    n += 1;
                }
            }
        }
        if n > 0 {
            let now = self.m.now();
            for &t in &found[..n] {
                self.wake_at(cpu, t, now);
            }
        }
        n as u32
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
                self.dequeue(&mut bucket, t);
                let restart = Errno::ERESTARTSYS;
                Some(if timed_out { Errno::ETIMEDOUT } else { restart }.to_ret())
            }
        }
    }
}
