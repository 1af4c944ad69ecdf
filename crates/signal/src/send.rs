use crate::{Candidate, ProcessSignals, ThreadSignals, TimerKey};
use abi::{Errno, SigInfo, SigSet, Signal, si_code};
use ids::ThreadIdx;
use sync::OutOfMemory;

/// The target of a signal.
pub enum Target<'a> {
    /// One thread (`tgkill(2)`, faults, SIGEV_THREAD_ID), and how it stands.
    Thread(&'a mut ThreadSignals, Candidate),
    /// The process: any thread that takes the signal. The first choice is the main thread (`kill(2)`) or the current
    /// one (timers), whose state is given.
    Process(Candidate),
}

impl Target<'_> {
    fn first_choice(&self) -> &Candidate {
        match self {
            Target::Thread(_, c) | Target::Process(c) => c,
        }
    }

    /// A thread that has exited takes nothing; a stop signal or SIGCONT to it has its effect on the process nevertheless.
    fn is_gone(&self) -> bool {
        matches!(self, Target::Thread(thread, _) if thread.has_exited())
    }
}

/// RLIMIT_SIGPENDING, which counts for all processes of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The limit; `u64::MAX` is none.
    pub limit: u64,
    /// Signals queued in the user's other processes.
    pub elsewhere: u64,
}

impl Quota {
    /// No limit.
    pub const UNLIMITED: Quota = Quota { limit: u64::MAX, elsewhere: 0 };

    pub(crate) const fn has_room(&self, charged: u64) -> bool {
        self.elsewhere.saturating_add(charged) < self.limit
    }

    /// How many more fit.
    pub(crate) const fn room(&self, charged: u64) -> u64 {
        self.limit.saturating_sub(self.elsewhere.saturating_add(charged))
    }
}

/// The fate of a signal that was sent. In the last two cases readers of a `signalfd(2)` that has the signal must be
/// woken as well, whatever [`Sent::wake`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Dropped, because the signal does nothing here or the process is ending.
    Ignored,
    /// A standard signal that was pending already.
    Coalesced,
    /// Queued with its information.
    Queued,
    /// Pending, but its information could not be kept.
    WithoutInfo,
}

/// The threads to which a sent signal matters now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Wake {
    /// No thread: it stays pending until one unblocks it.
    Nobody,
    /// This thread has a signal to handle: wake it if it waits interruptibly, kick it if it runs.
    Thread(ThreadIdx),
    /// The first choice did not want it: search for another ([`ProcessSignals::find_receiver`]).
    Search(Signal),
    /// The whole process ends by this signal, without a core; every thread must be woken.
    EndProcess(Signal),
}

/// The outcome of sending a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Sent {
    /// The signal's fate.
    pub fate: Fate,
    /// The thread to wake.
    pub wake: Wake,
    /// SIGCONT: a stopped process continues, even if the signal is blocked or ignored.
    pub resume: bool,
    /// Signals that were dropped from every queue: stop signals by SIGCONT, SIGCONT by a stop signal. Timers whose
    /// signal is among them are no longer queued.
    pub flushed: SigSet,
}

impl ProcessSignals {
    /// Sends the signal that `info` describes (`__send_signal_locked`).
    ///
    /// EAGAIN if a real-time signal that did not come from `kill(2)` finds the queue full;
    /// other signals then lose their information. EINVAL if `info` has no signal.
    pub fn send(&mut self, mut target: Target<'_>, info: SigInfo, quota: Quota) -> Result<Sent, Errno> {
        let signal = info.signal().ok_or(Errno::EINVAL)?;
        let mut sent = self.prepare(signal);
        if self.is_dying() || self.is_dropped(signal, target.first_choice()) || target.is_gone() {
            return Ok(sent);
        }
        if !signal.is_rt() && self.is_pending(&target, signal) {
            sent.fate = Fate::Coalesced;
            return Ok(sent);
        }
        sent.fate = self.enqueue(&mut target, signal, info, quota)?;
        sent.wake = self.complete(&target, signal);
        Ok(sent)
    }

