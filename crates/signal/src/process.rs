use crate::pending::Pool;
use crate::stops::Stoppers;
use crate::takers::{NoRoom, Takers};
use crate::{Dispositions, Pending, Quota, Retarget, ThreadSignals, TimerKey};
use abi::{Errno, SIG_IGN, SigAction, SigInfo, SigSet, Signal};
use ids::ThreadIdx;

/// A process's signal state: dispositions, its own queue, the memory of all its threads' queues (`struct
/// signal_struct` and `sighand_struct`).
pub struct ProcessSignals {
    pub(crate) actions: Dispositions,
    /// Signals sent to the process.
    pub(crate) shared: Pending,
    pub(crate) pool: Pool,
    /// How many flushes of all queues there were.
    flushes: u64,
    /// For each signal, the last flush that dropped it.
    flushed_at: [u64; Signal::MAX as usize],
    /// The last receiver: the next search starts there (`curr_target`).
    pub(crate) last_receiver: ThreadIdx,
    /// Which threads let which signals through.
    pub(crate) takers: Takers,
    /// How many threads let each of the stop signals of job control through.
    pub(crate) stoppers: Stoppers,
    ending: Option<Ending>,
    /// A tracer is to see every signal that is delivered.
    pub(crate) traced: bool,
}

/// The process ends; signals no longer matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ending {
    by: Option<Signal>,
}

/// The effect of a `sigaction(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct ActionChange {
    /// The action before.
    pub old: SigAction,
    /// The signal now does nothing: it was dropped from every queue. Timers with this signal are no longer queued;
    /// periodic ones must be parked.
    pub flushed: bool,
    /// The signal was SIG_IGN and now does something: parked timers send again
    /// (`posixtimer_sig_unignore`). Not so for one that was ignored by default.
    pub revived: bool,
}

impl ProcessSignals {
    /// A process that starts with these dispositions.
    pub const fn new(actions: Dispositions) -> ProcessSignals {
        ProcessSignals {
            actions,
            shared: Pending::EMPTY,
            pool: Pool::new(),
            flushes: 0,
            flushed_at: [0; Signal::MAX as usize],
            last_receiver: ThreadIdx::NONE,
            takers: Takers::new(),
            stoppers: Stoppers::new(),
            ending: None,
            traced: false,
        }
    }

    /// The process has a tracer.
    pub fn set_traced(&mut self) {
        self.traced = true;
    }

    /// The dispositions.
    pub fn actions(&self) -> &Dispositions {
        &self.actions
    }

    /// `sigaction(2)`: sets the action of `signal`. EINVAL for SIGKILL and SIGSTOP, which
    /// may only be asked for ([`Dispositions::get`]).
    pub fn set_action(&mut self, signal: Signal, action: SigAction) -> Result<ActionChange, Errno> {
        let old = self.actions.set(signal, action)?;
        let flushed = self.actions.ignores(signal);
        if flushed {
            self.flush_everywhere(SigSet::only(signal));
        }
        Ok(ActionChange { old, flushed, revived: !flushed && old.handler == SIG_IGN })
    }

    /// Drops these signals from the process's queue now, and from each thread's before it is next read.
    pub(crate) fn flush_everywhere(&mut self, signals: SigSet) {
        if signals.is_empty() {
            return;
        }
        self.pool.flush(&mut self.shared, signals);
        self.flushes += 1;
        for signal in signals.iter() {
            self.flushed_at[signal.index()] = self.flushes;
        }
    }

    /// The next timer whose queued signal was dropped with others, by [`Self::set_action`],
    /// a stop signal or SIGCONT, or a thread's exit. Ask after each call that may have done
    /// so: until then its entry is not free.
    pub fn next_dropped(&mut self) -> Option<TimerKey> {
        self.pool.next_dropped()
    }

    pub(crate) fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Which signals were flushed since this thread's queue was settled.
    fn flushed_since(&self, thread: &ThreadSignals) -> SigSet {
        if thread.settled == self.flushes {
            return SigSet::EMPTY;
        }
        thread.private.set().iter().filter(|s| self.flushed_at[s.index()] > thread.settled).collect()
    }

