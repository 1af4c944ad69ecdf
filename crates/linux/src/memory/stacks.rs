//! The stacks of threads: what `mmap(MAP_STACK)` maps, with guards that cost no mapping.
//!
//! A guard made by `mprotect` splits a mapping, so 32,000 guarded stacks exhaust `vm.max_map_count`. Markers in the
//! page table (MADV_GUARD_INSTALL, Linux 6.13) do not, and neighbouring stacks merge into one mapping. So a stack here
//! is writable as a whole, and the part that the program wants inaccessible, always at its low end, is covered by
//! markers: the guard, or all of a stack that was mapped PROT_NONE and has not been opened yet.
//!
//! **All other mappings are left to the host.** Each stack is described by two numbers, its length and how much of its
//! low end is hidden. Before any call that changes it in another way (`mremap`, a mapping laid over it, a protection
//! key, `mseal`, other advice), `let_stacks_go` replaces the markers by what they stand for, a mapping without access,
//! and forgets the stack: from then on it is what the program would have natively. A freed stack is unmapped.
//!
//! The host refuses markers in locked memory (`mlockall`); then each of these calls is passed on unchanged. `reserve`
//! says where stacks come from, and what hosts without markers use instead.

mod reserve;

use super::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_STACK, PAGE, PROT_NONE, PROT_READ_WRITE,
};
use crate::{Host, Linux};
use abi::args::{MADV_GUARD_INSTALL, MADV_GUARD_REMOVE};
use abi::{Errno, SigInfo, Signal, nr, si_code};
use alloc::collections::BTreeMap;
use kernel::machine::Call;
use reserve::Reserve;
use sync::atomic::{AtomicU64, Ordering::*};
use sync::{Guard, Lock};

/// The largest guard, in bytes, whose contents are checked first: markers would drop them.
const GUARD_MAX: u64 = 64 << 10;

/// A mapping that the program has asked for with MAP_STACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stack {
    len: u64,
    kind: Kind,
}

/// The mechanism that protects the inaccessible part of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Markers on its lowest `hidden` bytes; the rest is readable and writable.
    Marked { hidden: u64 },
    /// The whole mapping is inaccessible by the host's own protection.
    Closed,
    /// Protected by the host: it only counts as one of the mappings that we allow for stacks.
    Mapped { opened: bool },
    /// No guard, but a gap below the stack.
    Apart,
}

/// All stacks and reserves. A forked child inherits them.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    stacks: BTreeMap<u64, Stack>,
    reserve: Reserve,
}

/// The stacks of the process.
#[derive(Debug, Default)]
pub struct Stacks {
    arena: Lock<Arena>,
    /// Bounds of all stacks: addresses outside need no lock.
    lowest: AtomicU64,
    highest: AtomicU64,
}

impl Stacks {
    /// Locks the stacks while the process is copied.
    pub fn hold(&self) -> Guard<'_, Arena> {
        self.arena.lock()
    }

    /// Takes over a parent's stacks.
    pub fn inherit(&self, from: Arena) {
        self.lowest.store(from.stacks.keys().next().copied().unwrap_or(0), Relaxed);
        self.highest.store(from.stacks.iter().map(|(at, stack)| at + stack.len).max().unwrap_or(0), Relaxed);
        *self.arena.lock() = from;
    }

    /// Whether this byte is covered by markers.
    fn is_hidden(&self, addr: u64) -> bool {
        let hidden = |(at, stack): (u64, &mut Stack)| match stack.kind {
            Kind::Marked { hidden } => addr < at + hidden,
            _ => false,
        };
        self.may_touch(addr, 1) && self.arena.lock().around(addr, addr + 1).is_some_and(hidden)
    }

    fn may_touch(&self, addr: u64, len: u64) -> bool {
        addr < self.highest.load(Relaxed) && addr.saturating_add(len) > self.lowest.load(Relaxed)
    }

    fn extend(&self, at: u64, len: u64) {
        if self.highest.load(Relaxed) == 0 {
            self.lowest.store(at, Relaxed);
        }
        self.lowest.fetch_min(at, Relaxed);
        self.highest.fetch_max(at + len, Relaxed);
    }
}

impl Arena {
    /// The stack that the range from `addr` to `end` lies in.
    fn around(&mut self, addr: u64, end: u64) -> Option<(u64, &mut Stack)> {
        let (&at, stack) = self.stacks.range_mut(..=addr).next_back()?;
        (end <= at + stack.len).then_some((at, stack))
    }

    /// The highest stack with any byte between `addr` and `end`.
    fn last_within(&self, addr: u64, end: u64) -> Option<(u64, Stack)> {
        let (&at, &stack) = self.stacks.range(..end).next_back()?;
        (at + stack.len > addr).then_some((at, stack))
    }

