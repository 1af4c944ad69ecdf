//! RLIMIT_CPU and RLIMIT_RTTIME. They are ours, because the host would count carriers; the host gets them at exec.

use crate::cputime::TimeLimit;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, Personality};
use abi::args::{RLIMIT_CPU, RLIMIT_RTTIME};
use abi::{Errno, nr};
use ids::{CpuId, ThreadIdx};
use time::cpu::limit::Rlimit;

pub fn time_limit(resource: u64) -> Option<TimeLimit> {
    match u64::from(resource as u32) {
        RLIMIT_CPU => Some(TimeLimit::Cpu),
        RLIMIT_RTTIME => Some(TimeLimit::RtTime),
        _ => None,
    }
}

impl<M: Machine> Kernel<M> {
    /// `getrlimit(2)`, `setrlimit(2)`, `prlimit(2)`. Other resources and other processes are the host's.
    pub(crate) fn sys_rlimit(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let a = &call.args;
        let (pid, resource, new, old) = match call.nr {
            nr::GETRLIMIT => (0, a[0], 0, a[1]),
            // `setrlimit(2)` with a null pointer falls through to the host, which returns EFAULT.
            nr::SETRLIMIT if a[1] != 0 => (0, a[0], a[1], 0),
            nr::PRLIMIT64 => (self.host_id(a[0] as i32), a[1], a[2], a[3]),
            _ => return self.host_limit(cpu, t, call),
        };
        let own = pid == 0 || pid == self.config.pid.0;
        let Some(which) = time_limit(resource).filter(|_| own) else { return self.host_limit(cpu, t, call) };
        if call.nr == nr::GETRLIMIT && old == 0 {
            return Errno::EFAULT.into();
        }
        let before = match self.change_time_limit(cpu, which, new) {
            Ok(before) => before,
            Err(e) => return e.into(),
        };
        if old == 0 {
            return Out::Done(0);
        }
        self.put(old, [before.cur, before.max]).into()
    }

    /// Sets the limit to that at address `new`, unless it is 0, and returns the old one.
    fn change_time_limit(&self, cpu: CpuId, which: TimeLimit, new: u64) -> Result<Rlimit, Errno> {
        let before = self.time_limit(which);
        if new == 0 {
            return Ok(before);
        }
        let [cur, max] = self.get(new)?;
        let wanted = Rlimit { cur, max };
        let privileged = max > before.max && M::Personality::grants(&self.m).higher_limits;
        before.may_become(wanted, privileged).map_err(|e| Errno(e.errno()))?;
        self.set_time_limit(cpu, which, wanted);
        Ok(before)
    }
}