    /// Brings a thread's queue up to date with the flushes since it was last used. Calls
    /// that use the queue do so themselves.
    pub fn settle(&mut self, thread: &mut ThreadSignals) {
        let flushed = self.flushed_since(thread);
        self.pool.flush(&mut thread.private, flushed);
        thread.settled = self.flushes;
    }

    /// The signals pending for this thread alone.
    pub fn private_set(&self, thread: &ThreadSignals) -> SigSet {
        thread.private.set().without(self.flushed_since(thread))
    }

    /// The signals pending for the process.
    pub fn shared_set(&self) -> SigSet {
        self.shared.set()
    }

    /// `sigpending(2)`: pending for the thread or the process, and blocked by the thread.
    pub fn pending(&self, thread: &ThreadSignals) -> SigSet {
        (self.private_set(thread) | self.shared.set()) & thread.blocked
    }

    /// Signals that would interrupt the thread: pending and not blocked (`recalc_sigpending`). SIGKILL when the
    /// process ends.
    pub fn deliverable(&self, thread: &ThreadSignals) -> SigSet {
        if self.is_dying() {
            return SigSet::only(Signal::KILL);
        }
        (self.private_set(thread) | self.shared.set()).without(thread.blocked)
    }

    /// Whether a signal of `set` is pending, so that `signalfd(2)` is readable.
    pub fn is_readable(&self, thread: &ThreadSignals, set: SigSet) -> bool {
        (self.private_set(thread) | self.shared.set()).intersects(set.blockable())
    }

    /// Calls `f` with every signal pending for the thread (first) and the process, to send
    /// them again elsewhere. Signals that lost their information name no sender.
    pub fn for_each_pending(
        &mut self,
        thread: &mut ThreadSignals,
        mut f: impl FnMut(Scope, SigInfo, Option<TimerKey>),
    ) {
        self.settle(thread);
        self.pool.for_each(&thread.private, |info, timer| f(Scope::Thread, info, timer));
        self.pool.for_each(&self.shared, |info, timer| f(Scope::Process, info, timer));
    }
}

/// Which queue a signal was in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The thread's.
    Thread,
    /// The process's.
    Process,
}

/// The life of processes, threads and timers.
impl ProcessSignals {
    /// The signals of a forked child, or of a clone without CLONE_SIGHAND: the same
    /// dispositions, nothing pending. `clear_handlers` is CLONE_CLEAR_SIGHAND.
    pub fn for_child(&self, clear_handlers: bool) -> ProcessSignals {
        let actions = if clear_handlers { self.actions.without_handlers() } else { self.actions.thawed() };
        ProcessSignals::new(actions)
    }

    /// `execve(2)` by this thread, the others being gone: handlers become defaults, the
    /// alternate stack goes, signals of timers are dropped as the timers are; mask and
    /// other pending signals stay.
    pub fn exec(&mut self, thread: &mut ThreadSignals) {
        self.settle(thread);
        self.actions = self.actions.without_handlers();
        self.pool.remove_all_timers();
        self.pool.flush_timers(&mut thread.private);
        self.pool.flush_timers(&mut self.shared);
        thread.altstack = crate::AltStack::NONE;
        thread.saved = None;
        thread.awaiting = None;
        self.last_receiver = ThreadIdx::NONE;
    }

    /// Continues as `other` with the present threads.
    pub fn become_child(&mut self, other: ProcessSignals) {
        let takers = core::mem::replace(&mut self.takers, Takers::new());
        *self = ProcessSignals { takers, stoppers: self.stoppers, ..other };
    }

    /// A thread begins to receive what is sent to the process.
    ///
    /// # Errors
    /// There is no memory to remember it.
    pub fn enter(&mut self, thread: &mut ThreadSignals, t: ThreadIdx) -> Result<(), NoRoom> {
        self.takers.reserve(t)?;
        thread.slot = t;
        self.note_mask(thread);
        self.stoppers.change(SigSet::EMPTY, thread.stops);
        Ok(())
    }

