//! What the kernel must know of the program's memory: the stacks of its threads, and
//! which words other processes may see.
//!
//! **Stacks.** A mapping per stack and a guard per mapping would end at `vm.max_map_count`
//! (32,690 threads). So `mmap(MAP_STACK)` is served from chunks of 64 MiB, and the guard
//! page of a fresh stack is a marker in the page table (`MADV_GUARD_INSTALL`), which
//! needs no mapping of its own; where the host does not know that, it is a real `mprotect`.
//! Chunks are small enough for `ulimit -v` and are asked for as they are needed.
//! Larger stacks are the host's, which may refuse them (`vm.overcommit_memory`).
//!
//! **Sharing.** A futex without FUTEX_PRIVATE_FLAG is ours all the same unless it lies in a
//! mapping that is shared; those are remembered here.

mod unused;

use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::{Errno, nr};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sync::Lock;
use sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

const PAGE: u64 = 4096;
const CHUNK: u64 = 64 << 20;
const PROT_READ_WRITE: u64 = 3;
const PROT_NONE: u64 = 0;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_TYPE: u64 = 0xf;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_STACK: u64 = 0x20000;
const MAP_HUGETLB: u64 = 0x40000;
const MADV_DONTNEED: u64 = 4;
const MADV_NOHUGEPAGE: u64 = 15;
const MADV_GUARD_INSTALL: u64 = 102;
const MADV_GUARD_REMOVE: u64 = 103;
const PR_SET_VMA: u64 = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: u64 = 0;

/// What a stack of the arena is like.
#[derive(Clone, Copy, Debug)]
struct Stack {
    len: u64,
    guard: Guard,
}

/// How the lowest part of a stack is kept from being touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Guard {
    /// Not at all yet.
    Fresh,
    /// By markers in the page table, so many bytes.
    Marked(u64),
    /// The program has changed protections itself: the piece is not used again.
    Own,
}

#[derive(Debug, Default)]
struct Arena {
    stacks: BTreeMap<u64, Stack>,
    free: BTreeMap<u64, Vec<(u64, Guard)>>,
    /// The unused part of the newest chunk.
    fresh: (u64, u64),
}

/// The memory of the process, as far as we look.
#[derive(Debug, Default)]
pub struct Memory {
    arena: Lock<Arena>,
    /// Bounds of all chunks: addresses outside need no lock.
    lowest: AtomicU64,
    highest: AtomicU64,
    shared: Lock<Vec<(u64, u64)>>,
    any_shared: AtomicBool,
    /// The host does not know guard markers.
    no_markers: AtomicBool,
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

