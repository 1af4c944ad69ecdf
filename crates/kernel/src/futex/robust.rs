//! Robust lists at exit.
use crate::Kernel;
use crate::machine::Machine;
use ids::{CpuId, ThreadIdx};

impl<M: Machine> Kernel<M> {
    pub(crate) fn exit_robust(&self, _cpu: CpuId, _t: ThreadIdx) {}
}