    fn remove(&mut self, at: u64) {
        if let Some(Stack { kind: Kind::Mapped { opened }, .. }) = self.stacks.remove(&at) {
            self.reserve.uncount(opened);
        }
    }
}

/// The end of a range as the host sees it; `None` if the host will refuse it.
fn end_of(addr: u64, len: u64) -> Option<u64> {
    let end = addr.checked_add(len.checked_next_multiple_of(PAGE)?)?;
    (addr.is_multiple_of(PAGE) && len > 0).then_some(end)
}

impl<M: Host> Linux<'_, M> {
    fn madvise(&self, at: u64, len: u64, advice: u64) -> Result<(), Errno> {
        let r = self.host(&Call { nr: nr::MADVISE, args: [at, len, advice, 0, 0, 0] });
        Errno::from_ret(r).map(|_| ())
    }

    fn mprotect(&self, at: u64, len: u64, prot: u64) -> Result<(), Errno> {
        let r = self.host(&Call { nr: nr::MPROTECT, args: [at, len, prot, 0, 0, 0] });
        Errno::from_ret(r).map(|_| ())
    }

    /// Maps new anonymous memory at an address of the host's choice, unless `flags` says otherwise.
    fn map(&self, at: u64, len: u64, prot: u64, flags: u64) -> Result<u64, Errno> {
        let flags = flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK;
        let r = self.host(&Call { nr: nr::MMAP, args: [at, len, prot, flags, u64::MAX, 0] });
        Errno::from_ret(r).map(|at| at as u64)
    }

    fn unmap(&self, at: u64, len: u64) -> Result<(), Errno> {
        let r = self.host(&Call { nr: nr::MUNMAP, args: [at, len, 0, 0, 0, 0] });
        Errno::from_ret(r).map(|_| ())
    }

    /// The signal of a fault as the program would get it natively: markers stand for memory without access, but the
    /// host reports them as unmapped.
    pub fn fault_as_mapped(&self, info: SigInfo) -> SigInfo {
        let is_unmapped = info.signo() == Signal::SEGV.raw() && info.code() == si_code::SEGV_MAPERR;
        match is_unmapped && self.state().memory.stacks.is_hidden(info.addr()) {
            true => SigInfo::fault(Signal::SEGV, si_code::SEGV_ACCERR, info.addr()),
            false => info,
        }
    }

    /// `mmap(2)`, if it asks for a stack that we handle.
    pub(super) fn map_stack(&self, call: &Call) -> Option<isize> {
        let [addr, len, prot, flags, _, offset] = call.args;
        let plain = flags & !MAP_NORESERVE == MAP_STACK | MAP_PRIVATE | MAP_ANONYMOUS && addr == 0 && offset == 0;
        if !plain || !matches!(prot, PROT_NONE | PROT_READ_WRITE) || len == 0 {
            return None;
        }
        let len = len.checked_next_multiple_of(PAGE)?;
        let stacks = &self.state().memory.stacks;
        let mut arena = stacks.arena.lock();
        let (at, kind) = self.new_stack(&mut arena.reserve, len, prot == PROT_READ_WRITE)?;
        arena.stacks.insert(at, Stack { len, kind });
        stacks.extend(at, len);
        Some(at as isize)
    }

    /// `mprotect(2)`, if it concerns stacks and leaves them in a form that we can describe.
    pub(super) fn protect_stack(&self, call: &Call) -> Option<isize> {
        let [addr, len, prot, ..] = call.args;
        if !self.state().memory.stacks.may_touch(addr, len) {
            return None;
        }
        let end = end_of(addr, len)?;
        {
            let mut arena = self.state().memory.stacks.arena.lock();
            if let Some((at, stack)) = arena.around(addr, end)
                && let Some(result) = self.change_guard(at, stack, addr..end, prot)
            {
                return result;
            }
        }
        self.let_stacks_go(addr, len).err().map(Errno::to_ret)
    }

    /// Changes the protection of a range of one stack. The outer result is `None` if we could not describe the stack
    /// any more, the inner one if the call must be passed to the host unchanged.
    fn change_guard(
        &self,
        at: u64,
        stack: &mut Stack,
        range: core::ops::Range<u64>,
        prot: u64,
    ) -> Option<Option<isize>> {
        let (addr, end) = (range.start, range.end);
        match (stack.kind, prot) {
            (Kind::Marked { hidden }, PROT_READ_WRITE) if end >= at + hidden => {
                if addr < at + hidden {
                    self.madvise(addr, at + hidden - addr, MADV_GUARD_REMOVE).ok()?;
                    stack.kind = Kind::Marked { hidden: addr - at };
                }
                Some(Some(0))
            }
            (Kind::Marked { hidden }, PROT_NONE) if addr <= at + hidden => {
                if end > at + hidden {
                    self.hide(at + hidden, end)?;
                    stack.kind = Kind::Marked { hidden: end - at };
                }
                Some(Some(0))
            }
            (Kind::Closed, PROT_READ_WRITE) if end == at + stack.len => {
                Some(Some(self.open_stack(at, stack, addr - at)?.err().map_or(0, Errno::to_ret)))
            }
            (Kind::Mapped { .. }, PROT_NONE | PROT_READ_WRITE) => Some(None),
            (Kind::Apart, PROT_READ_WRITE) => Some(Some(0)),
            (Kind::Apart, PROT_NONE) if addr == at && end < at + stack.len => Some(Some(0)),
            _ => None,
        }
    }

    /// Covers pages with markers, unless that would drop what the program has written there.
    fn hide(&self, from: u64, to: u64) -> Option<()> {
        let mut page = [0u8; 512];
        if to - from > GUARD_MAX {
            return None;
        }
        for at in (from..to).step_by(page.len()) {
            self.m.read(at, &mut page).ok()?;
            if page.iter().any(|&byte| byte != 0) {
                return None;
            }
        }
        self.madvise(from, to - from, MADV_GUARD_INSTALL).ok()
    }

    /// Makes a stack without access writable above its guard; `None` if the host refuses markers there. Markers come
    /// first: a mapping that is still closed shares its neighbours' anonymous memory (`find_mergeable_anon_vma`), and
    /// merges with them once it is open.
    fn open_stack(&self, at: u64, stack: &mut Stack, guard: u64) -> Option<Result<(), Errno>> {
        if guard > 0 {
            self.madvise(at, guard, MADV_GUARD_INSTALL).ok()?;
        }
        let opened = self.mprotect(at, stack.len, PROT_READ_WRITE);
        match opened {
            Ok(()) => stack.kind = Kind::Marked { hidden: guard },
            Err(_) if guard > 0 => _ = self.madvise(at, guard, MADV_GUARD_REMOVE),
            Err(_) => {}
        }
        Some(opened)
    }

    /// `munmap(2)`, if there are stacks in the range.
    pub(super) fn unmap_stacks(&self, call: &Call) -> Option<isize> {
        let [addr, len, ..] = call.args;
        if !self.state().memory.stacks.may_touch(addr, len) {
            return None;
        }
        let end = end_of(addr, len)?;
        let mut arena = self.state().memory.stacks.arena.lock();
        if let Some((at, stack)) = arena.around(addr, end).map(|(at, stack)| (at, *stack))
            && (at, at + stack.len) == (addr, end)
        {
            let result = self.free_stack(&mut arena, at, stack);
            return Some(result.err().map_or(0, Errno::to_ret));
        }
        drop(arena);
        self.let_stacks_go(addr, len).err().map(Errno::to_ret)
    }

    fn free_stack(&self, arena: &mut Arena, at: u64, stack: Stack) -> Result<(), Errno> {
        // A hole in the middle of a mapping splits it, and the limit on mappings may be reached. Natively the stack
        // would be its own mapping, and unmapping it could not fail; glibc aborts if it does. So the stack is emptied
        // and reused.
        let emptied = match stack.kind {
            Kind::Apart => self.madvise(at, stack.len, MADV_DONTNEED).is_ok(),
            kind => match self.unmap(at, stack.len) {
                Err(Errno::ENOMEM) if matches!(kind, Kind::Marked { .. }) => {
                    self.madvise(at, stack.len, MADV_GUARD_INSTALL)?;
                    true
                }
                result => {
                    result?;
                    false
                }
            },
        };
        if emptied {
            arena.reserve.free(at, stack.len);
        }
        arena.remove(at);
        Ok(())
    }

    /// Forgets the stacks with any byte in this range, after replacing their guard markers by real `PROT_NONE`
    /// mappings.
    pub(super) fn let_stacks_go(&self, addr: u64, len: u64) -> Result<(), Errno> {
        if !self.state().memory.stacks.may_touch(addr, len) {
            return Ok(());
        }
        let end = addr.saturating_add(len);
        let mut arena = self.state().memory.stacks.arena.lock();
        while let Some((at, stack)) = arena.last_within(addr, end) {
            if let Kind::Marked { hidden } = stack.kind
                && hidden > 0
            {
                self.map(at, hidden, PROT_NONE, MAP_FIXED | MAP_NORESERVE)?;
            }
            arena.remove(at);
        }
        Ok(())
    }
}
