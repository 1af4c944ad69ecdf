//! The path of a trap through the kernel.
//!
//! ```text
//!  Trap::Call ─► syscall::dispatch ─► Out::Done ─────────────┐   need_resched? hint?
//!                                  ─► Out::Blocked ─► leave ─┤◄──────── schedule
//!  Trap::Timer, Kick ─► timeouts, tick ──────────────────────┤
//!  Trap::HostReturn ─► wake the caller ─► leave ─────────────┘─► exit ─► Next
//! ```

use crate::cputime::Ticked;
use crate::machine::{Call, Event, Machine};
use crate::wait::Wait;
use crate::{Chosen, Kernel, Personality, Thread, cpu, hint};
use abi::{Errno, nr};
use ids::{CpuId, Left, Nanos, ThreadIdx};
use sched::Prev;
use sync::atomic::Ordering::*;

/// Why a carrier enters the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// The current thread makes a system call.
    Call(Call),
    /// The CPU's timer went off, or it was kicked, or both.
    Interrupt {
        /// The timer went off.
        timer: bool,
        /// The CPU was kicked.
        kick: bool,
    },
    /// A host call that waited has returned, and this carrier still has the CPU.
    HostReturn {
        /// The thread that made the call.
        thread: ThreadIdx,
        /// The host's result.
        result: isize,
    },
    /// The CPU has a new carrier.
    Seated,
}

/// The decision of a trap: the carrier's next step.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Resume this thread.
    Run(ThreadIdx),
    /// The CPU has nothing to run: wait for a kick, or until this time.
    Idle {
        /// The CPU's earliest timeout.
        until: Option<Nanos>,
    },
    /// Make a host call that may wait for this thread, which is off the CPU.
    Host {
        /// The thread that the call is for.
        thread: ThreadIdx,
        /// The call.
        call: Call,
        /// When the CPU needs another carrier.
        wanted: Wanted,
    },
    /// Make a host call, expected to be short, for this thread, which keeps the CPU. The result goes to
    /// [`Kernel::inline_done`]. If the call takes long after all, the machine may give the CPU to another carrier
    /// ([`Kernel::set_aside`]).
    Inline {
        /// The thread that the call is for.
        thread: ThreadIdx,
        /// The call.
        call: Call,
    },
    /// A request that only the machine can carry out and that concerns the whole process. The thread stays current.
    Process(Process),
}

/// When a CPU that a thread has left for the host is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// It has work to do.
    Now,
    /// Its first timeout is due then. The machine ends the wait at that time, which it can for `poll(2)` and
    /// `epoll_wait(2)`.
    At(Nanos),
    /// Only when it is kicked.
    Never,
}

/// Whether the machine can end this call's wait at a given time without the program noticing.
pub(crate) fn ends_in_time(nr: usize) -> bool {
    matches!(nr, nr::POLL | nr::EPOLL_WAIT | nr::EPOLL_PWAIT)
}

/// A request that concerns the whole process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Process {
    /// `exit_group(2)` with this status.
    Exit(i32),
    /// A new process: fork, vfork, clone without CLONE_THREAD.
    Clone(abi::CloneArgs),
    /// `execve(2)`, `execveat(2)`.
    Exec(Call),
    /// A call by which the process leaves what it shares with others (`unshare(2)`, `setns(2)`). It can only as a whole: EINVAL if
    /// the host would leave some host thread behind.
    Leave(Call),
    /// A call that changes credentials, which Linux keeps per thread (user and group ids, capabilities and so on), or a
    /// call that only the thread's own host thread may make (`ptrace(2)`).
    Rights(Call),
}

/// The outcome of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Out {
    /// Done, with this result.
    Done(isize),
    /// Done, but another thread gets the CPU first.
    Yield(isize),
    /// The thread waits: [`Kernel::begin_wait`] has been called.
    Blocked,
    /// The thread has ended.
    Exited,
    /// The registers have been set.
    Restored,
    /// A part is done. The rest is done in rounds, one each time the thread is chosen.
    Work,
    /// A host call made with no kernel frame below it, because it may take long.
    Inline(Call),
    /// A host call that may wait, of which this much is done already.
    Host(Call, isize),
    /// A request for the machine.
    Process(Process),
}

impl From<Errno> for Out {
    fn from(e: Errno) -> Out {
        Out::Done(e.to_ret())
    }
}

/// `Ok(())` is the result 0.
impl<E: Into<Errno>> From<Result<(), E>> for Out {
    fn from(r: Result<(), E>) -> Out {
        r.map_or_else(|e| e.into().into(), |()| Out::Done(0))
    }
}

impl<E: Into<Errno>> From<Result<Out, E>> for Out {
    fn from(r: Result<Out, E>) -> Out {
        r.unwrap_or_else(|e| e.into().into())
    }
}

