//! The state that a forked child takes over from its parent.

use crate::memory::stacks::Arena;
use crate::{Host, Linux};
use abi::{SigSet, clone_flags};
use ids::ThreadIdx;

/// The state that a forked child takes over from its parent.
pub struct Inheritance {
    kernel: kernel::syscall::clone::Inheritance,
    stacks: Arena,
    described: SigSet,
    sources: u32,
    registrations: u32,
    enough: bool,
    closed_by_others: bool,
}

impl Inheritance {
    /// The kernel's part.
    pub fn kernel(&self) -> &kernel::syscall::clone::Inheritance {
        &self.kernel
    }
}

impl<M: Host> Linux<'_, M> {
    /// The state that a child of `t` takes over, read before the fork with these flags. Stacks must not change until
    /// the fork.
    pub fn inheritance(&self, t: ThreadIdx, flags: u64, stacks: &Arena) -> Inheritance {
        let state = self.state();
        Inheritance {
            kernel: self.0.inheritance(t, flags),
            stacks: stacks.clone(),
            described: state.descriptors.named(),
            sources: state.sources.get(),
            registrations: state.registrations.get(),
            enough: state.enough.is_used(),
            closed_by_others: flags & clone_flags::FILES != 0 || state.files.are_closed_by_others(),
        }
    }

    /// Gives the main thread of a forked child what it inherits.
    pub fn take_inheritance(&self, t: ThreadIdx, from: Inheritance) {
        self.0.take_inheritance(t, from.kernel);
        let state = self.state();
        state.memory.stacks().inherit(from.stacks);
        state.descriptors.inherit(from.described);
        state.sources.inherit(from.sources);
        state.registrations.add(from.registrations);
        state.enough.set(from.enough);
        if from.closed_by_others {
            state.files.let_others_close();
        }
    }
}
