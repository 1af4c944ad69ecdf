//! Where stacks come from.
//!
//! **With markers.** Small stacks are cut from chunks that are writable and completely covered by markers, so mapping
//! one costs nothing and opening it is one host call. Larger ones are mapped individually, without access and without
//! reserving memory, so that a chunk, an opened stack and the next opened stack merge.
//!
//! **Without markers** (before Linux 6.13, or on request) a guard is a mapping. Stacks get such guards while they leave
//! enough of `vm.max_map_count` to the program. Beyond that, a stack has a gap of [`GAP`] bytes below it that nothing
//! else uses: an overflow is not detected, but hits no other stack within that distance. Such stacks are writable from
//! the beginning, and are only emptied and reused when freed, because each hole would be another mapping.

use super::{Kind, MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, MAP_NORESERVE, PROT_NONE, PROT_READ_WRITE};
use crate::{Host, Linux, facts};
use abi::args::MADV_NOHUGEPAGE;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The size of a range that is covered by markers at once.
const CHUNK: u64 = 4 << 20;
/// The largest stack that is cut from a chunk.
const SMALL_MAX: u64 = 128 << 10;
/// Larger stacks are mapped by the host one by one, and it may refuse them (`vm.overcommit_memory`).
const LARGE_MAX: u64 = 64 << 20;
/// The untouched gap below a stack without a guard.
const GAP: u64 = 256 << 10;
/// The size of mappings from which stacks without guards are cut.
const APART_CHUNK: u64 = 1 << 30;
/// `vm.max_map_count` unless the host says otherwise (`DEFAULT_MAX_MAP_COUNT`).
const MAPPINGS_MAX: u64 = 65_530;

/// How the host can guard a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Guards {
    /// Not probed yet.
    #[default]
    Unknown,
    Markers,
    /// At most this many mappings.
    Mappings(u64),
}

/// Address space reserved for stacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    guards: Guards,
    /// The unused part of the newest chunk.
    fresh: (u64, u64),
    /// Freed stacks that could not be unmapped, by length.
    free: BTreeMap<u64, Vec<u64>>,
    /// How many stacks have guards that are mappings: those mapped without access, and those mapped open.
    mapped: [u64; 2],
}

impl Reserve {
    pub(super) fn free(&mut self, at: u64, len: u64) {
        self.free.entry(len).or_default().push(at);
    }

    pub(super) fn uncount(&mut self, opened: bool) {
        self.mapped[usize::from(opened)] -= 1;
    }

    fn take_free(&mut self, len: u64) -> Option<u64> {
        self.free.get_mut(&len)?.pop()
    }

    /// Counts another stack with a guard of its own, if one is allowed. Each takes two mappings, as natively, and a
    /// sixteenth of all mappings is left to the program. A stack that is mapped open, as for the signal handlers of
    /// Rust's threads, is small and rarely overflows: those use an eighth at most.
    fn count(&mut self, opened: bool, mappings: u64) -> bool {
        let used = |stacks: u64| stacks * 2;
        let may =
            used(self.mapped.iter().sum()) < mappings / 16 * 15 && (!opened || used(self.mapped[1]) < mappings / 8);
        self.mapped[usize::from(opened)] += u64::from(may);
        may
    }

    /// Cuts `len` bytes from the top of the chunk: the host also places stacks downwards.
    fn cut(&mut self, len: u64) -> Option<u64> {
        let (low, high) = self.fresh;
        let at = high.checked_sub(len).filter(|&at| at >= low)?;
        self.fresh.1 = at;
        Some(at)
    }
}

