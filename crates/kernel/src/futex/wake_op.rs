//! FUTEX_WAKE_OP: change one word and wake on two in one step.

use super::wake::{Batch, Which};
use super::word_of;
use super::work::Rest;
use crate::machine::Machine;
use crate::trap::Out;
use crate::{Kernel, WAKES_MAX};
use abi::Errno;
use abi::futex::WakeOp;
use ids::{CpuId, ThreadIdx};

/// How often an atomic change of a word that others keep changing is tried under a lock.
pub const CAS_TRIES_MAX: usize = 64;

/// The arguments of the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeOpArgs {
    pub addr: u64,
    pub count: i32,
    pub addr2: u64,
    pub count2: i32,
    pub encoded: u32,
}

/// Why the word could not be changed.
pub(super) enum Failed {
    /// With this error.
    With(Errno),
    /// Others kept changing it.
    Busy,
}

impl<M: Machine> Kernel<M> {
    /// `futex_wake_op`: changes `addr2`, wakes at `addr`, and also at `addr2` if the comparison with the old value
    /// holds. The change happens under both queues' locks.
    pub(crate) fn futex_wake_op(&self, cpu: CpuId, t: ThreadIdx, a: WakeOpArgs) -> Out {
        let (count, count2) = (a.count.max(1) as usize, a.count2.max(1) as usize);
        let mut batch = Batch::new();
        let mut two = self.futexes.lock_two(a.addr, a.addr2);
        let holds = match self.change_word(word_of(a.addr2), &WakeOp::decode(a.encoded)) {
            Ok(holds) => holds,
            Err(Failed::With(e)) => return e.into(),
            Err(Failed::Busy) => {
                drop(two);
                return self.start_over(t);
            }
        };
        let any = |addr| Which { addr, bitset: u32::MAX, before: None };
        let first = self.take_waiters(&mut two.first, any(a.addr), count, &mut batch);
        let second = match first {
            Ok(_) if holds => self.take_waiters(two.second(), any(a.addr2), count2, &mut batch),
            other => other.map(|_| 0),
        };
        let (before, before2) = (two.first.joined(), two.second().joined());
        drop(two);
        self.wake_batch(cpu, &batch);
        match (first, second) {
            (Err(e), _) | (_, Err(e)) => e.into(),
            (Ok(n), Ok(m)) if n + m == WAKES_MAX => {
                let left2 = if holds { count2 - m } else { 0 };
                let rest = Rest::wake(a.addr, (count - n) as u32, before, u32::MAX, (n + m) as u32);
                self.begin_work(t, rest.then_wake(a.addr2, left2 as u32, before2))
            }
            (Ok(n), Ok(m)) => Out::Done((n + m) as isize),
        }
    }

    /// `futex_atomic_op_inuser`: changes the word and returns whether the comparison with the old value holds. An
    /// unknown operation fails with ENOSYS before the change, an unknown comparison after it.
    pub(super) fn change_word(&self, addr: u64, op: &WakeOp) -> Result<bool, Failed> {
        // Before the word is read.
        op.apply(0).ok_or(Failed::With(Errno::ENOSYS))?;
        for _ in 0..CAS_TRIES_MAX {
            let old = self.load_u32(addr).map_err(|_| Failed::With(Errno::EFAULT))?;
            let new = op.apply(old).ok_or(Failed::With(Errno::ENOSYS))?;
            let found = self.cas_u32(addr, old, new).map_err(|_| Failed::With(Errno::EFAULT))?;
            if found == old {
                return op.holds(old).ok_or(Failed::With(Errno::ENOSYS));
            }
        }
        Err(Failed::Busy)
    }
}