impl From<Result<usize, Errno>> for Out {
    fn from(r: Result<usize, Errno>) -> Out {
        Out::Done(Errno::ret_of(r))
    }
}

impl<M: Machine> Kernel<M> {
    /// Handles a trap on `cpu` to the end.
    #[inline]
    pub fn trap(&self, cpu: CpuId, trap: Trap) -> Next {
        match trap {
            Trap::Call(call) => self.call(cpu, &call),
            Trap::Interrupt { timer, kick } => self.on_interrupt(cpu, timer, kick),
            Trap::HostReturn { thread, result } => {
                self.carrier_is_back(cpu, thread);
                let Thread { wait, parked, .. } = self.thread(thread);
                parked.habit.is_over(|| self.now() - Nanos(wait.b.load(Relaxed)));
                self.host_result(cpu, thread, result);
                self.schedule(cpu, Prev::Block)
            }
            Trap::Seated => self.on_seat(cpu),
        }
    }

    #[inline(never)]
    pub(crate) fn after_call(&self, cpu: CpuId, t: ThreadIdx, nr: usize, out: Out) -> Next {
        match out {
            Out::Done(result) => self.decide(cpu, self.here(cpu).done(t, result).unwrap_or(Chosen::GiveUp(t))),
            Out::Blocked => self.block(cpu, t),
            Out::Yield(result) => {
                self.set_result(t, result);
                self.give_up(cpu, t, Prev::Yield)
            }
            Out::Exited => {
                let next = self.schedule(cpu, Prev::Exit);
                self.bury(t);
                next
            }
            Out::Restored => {
                if self.sched.need_resched(cpu) {
                    return self.give_up(cpu, t, Prev::Preempted);
                }
                self.exit(cpu, t)
            }
            Out::Work => self.give_up(cpu, t, Prev::Preempted),
            Out::Host(call, done) => self.host_wait(cpu, t, call, done),
            Out::Inline(inline) => {
                self.thread(t).wait.call.store(nr as u32, Relaxed);
                self.begin_inline(cpu, t);
                Next::Inline { thread: t, call: inline }
            }
            Out::Process(what) => {
                self.thread(t).wait.call.store(nr as u32, Relaxed);
                Next::Process(what)
            }
        }
    }

    /// The current thread waits.
    #[inline(never)]
    pub(crate) fn block(&self, cpu: CpuId, t: ThreadIdx) -> Next {
        if self.cputime.is_armed() {
            self.expire_before_wait(cpu, t);
        }
        // A thread with a signal does not wait at all, and keeps its place in the queue (`signal_pending_state` in
        // `__schedule`).
        self.recheck_signals(cpu, t);
        let next = self.schedule(cpu, Prev::Block);
        if self.recheck_signals(cpu, t) && self.sched.need_resched(cpu) { self.resched(cpu) } else { next }
    }

    /// The machine has carried out [`Next::Process`]; sets the current thread's result.
    pub fn process_done(&self, cpu: CpuId, result: isize) -> Next {
        let t = self.current(cpu);
        let nr = self.thread(t).wait.call.load(Relaxed) as usize;
        self.after_call(cpu, t, nr, Out::Done(result))
    }

    /// The machine has done what [`Next::Process`] asked so that the current thread can make its call, which it makes again.
    pub fn process_prepared(&self, cpu: CpuId) -> Next {
        let t = self.current(cpu);
        let nr = self.thread(t).wait.call.load(Relaxed) as usize;
        self.restart_call(t, None);
        self.after_call(cpu, t, nr, Out::Restored)
    }

    /// A new carrier serves the CPU. The current thread was chosen on another carrier, or left there in a host call,
    /// and has not been loaded here, so its state must not be saved.
    fn on_seat(&self, cpu: CpuId) -> Next {
        self.seat_is_taken(cpu);
        self.forget_timer(cpu);
        self.know_carrier(cpu, self.now());
        let _ = self.on_timer(cpu);
        self.answer_asked(cpu);
        self.resched(cpu)
    }

    /// Chooses anew. The current thread of `cpu` was chosen but not loaded, for example because another carrier makes
    /// the host call of [`Next::Host`] while the CPU continues.
    pub fn resched(&self, cpu: CpuId) -> Next {
        match self.sched.current(cpu) {
            Some(_) if self.sched.need_resched(cpu) => self.schedule(cpu, Prev::Preempted),
            Some(t) if self.ready(t) => self.exit(cpu, t),
            Some(_) => self.schedule(cpu, Prev::Block),
            None => self.schedule_from_idle(cpu),
        }
    }

