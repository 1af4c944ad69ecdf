//! Blocking is a state.
//!
//! A thread that must wait saves itself, records what it waits for, becomes findable in a queue and leaves its CPU.
//! Whoever ends the wait calls `wake` and nothing more; the thread works out the result of its system call itself when
//! it is chosen again (`Kernel::ready`). So every wake-up may be spurious, and no waker needs to know who else was
//! about to wake the thread.
//!
//! ```text
//! waiter (on its CPU)                         waker (anywhere)
//!   begin_wait: save, kind, generation+1,
//!               prepare_block
//!   publish: futex queue, timeout queue, …    take out of the queue / pop the timeout
//!   schedule(Block)                           sched.wake
//!   hint set? wake oneself                    (signals: set the hint first)
//!   … chosen again: ready() → finished? result, go on : prepare_block, look, schedule
//! ```
//!
//! Proof sketch for signals: the sender sets the hint, then calls `wake`. The waiter sets its mark (`prepare_block`),
//! takes the run queue's lock (a full barrier on x86-64) and then checks the hint. If it does not see the hint, its
//! mark was visible before the sender's `wake` checked for it.

use crate::machine::{Call, Clock, Machine};
use crate::{Kernel, Now};
use abi::Errno;
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Urgency;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::*, fence};

/// The reason for a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Wait {
    /// Nothing: the thread runs or is runnable.
    None = 0,
    /// A futex word.
    Futex = 1,
    /// Several futex words.
    FutexVector = 2,
    /// A priority-inheriting futex.
    FutexPi = 3,
    /// A futex word, to be moved to a priority-inheriting one.
    FutexRequeuePi = 4,
    /// A sleep.
    Sleep = 5,
    /// A host call made on its behalf.
    Host = 6,
    /// `sigtimedwait(2)`.
    Signal = 7,
    /// `sigsuspend(2)`, `pause(2)`.
    Suspend = 8,
    /// Nothing: the thread is runnable, but has kernel work left.
    Work = 9,
    /// Consumed CPU time (`clock_nanosleep(2)`).
    CpuSleep = 10,
    /// CPU time, or a carrier with the thread's credentials. The thread did not ask for this wait, so its registers
    /// stay unchanged.
    Throttled = 11,
    /// The end of a stop by SIGTTIN or SIGTTOU, which the thread's access to its terminal caused.
    Terminal = 12,
}

impl Wait {
    #[inline(always)]
    fn from_raw(n: u32) -> Wait {
        use Wait::*;
        static ALL: [Wait; 13] = [
            None,
            Futex,
            FutexVector,
            FutexPi,
            FutexRequeuePi,
            Sleep,
            Host,
            Signal,
            Suspend,
            Work,
            CpuSleep,
            Throttled,
            Terminal,
        ];
        ALL[n as usize]
    }
}

/// Bits of the low half of [`WaitState::cause`].
const TIMED_OUT: u64 = 1;
const DONE: u64 = 2;

/// The wait of one thread. Written by the thread's own CPU, except `cause`.
#[derive(Debug, Default)]
pub struct WaitState {
    kind: AtomicU32,
    /// Generation in the high half, [`TIMED_OUT`] and [`DONE`] in the low half: a late
    /// timeout cannot end the next wait.
    cause: AtomicU64,
    /// The CPU whose queue holds the timeout, plus one; 0 for none.
    timer_cpu: AtomicU32,
    /// When it times out by [`WaitState::clock`], in nanoseconds.
    pub deadline: AtomicU64,
    /// The clock of the deadline: 0 monotonic, 1 real time (checked again at expiry).
    pub clock: AtomicU32,
    /// The span by which the wait may end earlier than the time in the queue, in nanoseconds.
    slack: AtomicU32,
    /// The result of a host call, or what the kind needs.
    pub value: AtomicI64,
    /// A word whose meaning depends on the kind.
    pub a: AtomicU64,
    /// A word whose meaning depends on the kind.
    pub b: AtomicU64,
    /// The system call's number, for restarts.
    pub call: AtomicU32,
    /// The first argument of that call, mostly a descriptor, for tools that inspect the thread.
    pub on: AtomicU32,
    /// The interrupted call continues through `restart_syscall(2)`, once (Linux: `restart_block.fn`).
    pub continues: AtomicBool,
    /// The deadline and clock of the interrupted call. They are kept apart because the thread may be held back before
    /// it continues, which is a wait with a deadline, too.
    restart_at: AtomicU64,
    restart_clock: AtomicU32,
    /// The generation when the thread began.
    first: AtomicU32,
}

impl WaitState {
    /// The offset of the kind, for debuggers.
    pub(crate) const KIND: usize = core::mem::offset_of!(WaitState, kind);

    /// Resets to no wait.
    pub fn reset(&self) {
        self.kind.store(0, Relaxed);
        self.timer_cpu.store(0, Relaxed);
    }

    /// Prepares it for another thread.
    pub(crate) fn renew(&self) {
        self.reset();
        self.first.store(self.generation(), Relaxed);
    }

