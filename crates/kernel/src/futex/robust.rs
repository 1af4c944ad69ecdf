//! Robust lists: a thread that exits tells the next owner of each lock it holds
//! (`exit_robust_list`, `handle_futex_death`).
//!
//! The list is the program's memory, so nothing in it is trusted: a pointer that cannot be followed ends the walk, the
//! walk stops after 2048 entries, and the word of an entry is only touched if it names the exiting thread.

use super::key_of;
use super::work::{Kind, Rest, Round};
use crate::Kernel;
use crate::WAKES_MAX;
use crate::futex::wake_op::CAS_TRIES_MAX;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::futex::{FUTEX_OWNER_DIED, FUTEX_TID_MASK, FUTEX_WAITERS, FUTEX_WAKE, ROBUST_LIST_LIMIT, RobustListHead};
use abi::{Errno, nr};
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

/// A pointer in the list; its lowest bit marks a PI lock.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    fn at(self) -> u64 {
        self.0 & !1
    }

    fn inherits(self) -> bool {
        self.0 & 1 != 0
    }
}

impl<M: Machine> Kernel<M> {
    /// Walks the list of an exiting thread. `Some`: it is longer than one round; the thread does the rest in rounds and
    /// then repeats its `exit(2)` without a list.
    pub(crate) fn exit_robust(&self, cpu: CpuId, t: ThreadIdx) -> Option<Out> {
        let rest = self.take_robust_list(t)?;
        match self.robust_round(cpu, t, rest) {
            Round::Done(_) => None,
            Round::More(rest) => {
                // No handler runs in a thread that exits.
                self.drop_signals(cpu, t);
                Some(self.begin_work(t, rest))
            }
        }
    }

    /// The process ends, and other processes may wait for locks of its threads. No rounds: no other thread of this
    /// process runs any more that would have to wait.
    pub(crate) fn process_ends(&self, cpu: CpuId) {
        if !self.shared.any() {
            return;
        }
        for t in self.threads.iter() {
            let mut left = self.take_robust_list(t);
            while let Some(rest) = left {
                left = match self.robust_round(cpu, t, rest) {
                    Round::More(rest) => Some(rest),
                    Round::Done(_) => None,
                };
            }
        }
    }

    /// The word of the robust lock that `t` says it is about to take or release.
    pub fn pending_robust(&self, t: ThreadIdx) -> Option<u64> {
        let at = self.thread(t).robust_list.load(Relaxed);
        let head: RobustListHead = self.get((at != 0).then_some(at)?).ok()?;
        let pending = Entry(head.list_op_pending);
        (pending.at() != 0).then(|| pending.at().wrapping_add_signed(head.futex_offset))
    }

    fn take_robust_list(&self, t: ThreadIdx) -> Option<Rest> {
        let head = self.thread(t).robust_list.swap(0, Relaxed);
        if head == 0 {
            return None;
        }
        Some(Rest {
            kind: Kind::Robust,
            addr: self.get::<u64>(head).ok()?,
            count: ROBUST_LIST_LIMIT as u32,
            before: 0,
            bitset: 0,
            addr2: head,
            count2: 0,
            before2: 0,
            done: 0,
        })
    }

    pub(super) fn robust_round(&self, cpu: CpuId, t: ThreadIdx, rest: Rest) -> Round {
        const END: Round = Round::Done(Errno::ERESTARTNOINTR.to_ret());
        let Ok(head) = self.get::<RobustListHead>(rest.addr2) else { return END };
        let pending = Entry(head.list_op_pending);
        let word = |e: Entry| e.at().wrapping_add_signed(head.futex_offset);
        let (mut entry, mut left) = (Entry(rest.addr), rest.count);
        let mut in_round = 0;
        while entry.at() != rest.addr2 && left > 0 {
            if in_round == WAKES_MAX {
                return Round::More(Rest { addr: entry.0, count: left, ..rest });
            }
            // Read the next pointer first: once its word is free, an entry may be gone.
            let next = self.get::<u64>(entry.at());
            // The pending entry may be in the list; it is handled last.
            if entry.at() != pending.at() && self.owner_died(cpu, t, word(entry), entry.inherits(), false).is_err() {
                return END;
            }
            match next {
                Ok(next) => entry = Entry(next),
                Err(_) => return END,
            }
            (in_round, left) = (in_round + 1, left - 1);
        }
        if pending.at() != 0 {
            // The last entry, so its result does not matter.
            let _ = self.owner_died(cpu, t, word(pending), pending.inherits(), true);
        }
        END
    }

    /// Clears the owner of the lock at `addr` if that is `t`. If the lock was pending and has no owner, it was about to
    /// be released or taken: wakes the waiter that should have been woken. PI locks are handed over by `exit_pi`.
    fn owner_died(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        addr: u64,
        inherits: bool,
        pending: bool,
    ) -> Result<(), crate::Fault> {
        if !addr.is_multiple_of(4) {
            return Err(crate::Fault);
        }
        let me = self.tid(t).0 as u32;
        for _ in 0..CAS_TRIES_MAX {
            let word = self.load_u32(addr)?;
            let owner = word & FUTEX_TID_MASK;
            if pending && !inherits && owner == 0 {
                self.wake_one(cpu, t, addr);
                return Ok(());
            }
            if owner != me {
                return Ok(());
            }
            if self.cas_u32(addr, word, word & FUTEX_WAITERS | FUTEX_OWNER_DIED)? == word {
                // Waiters of shared PI locks wait in the host like all others (`shared.rs`).
                if word & FUTEX_WAITERS != 0 && (!inherits || self.shared.contains(addr)) {
                    self.wake_one(cpu, t, addr);
                }
                return Ok(());
            }
        }
        // If others keep writing to a word that is not theirs, leave it to them.
        Ok(())
    }

    /// Wakes one waiter, here or in the host.
    fn wake_one(&self, cpu: CpuId, t: ThreadIdx, addr: u64) {
        if self.shared.contains(addr) {
            let args = [addr, u64::from(FUTEX_WAKE), 1, 0, 0, 0];
            let _ = self.foreign(cpu, t, &Call { nr: nr::FUTEX, args });
        } else {
            self.futex_wake_some(cpu, key_of(addr, false), 1);
        }
    }
}
