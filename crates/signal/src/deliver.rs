use crate::dispositions::DefaultAction;
use crate::{AltStack, ProcessSignals, Retarget, Scope, Sent, Target, ThreadSignals, ThreadState, TimerKey};
use crate::{Fate, Quota};
use abi::{SIG_DFL, SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal, StackT};

/// The most signals that one call examines before it must be called again.
const BATCH: usize = 64;

/// Hooks of POSIX and interval timers at the delivery of their signals. This crate does not know theirs; the caller
/// joins the two.
pub trait TimerSignals {
    /// The signal of this timer is about to be delivered, and is no longer queued: rearms a
    /// periodic timer and returns the information with its overrun; `None` if the signal is
    /// stale, as the timer was set anew or deleted (`__posixtimer_deliver_signal`).
    fn deliver(&mut self, timer: TimerKey, info: SigInfo) -> Option<SigInfo>;

    /// SIGALRM was taken from the process's queue: ITIMER_REAL may be rearmed
    /// (`posixtimer_rearm_itimer`).
    fn alarm_taken(&mut self);
}

/// The hook of processes without timers.
pub struct NoTimers;

impl TimerSignals for NoTimers {
    fn deliver(&mut self, _: TimerKey, info: SigInfo) -> Option<SigInfo> {
        Some(info)
    }
    fn alarm_taken(&mut self) {}
}

/// A signal that has left its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dequeued {
    /// The signal's information.
    pub info: SigInfo,
    /// Where it was.
    pub scope: Scope,
    /// The timer that sent it: ask it before the signal counts.
    pub timer: Option<TimerKey>,
}

/// The result of a wait for signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Taken {
    /// This signal.
    Signal(SigInfo),
    /// No signal is pending.
    Nothing,
    /// Only stale signals were found so far: call again.
    More,
}

/// A handler is to run: all that [`crate::FramePlan`] needs to build its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The signal's information.
    pub info: SigInfo,
    /// The signal's action when it was taken.
    pub action: SigAction,
    /// The mask that the frame saves.
    pub old_mask: SigSet,
    /// The alternate stack that the frame saves and the handler may start on.
    pub altstack: AltStack,
}

/// The action a thread must take about signals before it continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Action {
    /// Nothing.
    None,
    /// Nothing yet, but more is pending than one call may examine: call again.
    More,
    /// Run a handler. Then call [`ProcessSignals::delivered`], or
    /// [`ProcessSignals::frame_failed`] if the frame could not be written.
    Handler(Delivery),
    /// Stop the process. Unless the signal is SIGSTOP, not if its process group is orphaned.
    Stop(Signal),
    /// End the process by this signal.
    Terminate {
        /// The signal's information, for the core.
        info: SigInfo,
        /// Whether a core must be written.
        core: bool,
    },
    /// The process has a tracer, which is to see this signal first. If it lets it through: [`ProcessSignals::act_on`].
    Show(SigInfo),
    /// The process ends already: the thread exits.
    Exit,
}

/// How a signal is forced on a thread (`enum sig_handler`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Force {
    /// The signal's handler runs, or the default action if the signal is blocked or ignored.
    Current,
    /// The default action, whatever the disposition.
    Default,
    /// The default action, and it can no longer be changed.
    Exit,
}

impl ProcessSignals {
    /// Takes the next pending signal that is not in `blocked`: the thread's own first, of
    /// each queue the synchronous ones first, then the lowest number (`dequeue_signal`,
    /// `next_signal`).
    pub fn dequeue(&mut self, thread: &mut ThreadSignals, blocked: SigSet) -> Option<Dequeued> {
        self.dequeue_private(thread, blocked).or_else(|| self.dequeue_shared(blocked))
    }

    fn dequeue_private(&mut self, thread: &mut ThreadSignals, blocked: SigSet) -> Option<Dequeued> {
        self.settle(thread);
        let signal = next_signal(thread.private.set(), blocked)?;
        let (info, timer) = self.pool.pop(&mut thread.private, signal);
        Some(Dequeued { info, scope: Scope::Thread, timer })
    }

