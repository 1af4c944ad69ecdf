use abi::{Errno, SIG_DFL, SIG_IGN, SaFlags, SigAction, SigSet, Signal};

/// The dispositions of the 64 signals (`struct sighand_struct`).
#[derive(Clone, Debug)]
pub struct Dispositions {
    actions: [SigAction; Signal::MAX as usize],
    /// The signals whose handler is [`SIG_IGN`], and those with a handler of the program. Kept because `/proc` reads
    /// them often.
    ignored: SigSet,
    caught: SigSet,
    /// Signals that were forced to end the process: their action can no longer be changed
    /// (SA_IMMUTABLE).
    immutable: SigSet,
}

/// The default action of a signal whose handler is [`SIG_DFL`] (`signal(7)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultAction {
    /// Ends the process.
    Terminate,
    /// Ends the process with a core.
    Core,
    /// Does nothing; SIGCONT took effect when it was sent.
    Ignore,
    /// Stops the process.
    Stop,
}

impl DefaultAction {
    /// The default action of `signal`.
    pub const fn of(signal: Signal) -> DefaultAction {
        if SigSet::IGNORED_BY_DEFAULT.contains(signal) {
            DefaultAction::Ignore
        } else if SigSet::STOP.contains(signal) {
            DefaultAction::Stop
        } else if SigSet::CORE.contains(signal) {
            DefaultAction::Core
        } else {
            DefaultAction::Terminate
        }
    }
}

impl Dispositions {
    /// All signals at their default action.
    pub const DEFAULT: Dispositions = Dispositions {
        actions: [SigAction::DEFAULT; Signal::MAX as usize],
        ignored: SigSet::EMPTY,
        caught: SigSet::EMPTY,
        immutable: SigSet::EMPTY,
    };

    /// The action of `signal`.
    #[inline]
    pub fn get(&self, signal: Signal) -> SigAction {
        self.actions[signal.index()]
    }

    /// Sets the action of `signal` and returns the old one (`do_sigaction`): unknown flags
    /// are cleared, SIGKILL and SIGSTOP leave the mask. EINVAL for SIGKILL, SIGSTOP and
    /// signals whose action is frozen.
    pub(crate) fn set(&mut self, signal: Signal, action: SigAction) -> Result<SigAction, Errno> {
        if SigSet::UNBLOCKABLE.contains(signal) || self.immutable.contains(signal) {
            return Err(Errno::EINVAL);
        }
        let new = SigAction { flags: action.flags & SaFlags::KNOWN, mask: action.mask.blockable(), ..action };
        Ok(self.put(signal, new))
    }

    /// Puts an action in its place, and the signal into the sets that it belongs to; what was there.
    fn put(&mut self, signal: Signal, new: SigAction) -> SigAction {
        for (set, is_in) in [(&mut self.ignored, new.handler == SIG_IGN), (&mut self.caught, new.is_handler())] {
            set.remove(signal);
            if is_in {
                set.insert(signal);
            }
        }
        core::mem::replace(&mut self.actions[signal.index()], new)
    }

    /// Back to the default action; flags and mask stay (SA_RESETHAND, `force_sig_info_to_task`).
    pub(crate) fn reset(&mut self, signal: Signal) {
        self.put(signal, SigAction { handler: SIG_DFL, ..self.get(signal) });
    }

    /// Forbids changes of the action from now on.
    pub(crate) fn freeze(&mut self, signal: Signal) {
        self.immutable.insert(signal);
    }

    /// Whether the signal does nothing: ignored, or ignored by default (`sig_handler_ignored`).
    #[inline]
    pub fn ignores(&self, signal: Signal) -> bool {
        match self.get(signal).handler {
            SIG_IGN => true,
            SIG_DFL => SigSet::IGNORED_BY_DEFAULT.contains(signal),
            _ => false,
        }
    }

    /// Whether the default action ends the process (`sig_fatal`).
    #[inline]
    pub fn is_fatal(&self, signal: Signal) -> bool {
        self.get(signal).handler == SIG_DFL
            && matches!(DefaultAction::of(signal), DefaultAction::Terminate | DefaultAction::Core)
    }

    /// The set of signals whose handler is [`SIG_IGN`], as `/proc` shows it.
    pub fn ignored(&self) -> SigSet {
        self.ignored
    }

    /// The set of signals with a handler of the program, as `/proc` shows it.
    pub fn caught(&self) -> SigSet {
        self.caught
    }

    /// A copy for a new process, where every action may be changed.
    pub(crate) fn thawed(&self) -> Dispositions {
        Dispositions { immutable: SigSet::EMPTY, ..self.clone() }
    }

    /// After exec, or clone3 with CLONE_CLEAR_SIGHAND: handlers become defaults, ignored
    /// signals stay ignored, flags and masks go (`flush_signal_handlers`).
    pub fn without_handlers(&self) -> Dispositions {
        let mut new = Dispositions::DEFAULT;
        for signal in self.ignored().iter() {
            new.put(signal, SigAction { handler: SIG_IGN, ..SigAction::DEFAULT });
        }
        new
    }
}