    fn on_interrupt(&self, cpu: CpuId, timer: bool, kick: bool) -> Next {
        let count = &self.cpu(cpu).count;
        if kick {
            cpu::bump(&count.kicks);
        }
        let ticked = if timer { self.on_timer(cpu) } else { Ticked::Quietly };
        self.answer_asked(cpu);
        match self.sched.current(cpu) {
            Some(t) if ticked == Ticked::Throttled && self.thread(t).wait.kind() == Wait::None => {
                self.thread(t).rseq_cpu.store(0, Relaxed);
                self.m.save(t);
                let prev = if self.hold_back(cpu, t, self.now()) { Prev::Block } else { Prev::Preempted };
                self.schedule(cpu, prev)
            }
            Some(t) if self.sched.need_resched(cpu) && ticked != Ticked::Signalled => {
                if ticked == Ticked::SignalledUrgently {
                    self.deliver_signals(cpu, t);
                }
                // Its critical section, if it is in one, must be aborted (`rseq_preempt`).
                self.thread(t).rseq_cpu.store(0, Relaxed);
                self.give_up(cpu, t, Prev::Preempted)
            }
            Some(t) => match self.ready(t) {
                true => self.exit(cpu, t),
                false => self.schedule(cpu, Prev::Block),
            },
            None => self.schedule_from_idle(cpu),
        }
    }

    /// Puts the current thread back into the queue and chooses.
    #[inline(always)]
    pub(crate) fn give_up(&self, cpu: CpuId, t: ThreadIdx, prev: Prev) -> Next {
        self.m.save(t);
        self.schedule(cpu, prev)
    }

    /// Chooses the next thread of this CPU, passing over those that were woken spuriously.
    #[inline(never)]
    pub(crate) fn schedule(&self, cpu: CpuId, prev: Prev) -> Next {
        let chosen = self.here(cpu).choose(prev);
        self.decide(cpu, chosen)
    }

    /// Chooses the next thread of a CPU that is idle.
    fn schedule_from_idle(&self, cpu: CpuId) -> Next {
        self.idle_over(cpu, self.now());
        let next = self.schedule(cpu, Prev::Block);
        if let Next::Run(t) = next {
            self.bear_idle(cpu, t);
        }
        next
    }

    /// Continues the search after no thread was chosen, or `last`, which keeps waiting: until a thread can run or the
    /// CPU is idle.
    #[inline(never)]
    pub(crate) fn search(&self, cpu: CpuId, last: Option<ThreadIdx>) -> Next {
        let mut last = last;
        while last.is_some() {
            match self.here(cpu).choose(Prev::Block) {
                Chosen::Search(next) => last = next,
                chosen => return self.decide(cpu, chosen),
            }
        }
        self.go_idle(cpu)
    }

    /// Chooses while limits or a trace must see every switch.
    #[cold]
    #[inline(never)]
    pub(crate) fn schedule_watched(&self, cpu: CpuId, prev: Prev) -> Next {
        if let Some(controlled) = &self.controlled {
            return self.schedule_controlled(controlled, cpu, prev);
        }
        let mut prev = prev;
        loop {
            let last = self.sched.current(cpu);
            self.note_wait(last, prev);
            let (chosen, now) = self.here(cpu).choose_once(prev);
            self.switched(cpu, last, chosen, prev, now);
            let Some(t) = chosen else {
                self.turn_idle(cpu, now);
                return self.go_idle(cpu);
            };
            if self.ready(t) && !(self.limits.holds && self.hold_back(cpu, t, now)) {
                self.cputime.cpu.run(cpu, now);
                return self.exit(cpu, t);
            }
            prev = Prev::Block;
        }
    }

    /// The CPU has nothing to run.
    pub(crate) fn go_idle(&self, cpu: CpuId) -> Next {
        self.set_idle_timer(cpu);
        Next::Idle { until: self.idle_until(cpu) }
    }

    /// A watched CPU has chosen: charges the thread that ran before, and reports the switch.
    #[cold]
    pub(crate) fn switched(
        &self,
        cpu: CpuId,
        last: Option<ThreadIdx>,
        next: Option<ThreadIdx>,
        prev: Prev,
        now: Nanos,
    ) {
        if self.limits.holds
            && let Some(last) = last
        {
            self.count(last, now);
        }
        if !self.config.tracing {
            return;
        }
        if last != next {
            let left = match prev {
                Prev::Preempted | Prev::Yield => Left::Runnable,
                Prev::Block => Left::Waiting,
                Prev::Exit => Left::Ended,
            };
            self.m.observe(Event::Switched { cpu, to: next, left, at: now });
        } else if let Some(t) = last {
            // It goes on, so its wait was none.
            let _ = self.take_woken(t, now);
        }
    }

