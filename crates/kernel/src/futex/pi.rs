//! Priority inheritance.
use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::Errno;
use ids::{CpuId, ThreadIdx};

/// What a thread holds and waits for with inheritance.
#[derive(Debug, Default)]
pub struct ThreadPi {}

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_futex_pi(&self, _cpu: CpuId, _t: ThreadIdx, _cmd: u32, _op: u32, _call: &Call) -> Out {
        Errno::ENOSYS.into()
    }
    pub(crate) fn futex_pi_finished(&self, _t: ThreadIdx) -> Option<isize> {
        Some(0)
    }
    pub(crate) fn futex_requeue_pi_finished(&self, _t: ThreadIdx) -> Option<isize> {
        Some(0)
    }
    pub(crate) fn exit_pi(&self, _cpu: CpuId, _t: ThreadIdx) {}
}