    /// Records in which system call the thread is.
    pub fn note_call(&self, call: &Call) {
        self.call.store(call.nr as u32, Relaxed);
        self.on.store(call.args[0] as u32, Relaxed);
    }

    /// The present wait was interrupted, and this call must continue to the same deadline. Returns the call's result.
    #[must_use]
    pub(crate) fn keep_for_restart(&self, call: usize) -> Errno {
        self.call.store(call as u32, Relaxed);
        self.restart_at.store(self.deadline.load(Relaxed), Relaxed);
        self.restart_clock.store(self.clock.load(Relaxed), Relaxed);
        Errno::ERESTART_RESTARTBLOCK
    }

    /// The deadline of [`WaitState::keep_for_restart`].
    pub(crate) fn kept(&self) -> Deadline {
        let clock = if self.restart_clock.load(Relaxed) == 0 { Clock::Monotonic } else { Clock::Realtime };
        Deadline { at: Nanos(self.restart_at.load(Relaxed)), clock }
    }

    /// How often the thread has begun to wait. Wraps after 2^32.
    pub fn begun(&self) -> u32 {
        self.generation().wrapping_sub(self.first.load(Relaxed))
    }

    /// The kind of the wait.
    #[inline(always)]
    pub fn kind(&self) -> Wait {
        let raw = self.kind.load(Relaxed);
        if raw == 0 { Wait::None } else { Wait::from_raw(raw) }
    }

    #[inline(always)]
    pub(crate) fn set_kind(&self, kind: Wait) {
        self.kind.store(kind as u32, Relaxed);
    }

    /// Begins another wait.
    #[inline(always)]
    pub fn begin(&self, kind: Wait) {
        let generation = (self.cause.load(Relaxed) >> 32).wrapping_add(1);
        self.cause.store(generation << 32, Release);
        // Pairs with `describe`: readers see the new count before any of the stores that follow. On x86-64 this fence
        // only restricts the compiler.
        fence(Release);
        self.kind.store(kind as u32, Relaxed);
    }

    pub(crate) fn generation(&self) -> u32 {
        (self.cause.load(Relaxed) >> 32) as u32
    }

    /// Sets a cause, if the wait is still the one of that generation.
    fn set_cause(&self, generation: Option<u32>, bit: u64) -> bool {
        self.cause
            .fetch_update(AcqRel, Acquire, |c| generation.is_none_or(|g| (c >> 32) as u32 == g).then_some(c | bit))
            .is_ok()
    }

    /// The deadline of the present wait, by its clock, if it has one.
    #[inline(always)]
    pub fn armed(&self) -> Option<Nanos> {
        let armed = self.timer_cpu.load(Relaxed) != 0;
        armed.then(|| Nanos(self.deadline.load(Relaxed)))
    }

    /// Whether the deadline has passed.
    pub fn timed_out(&self) -> bool {
        self.cause.load(Acquire) & TIMED_OUT != 0
    }

    /// Whether the awaited thing has been done.
    pub fn done(&self) -> bool {
        self.cause.load(Acquire) & DONE != 0
    }

    /// Notes that the awaited thing has been done.
    pub fn set_done(&self) {
        self.set_cause(None, DONE);
    }
}

/// When a wait ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// The time by `clock`.
    pub at: Nanos,
    /// CLOCK_MONOTONIC or CLOCK_REALTIME.
    pub clock: Clock,
}

impl Deadline {
    /// A span from now, which no clock step can change.
    pub fn after<M: Machine>(m: &M, span: Nanos) -> Deadline {
        Deadline { at: m.clock(Clock::Monotonic) + span, clock: Clock::Monotonic }
    }
}

impl<M: Machine> Kernel<M> {
    /// The current thread is about to wait. From now on any CPU may resume it as soon as a waker can find it, so the
    /// caller publishes it next and then leaves the CPU.
    #[inline(always)]
    pub fn begin_wait(&self, t: ThreadIdx, kind: Wait) {
        self.m.save(t);
        self.thread(t).wait.begin(kind);
        self.sched.prepare_block(t);
    }

    /// The current thread, which has begun to wait in this call, continues instead.
    pub(crate) fn abandon_wait(&self, cpu: CpuId, t: ThreadIdx) {
        self.cancel_wait(t);
        self.m.keep(cpu, t);
    }

    /// Cancels a wait that was not published.
    pub(crate) fn cancel_wait(&self, t: ThreadIdx) {
        self.thread(t).wait.reset();
        self.sched.cancel_block(t);
    }

    /// Gives the current wait of `t` a deadline that the program has named, kept by `cpu`, the caller's own. The wait may
    /// end as much later as the thread's timer slack allows.
    pub fn arm_timeout(&self, cpu: CpuId, t: ThreadIdx, deadline: Deadline) {
        self.arm_within(cpu, t, deadline, self.slack(t));
    }

    /// Like [`Kernel::arm_timeout`], for a deadline that no program has named.
    pub fn arm_exactly(&self, cpu: CpuId, t: ThreadIdx, deadline: Deadline) {
        self.arm_within(cpu, t, deadline, 0);
    }