    /// Sends a timer's signal (`posixtimer_send_sigqueue`): never coalesced, never refused,
    /// as room was kept by [`ProcessSignals::add_timer`]. The caller makes sure that no
    /// signal of this timer is queued. [`Fate::Ignored`]: the caller parks a periodic timer.
    /// [`Fate::WithoutInfo`] comes only without the room: the timer will not be asked, so
    /// its signal counts as delivered.
    pub fn send_timer(&mut self, mut target: Target<'_>, key: TimerKey, info: SigInfo) -> Result<Sent, Errno> {
        let signal = info.signal().ok_or(Errno::EINVAL)?;
        let mut sent = self.prepare(signal);
        if self.is_dying() || self.is_dropped(signal, target.first_choice()) {
            return Ok(sent);
        }
        sent.fate = match self.push(&mut target, info, Some(key)) {
            Ok(()) => Fate::Queued,
            Err(OutOfMemory) => self.mark(&mut target, signal),
        };
        sent.wake = self.complete(&target, signal);
        Ok(sent)
    }

    /// The first step of sending, before anything is queued: stop signals and SIGCONT cancel each other in all queues
    /// (`prepare_signal`).
    fn prepare(&mut self, signal: Signal) -> Sent {
        let mut sent = Sent { fate: Fate::Ignored, wake: Wake::Nobody, resume: false, flushed: SigSet::EMPTY };
        if self.is_dying() {
            return sent;
        }
        if SigSet::STOP.contains(signal) {
            sent.flushed = SigSet::only(Signal::CONT);
        } else if signal == Signal::CONT {
            sent.flushed = SigSet::STOP;
            sent.resume = true;
        }
        self.flush_everywhere(sent.flushed);
        sent
    }

    /// Whether the signal would do nothing to this receiver. A blocked one is kept: its
    /// handler may change before it is unblocked, and so is every one that a tracer is to see (`sig_ignored`).
    pub fn is_dropped(&self, signal: Signal, to: &Candidate) -> bool {
        let kept = to.blocked.contains(signal) || to.real_blocked.contains(signal);
        !kept && !self.traced && self.actions.ignores(signal)
    }

    fn is_pending(&self, target: &Target<'_>, signal: Signal) -> bool {
        match target {
            Target::Process(_) => self.shared.set().contains(signal),
            Target::Thread(t, _) => self.private_set(t).contains(signal),
        }
    }

    fn enqueue(&mut self, target: &mut Target<'_>, signal: Signal, info: SigInfo, quota: Quota) -> Result<Fate, Errno> {
        if signal == Signal::KILL {
            return Ok(self.mark(target, signal));
        }
        // Standard signals of the kernel and of kill(2) are queued whatever the limit.
        let exempt = !signal.is_rt() && info.code() >= 0;
        if (exempt || quota.has_room(self.pool.charged())) && self.push(target, info, None).is_ok() {
            return Ok(Fate::Queued);
        }
        if signal.is_rt() && info.code() != si_code::USER && info.code() != si_code::KERNEL {
            return Err(Errno::EAGAIN);
        }
        Ok(self.mark(target, signal))
    }

    fn push(&mut self, target: &mut Target<'_>, info: SigInfo, timer: Option<TimerKey>) -> Result<(), OutOfMemory> {
        match target {
            Target::Process(_) => self.pool.push(&mut self.shared, info, timer),
            Target::Thread(t, _) => {
                self.settle(t);
                self.pool.push(&mut t.private, info, timer)
            }
        }
    }

    fn mark(&mut self, target: &mut Target<'_>, signal: Signal) -> Fate {
        match target {
            Target::Process(_) => self.pool.mark(&mut self.shared, signal),
            Target::Thread(t, _) => {
                self.settle(t);
                self.pool.mark(&mut t.private, signal);
            }
        }
        Fate::WithoutInfo
    }

    /// The choice of the receiver, or the process's end (`complete_signal`).
    fn complete(&mut self, target: &Target<'_>, signal: Signal) -> Wake {
        let first = target.first_choice();
        if first.wants(signal) {
            return self.wake_for(signal, first);
        }
        match target {
            Target::Thread(..) => Wake::Nobody,
            Target::Process(_) => Wake::Search(signal),
        }
    }

    /// The wake-up after `to` was chosen as receiver: a signal that ends the process without a core takes effect at
    /// once, unless there is a tracer, which may suppress it.
    pub(crate) fn wake_for(&mut self, signal: Signal, to: &Candidate) -> Wake {
        let awaited = to.real_blocked.contains(signal);
        let is_spared = self.traced && signal != Signal::KILL;
        let ends_it = self.actions.is_fatal(signal) && !SigSet::CORE.contains(signal) && !is_spared;
        if ends_it && !awaited && !self.is_dying() {
            self.begin_exit(Some(signal));
            return Wake::EndProcess(signal);
        }
        Wake::Thread(to.state.thread)
    }
}
