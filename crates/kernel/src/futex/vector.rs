//! futex_waitv and the calls of futex2.
use crate::Kernel;
use crate::machine::Machine;
use crate::trap::Out;
use abi::Errno;
use ids::{CpuId, ThreadIdx};

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_futex_waitv(&self, _cpu: CpuId, _t: ThreadIdx, _a: &[u64; 6]) -> Out {
        Errno::ENOSYS.into()
    }
    pub(crate) fn sys_futex2_wake(&self, _cpu: CpuId, _a: &[u64; 6]) -> Out {
        Errno::ENOSYS.into()
    }
    pub(crate) fn sys_futex2_wait(&self, _cpu: CpuId, _t: ThreadIdx, _a: &[u64; 6]) -> Out {
        Errno::ENOSYS.into()
    }
    pub(crate) fn sys_futex2_requeue(&self, _cpu: CpuId, _a: &[u64; 6]) -> Out {
        Errno::ENOSYS.into()
    }
    pub(crate) fn futex_vector_finished(&self, _t: ThreadIdx) -> Option<isize> {
        Some(0)
    }
}