    fn dequeue_shared(&mut self, blocked: SigSet) -> Option<Dequeued> {
        let signal = next_signal(self.shared.set(), blocked)?;
        let (info, timer) = self.pool.pop(&mut self.shared, signal);
        Some(Dequeued { info, scope: Scope::Process, timer })
    }

    /// Takes the next pending signal of `wanted`, as sigtimedwait and signalfd do.
    pub fn take(&mut self, thread: &mut ThreadSignals, wanted: SigSet, timers: &mut impl TimerSignals) -> Taken {
        take_from(|| self.dequeue(thread, !wanted.blockable()), timers)
    }

    /// As [`Self::take`], but only signals sent to the thread.
    pub fn take_private(
        &mut self,
        thread: &mut ThreadSignals,
        wanted: SigSet,
        timers: &mut impl TimerSignals,
    ) -> Taken {
        take_from(|| self.dequeue_private(thread, !wanted.blockable()), timers)
    }

    /// As [`Self::take`], but only signals sent to the process as a whole.
    pub fn take_shared(&mut self, wanted: SigSet, timers: &mut impl TimerSignals) -> Taken {
        take_from(|| self.dequeue_shared(!wanted.blockable()), timers)
    }

    /// The thread's next action about signals (`get_signal`).
    ///
    /// After [`Action::None`], a thread whose call had a mask of its own restores its mask with
    /// [`ProcessSignals::restore_mask`] and asks again, because that may unblock signals.
    pub fn next_action(&mut self, thread: &mut ThreadSignals, timers: &mut impl TimerSignals) -> Action {
        for _ in 0..BATCH {
            if self.is_dying() {
                return Action::Exit;
            }
            let Some(d) = self.dequeue_synchronous(thread).or_else(|| self.dequeue(thread, thread.blocked)) else {
                return Action::None;
            };
            if let Some(info) = resolve(d, timers)
                && let Some(action) = self.show_or_act_on(thread, info)
            {
                return action;
            }
        }
        Action::More
    }

    /// Faults go first, so that the frame's instruction pointer is the faulting one.
    fn dequeue_synchronous(&mut self, thread: &mut ThreadSignals) -> Option<Dequeued> {
        self.settle(thread);
        if !thread.private.set().without(thread.blocked).intersects(SigSet::SYNCHRONOUS) {
            return None;
        }
        let signal = self.pool.first_synchronous(&thread.private, thread.blocked)?;
        let (info, timer) = self.pool.pop(&mut thread.private, signal);
        Some(Dequeued { info, scope: Scope::Thread, timer })
    }

    /// A tracer sees what is handled or ignored here; what the default action does, the host lets it see.
    fn show_or_act_on(&mut self, thread: &ThreadSignals, info: SigInfo) -> Option<Action> {
        let signal = info.signal()?;
        let by_host = self.actions.is_fatal(signal) || SigSet::STOP.contains(signal);
        if self.traced && !by_host { Some(Action::Show(info)) } else { self.act_on(thread, info) }
    }

    /// The action of a signal that was taken, by its disposition; `None` if it is ignored.
    pub fn act_on(&mut self, thread: &ThreadSignals, info: SigInfo) -> Option<Action> {
        let signal = info.signal()?;
        let action = self.actions.get(signal);
        match action.handler {
            SIG_IGN => None,
            SIG_DFL => self.act_by_default(signal, info),
            _ => {
                if action.flags.has(SaFlags::RESETHAND) {
                    self.actions.reset(signal);
                }
                let (old_mask, altstack) = (thread.mask_to_save(), thread.altstack);
                Some(Action::Handler(Delivery { info, action, old_mask, altstack }))
            }
        }
    }

    fn act_by_default(&mut self, signal: Signal, info: SigInfo) -> Option<Action> {
        match DefaultAction::of(signal) {
            DefaultAction::Ignore => None,
            DefaultAction::Stop => Some(Action::Stop(signal)),
            kind @ (DefaultAction::Terminate | DefaultAction::Core) => {
                self.begin_exit(Some(signal));
                Some(Action::Terminate { info, core: kind == DefaultAction::Core })
            }
        }
    }

