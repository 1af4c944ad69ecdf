//! `futex_waitv(2)`: wait until one of several words changes (`futex_wait_multiple`).
//!
//! Each word has a node of the pool in its queue. They are queued one after the other, each under its own queue's lock.
//! A node may be woken before the last is queued, which counts as a wake-up.
//!
//! Words shared with other processes are waited for at the host. A wait for both kinds is a host call, with nodes here
//! for the process's own words.

use super::key_of;
use super::queue::{NodeId, Role};
use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use abi::Errno;
use abi::futex::{FUTEX2_PRIVATE, FutexWaitv};
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

/// Marks a mixed wait in the field for the completed part of a host call; the first node's number is subtracted.
const MIXED: isize = -16;

/// The first node of a mixed wait.
pub fn mixed_nodes(part: isize) -> Option<u32> {
    (part <= MIXED).then(|| (MIXED - part) as u32)
}

impl<M: Machine> Kernel<M> {
    /// Waits while every word holds its value; the result is the index of one that was woken.
    pub(crate) fn futex_wait_vector(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        words: &[FutexWaitv],
        deadline: Option<Deadline>,
    ) -> Out {
        let Ok(first) = self.futexes.pool.take(words.len(), t) else { return Errno::ENOMEM.into() };
        self.begin_wait(t, Wait::FutexVector);
        self.thread(t).wait.a.store(u64::from(first), Relaxed);
        for (k, i) in self.futexes.pool.siblings(first).enumerate() {
            if let Err(e) = self.queue_word(t, &words[k], i) {
                self.abandon_wait(cpu, t);
                // If a wake-up has arrived already, it takes precedence over the error.
                return self.leave_words(first, k).map_or(e.into(), |woken| Out::Done(woken as isize));
            }
        }
        if let Some(deadline) = deadline {
            self.arm_timeout(cpu, t, deadline);
        }
        Out::Blocked
    }

    /// The same if some of the words are the host's ([`Memory::is_shared`](crate::Shared)). The thread waits in a host
    /// call for all of them, and is in the queues of the others here, because only wake-ups here reach those. Such a
    /// wake-up ends the host call.
    pub(crate) fn futex_wait_mixed(&self, t: ThreadIdx, words: &[FutexWaitv], call: &Call) -> Out {
        let Ok(first) = self.futexes.pool.take(words.len(), t) else { return Errno::ENOMEM.into() };
        for (k, i) in self.futexes.pool.siblings(first).enumerate() {
            let word = &words[k];
            if self.is_hosts(word) {
                self.futexes.pool.node(i).belongs_to_host();
            } else if let Err(e) = self.queue_word(t, word, i) {
                return self.leave_words(first, k).map_or(e.into(), |woken| Out::Done(woken as isize));
            }
        }
        Out::Host(*call, MIXED - first as isize)
    }

    /// Whether the word is shared with other processes, so that it is waited for at the host.
    pub(crate) fn is_hosts(&self, word: &FutexWaitv) -> bool {
        word.flags & FUTEX2_PRIVATE == 0 && self.shared.contains(word.uaddr)
    }

    /// Whether a word of a mixed wait, whose host call has not ended, was woken here.
    pub fn mixed_woken(&self, t: ThreadIdx) -> bool {
        let wait = &self.thread(t).wait;
        let pool = &self.futexes.pool;
        wait.kind() == Wait::Host
            && mixed_nodes(wait.a.load(Relaxed) as isize)
                .is_some_and(|first| pool.siblings(first).any(|i| !pool.node(i).is_hosts() && !pool.node(i).queued()))
    }

    /// The host call of such a wait has ended: returns its own result, or the word that was woken here.
    pub fn mixed_ended(&self, first: u32, result: isize) -> isize {
        let words = self.futexes.pool.siblings(first).count();
        match (self.leave_words(first, words), result) {
            (Some(woken), _) => (woken as isize).max(result),
            (None, r) if r == Errno::EINTR.to_ret() => Errno::ERESTARTSYS.to_ret(),
            (None, r) => r,
        }
    }

    fn queue_word(&self, t: ThreadIdx, w: &FutexWaitv, i: u32) -> Result<(), Errno> {
        let key = key_of(w.uaddr, w.flags & FUTEX2_PRIVATE != 0);
        let mut bucket = self.futexes.lock(key);
        match self.load_u32(w.uaddr) {
            Err(_) => Err(Errno::EFAULT),
            Ok(found) if u64::from(found) != w.val => Err(Errno::EAGAIN),
            Ok(_) => {
                self.enqueue_node(&mut bucket, NodeId::pooled(i), t, key, u32::MAX, Role::Vector);
                Ok(())
            }
        }
    }

    /// Takes out those of the first `queued` nodes that are still queued, and frees all; returns the index of the last
    /// one that was woken (`futex_unqueue_multiple`).
    fn leave_words(&self, first: u32, queued: usize) -> Option<usize> {
        let mut woken = None;
        for (k, i) in self.futexes.pool.siblings(first).take(queued).enumerate() {
            let node = self.futexes.pool.node(i);
            match self.futexes.lock_of(node) {
                None if node.is_hosts() => {}
                Some(mut bucket) => self.dequeue(&mut bucket, NodeId::pooled(i)),
                None => woken = Some(k),
            }
        }
        self.futexes.pool.give_back(first);
        woken
    }

    /// A thread that waits for several words has been chosen.
    pub(crate) fn futex_vector_finished(&self, t: ThreadIdx) -> Option<isize> {
        let wait = &self.thread(t).wait;
        let first = wait.a.load(Relaxed) as u32;
        let pool = &self.futexes.pool;
        let woken = pool.siblings(first).any(|i| !pool.node(i).queued());
        let timed_out = wait.timed_out();
        if !woken && !timed_out && !self.interrupted(t) {
            return None;
        }
        let otherwise = if timed_out { Errno::ETIMEDOUT } else { Errno::ERESTARTSYS };
        let words = pool.siblings(first).count();
        Some(self.leave_words(first, words).map_or(otherwise.to_ret(), |k| k as isize))
    }
}
