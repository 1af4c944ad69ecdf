//! What we must know of the program's memory: thread stacks ([`stacks`]), and mappings shared with other processes
//! ([`kernel::Shared`]), which are recorded as they are made.

pub mod stacks;

use crate::{Host, Linux, facts};
use abi::args::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, MAP_STACK, MAP_TYPE,
    MREMAP_DONTUNMAP, MREMAP_FIXED, PROT_NONE, PROT_READ_WRITE,
};
use abi::nr;
use ids::CpuId;
use kernel::machine::Call;
use kernel::trap::Out;

const PAGE: u64 = 4096;
const SHM_REMAP: u64 = 0o40000;

/// What we know of the process's memory.
#[derive(Debug, Default)]
pub struct Memory {
    stacks: stacks::Stacks,
}

impl Memory {
    /// The stacks of threads.
    pub fn stacks(&self) -> &stacks::Stacks {
        &self.stacks
    }
}

impl<M: Host> Linux<'_, M> {
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
        let at = self.host(call);
        if at > 0 {
            let end = at as u64 + len.next_multiple_of(PAGE);
            if flags & MAP_FIXED != 0 {
                self.shared.remove(at as u64, end);
            }
            if flags & MAP_TYPE != MAP_PRIVATE && flags & MAP_SHARED != 0 {
                self.shared.add(at as u64, end);
            }
        }
        Out::Done(at)
    }

    pub(crate) fn sys_munmap(&self, call: &Call) -> Out {
        let [addr, len, ..] = call.args;
        let result = self.unmap_stacks(call).unwrap_or_else(|| self.host(call));
        if result == 0 {
            self.shared.remove(addr, addr + len.next_multiple_of(PAGE));
        }
        Out::Done(result)
    }

    pub(crate) fn sys_mprotect(&self, call: &Call) -> Out {
        Out::Done(self.protect_stack(call).unwrap_or_else(|| self.host(call)))
    }

    /// Shared ranges stay shared where they move to, and as far as they grow. A length of 0 maps shared pages a second
    /// time (`mremap(2)`).
    fn move_mapping(&self, call: &Call) -> Out {
        let [old, old_len, new_len, flags, ..] = call.args;
        let shared = self.shared.contains(old);
        let at = self.host(call);
        if let Ok(new) = u64::try_from(at)
            && self.shared.any()
        {
            if flags & MREMAP_DONTUNMAP == 0 {
                self.shared.remove(old, old.saturating_add(old_len.next_multiple_of(PAGE)));
            }
            // MREMAP_FIXED may have replaced another mapping.
            let end = new + new_len.next_multiple_of(PAGE);
            self.shared.remove(new, end);
            if shared {
                self.shared.add(new, end);
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
        let at = self.host(call);
        if let (Ok(at), Some(size)) = (u64::try_from(at), size) {
            self.shared.add(at, at + size.next_multiple_of(PAGE));
        }
        Out::Done(at)
    }

    /// Calls that change a mapping in ways that only the host knows, and calls that lock all memory.
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
            // Markers stay and the contents are dropped: our description of a stack remains valid.
            nr::MADVISE if a[2] == MADV_DONTNEED => Ok(()),
            _ => self.let_stacks_go(a[0], a[1]),
        };
        match gone {
            Ok(()) if call.nr == nr::MREMAP => self.move_mapping(call),
            Ok(()) => self.pass(cpu, call),
            Err(e) => e.into(),
        }
    }
}