    /// The handler's frame is written: its mask comes into force, an alternate stack with
    /// SS_AUTODISARM goes away (`signal_delivered`).
    pub fn delivered(&mut self, thread: &mut ThreadSignals, delivery: &Delivery) -> Retarget {
        let mut mask = thread.blocked | delivery.action.mask;
        if let Some(signal) = delivery.info.signal()
            && !delivery.action.flags.has(SaFlags::NODEFER)
        {
            mask.insert(signal);
        }
        thread.saved = None;
        if thread.altstack.disarms() {
            thread.altstack = AltStack::NONE;
        }
        self.set_blocked(thread, mask)
    }

    /// The handler's frame did not fit or could not be written: SIGSEGV, which is fatal if
    /// the frame was SIGSEGV's own (`force_sigsegv`).
    pub fn frame_failed(&mut self, thread: &mut ThreadSignals, state: ThreadState, delivery: &Delivery) -> Sent {
        let own = delivery.info.signal() == Some(Signal::SEGV);
        let how = if own { Force::Default } else { Force::Current };
        self.force(thread, state, SigInfo::kernel(Signal::SEGV), how)
    }

    /// Raises a signal that the thread cannot escape, such as a fault
    /// (`force_sig_info_to_task`): blocked or ignored, it is unblocked and gets its default
    /// action.
    pub fn force(&mut self, thread: &mut ThreadSignals, state: ThreadState, info: SigInfo, how: Force) -> Sent {
        let signal = info.signal().unwrap_or(Signal::KILL);
        let info = info.with_signal(signal);
        let blocked = thread.blocked.contains(signal);
        if blocked || how != Force::Current || self.actions.get(signal).handler == SIG_IGN {
            self.actions.reset(signal);
            if how == Force::Exit {
                self.actions.freeze(signal);
            }
            thread.blocked.remove(signal);
            self.note_mask(thread);
        }
        let candidate = thread.candidate(state);
        match self.send(Target::Thread(thread, candidate), info, Quota::UNLIMITED) {
            Ok(sent) => sent,
            // Only a real-time signal without memory gets here; faults are standard signals.
            Err(_) => Sent { fate: Fate::Ignored, wake: crate::Wake::Nobody, resume: false, flushed: SigSet::EMPTY },
        }
    }

    /// A handler has returned through its frame: mask and alternate stack are as the frame
    /// says (`rt_sigreturn`). `sp` is the stack pointer that the frame restores. A stack
    /// that cannot be set is left as it is.
    pub fn sigreturn(&mut self, thread: &mut ThreadSignals, mask: SigSet, stack: StackT, sp: u64) -> Retarget {
        // Linux, too, ignores every error here but EFAULT (`restore_altstack`).
        let _ = thread.altstack.set(stack, sp, AltStack::MIN_SIZE);
        self.set_blocked(thread, mask.blockable())
    }
}

/// The signal of a queue that comes next.
fn next_signal(pending: SigSet, blocked: SigSet) -> Option<Signal> {
    let ready = pending.without(blocked);
    if ready.intersects(SigSet::SYNCHRONOUS) { (ready & SigSet::SYNCHRONOUS).lowest() } else { ready.lowest() }
}

fn take_from(mut dequeue: impl FnMut() -> Option<Dequeued>, timers: &mut impl TimerSignals) -> Taken {
    for _ in 0..BATCH {
        let Some(d) = dequeue() else { return Taken::Nothing };
        if let Some(info) = resolve(d, timers) {
            return Taken::Signal(info);
        }
    }
    Taken::More
}

/// Asks the timer that sent a signal whether it still stands.
fn resolve(d: Dequeued, timers: &mut impl TimerSignals) -> Option<SigInfo> {
    if d.scope == Scope::Process && d.info.signo() == Signal::ALRM.raw() {
        timers.alarm_taken();
    }
    match d.timer {
        Some(key) => timers.deliver(key, d.info),
        None => Some(d.info),
    }
}
