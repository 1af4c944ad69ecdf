//! The way of a trap through the kernel.
//!
//! ```text
//!  Trap::Call ─► syscall::dispatch ─► Out::Done ─────────────┐   need_resched? hint?
//!                                  ─► Out::Blocked ─► leave ─┤◄──────── schedule
//!  Trap::Timer, Kick ─► timeouts, tick ──────────────────────┤
//!  Trap::HostReturn ─► wake the caller ─► leave ─────────────┘─► exit ─► Next
//! ```

use crate::machine::{Call, Machine};
use crate::wait::Wait;
use crate::{Kernel, cpu, thread::hint};
use abi::Errno;
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Prev;
use sync::atomic::Ordering::*;

/// What brought a carrier into the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// The current thread makes a system call.
    Call(Call),
    /// The CPU's timer went off, or it was kicked, or both.
    Interrupt {
        /// The timer went off.
        timer: bool,
        /// Somebody kicked.
        kick: bool,
    },
    /// A host call that had to wait has returned, and this carrier still has the CPU.
    HostReturn {
        /// Whose call it was.
        thread: ThreadIdx,
        /// What the host said.
        result: isize,
    },
    /// The CPU has just got this carrier.
    Seated,
}

/// What the carrier does next.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Resume this thread.
    Run(ThreadIdx),
    /// Nothing to run: wait for a kick, or for the time.
    Idle {
        /// The CPU's earliest timeout.
        until: Option<Nanos>,
    },
    /// Make a host call that may wait for this thread, which is off the CPU. If `busy`, the
    /// CPU has something to do meanwhile and needs another carrier.
    Host {
        /// For whom.
        thread: ThreadIdx,
        /// The call.
        call: Call,
        /// The CPU must not wait with it.
        busy: bool,
    },
    /// Make a host call for this thread, which keeps the CPU: it is taken to be short. The result
    /// goes to [`Kernel::inline_done`]. If it takes long after all, the machine may give the CPU to
    /// another carrier ([`Kernel::set_aside`]).
    Inline {
        /// For whom.
        thread: ThreadIdx,
        /// The call.
        call: Call,
    },
    /// Something only the machine can do with the whole process. The thread stays current.
    Process(Process),
}

/// What concerns the whole process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Process {
    /// `exit_group(2)` with this status.
    Exit(i32),
    /// A new process: fork, vfork, clone without CLONE_THREAD.
    Clone(abi::CloneArgs),
    /// `execve(2)`, `execveat(2)`.
    Exec(Call),
    /// A call that changes what the calling thread may do, as Linux keeps it per thread: user and group
    /// ids, capabilities, and the like; or that only the thread's own host thread may make (`ptrace(2)`).
    Rights(Call),
}

/// What a system call came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Out {
    /// Done, with this result.
    Done(isize),
    /// Done, but the CPU goes to somebody else first.
    Yield(isize),
    /// The thread waits: [`Kernel::begin_wait`] has been called.
    Blocked,
    /// The thread is no more.
    Exited,
    /// The registers have been set as they shall be.
    Restored,
    /// Some of it is done; the rest is done in rounds, each time the thread is chosen.
    Work,
    /// A host call that is made with no kernel frame below it, as it may last.
    Inline(Call),
    /// A host call that may wait, after so much has been done of what was asked.
    Host(Call, isize),
    /// The machine's turn.
    Process(Process),
}

