//! Skips `madvise` calls of exiting threads on stacks that they hardly used.
//!
//! glibc ends a thread with `madvise(MADV_DONTNEED)` on the unused part of its stack (`advise_stack_range` in
//! `start_thread`) and keeps the stack for the next thread. The host then walks page tables for 8 MiB, a third of the
//! cost of creating and joining a thread, and usually finds nothing: touching a page is a page fault, which takes
//! longer than such a thread lives.
//!
//! So the time that threads have run on a stack since it was last cleaned is counted. Below [`USED_MAX`], about two
//! hundred page faults, the host is not asked. Pages that stay are those the next thread would touch again, and are
//! freed with the stack at the latest (`munmap`). Their contents are below the stack pointer of an exiting thread, so
//! nobody can see them.
//!
//! There is one word for each of a few stacks, without a lock. Only the thread that runs on a stack adds to its word.
//! Overwriting it with another stack's word causes one additional `madvise`.

use super::PAGE;
use crate::{Host, Linux};
use alloc::boxed::Box;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::machine::Call;
use kernel::trap::Out;
use sync::atomic::{AtomicU64, Ordering::*};

/// How long a stack is used before the host is asked.
const USED_MAX: Nanos = Nanos(60_000);

/// The unit of time: a word has [`PAGE`] of them beside an address.
const UNIT: u64 = 16;
const _: () = assert!(USED_MAX.0 / UNIT < PAGE);

/// How many stacks are remembered. glibc keeps five of 8 MiB.
const STACKS: usize = 64;

#[derive(Debug)]
pub(super) struct Unused(Box<[AtomicU64; STACKS]>);

impl Default for Unused {
    fn default() -> Unused {
        Unused(Box::new([const { AtomicU64::new(0) }; STACKS]))
    }
}

impl Unused {
    fn word(&self, stack: u64) -> &AtomicU64 {
        &self.0[(stack / PAGE) as usize % STACKS]
    }

    /// A thread that has lived for so long leaves this stack: whether that may stay as it is.
    fn may_stay(&self, stack: u64, lived: Nanos) -> bool {
        let word = self.word(stack).load(Relaxed);
        let used = (word % PAGE).saturating_add(lived.0.div_ceil(UNIT));
        if word - word % PAGE != stack || used > USED_MAX.0 / UNIT {
            return false;
        }
        self.word(stack).store(stack + used, Relaxed);
        true
    }

    /// The host has given the unused part of this stack back.
    fn is_clean(&self, stack: u64) {
        self.word(stack).store(stack, Relaxed);
    }
}

impl<M: Host> Linux<'_, M> {
    pub(crate) fn sys_madvise(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [addr, len, advice, ..] = call.args;
        if advice != super::MADV_DONTNEED {
            return self.sys_change_memory(cpu, call);
        }
        // Markers stay, and what else there was is gone: a stack is still what we know it to be.
        if !self.is_below_own_stack(t, addr, len) {
            return self.pass(cpu, call);
        }
        let lived = self.m.now().since(Nanos(self.thread(t).begun.load(Relaxed)));
        if self.state().memory.unused.may_stay(addr, lived) {
            return Out::Done(0);
        }
        let result = self.m.host(*call);
        // Not if it is locked in memory, for example.
        if result == 0 {
            self.state().memory.unused.is_clean(addr);
        }
        Out::Done(result)
    }

    /// Whether this is the lower part of the stack that `t`, the current thread, was created on and is on, and that
    /// is one that we know: with no pages but small ones, each of which costs a fault.
    fn is_below_own_stack(&self, t: ThreadIdx, addr: u64, len: u64) -> bool {
        let [from, to] = self.thread(t).stack.each_ref().map(|word| word.load(Relaxed));
        let Some(end) = addr.checked_add(len) else { return false };
        let below = from == addr && from != 0 && end <= to && from.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
        below && (end..to).contains(&self.m.registers(t).rsp) && self.state().memory.stacks.is_known(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_left_alone_until_it_has_been_used_for_long() {
        let unused = Unused::default();
        let (stack, life) = (0x7f00_0000_0000, Nanos(USED_MAX.0 / 10));
        assert!(!unused.may_stay(stack, life), "nothing is known of it");
        unused.is_clean(stack);
        assert!((0..10).all(|_| unused.may_stay(stack, life)));
        assert!(!unused.may_stay(stack, life));
        unused.is_clean(stack);
        assert!(unused.may_stay(stack, life));
        assert!(!unused.may_stay(stack, USED_MAX + Nanos(1)));
        assert!(!unused.may_stay(stack, Nanos(u64::MAX)));
    }

    #[test]
    fn two_stacks_with_one_word_do_not_count_for_each_other() {
        let unused = Unused::default();
        let stack = 0x7f00_0000_0000;
        let other = stack + STACKS as u64 * PAGE;
        unused.is_clean(stack);
        assert!(!unused.may_stay(other, Nanos(1)));
        unused.is_clean(other);
        assert!(unused.may_stay(other, Nanos(1)) && !unused.may_stay(stack, Nanos(1)));
    }

    #[test]
    fn no_stack_is_at_address_zero() {
        assert!(Unused::default().may_stay(0, Nanos(1)), "so callers ask for none there");
    }
}
