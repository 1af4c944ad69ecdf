//! `futex(2)`, `futex_waitv(2)` and the calls of futex2: arguments and their errors.

use crate::Kernel;
use crate::machine::{Call, Clock, Machine};
use crate::trap::Out;
use crate::wait::Deadline;
use abi::futex::*;
use abi::{Errno, Timespec};
use ids::{CpuId, ThreadIdx};

impl<M: Machine> Kernel<M> {
    #[inline]
    pub(crate) fn sys_futex(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [addr, op, val, timeout, addr2, val3] = call.args;
        let (val, val3) = (val as u32, val3 as u32);
        let op = op as u32;
        // A word that other processes may see belongs to the host's queues.
        if op & FUTEX_PRIVATE_FLAG == 0 && self.memory.is_shared(addr) {
            return self.shared_futex(call);
        }
        match op & FUTEX_CMD_MASK {
            FUTEX_WAKE => self.futex_wake(cpu, addr, val, FUTEX_BITSET_MATCH_ANY),
            FUTEX_WAKE_BITSET => self.futex_wake(cpu, addr, val, val3),
            FUTEX_WAIT => match self.futex_timeout(op, timeout, false) {
                Ok(deadline) => self.futex_wait(cpu, t, addr, val, FUTEX_BITSET_MATCH_ANY, deadline),
                Err(e) => e.into(),
            },
            FUTEX_WAIT_BITSET => match self.futex_timeout(op, timeout, true) {
                Ok(deadline) => self.futex_wait(cpu, t, addr, val, val3, deadline),
                Err(e) => e.into(),
            },
            FUTEX_REQUEUE => self.futex_requeue(cpu, addr, addr2, val as i32, timeout as i32, None),
            FUTEX_CMP_REQUEUE => self.futex_requeue(cpu, addr, addr2, val as i32, timeout as i32, Some(val3)),
            FUTEX_WAKE_OP => self.futex_wake_op(cpu, addr, addr2, val, timeout as u32, val3),
            cmd => self.sys_futex_pi(cpu, t, cmd, op, call),
        }
    }

    /// The timeout argument: relative for FUTEX_WAIT, absolute elsewhere; EFAULT and EINVAL
    /// before anything else (`futex_init_timeout`).
    pub(crate) fn futex_timeout(&self, op: u32, addr: u64, absolute: bool) -> Result<Option<Deadline>, Errno> {
        if addr == 0 {
            return Ok(None);
        }
        let mut bytes = [0; Timespec::SIZE];
        self.m.read(addr, &mut bytes).map_err(|_| Errno::EFAULT)?;
        let at = Timespec::from_bytes(&bytes).to_nanos()?;
        let clock = if op & FUTEX_CLOCK_REALTIME != 0 { Clock::Realtime } else { Clock::Monotonic };
        Ok(Some(if absolute { Deadline { at, clock } } else { Deadline { at: at + self.m.clock(clock), clock } }))
    }
}
