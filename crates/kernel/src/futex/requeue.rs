//! REQUEUE, CMP_REQUEUE and WAKE_OP.
use crate::Kernel;
use crate::machine::Machine;
use crate::trap::Out;
use abi::Errno;
use ids::CpuId;

impl<M: Machine> Kernel<M> {
    pub(crate) fn futex_requeue(
        &self,
        _cpu: CpuId,
        _from: u64,
        _to: u64,
        _wake: i32,
        _move: i32,
        _cmp: Option<u32>,
    ) -> Out {
        Errno::ENOSYS.into()
    }
    pub(crate) fn futex_wake_op(&self, _cpu: CpuId, _a: u64, _b: u64, _n: u32, _m: u32, _op: u32) -> Out {
        Errno::ENOSYS.into()
    }
}
