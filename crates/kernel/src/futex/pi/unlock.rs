//! FUTEX_UNLOCK_PI and the exit of an owner: the lock passes to the most urgent waiter at once.
//!
//! Linux lets a more urgent thread take the lock before the chosen waiter has run (lock stealing). Here the waiter
//! owns it from the moment it is chosen.

use super::later::Later;
use super::turnstile::TurnstileId;
use crate::Kernel;
use crate::futex::queue::{Bucket, NodeId, Role};
use crate::futex::wake_op::CAS_TRIES_MAX;
use crate::machine::Machine;
use crate::trap::Out;
use abi::Errno;
use abi::futex::{FUTEX_OWNER_DIED, FUTEX_TID_MASK, FUTEX_WAITERS};
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// `futex_unlock_pi`: EPERM if the caller's id is not in the word, EINVAL if word and turnstile disagree or a plain
    /// waiter waits there.
    pub(crate) fn futex_unlock_pi(&self, cpu: CpuId, t: ThreadIdx, addr: u64) -> Out {
        let me = self.tid(t).0 as u32;
        let Ok(word) = self.load_u32(addr) else { return Errno::EFAULT.into() };
        if word & FUTEX_TID_MASK != me {
            return Errno::EPERM.into();
        }
        if let Err(e) = self.check_word(addr, true) {
            return e.into();
        }
        let mut later = self.later(cpu);
        let mut bucket = self.futexes.lock(addr);
        let first = self.waiters(&bucket, addr).next();
        let Some(first) = first else {
            // No waiters: neither FUTEX_WAITERS nor FUTEX_OWNER_DIED matters any more.
            return match self.cas_u32(addr, word, 0) {
                Err(_) => Errno::EFAULT.into(),
                Ok(found) if found == word => Out::Done(0),
                Ok(_) => Errno::EAGAIN.into(),
            };
        };
        let ts = self.turnstile_of(self.thread_of(first)).filter(|_| self.node(first).role() == Role::Pi);
        let Some(ts) = ts.filter(|&ts| self.owner_of(ts) == t) else { return Errno::EINVAL.into() };
        let top = self.top_waiter(&self.futexes.pi.lock(), ts);
        // The top waiter can change with an urgency, without the bucket's lock. One that was the top waiter a moment
        // ago is good enough.
        match self.write_owner(addr, self.tid(top).0 as u32 | FUTEX_WAITERS, |w| w & FUTEX_TID_MASK == me) {
            Ok(()) => self.hand_over(&mut bucket, ts, top, &mut later),
            Err(e) => return e.into(),
        }
        drop(bucket);
        self.settle(cpu, later);
        Out::Done(0)
    }

    /// Writes a new owner into a word if its value is `fit`; otherwise EINVAL.
    fn write_owner(&self, addr: u64, new: u32, fit: impl Fn(u32) -> bool) -> Result<(), Errno> {
        for _ in 0..CAS_TRIES_MAX {
            let word = self.load_u32(addr)?;
            if !fit(word) {
                return Err(Errno::EINVAL);
            }
            if self.cas_u32(addr, word, new)? == word {
                return Ok(());
            }
        }
        // Only the owner may change a word with its id, except to set FUTEX_WAITERS once.
        Err(Errno::EINVAL)
    }

    /// The waiter `to` becomes the owner; its wait is over. Under the bucket's lock.
    fn hand_over(&self, bucket: &mut Bucket<'_>, ts: TurnstileId, to: ThreadIdx, later: &mut Later<'_, M>) {
        {
            let mut pi = self.futexes.pi.lock();
            let from = self.owner_of(ts);
            if self.leave(&mut pi, ts, to) {
                self.pass_turnstile(&mut pi, ts, to);
                self.follow_chain(&mut pi, to, &mut later.kicks);
            }
            self.follow_chain(&mut pi, from, &mut later.kicks);
        }
        self.dequeue(bucket, NodeId::own(to));
        later.batch.push(to);
    }

    /// An owner exits (`exit_pi_state_list`): each of its locks goes to its most urgent waiter,
    /// with FUTEX_OWNER_DIED.
    pub(crate) fn exit_pi(&self, cpu: CpuId, t: ThreadIdx) {
        if !self.thread(t).pi.begin_exit() {
            return;
        }
        // Ends, because no lock can be added any more.
        loop {
            let owned = self.first_owned(&self.futexes.pi.lock(), t);
            let Some((ts, addr)) = owned else { return };
            let mut later = self.later(cpu);
            let mut bucket = self.futexes.lock(addr);
            // The turnstile's waiters may have left since.
            if self.first_owned(&self.futexes.pi.lock(), t) == Some((ts, addr)) {
                self.bequeath(&mut bucket, ts, addr, &mut later);
            }
            drop(bucket);
            self.settle(cpu, later);
        }
    }

    /// Hands a dead owner's lock over. If its word cannot be written, the waiter gets EFAULT and the next one inherits
    /// the lock (`fixup_pi_state_owner`).
    fn bequeath(&self, bucket: &mut Bucket<'_>, ts: TurnstileId, addr: u64, later: &mut Later<'_, M>) {
        let top = self.top_waiter(&self.futexes.pi.lock(), ts);
        let new = self.tid(top).0 as u32 | FUTEX_WAITERS | FUTEX_OWNER_DIED;
        if self.write_owner(addr, new, |_| true).is_ok() {
            return self.hand_over(bucket, ts, top, later);
        }
        self.thread(top).wait.value.store(Errno::EFAULT.to_ret() as i64, Relaxed);
        {
            let mut pi = self.futexes.pi.lock();
            let owner = self.owner_of(ts);
            self.leave(&mut pi, ts, top);
            self.follow_chain(&mut pi, owner, &mut later.kicks);
        }
        self.dequeue(bucket, NodeId::own(top));
        later.batch.push(top);
    }
}
