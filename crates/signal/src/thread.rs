use crate::{AltStack, Pending};
use abi::{Errno, SigSet, clone_flags};
use ids::ThreadIdx;

/// A thread's signal state: masks, queue, alternate stack.
#[derive(Debug)]
pub struct ThreadSignals {
    /// Which thread this is, once it receives what is sent to the process.
    pub(crate) slot: ThreadIdx,
    /// Signals that wait.
    pub(crate) blocked: SigSet,
    /// Which of [`JOB_STOPS`](crate::stops::JOB_STOPS) the program lets through here.
    pub(crate) stops: SigSet,
    /// The mask as it was, while the thread waits in sigtimedwait with some signals let
    /// through (`real_blocked`).
    pub(crate) awaiting: Option<SigSet>,
    /// The mask to come back to when a call with a mask of its own ends (`saved_sigmask`). Of a thread that has exited: its last.
    pub(crate) saved: Option<SigSet>,
    /// Signals sent to this thread.
    pub(crate) private: Pending,
    /// The flush that this queue has last been settled for.
    pub(crate) settled: u64,
    /// Takes no signals any more.
    pub(crate) exited: bool,
    /// The alternate stack.
    pub altstack: AltStack,
}

/// `how` of `sigprocmask(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MaskHow {
    /// Add to the mask.
    Block,
    /// Take from the mask.
    Unblock,
    /// Replace the mask.
    Set,
}

impl MaskHow {
    /// The meaning of the argument; EINVAL for an unknown one.
    pub const fn from_raw(how: i32) -> Result<MaskHow, Errno> {
        match how {
            0 => Ok(MaskHow::Block),
            1 => Ok(MaskHow::Unblock),
            2 => Ok(MaskHow::Set),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The mask that results; SIGKILL and SIGSTOP are never in it.
    pub const fn apply(self, old: SigSet, set: SigSet) -> SigSet {
        match self {
            MaskHow::Block => SigSet(old.0 | set.0).blockable(),
            MaskHow::Unblock => old.without(set),
            MaskHow::Set => set.blockable(),
        }
    }
}

impl ThreadSignals {
    /// The first thread of a program, with the mask it starts with.
    pub const fn new(blocked: SigSet) -> ThreadSignals {
        ThreadSignals {
            slot: ThreadIdx::NONE,
            blocked: blocked.blockable(),
            stops: crate::stops::JOB_STOPS.without(blocked),
            awaiting: None,
            saved: None,
            private: Pending::EMPTY,
            settled: 0,
            exited: false,
            altstack: AltStack::NONE,
        }
    }

    /// The signals of a thread or process that this thread creates with these clone flags
    /// (`copy_process`): the same mask, nothing pending, and an alternate stack of its own
    /// address space only: a thread starts without one, a vfork or fork child keeps it.
    pub const fn for_child(&self, flags: u64) -> ThreadSignals {
        let shares_memory = flags & (clone_flags::VM | clone_flags::VFORK) == clone_flags::VM;
        ThreadSignals {
            altstack: if shares_memory { AltStack::NONE } else { self.altstack },
            stops: self.stops,
            ..ThreadSignals::new(self.blocked)
        }
    }

    /// Whether the thread has exited ([`crate::ProcessSignals::exit_thread`]).
    pub const fn has_exited(&self) -> bool {
        self.exited
    }

    /// The mask in force.
    #[inline(always)]
    pub const fn blocked(&self) -> SigSet {
        self.blocked
    }

    /// The mask that `/proc` shows: after the thread's end, the one that it ended with.
    pub const fn mask_to_show(&self) -> SigSet {
        match self.saved {
            Some(mask) if self.exited => mask,
            _ => self.blocked,
        }
    }

    /// Signals sent to the thread alone and not received. The process may have flushed some of them
    /// ([`ProcessSignals::private_set`](crate::ProcessSignals::private_set)).
    pub fn queued_set(&self) -> SigSet {
        self.private.set()
    }

    /// The flush of the process's that its queue has last been settled for.
    pub(crate) const fn settled(&self) -> u64 {
        self.settled
    }

    /// The mask to store in a signal frame: the one before a call with a mask of its own
    /// (`sigmask_to_save`).
    pub const fn mask_to_save(&self) -> SigSet {
        match self.saved {
            Some(mask) => mask,
            None => self.blocked,
        }
    }
}
