//! The run queues that may have changed: those whose lock was taken to change something. A simulator that checks
//! everything after every event looks at these only. Only with the feature `watched`, which the image, built by itself,
//! does not have.

use crate::cpuset::CpuSet;
use crate::{OutOfMemory, Scheduler};
use ids::CpuId;

/// The CPUs whose queues were locked since the last question.
#[derive(Debug)]
pub(crate) struct Touched(CpuSet);

impl Touched {
    pub(crate) fn new(cpus: usize) -> Result<Touched, OutOfMemory> {
        Ok(Touched(CpuSet::new(cpus)?))
    }

    /// The queue of `cpu` is about to be changed.
    #[inline(always)]
    pub(crate) fn note(&self, cpu: CpuId) {
        if !self.0.contains(cpu) {
            self.0.insert(cpu);
        }
    }
}

impl Scheduler {
    /// Names the CPUs whose run queues may have changed since the last call, or since the beginning, in words, lowest
    /// CPUs first. Complete only while nothing else schedules.
    pub fn take_touched(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.touched.0.len()).map(|i| self.touched.0.take_word(i))
    }
}
