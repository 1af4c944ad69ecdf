//! The program's memory as far as the kernel needs it: thread stacks ([`stacks`]), and words that other processes
//! share.
//!
//! A futex without FUTEX_PRIVATE_FLAG is ours unless it lies in a shared mapping; those are recorded here.

pub mod stacks;
mod unused;

use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, facts};
use abi::nr;
use alloc::vec::Vec;
use ids::CpuId;
use sync::Lock;
use sync::atomic::{AtomicBool, Ordering::*};

const PAGE: u64 = 4096;
const PROT_NONE: u64 = 0;
const PROT_READ_WRITE: u64 = 3;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_TYPE: u64 = 0xf;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_STACK: u64 = 0x20000;
const MADV_DONTNEED: u64 = 4;
const MREMAP_FIXED: u64 = 2;
const SHM_REMAP: u64 = 0o40000;

/// The memory of the process, as far as we look.
#[derive(Debug, Default)]
pub struct Memory {
    stacks: stacks::Stacks,
    shared: Lock<Vec<(u64, u64)>>,
    any_shared: AtomicBool,
    unused: unused::Unused,
}

impl Memory {
    /// Whether another process may see this word.
    #[inline]
    pub(crate) fn is_shared(&self, addr: u64) -> bool {
        self.any_shared.load(Relaxed) && self.shared.lock().iter().any(|&(from, to)| (from..to).contains(&addr))
    }

    /// Whether there may be any such word.
    pub(crate) fn has_shared(&self) -> bool {
        self.any_shared.load(Relaxed)
    }

    fn share(&self, from: u64, to: u64) {
        self.shared.lock().push((from, to));
        self.any_shared.store(true, Relaxed);
    }

    fn unshare(&self, from: u64, to: u64) {
        if !self.any_shared.load(Relaxed) {
            return;
        }
        let mut list = self.shared.lock();
        let old = core::mem::take(&mut *list);
        for (a, b) in old {
            let before = (a, b.min(from));
            let after = (a.max(to), b);
            list.extend([before, after].into_iter().filter(|(a, b)| a < b));
        }
    }

    /// The stacks of threads.
    pub fn stacks(&self) -> &stacks::Stacks {
        &self.stacks
    }

    /// The shared ranges, for a child that inherits them.
    pub fn shared_ranges(&self) -> Vec<(u64, u64)> {
        self.shared.lock().clone()
    }

    /// Takes over a parent's shared ranges.
    pub fn inherit_shared(&self, ranges: &[(u64, u64)]) {
        ranges.iter().for_each(|&(from, to)| self.share(from, to));
    }
}

impl<M: Machine> Kernel<M> {
    /// The process's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn sys_mmap(&self, call: &Call) -> Out {
        let [addr, len, _, flags, ..] = call.args;
        if let Some(result) = self.map_stack(call) {
            return Out::Done(result);
        }
        if flags & MAP_FIXED != 0
            && let Err(e) = self.let_stacks_go(addr, len)
        {
            return e.into();
        }
        if call.args[4] as i32 != -1 {
            self.back_files();
        }
        let at = self.m.host(*call);
        if at > 0 {
            let end = at as u64 + len.next_multiple_of(PAGE);
            if flags & MAP_FIXED != 0 {
                self.memory.unshare(at as u64, end);
            }
            if flags & MAP_TYPE != MAP_PRIVATE && flags & MAP_SHARED != 0 {
                self.memory.share(at as u64, end);
            }
        }
        Out::Done(at)
    }

    pub(crate) fn sys_munmap(&self, call: &Call) -> Out {
        let [addr, len, ..] = call.args;
        let result = self.unmap_stacks(call).unwrap_or_else(|| self.m.host(*call));
        if result == 0 {
            self.memory.unshare(addr, addr + len.next_multiple_of(PAGE));
        }
        Out::Done(result)
    }

    pub(crate) fn sys_mprotect(&self, call: &Call) -> Out {
        Out::Done(self.protect_stack(call).unwrap_or_else(|| self.m.host(*call)))
    }

    /// Shared ranges stay shared where they move, and as far as they grow. A length of 0 maps shared pages a second
    /// time (`mremap(2)`).
    fn move_mapping(&self, call: &Call) -> Out {
        const MREMAP_DONTUNMAP: u64 = 4;
        let [old, old_len, new_len, flags, ..] = call.args;
        let shared = self.memory.is_shared(old);
        let at = self.m.host(*call);
        if let Ok(new) = u64::try_from(at)
            && self.memory.has_shared()
        {
            if flags & MREMAP_DONTUNMAP == 0 {
                self.memory.unshare(old, old.saturating_add(old_len.next_multiple_of(PAGE)));
            }
            // With MREMAP_FIXED something else may have been there.
            let end = new + new_len.next_multiple_of(PAGE);
            self.memory.unshare(new, end);
            if shared {
                self.memory.share(new, end);
            }
        }
        Out::Done(at)
    }

    pub(crate) fn sys_shmat(&self, call: &Call) -> Out {
        let [id, addr, flags, ..] = call.args;
        let size = facts::segment_size(&self.m, id);
        if flags & SHM_REMAP != 0
            && let Err(e) = self.let_stacks_go(addr, size.unwrap_or(0))
        {
            return e.into();
        }
        let at = self.m.host(*call);
        if let (Ok(at), Some(size)) = (u64::try_from(at), size) {
            self.memory.share(at, at + size.next_multiple_of(PAGE));
        }
        Out::Done(at)
    }

    /// Calls that change a mapping in ways that only the host knows, and those that lock all memory.
    pub(crate) fn sys_change_memory(&self, cpu: CpuId, call: &Call) -> Out {
        let a = &call.args;
        let gone = match call.nr {
            nr::MLOCKALL => {
                self.drop_reserve();
                Ok(())
            }
            nr::MREMAP if a[3] & MREMAP_FIXED != 0 => {
                self.let_stacks_go(a[0], a[1]).and_then(|()| self.let_stacks_go(a[4], a[2]))
            }
            _ => self.let_stacks_go(a[0], a[1]),
        };
        match gone {
            Ok(()) if call.nr == nr::MREMAP => self.move_mapping(call),
            Ok(()) => self.pass(cpu, call),
            Err(e) => e.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_in_a_shared_range_is_not_shared() {
        let m = Memory::default();
        m.share(0x1000, 0x9000);
        m.unshare(0x3000, 0x5000);
        assert!(m.is_shared(0x2fff) && !m.is_shared(0x3000) && !m.is_shared(0x4fff) && m.is_shared(0x5000));
        m.unshare(0, u64::MAX);
        assert!(!m.is_shared(0x8fff));
    }
}
