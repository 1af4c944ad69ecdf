//! `futex_waitv(2)` and the calls of futex2: arguments and their errors
//! (`kernel/futex/syscalls.c`).

use crate::Kernel;
use crate::futex::{RequeueArgs, key_of};
use crate::machine::{Call, Clock, Machine};
use crate::trap::Out;
use crate::wait::Deadline;
use abi::Errno;
use abi::args::{CLOCK_MONOTONIC, CLOCK_REALTIME};
use abi::futex::*;
use ids::{CpuId, ThreadIdx};

/// The flags of one word: EINVAL for a size other than 32 bits and for unknown flags. Returns whether the word is
/// private.
fn check_flags(flags: u32) -> Result<bool, Errno> {
    if flags & !(FUTEX2_SIZE_MASK | FUTEX2_PRIVATE) != 0 || flags & FUTEX2_SIZE_MASK != FUTEX2_SIZE_U32 {
        return Err(Errno::EINVAL);
    }
    Ok(flags & FUTEX2_PRIVATE != 0)
}

/// Values and masks must fit the word's size (`futex_validate_input`).
fn check_value(value: u64) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| Errno::EINVAL)
}

const NO_WORD: FutexWaitv = FutexWaitv { val: 0, uaddr: 0, flags: 0, reserved: 0 };

/// The words of a call.
struct Words {
    all: [FutexWaitv; FUTEX_WAITV_MAX as usize],
    len: usize,
}

impl Words {
    fn as_slice(&self) -> &[FutexWaitv] {
        &self.all[..self.len]
    }
}

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_futex_waitv(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        self.waitv(cpu, t, call).unwrap_or_else(Out::from)
    }

    fn waitv(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Result<Out, Errno> {
        let [addr, n, flags, timeout, clock, _] = call.args;
        let n = n as u32;
        if flags as u32 != 0 || n == 0 || n > FUTEX_WAITV_MAX || addr == 0 {
            return Err(Errno::EINVAL);
        }
        let deadline = self.futex2_deadline(timeout, clock)?;
        let words = self.read_words(addr, n as usize)?;
        let words = words.as_slice();
        let ours = || words.iter().filter(|w| !self.is_hosts(w));
        if ours().count() == 0 {
            return Ok(Out::Host(*call, 0));
        }
        ours().try_for_each(|w| self.check_word(w.uaddr, w.flags & FUTEX2_PRIVATE != 0))?;
        if ours().count() != words.len() {
            return Ok(self.futex_wait_mixed(t, words, call));
        }
        Ok(self.futex_wait_vector(cpu, t, words, deadline))
    }

    /// `futex_parse_waitv`.
    fn read_words(&self, addr: u64, n: usize) -> Result<Words, Errno> {
        let mut words = Words { all: [NO_WORD; FUTEX_WAITV_MAX as usize], len: n };
        for (i, word) in words.all[..n].iter_mut().enumerate() {
            *word = self.get(addr.wrapping_add((i * FutexWaitv::SIZE) as u64))?;
            check_flags(word.flags)?;
            check_value(word.val)?;
            if word.reserved != 0 {
                return Err(Errno::EINVAL);
            }
        }
        Ok(words)
    }

    /// Absolute, by one of two clocks (`futex2_setup_timeout`).
    fn futex2_deadline(&self, timeout: u64, clock: u64) -> Result<Option<Deadline>, Errno> {
        if timeout == 0 {
            return Ok(None);
        }
        let clock = match clock as i32 {
            CLOCK_REALTIME => Clock::Realtime,
            CLOCK_MONOTONIC => Clock::Monotonic,
            _ => return Err(Errno::EINVAL),
        };
        self.read_deadline(timeout, clock).map(Some)
    }

    pub(crate) fn sys_futex2_wake(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        self.futex2_wake(cpu, t, call).unwrap_or_else(Out::from)
    }

    fn futex2_wake(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Result<Out, Errno> {
        let [addr, mask, count, flags, ..] = call.args;
        let private = check_flags(flags as u32)?;
        let mask = check_value(mask)?;
        if !private && self.shared.contains(addr) {
            return Ok(self.foreign(cpu, t, call));
        }
        if mask == 0 {
            return Err(Errno::EINVAL);
        }
        self.check_word(addr, private)?;
        // Unlike FUTEX_WAKE, a count of 0 wakes nobody.
        Ok(if count as i32 == 0 {
            Out::Done(0)
        } else {
            self.futex_wake(cpu, t, key_of(addr, private), count as i32, mask)
        })
    }

    pub(crate) fn sys_futex2_wait(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        self.futex2_wait(cpu, t, call).unwrap_or_else(Out::from)
    }

    fn futex2_wait(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Result<Out, Errno> {
        let [addr, expected, mask, flags, timeout, clock] = call.args;
        let private = check_flags(flags as u32)?;
        let (expected, mask) = (check_value(expected)?, check_value(mask)?);
        let deadline = self.futex2_deadline(timeout, clock)?;
        if !private && self.shared.contains(addr) {
            return Ok(Out::Host(*call, 0));
        }
        if mask == 0 {
            return Err(Errno::EINVAL);
        }
        self.check_word(addr, private)?;
        // The deadline is absolute, so the call can simply be restarted after a signal.
        Ok(self.futex_wait(cpu, t, key_of(addr, private), expected, mask, deadline))
    }

    pub(crate) fn sys_futex2_requeue(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        self.futex2_requeue(cpu, t, call).unwrap_or_else(Out::from)
    }

    fn futex2_requeue(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Result<Out, Errno> {
        let [addr, flags, wake, moved, ..] = call.args;
        if flags as u32 != 0 || addr == 0 {
            return Err(Errno::EINVAL);
        }
        let words = self.read_words(addr, 2)?;
        let [from, to] = [words.all[0], words.all[1]];
        if from.flags != to.flags {
            return Err(Errno::EINVAL);
        }
        let private = from.flags & FUTEX2_PRIVATE != 0;
        if !private && (self.shared.contains(from.uaddr) || self.shared.contains(to.uaddr)) {
            return Ok(self.foreign(cpu, t, call));
        }
        let args = RequeueArgs {
            from: from.uaddr,
            to: to.uaddr,
            wake: wake as i32,
            moved: moved as i32,
            expected: Some(from.val as u32),
        };
        self.requeue_checked(cpu, t, args, private)
    }
}
