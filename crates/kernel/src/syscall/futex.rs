//! `futex(2)`: arguments and their errors, in the order of Linux's `do_futex`.

use crate::Kernel;
use crate::futex::{RequeueArgs, WakeOpArgs, key_of};
use crate::machine::{Call, Clock, Machine, read_timespec};
use crate::trap::Out;
use crate::wait::Deadline;
use abi::Errno;
use abi::futex::*;
use ids::{CpuId, ThreadIdx};

impl<M: Machine> Kernel<M> {
    /// Fast path of nearly all calls: wakes of one waiter and waits without a deadline, on private words. `None` for
    /// all others.
    #[inline(always)]
    pub(crate) fn futex_at_once(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Option<Out> {
        let [addr, op, val, timeout, ..] = call.args;
        if self.check_word(addr, true).is_err() {
            return None;
        }
        match op as u32 {
            PRIVATE_WAKE if val as i32 <= 1 => Some(self.futex_wake_one(cpu, addr, FUTEX_BITSET_MATCH_ANY)),
            PRIVATE_WAIT if timeout == 0 => {
                Some(self.futex_wait(cpu, t, addr, val as u32, FUTEX_BITSET_MATCH_ANY, None))
            }
            _ => None,
        }
    }

    /// All other calls, and those with errors.
    pub(crate) fn futex_rare(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let op = call.args[1] as u32;
        let deadline = match self.futex_flags(op, call.args[3]) {
            Ok(deadline) => deadline,
            Err(error) => return error.into(),
        };
        // A word that other processes may see belongs to the host's queues.
        if op & FUTEX_PRIVATE_FLAG == 0
            && let Some(out) = self.futex_of_host(cpu, t, call)
        {
            return out;
        }
        self.futex_any(cpu, t, call, deadline).unwrap_or_else(Out::from)
    }

    /// The deadline; ENOSYS if the command has no clock to choose.
    fn futex_flags(&self, op: u32, timeout: u64) -> Result<Option<Deadline>, Errno> {
        let cmd = op & FUTEX_CMD_MASK;
        let deadline = self.futex_deadline(cmd, op, timeout)?;
        let clock_may_be_chosen = matches!(cmd, FUTEX_WAIT_BITSET | FUTEX_WAIT_REQUEUE_PI | FUTEX_LOCK_PI2);
        if op & FUTEX_CLOCK_REALTIME != 0 && !clock_may_be_chosen { Err(Errno::ENOSYS) } else { Ok(deadline) }
    }

    /// A call with a word that is the host's.
    fn futex_of_host(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Option<Out> {
        let [addr, op, .., addr2, _] = call.args;
        let shared = self.shared.contains(addr);
        match op as u32 & FUTEX_CMD_MASK {
            FUTEX_REQUEUE | FUTEX_CMP_REQUEUE | FUTEX_WAKE_OP if shared != self.shared.contains(addr2) => {
                Some(self.mixed_futex(cpu, t, call, !shared).unwrap_or_else(Out::from))
            }
            FUTEX_WAIT_REQUEUE_PI | FUTEX_CMP_REQUEUE_PI if self.shared.contains(addr2) => {
                Some(self.foreign(cpu, t, call))
            }
            _ => shared.then(|| self.foreign(cpu, t, call)),
        }
    }

    fn futex_any(&self, cpu: CpuId, t: ThreadIdx, call: &Call, deadline: Option<Deadline>) -> Result<Out, Errno> {
        let [addr, op, val, timeout, addr2, val3] = call.args;
        let (op, val, val3) = (op as u32, val as u32, val3 as u32);
        let cmd = op & FUTEX_CMD_MASK;
        let private = op & FUTEX_PRIVATE_FLAG != 0;
        let check = |addr| self.check_word(addr, private);
        let (key, key2) = (key_of(addr, private), key_of(addr2, private));
        let requeue = RequeueArgs {
            from: addr,
            to: addr2,
            wake: val as i32,
            moved: timeout as i32,
            expected: (cmd != FUTEX_REQUEUE).then_some(val3),
        };
        match cmd {
            FUTEX_WAIT => self.wait_checked(cpu, t, addr, val, FUTEX_BITSET_MATCH_ANY, private, deadline),
            FUTEX_WAIT_BITSET => self.wait_checked(cpu, t, addr, val, val3, private, deadline),
            FUTEX_WAKE => {
                check(addr)?;
                Ok(self.futex_wake(cpu, t, key, val as i32, FUTEX_BITSET_MATCH_ANY))
            }
            FUTEX_WAKE_BITSET => {
                if val3 == 0 {
                    return Err(Errno::EINVAL);
                }
                check(addr)?;
                Ok(self.futex_wake(cpu, t, key, val as i32, val3))
            }
            FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => self.requeue_checked(cpu, t, requeue, private),
            FUTEX_WAKE_OP => {
                check(addr)?;
                check(addr2)?;
                let args =
                    WakeOpArgs { addr: key, count: val as i32, addr2: key2, count2: timeout as i32, encoded: val3 };
                Ok(self.futex_wake_op(cpu, t, args))
            }
            FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => {
                check(addr)?;
                Ok(self.futex_lock_pi(cpu, t, addr, deadline))
            }
            FUTEX_TRYLOCK_PI => {
                check(addr)?;
                Ok(self.futex_trylock_pi(t, addr))
            }
            // The word is read and compared before its address is judged.
            FUTEX_UNLOCK_PI => Ok(self.futex_unlock_pi(cpu, t, addr)),
            FUTEX_WAIT_REQUEUE_PI => {
                if addr == addr2 {
                    return Err(Errno::EINVAL);
                }
                check(addr2)?;
                check(addr)?;
                Ok(self.futex_wait_requeue_pi(cpu, t, addr, val, addr2, deadline))
            }
            FUTEX_CMP_REQUEUE_PI => {
                if requeue.wake < 0 || requeue.moved < 0 || addr == addr2 || requeue.wake != 1 {
                    return Err(Errno::EINVAL);
                }
                check(addr)?;
                check(addr2)?;
                Ok(self.futex_requeue_pi(cpu, t, requeue))
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the call's")]
    fn wait_checked(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        addr: u64,
        expected: u32,
        bitset: u32,
        private: bool,
        deadline: Option<Deadline>,
    ) -> Result<Out, Errno> {
        if bitset == 0 {
            return Err(Errno::EINVAL);
        }
        self.check_word(addr, private)?;
        let addr = key_of(addr, private);
        Ok(match deadline {
            None => self.futex_wait_forever(cpu, t, addr, expected, bitset),
            Some(deadline) => self.futex_wait_until(cpu, t, addr, expected, bitset, deadline),
        })
    }

    #[inline(never)]
    fn futex_wait_forever(&self, cpu: CpuId, t: ThreadIdx, addr: u64, expected: u32, bitset: u32) -> Out {
        self.futex_wait(cpu, t, addr, expected, bitset, None)
    }

    pub(super) fn requeue_checked(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        a: RequeueArgs,
        private: bool,
    ) -> Result<Out, Errno> {
        if a.wake < 0 || a.moved < 0 {
            return Err(Errno::EINVAL);
        }
        self.check_word(a.from, private)?;
        self.check_word(a.to, private)?;
        let keys = RequeueArgs { from: key_of(a.from, private), to: key_of(a.to, private), ..a };
        Ok(self.futex_requeue(cpu, t, keys))
    }

    /// The timeout of the commands that have one: relative for FUTEX_WAIT, absolute elsewhere, by
    /// CLOCK_REALTIME for FUTEX_LOCK_PI; EFAULT and EINVAL before anything else
    /// (`futex_init_timeout`).
    pub fn futex_deadline(&self, cmd: u32, op: u32, addr: u64) -> Result<Option<Deadline>, Errno> {
        let waits =
            matches!(cmd, FUTEX_WAIT | FUTEX_WAIT_BITSET | FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | FUTEX_WAIT_REQUEUE_PI);
        if !waits || addr == 0 {
            return Ok(None);
        }
        let realtime = op & FUTEX_CLOCK_REALTIME != 0 || cmd == FUTEX_LOCK_PI;
        let clock = if realtime { Clock::Realtime } else { Clock::Monotonic };
        let deadline = self.read_deadline(addr, clock)?;
        Ok(Some(if cmd == FUTEX_WAIT { Deadline::after(&self.m, deadline.at) } else { deadline }))
    }

    pub(super) fn read_deadline(&self, addr: u64, clock: Clock) -> Result<Deadline, Errno> {
        Ok(Deadline { at: read_timespec(&self.m, addr)?, clock })
    }
}

const PRIVATE_WAIT: u32 = FUTEX_WAIT | FUTEX_PRIVATE_FLAG;
const PRIVATE_WAKE: u32 = FUTEX_WAKE | FUTEX_PRIVATE_FLAG;