    /// A thread that has entered gets another state, which is to enter in its place.
    pub fn leave(&mut self, thread: &mut ThreadSignals) {
        self.takers.set(thread.slot, 0);
        self.stoppers.change(thread.stops, SigSet::EMPTY);
        thread.slot = ThreadIdx::NONE;
    }

    /// The mask of a thread has changed.
    pub(crate) fn note_mask(&mut self, thread: &ThreadSignals) {
        if thread.slot.is_some() {
            self.takers.set(thread.slot, !thread.blocked.0);
        }
    }

    /// Whether any thread lets this signal through, or waits for it.
    pub fn is_open(&self, signal: Signal) -> bool {
        self.takers.any(signal)
    }

    /// A thread exits: what was sent to it alone is lost, what it would have taken of the
    /// process's queue needs another taker (`exit_signals`). It is no candidate any more.
    pub fn exit_thread(&mut self, thread: &mut ThreadSignals) -> Retarget {
        self.pool.flush(&mut thread.private, SigSet::ALL);
        thread.settled = self.flushes;
        thread.exited = true;
        let left = if self.is_dying() { SigSet::EMPTY } else { self.shared.set().without(thread.blocked) };
        thread.saved = Some(thread.blocked);
        thread.blocked = SigSet::ALL;
        if thread.slot.is_some() {
            self.leave(thread);
        }
        Retarget::new(left)
    }

    /// The process ends, by a signal or by `exit_group(2)`: signals sent from now on are
    /// dropped, and every thread's next action is [`Action::Exit`](crate::Action::Exit).
    pub fn begin_exit(&mut self, by: Option<Signal>) {
        self.ending.get_or_insert(Ending { by });
    }

    /// The signal that was to end the process did not: a tracer has taken it away, or the process is the first of its namespace
    /// of processes (`ptrace_signal`, SIGNAL_UNKILLABLE).
    pub fn survive(&mut self) {
        self.ending = None;
    }

    /// Whether the process ends.
    pub fn is_dying(&self) -> bool {
        self.ending.is_some()
    }

    /// The signal that ends the process, if one does.
    pub fn killed_by(&self) -> Option<Signal> {
        self.ending.and_then(|e| e.by)
    }

    /// The count against RLIMIT_SIGPENDING: queued signals, and timers for life.
    pub fn charged(&self) -> u64 {
        self.pool.charged()
    }

    /// Room for the signals of the first timers, so that making them does not wait for memory. EAGAIN without any.
    pub fn prepare_timers(&mut self) -> Result<(), Errno> {
        self.pool.prepare_timers().map_err(|_| Errno::EAGAIN)
    }

    /// `timer_create(2)` with a signal: reserves an entry, so that its signal can always be queued. EAGAIN at the
    /// limit or without memory.
    pub fn add_timer(&mut self, quota: Quota) -> Result<(), Errno> {
        self.add_timers(1, quota).map(|_| ())
    }

    /// Reserves entries for up to `most` timers, as many as the limit allows, and returns how many. EAGAIN if there is
    /// room for none.
    pub fn add_timers(&mut self, most: u32, quota: Quota) -> Result<u32, Errno> {
        let count = quota.room(self.pool.charged()).min(u64::from(most)) as u32;
        if count == 0 {
            return Err(Errno::EAGAIN);
        }
        self.pool.add_timers(count).map_err(|_| Errno::EAGAIN)?;
        Ok(count)
    }

    /// Whether the limit is reached.
    pub fn is_full(&self, quota: Quota) -> bool {
        !quota.has_room(self.pool.charged())
    }

    /// A timer of [`ProcessSignals::add_timer`] is deleted. If its signal is still `queued`, the signal stays visible
    /// until it is taken, and is found to be stale then.
    pub fn remove_timer(&mut self, queued: bool) {
        self.pool.remove_timers(1, queued);
    }

    /// Releases `count` reservations of [`ProcessSignals::add_timers`].
    pub fn remove_timers(&mut self, count: u32) {
        self.pool.remove_timers(count, false);
    }
}
