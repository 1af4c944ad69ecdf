//! `sched_*(2)` on threads of another process.
//!
//! If that process runs under Entresol, the host knows neither most of its threads nor what they may do. So the machine
//! asks that process, whose kernel answers in [`Kernel::for_neighbour`]; for all others it asks the host. Because that
//! may take a while, the personality makes an inline call, marked by [`ELSEWHERE`].

use super::policy::By;
use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::{Errno, nr};
use ids::{CpuId, Tid};

/// Marks the number of an inline call that concerns a thread of another process.
pub const ELSEWHERE: usize = 1 << 20;

impl<M: Machine> Kernel<M> {
    /// The result of another process's call about a thread of this process. Its arguments point to the machine's
    /// memory. `privileged`: that process has CAP_SYS_NICE. In any case it may act on this one (`check_same_owner`).
    pub fn for_neighbour(&self, call: &Call, privileged: bool) -> isize {
        let by = By { cpu: CpuId::NONE, privileged: Some(privileged) };
        let Some(t) = self.threads().find(Tid(call.args[0] as i32)) else { return Errno::ESRCH.to_ret() };
        let out = match call.nr {
            nr::SCHED_SETSCHEDULER => self.sys_sched_setscheduler(by, t, call),
            nr::SCHED_GETSCHEDULER => self.sys_sched_getscheduler(by.cpu, t, call),
            nr::SCHED_SETPARAM => self.sys_sched_setparam(by, t, call),
            nr::SCHED_GETPARAM => self.sys_sched_getparam(by.cpu, t, call),
            nr::SCHED_SETATTR => self.sys_sched_setattr(by, t, call),
            nr::SCHED_GETATTR => self.sys_sched_getattr(by.cpu, t, call),
            nr::SCHED_RR_GET_INTERVAL => self.sys_sched_rr_get_interval(by.cpu, t, call),
            nr::SCHED_SETAFFINITY => self.sys_sched_setaffinity(by.cpu, t, call),
            nr::SCHED_GETAFFINITY => self.sys_sched_getaffinity(by.cpu, t, call),
            _ => Errno::ENOSYS.into(),
        };
        match out {
            Out::Done(result) => result,
            // The thread has ended since.
            _ => Errno::ESRCH.to_ret(),
        }
    }
}