impl From<Errno> for Out {
    fn from(e: Errno) -> Out {
        Out::Done(e.to_ret())
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
                self.host_result(cpu, thread, result);
                self.schedule(cpu, Prev::Block)
            }
            Trap::Seated => self.on_seat(cpu),
        }
    }

    /// The current thread of `cpu` makes a system call.
    #[inline(always)]
    pub fn call(&self, cpu: CpuId, call: &Call) -> Next {
        let t = self.current(cpu);
        let nr = call.nr;
        let out = self.syscall(cpu, t, call);
        self.after_call(cpu, t, nr, out)
    }

    /// The thread that runs on `cpu`.
    #[inline(always)]
    pub fn current(&self, cpu: CpuId) -> ThreadIdx {
        self.sched.current(cpu).expect("a trap from a thread, but the CPU is idle")
    }

    #[inline(always)]
    fn after_call(&self, cpu: CpuId, t: ThreadIdx, nr: usize, out: Out) -> Next {
        match out {
            Out::Done(result) => {
                self.m.set_result(t, result);
                if self.sched.need_resched(cpu) {
                    return self.give_up(cpu, t, Prev::Preempted);
                }
                self.exit(cpu, t)
            }
            Out::Blocked => {
                // With a signal it does not wait at all, and keeps its place among its equals
                // (`signal_pending_state` in `__schedule`).
                self.look_again(cpu, t);
                let next = self.schedule(cpu, Prev::Block);
                let woken = self.look_again(cpu, t);
                if woken && self.sched.need_resched(cpu) { self.choose_again(cpu, next) } else { next }
            }
            Out::Yield(result) => {
                self.m.set_result(t, result);
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
                Next::Inline { thread: t, call: inline }
            }
            Out::Process(what) => {
                self.thread(t).wait.call.store(nr as u32, Relaxed);
                Next::Process(what)
            }
        }
    }

    /// The machine has done what [`Next::Process`] asked; the current thread gets the result.
    pub fn process_done(&self, cpu: CpuId, result: isize) -> Next {
        let t = self.current(cpu);
        let nr = self.thread(t).wait.call.load(Relaxed) as usize;
        self.after_call(cpu, t, nr, Out::Done(result))
    }

    /// A new carrier. Whoever is current here was chosen, or left in a host call, on another one
    /// and has not been loaded: nothing of it may be saved.
    fn on_seat(&self, cpu: CpuId) -> Next {
        self.forget_timer(cpu);
        self.on_timer(cpu);
        self.answer_asked(cpu);
        match self.sched.current(cpu) {
            Some(_) if self.sched.need_resched(cpu) => self.schedule(cpu, Prev::Preempted),
            Some(t) if self.ready(t) => self.exit(cpu, t),
            _ => self.schedule(cpu, Prev::Block),
        }
    }

    fn on_interrupt(&self, cpu: CpuId, timer: bool, kick: bool) -> Next {
        let count = &self.cpu(cpu).count;
        if kick {
            cpu::bump(&count.kicks);
        }
        if timer {
            self.on_timer(cpu);
        }
        self.answer_asked(cpu);
        match self.sched.current(cpu) {
            Some(t) if self.sched.need_resched(cpu) => {
                // Its critical section, if it is in one, must be aborted (`rseq_preempt`).
                self.thread(t).rseq_cpu.store(0, Relaxed);
                self.give_up(cpu, t, Prev::Preempted)
            }
            Some(t) => match self.ready(t) {
                true => self.exit(cpu, t),
                false => self.schedule(cpu, Prev::Block),
            },
            None => self.schedule(cpu, Prev::Block),
        }
    }

    /// Puts the current thread back in line and chooses.
    fn give_up(&self, cpu: CpuId, t: ThreadIdx, prev: Prev) -> Next {
        self.m.save(t);
        self.schedule(cpu, prev)
    }

    /// Chooses the next thread of this CPU, passing over those that were woken for nothing.
    fn schedule(&self, cpu: CpuId, prev: Prev) -> Next {
        let now = self.m.now();
        let mut prev = prev;
        loop {
            match self.sched.schedule(cpu, now, prev, &mut self.kicks(cpu)) {
                None => {
                    self.set_timer(cpu);
                    return Next::Idle { until: self.cpu(cpu).earliest() };
                }
                Some(t) if self.ready(t) => return self.exit(cpu, t),
                Some(_) => prev = Prev::Block,
            }
        }
    }

    /// Whether a chosen thread can go on: its wait, if it has one, is over, and its result
    /// is set. If not, it is marked as waiting again.
    #[inline(always)]
    fn ready(&self, t: ThreadIdx) -> bool {
        let wait = self.thread(t).wait.kind();
        wait == Wait::None || self.ready_slow(t, wait)
    }

    #[inline(never)]
    fn ready_slow(&self, t: ThreadIdx, wait: Wait) -> bool {
        if wait == Wait::Work {
            return self.work(t);
        }
        if let Some(result) = self.finished(t, wait) {
            self.finish_wait(t, result);
            return true;
        }
        // Mark first, look again, and only then let go: a wake-up between the two looks
        // finds the mark.
        self.sched.prepare_block(t);
        sync::atomic::fence(SeqCst);
        match self.finished(t, wait) {
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
            Wait::None | Wait::Work => Some(0),
            Wait::Futex => self.futex_finished(t),
            Wait::FutexVector => self.futex_vector_finished(t),
            Wait::FutexPi => self.futex_pi_finished(t),
            Wait::FutexRequeuePi => self.futex_requeue_pi_finished(t),
            Wait::Sleep => self.sleep_finished(t),
            Wait::Host => self.host_finished(t),
            Wait::Signal => self.sigwait_finished(t),
            Wait::Suspend => self.suspend_finished(t),
        }
    }

    /// After a thread has been marked as waiting: was something set before the mark was seen? Says
    /// whether it has been woken.
    #[inline(always)]
    fn look_again(&self, cpu: CpuId, t: ThreadIdx) -> bool {
        self.thread(t).hint.load(Acquire) != 0 && self.wake(cpu, t)
    }

    /// The choice was made before somebody more urgent woke up. Who was chosen has not been
    /// loaded: there is nothing of it to save.
    #[cold]
    fn choose_again(&self, cpu: CpuId, next: Next) -> Next {
        match next {
            Next::Run(_) => self.schedule(cpu, Prev::Preempted),
            Next::Idle { .. } => self.schedule(cpu, Prev::Block),
            Next::Host { .. } | Next::Inline { .. } | Next::Process(_) => next,
        }
    }

    /// The last station before user code.
    #[inline(always)]
    fn exit(&self, cpu: CpuId, t: ThreadIdx) -> Next {
        let thread = self.thread(t);
        if (thread.hint.load(Acquire) != 0 || thread.rseq_cpu.load(Relaxed) != u32::from(cpu.0) + 1)
            && let Some(next) = self.exit_slow(cpu, t)
        {
            return next;
        }
        self.set_timer(cpu);
        Next::Run(t)
    }

    #[inline(never)]
    fn exit_slow(&self, cpu: CpuId, t: ThreadIdx) -> Option<Next> {
        self.rseq_resume(cpu, t);
        let bits = self.thread(t).hint.load(Acquire);
        if bits & hint::EXIT != 0 {
            return Some(Next::Process(Process::Exit(self.process.exit_status())));
        }
        if bits & hint::SIGNAL != 0 {
            self.deliver_signals(cpu, t);
        }
        None
    }

    /// One look of an idle CPU that has not gone to sleep yet.
    pub fn idle_look(&self, cpu: CpuId) -> Option<Next> {
        let now = self.m.now();
        let t = self.sched.idle_pull(cpu, now, &mut self.kicks(cpu))?;
        Some(if self.ready(t) { self.exit(cpu, t) } else { self.schedule(cpu, Prev::Block) })
    }
}
