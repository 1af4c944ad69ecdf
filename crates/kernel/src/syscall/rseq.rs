//! Restartable sequences, emulated (`rseq(2)`, Linux's `kernel/rseq.c`).

use crate::Kernel;
use crate::machine::{Machine, Resume};
use crate::trap::Out;
use abi::{Errno, rseq};
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// Registers or unregisters the area of a thread.
    pub(crate) fn sys_rseq(&self, t: ThreadIdx, a: &[u64; 6]) -> Out {
        const UNREGISTER: u64 = rseq::FLAG_UNREGISTER as u64;
        let [area, len, flags, signature, ..] = *a;
        let (len, signature) = (len as u32, signature as u32);
        let result = match flags as u32 as u64 {
            UNREGISTER => self.unregister_rseq(t, area, len, signature),
            0 => self.register_rseq(t, area, len, signature),
            _ => Err(Errno::EINVAL),
        };
        Out::Done(Errno::ret_of(result.map(|()| 0)))
    }

    fn unregister_rseq(&self, t: ThreadIdx, area: u64, len: u32, signature: u32) -> Result<(), Errno> {
        let known = self.thread(t).rseq.load(Relaxed);
        if known == 0 || known != area {
            return Err(Errno::EINVAL);
        }
        self.check_rseq(t, len, signature)?;
        if !self.write_rseq_cpu(area, 0, rseq::CPU_ID_UNINITIALIZED) {
            return Err(Errno::EFAULT);
        }
        self.thread(t).rseq.store(0, Relaxed);
        Ok(())
    }

    fn register_rseq(&self, t: ThreadIdx, area: u64, len: u32, signature: u32) -> Result<(), Errno> {
        let thread = self.thread(t);
        let known = thread.rseq.load(Relaxed);
        if known != 0 {
            let same = if known == area { self.check_rseq(t, len, signature) } else { Err(Errno::EINVAL) };
            return same.and(Err(Errno::EBUSY));
        }
        if !area.is_multiple_of(rseq::ALIGN as u64) || (len as usize) < rseq::ORIG_SIZE {
            return Err(Errno::EINVAL);
        }
        // Clear a critical section left by an earlier user of the memory.
        self.put::<u64>(area.checked_add(rseq::RSEQ_CS as u64).ok_or(Errno::EFAULT)?, 0)?;
        thread.rseq.store(area, Relaxed);
        thread.rseq_len.store(len, Relaxed);
        thread.rseq_signature.store(signature, Relaxed);
        thread.rseq_cpu.store(0, Relaxed);
        Ok(())
    }

    /// Whether the area was registered with this length and signature.
    /// Whether the thread may be in a restartable sequence, which starts over if others run.
    pub(crate) fn is_in_sequence(&self, t: ThreadIdx) -> bool {
        let area = self.thread(t).rseq.load(Relaxed);
        area != 0 && self.get::<u64>(area + rseq::RSEQ_CS as u64).is_ok_and(|sequence| sequence != 0)
    }

    fn check_rseq(&self, t: ThreadIdx, len: u32, signature: u32) -> Result<(), Errno> {
        let thread = self.thread(t);
        if thread.rseq_len.load(Relaxed) != len {
            return Err(Errno::EINVAL);
        }
        if thread.rseq_signature.load(Relaxed) != signature { Err(Errno::EPERM) } else { Ok(()) }
    }

    fn write_rseq_cpu(&self, area: u64, start: u32, cpu: u32) -> bool {
        self.store_u32(area + rseq::CPU_ID_START as u64, start).is_ok()
            && self.store_u32(area + rseq::CPU_ID as u64, cpu).is_ok()
    }

    /// The thread continues after a preemption or on another CPU: writes the CPU to the area, and aborts a critical
    /// section that it was in (`rseq_ip_fixup`).
    pub(crate) fn rseq_resume(&self, cpu: CpuId, t: ThreadIdx) {
        let thread = self.thread(t);
        let seen = u32::from(cpu.0) + 1;
        // Only the CPU that has the thread writes this word, so no exchange is needed.
        if thread.rseq_cpu.load(Relaxed) == seen {
            return;
        }
        thread.rseq_cpu.store(seen, Relaxed);
        let area = thread.rseq.load(Relaxed);
        if area == 0 {
            return;
        }
        let n = u32::from(cpu.0);
        let ok = self.write_rseq_cpu(area, n, n)
            && self.store_u32(area + rseq::NODE_ID as u64, 0).is_ok()
            && self.store_u32(area + rseq::MM_CID as u64, n).is_ok()
            && self.abort_section(t, area).is_ok();
        if !ok {
            self.force_fault(t, area);
        }
    }

    fn abort_section(&self, t: ThreadIdx, area: u64) -> Result<(), crate::Fault> {
        let at = self.get::<u64>(area + rseq::RSEQ_CS as u64)?;
        if at == 0 {
            return Ok(());
        }
        let section: rseq::CriticalSection = self.get(at)?;
        let mut r = self.m.registers(t);
        self.put::<u64>(area + rseq::RSEQ_CS as u64, 0)?;
        if !section.contains(r.rip) {
            return Ok(());
        }
        let signature = self.load_u32(section.abort_ip.wrapping_sub(4))?;
        if !section.is_valid() || signature != self.thread(t).rseq_signature.load(Relaxed) {
            return Err(crate::Fault);
        }
        r.rip = section.abort_ip;
        self.m.set_resume(t, Resume::Registers(&r));
        Ok(())
    }
}