    fn arm_within(&self, cpu: CpuId, t: ThreadIdx, deadline: Deadline, slack: u32) {
        let wait = &self.thread(t).wait;
        wait.deadline.store(deadline.at.0, Relaxed);
        wait.clock.store(u32::from(deadline.clock != Clock::Monotonic), Relaxed);
        wait.timer_cpu.store(u32::from(cpu.0) + 1, Relaxed);
        wait.slack.store(slack, Relaxed);
        self.queue_timeout(cpu, t, self.latest(t, deadline), wait.generation());
    }

    /// The span by which a timer for a timeout of `t` may be late, in nanoseconds, at most 4 s. A timer that goes off earlier for
    /// something else ends the wait, too, and an idle CPU, which interrupts nobody, sleeps only until the first of the
    /// waits in its queue may end (`hrtimer_start_range_ns`, PR_SET_TIMERSLACK in prctl(2)). Real-time and deadline
    /// threads have no slack.
    fn slack(&self, t: ThreadIdx) -> u32 {
        let has_slack = self.config().timer_slack && self.sched.urgency(t) == Urgency::Fair;
        if has_slack { self.thread(t).slacks()[0].try_into().unwrap_or(u32::MAX) } else { 0 }
    }

    /// The time by which the wait of `t` for this deadline must end.
    fn latest(&self, t: ThreadIdx, deadline: Deadline) -> Nanos {
        self.on_monotonic(deadline) + Nanos(self.thread(t).wait.slack.load(Relaxed).into())
    }

    /// The time from which the wait of `t` may end; `latest` is its time in a CPU's queue.
    pub(crate) fn may_end_at(&self, t: ThreadIdx, latest: Nanos) -> Nanos {
        latest - Nanos(self.thread(t).wait.slack.load(Relaxed).into())
    }

    fn on_monotonic(&self, deadline: Deadline) -> Nanos {
        if deadline.clock == Clock::Monotonic {
            return deadline.at;
        }
        self.clock(Clock::Monotonic) + deadline.at.since(self.clock(deadline.clock))
    }

    /// Removes the timeout of a wait from its queue.
    pub(crate) fn disarm_timeout(&self, t: ThreadIdx) {
        let timer_cpu = &self.thread(t).wait.timer_cpu;
        let cpu = timer_cpu.load(Relaxed);
        if cpu != 0 {
            timer_cpu.store(0, Relaxed);
            self.cpu(CpuId((cpu - 1) as u16)).timeouts.lock().cancel(t);
        }
    }

    /// Wakes the threads whose timeouts are due on this CPU, at most 64 (law 4).
    pub(crate) fn expire_timeouts(&self, cpu: CpuId) {
        let now = self.clock(Clock::Monotonic);
        for _ in 0..64 {
            let due = self.cpu(cpu).timeouts.lock().pop_if(|t, latest| self.may_end_at(t, latest) <= now);
            let Some((t, generation)) = due else { return };
            let wait = &self.thread(t).wait;
            if wait.clock.load(Relaxed) != 0 && wait.generation() == generation {
                // If the clock was set back, wait again: never early by the named clock.
                let deadline = Deadline { at: Nanos(wait.deadline.load(Relaxed)), clock: Clock::Realtime };
                if self.clock(Clock::Realtime) < deadline.at {
                    self.queue_timeout(cpu, t, self.latest(t, deadline), generation);
                    continue;
                }
            }
            if wait.set_cause(Some(generation), TIMED_OUT) {
                self.wake(cpu, t);
            }
        }
    }

    /// Makes `t` runnable if it waits. `cpu` is the caller's own.
    #[inline(never)]
    pub fn wake(&self, cpu: CpuId, t: ThreadIdx) -> bool {
        self.wake_here(cpu, t)
    }

    /// `wake`, inlined into the caller.
    #[inline(always)]
    pub(crate) fn wake_here(&self, cpu: CpuId, t: ThreadIdx) -> bool {
        self.wake_by(cpu, t, Now(&self.m))
    }

    /// [`Kernel::wake`] for a caller that has read the clock.
    #[inline(never)]
    pub(crate) fn wake_at(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) -> bool {
        self.wake_by(cpu, t, now)
    }

    #[inline(always)]
    fn wake_by(&self, cpu: CpuId, t: ThreadIdx, clock: impl sched::Clock) -> bool {
        if self.watched {
            self.note_waker(cpu, t);
        }
        match self.sched.wake_by(t, cpu, clock, &mut self.kicks(cpu)) {
            Some(at) => {
                self.tick_elsewhere(cpu, at);
                true
            }
            None => false,
        }
    }

    /// Ends a wait: sets the result of the thread, which is or will be current on this CPU.
    pub fn finish_wait(&self, t: ThreadIdx, result: isize) {
        self.disarm_timeout(t);
        self.thread(t).wait.set_kind(Wait::None);
        self.set_result(t, result);
        // A result that says how to restart is for signal delivery only.
        if (-516..=-512).contains(&result) {
            self.restart_at_exit(t);
        }
    }
}
