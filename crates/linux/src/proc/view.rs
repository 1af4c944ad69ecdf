//! The thread table in the form that the tree uses.
//!
//! [`PROCESS`] stands for the process, and for its main thread, whose id is the same.

use crate::{Host, Linux};
use ids::{ThreadIdx, Tid};
use procfs::{Owner, ThreadId, Threads};
use sync::atomic::Ordering::Acquire;

/// The slot of the process and its main thread, which have the same id.
pub(super) const PROCESS: u32 = u32::MAX - 1;

/// This process, for a walk.
pub(super) struct View<'a, M: Host> {
    pub k: Linux<'a, M>,
    pub owner: Owner,
}

impl<M: Host> View<'_, M> {
    fn process(&self) -> ThreadId {
        ThreadId { slot: PROCESS, id: self.k.config().pid.0 }
    }
}

impl<M: Host> Linux<'_, M> {
    /// The slot of a living thread of the tree's, or of a zombie main thread.
    pub(super) fn slot_of(&self, thread: ThreadId) -> Option<ThreadIdx> {
        if thread.slot == PROCESS {
            return self.threads().find_named(Tid(thread.id));
        }
        let t = ThreadIdx(thread.slot);
        (self.thread(t).tid.load(Acquire) == thread.id).then_some(t)
    }
}

impl<M: Host> Threads for View<'_, M> {
    fn find(&self, id: i32) -> Option<ThreadId> {
        if id == self.k.config().pid.0 {
            return Some(self.process());
        }
        self.k.threads().find(Tid(id)).map(|t| ThreadId { slot: t.0, id })
    }

    fn lives(&self, thread: ThreadId) -> bool {
        thread.slot == PROCESS || self.k.slot_of(thread).is_some()
    }

    fn leader(&self, _: ThreadId) -> Option<ThreadId> {
        Some(self.process())
    }

    fn owner(&self, _: ThreadId) -> Option<Owner> {
        Some(self.owner)
    }

    fn next_process(&self, at_least: i32) -> Option<ThreadId> {
        Some(self.process()).filter(|process| process.id >= at_least)
    }

    fn next_thread(&self, _: ThreadId, after: i32) -> Option<ThreadId> {
        let other = self.k.threads().next_id(Tid(after)).map(|(tid, t)| ThreadId { slot: t.0, id: tid.0 });
        let process = Some(self.process()).filter(|process| process.id > after);
        [other, process].into_iter().flatten().min_by_key(|thread| thread.id)
    }

    fn count(&self, _: ThreadId) -> u32 {
        self.k.threads().shown()
    }
}
