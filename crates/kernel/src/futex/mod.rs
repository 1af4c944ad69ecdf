//! Futexes: wait until a word changes, as `futex(2)` describes.
//!
//! A hashed table of queues, each with its own lock; there is no lock above them. A queue
//! is ordered by urgency and, within one urgency, by arrival (`plist` in Linux's
//! `futex_hash_bucket`). The links are words in the threads ([`Node`]), guarded by the lock
//! of the queue they are in; `futex_waitv(2)` borrows more nodes from a pool.
//!
//! Waits and wakes meet under the queue's lock. A waiter compares the word and joins the queue in one critical section.
//! So if a waker changes the word before it looks at the queue, every waiter either sees the new value or is in the
//! queue.
//!
//! Where to start reading: `wait`, `wake`, then `requeue` and `vector`; `work` for
//! calls that touch more than 64 waiters; `pi` for priority inheritance, which has one
//! more lock, taken after those of the queues; `robust` for what an exiting thread leaves; `shared` for
//! locks that other processes take, too.

mod keys;
mod mixed;
mod pi;
mod pool;
mod queue;
mod requeue;
mod robust;
mod vector;
mod wait;
mod wake;
pub mod wake_op;
mod work;

pub use pi::ThreadPi;
pub use queue::{FutexTable, Node};
pub(crate) use requeue::RequeueArgs;
pub use vector::mixed_nodes;
pub(crate) use wake_op::WakeOpArgs;

use crate::Kernel;
use crate::machine::Machine;
use abi::Errno;

/// Past the highest address that a program may use (`TASK_SIZE_MAX`).
const ADDRESS_END: u64 = (1 << 47) - 4096;

/// Words are aligned, so the lowest bit of an address is free: it marks words without FUTEX_PRIVATE_FLAG, which Linux
/// keeps apart, too (`FUT_OFF_MMSHARED`).
const NOT_PRIVATE: u64 = 1;

/// The key of a word.
#[inline(always)]
pub(crate) fn key_of(addr: u64, private: bool) -> u64 {
    if private { addr } else { addr | NOT_PRIVATE }
}

/// The address of a key's word.
#[inline(always)]
pub(crate) fn word_of(key: u64) -> u64 {
    key & !NOT_PRIVATE
}

impl<M: Machine> Kernel<M> {
    /// The check that every operation makes of every word (`get_futex_key`): EINVAL if it is not aligned; EFAULT if it
    /// lies outside user space or, unless declared private, if it cannot be written (FOLL_WRITE).
    #[inline(always)]
    pub(crate) fn check_word(&self, addr: u64, private: bool) -> Result<(), Errno> {
        if !addr.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        if addr >= ADDRESS_END || !private && !self.is_writable(addr) {
            return Err(Errno::EFAULT);
        }
        Ok(())
    }

    fn is_writable(&self, addr: u64) -> bool {
        self.load_u32(addr).and_then(|word| self.cas_u32(addr, word, word)).is_ok()
    }
}