    fn in_arena(&self, addr: u64) -> bool {
        (self.lowest.load(Relaxed)..self.highest.load(Relaxed)).contains(&addr)
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
        let [addr, len, prot, flags, ..] = call.args;
        let stack = MAP_STACK | MAP_PRIVATE | MAP_ANONYMOUS;
        let odd = MAP_FIXED | MAP_GROWSDOWN | MAP_HUGETLB;
        if flags & (stack | odd) == stack
            && addr == 0
            && (prot == PROT_NONE || prot == PROT_READ_WRITE)
            && (1..=CHUNK).contains(&len)
            && let Some(at) = self.allocate_stack(len)
        {
            return Out::Done(at as isize);
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

    fn allocate_stack(&self, len: u64) -> Option<u64> {
        let len = len.checked_next_multiple_of(PAGE)?;
        let mut arena = self.memory.arena.lock();
        if let Some((at, guard)) = arena.free.get_mut(&len).and_then(Vec::pop) {
            if let Guard::Marked(n) = guard {
                self.madvise(at, n, MADV_GUARD_REMOVE);
            }
            arena.stacks.insert(at, Stack { len, guard: Guard::Fresh });
            return Some(at);
        }
        if arena.fresh.1 - arena.fresh.0 < len {
            arena.fresh = self.new_chunk(CHUNK)?;
        }
        // From the top down, as stacks are laid out by the host.
        arena.fresh.1 -= len;
        let at = arena.fresh.1;
        arena.stacks.insert(at, Stack { len, guard: Guard::Fresh });
        Some(at)
    }

    fn new_chunk(&self, len: u64) -> Option<(u64, u64)> {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        let at = self.m.host(Call { nr: nr::MMAP, args: [0, len, PROT_READ_WRITE, flags, u64::MAX, 0] });
        let at = u64::try_from(at).ok()?;
        self.madvise(at, len, MADV_NOHUGEPAGE);
        // For `maps`, where the host can (CONFIG_ANON_VMA_NAME): a mapping has one name, and many stacks.
        let name = c"stacks of threads".as_ptr() as u64;
        self.m.host(Call { nr: nr::PRCTL, args: [PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, len, name, 0] });
        let m = &self.memory;
        if m.highest.load(Relaxed) == 0 {
            m.lowest.store(at, Relaxed);
        }
        m.lowest.fetch_min(at, Relaxed);
        m.highest.fetch_max(at + len, Relaxed);
        Some((at, at + len))
    }

    fn madvise(&self, at: u64, len: u64, advice: u64) -> isize {
        self.m.host(Call { nr: nr::MADVISE, args: [at, len, advice, 0, 0, 0] })
    }

    pub(crate) fn sys_munmap(&self, call: &Call) -> Out {
        let [addr, len, ..] = call.args;
        if self.memory.in_arena(addr) {
            let mut arena = self.memory.arena.lock();
            if let Some(stack) = arena.stacks.get(&addr).copied()
                && stack.len == len.next_multiple_of(PAGE)
                && stack.guard != Guard::Own
            {
                arena.stacks.remove(&addr);
                self.madvise(addr, stack.len, MADV_DONTNEED);
                arena.free.entry(stack.len).or_default().push((addr, stack.guard));
                return Out::Done(0);
            }
            // A part of a stack, or several: they are the host's now, and never used again.
            let end = addr.saturating_add(len);
            arena.stacks.retain(|&at, s| at + s.len <= addr || at >= end);
        }
        let result = self.m.host(*call);
        if result == 0 {
            self.memory.unshare(addr, addr + len.next_multiple_of(PAGE));
        }
        Out::Done(result)
    }

    pub(crate) fn sys_mprotect(&self, call: &Call) -> Out {
        let [addr, len, prot, ..] = call.args;
        if self.memory.in_arena(addr) {
            let mut arena = self.memory.arena.lock();
            let found = arena.stacks.range_mut(..=addr).next_back().filter(|(at, s)| addr < **at + s.len);
            if let Some((&at, stack)) = found {
                if let Some(guard) = fresh_guard(at, stack, addr, len, prot)
                    && self.install_guard(at, guard)
                {
                    stack.guard = Guard::Marked(guard);
                    return Out::Done(0);
                }
                stack.guard = Guard::Own;
            }
        }
        Out::Done(self.m.host(*call))
    }

    fn install_guard(&self, at: u64, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        if !self.memory.no_markers.load(Relaxed) {
            match self.madvise(at, len, MADV_GUARD_INSTALL) {
                0 => return true,
                r if r == Errno::EINVAL.to_ret() => self.memory.no_markers.store(true, Relaxed),
                _ => {}
            }
        }
        false
    }

    pub(crate) fn sys_shmat(&self, call: &Call) -> Out {
        let at = self.m.host(*call);
        if let (Ok(at), Some(size)) = (u64::try_from(at), self.m.segment_size(call.args[0])) {
            self.memory.share(at, at + size.next_multiple_of(PAGE));
        }
        Out::Done(at)
    }
}

/// How much of the low end of a fresh stack a protection call means as its guard: all
/// below what is made writable, or what is made inaccessible there.
fn fresh_guard(at: u64, stack: &Stack, addr: u64, len: u64, prot: u64) -> Option<u64> {
    if stack.guard != Guard::Fresh || !addr.is_multiple_of(PAGE) {
        return None;
    }
    let end = addr.checked_add(len.next_multiple_of(PAGE))?;
    match prot {
        PROT_READ_WRITE if end == at + stack.len => Some(addr - at),
        PROT_NONE if addr == at && end < at + stack.len => Some(end - at),
        _ => None,
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

    #[test]
    fn the_guard_is_what_glibc_leaves_out() {
        let fresh = Stack { len: 0x10000, guard: Guard::Fresh };
        assert_eq!(fresh_guard(0x10000, &fresh, 0x11000, 0xf000, PROT_READ_WRITE), Some(0x1000));
        assert_eq!(fresh_guard(0x10000, &fresh, 0x10000, 0x1000, PROT_NONE), Some(0x1000));
        assert_eq!(fresh_guard(0x10000, &fresh, 0x12000, 0x1000, PROT_NONE), None);
        assert_eq!(fresh_guard(0x10000, &fresh, 0x10000, 0x10000, 7), None);
        let used = Stack { guard: Guard::Marked(0x1000), ..fresh };
        assert_eq!(fresh_guard(0x10000, &used, 0x11000, 0xf000, PROT_READ_WRITE), None);
    }
}
