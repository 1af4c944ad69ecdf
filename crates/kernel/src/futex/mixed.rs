//! Calls with two words, one of which is private to the process and the other shared with other processes: waiters of
//! the first are here, those of the second in the host.
//!
//! A waiter cannot be moved between the two, so a requeue wakes the waiters that it should move. A wait may end
//! spuriously (`futex(2)`), and the waiter then checks the word and waits for the lock. Words are changed before the
//! wake-ups, so a waiter has seen the new value or is woken.

use super::key_of;
use super::wake_op::Failed;
use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::futex::*;
use abi::{Errno, nr};
use ids::{CpuId, ThreadIdx};

/// How many threads to wake at a word, whether they wait here or in the host.
#[derive(Clone, Copy)]
struct Wanted {
    addr: u64,
    count: u32,
}

impl<M: Machine> Kernel<M> {
    /// Makes the call; with `own_first` the first word is the process's own, otherwise the second.
    pub(crate) fn mixed_futex(&self, cpu: CpuId, t: ThreadIdx, call: &Call, own_first: bool) -> Result<Out, Errno> {
        let [addr, op, val, val2, addr2, val3] = call.args;
        let (cmd, wake, moved) = (op as u32 & FUTEX_CMD_MASK, val as i32, val2 as i32);
        if cmd != FUTEX_WAKE_OP && (wake < 0 || moved < 0) {
            return Err(Errno::EINVAL);
        }
        self.check_mixed(addr, own_first)?;
        // FUTEX_WAKE_OP changes the second word.
        self.check_mixed(addr2, !own_first || cmd == FUTEX_WAKE_OP)?;
        let wanted = |addr, count: u64| Wanted { addr, count: (count as i32).max(1) as u32 };
        let (first, second) = match cmd {
            FUTEX_WAKE_OP => match self.change_word(addr2, &WakeOp::decode(val3 as u32)) {
                Ok(holds) => (wanted(addr, val), holds.then(|| wanted(addr2, val2))),
                Err(Failed::With(error)) => return Err(error),
                Err(Failed::Busy) => return Ok(self.start_over(t)),
            },
            _ => {
                let word = self.load_u32(addr)?;
                if cmd == FUTEX_CMP_REQUEUE && word != val3 as u32 {
                    return Err(Errno::EAGAIN);
                }
                (Wanted { addr, count: wake as u32 + moved as u32 }, None)
            }
        };
        let (here, there) = if own_first { (Some(first), second) } else { (second, Some(first)) };
        let woken = there.map_or(Ok(0), |wanted| self.wake_in_host(cpu, t, wanted))?;
        Ok(match here {
            Some(Wanted { addr, count }) if count > 0 => {
                self.futex_wake_many(cpu, t, key_of(addr, false), count, FUTEX_BITSET_MATCH_ANY, woken)
            }
            _ => Out::Done(woken as isize),
        })
    }

    /// A shared word that is not changed may be read-only.
    fn check_mixed(&self, addr: u64, must_be_writable: bool) -> Result<(), Errno> {
        match must_be_writable {
            true => self.check_word(addr, false),
            false if !addr.is_multiple_of(4) => Err(Errno::EINVAL),
            false => self.load_u32(addr).map(|_| ()).map_err(|_| Errno::EFAULT),
        }
    }

    fn wake_in_host(&self, cpu: CpuId, t: ThreadIdx, wanted: Wanted) -> Result<usize, Errno> {
        if wanted.count == 0 {
            return Ok(0);
        }
        let args = [wanted.addr, u64::from(FUTEX_WAKE), u64::from(wanted.count.min(i32::MAX as u32)), 0, 0, 0];
        match self.foreign(cpu, t, &Call { nr: nr::FUTEX, args }) {
            Out::Done(result) => Errno::from_ret(result),
            // A wake-up does not wait.
            _ => Ok(0),
        }
    }
}