    /// Whether a chosen thread can continue: its wait, if any, is over, and its result is set. If not, marks it as
    /// waiting again.
    #[inline(always)]
    fn ready(&self, t: ThreadIdx) -> bool {
        self.is_ready(t, self.thread(t))
    }

    #[inline(always)]
    pub(crate) fn is_ready(&self, t: ThreadIdx, thread: &Thread) -> bool {
        match thread.wait.kind() {
            Wait::None => true,
            // The commonest wait: over when a waker has taken the thread out of its queue.
            Wait::Futex if !thread.node.queued() && thread.wait.armed().is_none() => {
                thread.wait.set_kind(Wait::None);
                self.set_result(t, 0);
                true
            }
            wait => self.ready_slow(t, wait),
        }
    }

    #[inline(never)]
    fn ready_slow(&self, t: ThreadIdx, wait: Wait) -> bool {
        match wait {
            Wait::Work => self.work(t),
            Wait::Throttled => self.is_let_go(t),
            Wait::Host | Wait::Terminal => M::Personality::resumes(self, t, wait),
            _ => self.ends_wait(t, || self.finished(t, wait)),
        }
    }

    /// Whether the wait of the chosen thread `t` is over: `finished` returns the result then. If not, marks the thread
    /// as waiting again.
    pub fn ends_wait(&self, t: ThreadIdx, finished: impl Fn() -> Option<isize>) -> bool {
        if let Some(result) = finished() {
            self.finish_wait(t, result);
            return true;
        }
        // Mark first, check again, and only then leave: a wake-up between the two checks finds the mark.
        self.sched.prepare_block(t);
        sync::atomic::fence(SeqCst);
        match finished() {
            Some(result) => {
                self.sched.cancel_block(t);
                self.finish_wait(t, result);
                true
            }
            None => false,
        }
    }

    fn finished(&self, t: ThreadIdx, wait: Wait) -> Option<isize> {
        match wait {
            Wait::None => Some(0),
            Wait::Futex => self.futex_finished(t),
            Wait::FutexVector => self.futex_vector_finished(t),
            Wait::FutexPi => self.futex_pi_finished(t),
            Wait::FutexRequeuePi => self.futex_requeue_pi_finished(t),
            Wait::Sleep => self.sleep_finished(t),
            Wait::Work | Wait::Throttled | Wait::Host | Wait::Terminal => unreachable!("`ready_slow` answers these"),
            Wait::Signal => self.sigwait_finished(t),
            Wait::Suspend => self.suspend_finished(t),
            Wait::CpuSleep => self.cpu_sleep_finished(t),
        }
    }

    /// Called after a thread was marked as waiting: if a hint was set before the mark was visible, wakes the thread.
    /// Returns whether it did.
    #[inline(always)]
    pub(crate) fn recheck_signals(&self, cpu: CpuId, t: ThreadIdx) -> bool {
        self.thread(t).hint.load(Acquire) != 0 && self.wake(cpu, t)
    }

    /// The last checks before user code.
    #[inline(always)]
    pub(crate) fn exit(&self, cpu: CpuId, t: ThreadIdx) -> Next {
        let here = self.here(cpu);
        if here.must_look(self.thread(t))
            && let Some(next) = self.exit_slow(cpu, t)
        {
            return next;
        }
        here.set_timer();
        Next::Run(t)
    }

    #[inline(never)]
    fn exit_slow(&self, cpu: CpuId, t: ThreadIdx) -> Option<Next> {
        self.rseq_resume(cpu, t);
        let bits = self.thread(t).hint.load(Acquire);
        if bits & hint::EXIT != 0 {
            return Some(Next::Process(Process::Exit(self.process.exit_status())));
        }
        if bits & hint::ARRIVALS != 0 {
            self.take_arrivals(cpu, t);
        }
        if bits & hint::FOR_DESCRIPTORS != 0 {
            self.thread(t).hint.fetch_and(!hint::FOR_DESCRIPTORS, AcqRel);
        }
        if self.thread(t).hint.load(Acquire) & (hint::SIGNAL | hint::RESTART) != 0 {
            self.deliver_signals(cpu, t);
        }
        None
    }

    /// One poll by an idle CPU that has not gone to sleep yet.
    pub fn idle_look(&self, cpu: CpuId) -> Option<Next> {
        let now = self.now();
        let t = self.sched.idle_pull(cpu, now, &mut self.kicks(cpu))?;
        self.idle_over(cpu, now);
        self.cputime.cpu.run(cpu, now);
        self.bear_idle(cpu, t);
        if self.watched {
            self.switched(cpu, None, Some(t), Prev::Block, now);
        }
        Some(if self.ready(t) { self.exit(cpu, t) } else { self.schedule(cpu, Prev::Block) })
    }
}