impl<M: Host> Linux<'_, M> {
    /// A new stack, zeroed, without access unless it is `opened`; `None` leaves it to the host.
    pub(super) fn new_stack(&self, reserve: &mut Reserve, len: u64, opened: bool) -> Option<(u64, Kind)> {
        if len > LARGE_MAX {
            return None;
        }
        if reserve.guards == Guards::Unknown {
            reserve.guards = self.probe_guards()?;
        }
        match reserve.guards {
            Guards::Unknown => None,
            Guards::Markers if len <= SMALL_MAX => {
                let at = self.hidden_stack(reserve, len)?;
                self.show_stack(at, len, opened)
            }
            Guards::Markers => {
                if let Some(at) = reserve.take_free(len) {
                    return self.show_stack(at, len, opened);
                }
                let (prot, kind) = match opened {
                    true => (PROT_READ_WRITE, Kind::Marked { hidden: 0 }),
                    false => (PROT_NONE, Kind::Closed),
                };
                Some((self.map(0, len, prot, MAP_NORESERVE).ok()?, kind))
            }
            Guards::Mappings(most) => {
                if let Some(at) = reserve.take_free(len) {
                    return Some((at, Kind::Apart));
                }
                if !reserve.count(opened, most) {
                    return self.stack_apart(reserve, len).map(|at| (at, Kind::Apart));
                }
                match self.map(0, len, if opened { PROT_READ_WRITE } else { PROT_NONE }, 0) {
                    Ok(at) => Some((at, Kind::Mapped { opened })),
                    Err(_) => {
                        reserve.uncount(opened);
                        None
                    }
                }
            }
        }
    }

    /// A small stack, completely covered by markers.
    fn hidden_stack(&self, reserve: &mut Reserve, len: u64) -> Option<u64> {
        if let Some(at) = reserve.take_free(len).or_else(|| reserve.cut(len)) {
            return Some(at);
        }
        let chunk = self.new_chunk(CHUNK, true)?;
        if chunk + CHUNK == reserve.fresh.0 {
            reserve.fresh.0 = chunk;
        } else {
            self.drop_fresh(reserve);
            reserve.fresh = (chunk, chunk + CHUNK);
        }
        reserve.cut(len)
    }

    /// Gives the program a stack that is covered by markers.
    fn show_stack(&self, at: u64, len: u64, opened: bool) -> Option<(u64, Kind)> {
        if opened && self.madvise(at, len, MADV_GUARD_REMOVE).is_err() {
            // The memory is locked.
            let _ = self.unmap(at, len);
            return None;
        }
        Some((at, Kind::Marked { hidden: if opened { 0 } else { len } }))
    }

    /// A stack with a gap below it.
    fn stack_apart(&self, reserve: &mut Reserve, len: u64) -> Option<u64> {
        let with_gap = len.checked_add(GAP).filter(|&n| n <= APART_CHUNK)?;
        if let Some(at) = reserve.cut(with_gap) {
            return Some(at + GAP);
        }
        let chunk = self.new_chunk(APART_CHUNK, false)?;
        // Otherwise one huge page could span several stacks.
        let _ = self.madvise(chunk, APART_CHUNK, MADV_NOHUGEPAGE);
        reserve.fresh = (chunk, chunk + APART_CHUNK);
        reserve.cut(with_gap).map(|at| at + GAP)
    }

    /// A writable mapping, covered by markers if asked for. `None` also while new memory is locked, because it would be
    /// populated at once.
    fn new_chunk(&self, len: u64, markers: bool) -> Option<u64> {
        let at = self.map(0, len, PROT_NONE, MAP_NORESERVE).ok()?;
        let advice = if markers { MADV_GUARD_INSTALL } else { MADV_DONTNEED };
        let made = self.madvise(at, len, advice).and_then(|()| self.mprotect(at, len, PROT_READ_WRITE));
        if made.is_err() {
            let _ = self.unmap(at, len);
            return None;
        }
        Some(at)
    }

    /// The guards that the host supports; `None` if that cannot be determined because new memory is locked
    /// (`mlockall`).
    fn probe_guards(&self) -> Option<Guards> {
        let at = self.map(0, super::PAGE, PROT_NONE, MAP_NORESERVE).ok()?;
        let found = if self.config().mapped_guards {
            Some(Guards::Mappings(self.mappings_max()))
        } else if self.madvise(at, super::PAGE, MADV_GUARD_INSTALL).is_ok() {
            Some(Guards::Markers)
        } else if self.madvise(at, super::PAGE, MADV_DONTNEED).is_ok() {
            Some(Guards::Mappings(self.mappings_max()))
        } else {
            None
        };
        let _ = self.unmap(at, super::PAGE);
        found
    }

    /// `vm.max_map_count`.
    fn mappings_max(&self) -> u64 {
        let mut text = [0; 24];
        let digits = facts::read_file(&self.m, c"/proc/sys/vm/max_map_count", &mut text);
        let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(None, |n: Option<u64>, d| Some(n.unwrap_or(0) * 10 + u64::from(d - b'0'))).unwrap_or(MAPPINGS_MAX)
    }

    fn drop_fresh(&self, reserve: &mut Reserve) {
        let (low, high) = core::mem::take(&mut reserve.fresh);
        if low < high {
            let _ = self.unmap(low, high - low);
        }
    }

    /// Unmaps reserved memory, because the process is about to lock all memory: stacks cut from it later would not be
    /// resident from the start.
    pub(crate) fn drop_reserve(&self) {
        let mut arena = self.state().memory.stacks.hold();
        if arena.reserve.guards == Guards::Markers {
            self.drop_fresh(&mut arena.reserve);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_leave_a_sixteenth_of_the_mappings_to_the_program() {
        let mut reserve = Reserve::default();
        let opened = (0..).take_while(|_| reserve.count(true, MAPPINGS_MAX)).count();
        let closed = (0..).take_while(|_| reserve.count(false, MAPPINGS_MAX)).count();
        assert_eq!((opened, closed), (4_096, 26_617));
        let mut reserve = Reserve::default();
        assert_eq!((0..).take_while(|_| reserve.count(false, MAPPINGS_MAX)).count(), 30_713);
        assert!(!reserve.count(true, MAPPINGS_MAX));
        reserve.uncount(false);
        assert!(reserve.count(false, MAPPINGS_MAX) && !reserve.count(false, MAPPINGS_MAX));
    }

    #[test]
    fn a_chunk_is_cut_from_its_top() {
        let mut reserve = Reserve { fresh: (0x1_0000, 0x2_0000), ..Reserve::default() };
        assert_eq!((reserve.cut(0x4000), reserve.cut(0x8000)), (Some(0x1_c000), Some(0x1_4000)));
        assert_eq!((reserve.cut(0x8000), reserve.cut(0x4000), reserve.cut(1)), (None, Some(0x1_0000), None));
    }
}
