//! `sched_setaffinity(2)` and `sched_getaffinity(2)`: over our CPUs.

use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::Errno;
use ids::{CPUS_MAX, CpuId, CpuMask, ThreadIdx};

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_sched_setaffinity(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [pid, len, from, ..] = call.args;
        // A shorter mask is filled up with zeros, a longer one cut off (`get_user_cpu_mask`).
        let len = (len as u32 as usize).min(CPUS_MAX / 8);
        let mut bytes = [0u8; CPUS_MAX / 8];
        if self.m.read(from, &mut bytes[..len]).is_err() {
            return Errno::EFAULT.into();
        }
        let Some(target) = self.named_or_self(t, pid as i32) else { return self.foreign(cpu, t, call) };
        let mut words = [0u64; CPUS_MAX / 64];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        }
        let mut mask = CpuMask::from_words(&words).and(&CpuMask::first(self.config.cpus));
        if self.limits.has_cpusets {
            // An empty intersection is EINVAL (`__set_cpus_allowed_ptr` with `cpuset_cpus_allowed`).
            mask = mask.and(self.cpus_of(target));
        }
        let now = self.now();
        match self.sched.set_affinity(target, mask, now, &mut self.kicks(cpu)) {
            Ok(()) => Out::Done(0),
            Err(sched::AttrError::Busy) => Errno::EBUSY.into(),
            Err(_) => Errno::EINVAL.into(),
        }
    }

    pub(crate) fn sys_sched_getaffinity(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [pid, len, to, ..] = call.args;
        let len = len as u32 as usize;
        if len * 8 < self.config.cpus || !len.is_multiple_of(8) {
            return Errno::EINVAL.into();
        }
        let Some(target) = self.named_or_self(t, pid as i32) else { return self.foreign(cpu, t, call) };
        let mask = self.sched.affinity(target);
        let mut bytes = [0u8; CPUS_MAX / 8];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(mask.words()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let n = len.min(self.config.cpus.div_ceil(64) * 8);
        if self.m.write(to, &bytes[..n]).is_err() { Errno::EFAULT.into() } else { Out::Done(n as isize) }
    }
}
