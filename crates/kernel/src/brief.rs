//! The entry of every system call, the calls by which programs hand a CPU over, and the choice of the next thread.
//!
//! [`Here::call`] is one inlined piece of code whose decision, a [`Chosen`], fits into registers. [`Next`] is returned
//! through memory, where the store and the reload in other functions cost more than the decision itself.

use crate::cpu::{self, Cpu};
use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, Next, Now, Thread};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Prev;
use sync::atomic::Ordering::*;

/// The thread that gets the CPU next, or the work that must come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Chosen {
    /// This thread, without further work.
    Run(ThreadIdx),
    /// This thread, after the work that is due on its way out.
    Leave(ThreadIdx),
    /// Choose another thread: this one keeps waiting. `None`: no thread was found yet.
    Search(Option<ThreadIdx>),
    /// Nothing is chosen yet, because an observer must see every choice.
    Watched(Prev),
    /// Another thread is chosen, but this one, which waits now, may have been given a signal meanwhile.
    Hinted(ThreadIdx),
    /// This thread has its result, and another one must get the CPU.
    GiveUp(ThreadIdx),
    /// This thread waits, and may have a signal.
    Block(ThreadIdx),
}

const _: () = assert!(size_of::<Option<Chosen>>() <= 16);

/// The CPU of the trap, looked up once.
#[derive(Debug)]
pub struct Here<'k, M: Machine> {
    k: &'k Kernel<M>,
    id: CpuId,
    cpu: &'k Cpu,
    sched: sched::At<'k>,
}

// A derived `Clone` would require `M: Clone`.
impl<M: Machine> Clone for Here<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Here<'_, M> {}

impl<M: Machine> Kernel<M> {
    /// This CPU, looked up.
    #[inline(always)]
    pub fn here(&self, cpu: CpuId) -> Here<'_, M> {
        Here { k: self, id: cpu, cpu: self.cpu(cpu), sched: self.sched.at(cpu) }
    }

    /// The current thread of `cpu` makes a system call.
    pub fn call(&self, cpu: CpuId, call: &Call) -> Next {
        let chosen = self.here(cpu).call(call);
        self.conclude(cpu, call, chosen)
    }

    /// The decision for `call`, from the result of [`Here::call`].
    #[inline(never)]
    pub fn conclude(&self, cpu: CpuId, call: &Call, chosen: Option<Chosen>) -> Next {
        match chosen {
            Some(chosen) => self.decide(cpu, chosen),
            None => match self.here(cpu).call_other(call) {
                Ok(chosen) => self.decide(cpu, chosen),
                Err(next) => next,
            },
        }
    }

    /// The decision after a choice.
    #[inline(always)]
    pub(crate) fn decide(&self, cpu: CpuId, chosen: Chosen) -> Next {
        match chosen {
            Chosen::Run(t) => Next::Run(t),
            Chosen::Leave(t) => self.exit(cpu, t),
            Chosen::Search(last) => self.search(cpu, last),
            Chosen::Watched(prev) => self.schedule_watched(cpu, prev),
            Chosen::Hinted(t) => {
                self.recheck_signals(cpu, t);
                self.resched(cpu)
            }
            Chosen::GiveUp(t) => self.give_up(cpu, t, Prev::Preempted),
            Chosen::Block(t) => self.block(cpu, t),
        }
    }

    /// The thread that runs on `cpu`.
    #[inline(always)]
    pub fn current(&self, cpu: CpuId) -> ThreadIdx {
        self.here(cpu).current()
    }
}

impl<'k, M: Machine> Here<'k, M> {
    /// Counts a call that came from this library.
    #[inline(always)]
    pub fn count_call(self, library: u32) {
        let counters = &self.cpu.count.calls_by_library;
        cpu::bump(&counters[(library as usize).min(counters.len() - 1)]);
    }

    /// Counts a call that is passed on to the host.
    #[inline(always)]
    pub fn count_passed(self) {
        cpu::bump(&self.cpu.count.passed);
    }

    /// The machine.
    #[inline(always)]
    pub fn machine(self) -> &'k M {
        &self.k.m
    }

    /// The thread that runs here.
    #[inline(always)]
    pub fn current(self) -> ThreadIdx {
        self.sched.current().expect("a trap from a thread, but the CPU is idle")
    }

    /// Handles a system call of the current thread. `None`: nothing has been done yet; use [`Here::call_other`].
    #[inline(always)]
    pub fn call(self, call: &Call) -> Option<Chosen> {
        match call.nr {
            abi::nr::SCHED_YIELD => Some(self.sched_yield()),
            abi::nr::FUTEX => self.futex(call),
            _ => None,
        }
    }

    /// A system call that [`Here::call`] has left. If its result is known, which is the rule, the choice stays in
    /// registers.
    ///
    /// # Errors
    /// The decision, if the call has no result yet.
    #[inline(always)]
    pub fn call_other(self, call: &Call) -> Result<Chosen, Next> {
        let t = self.current();
        match self.k.syscall(self.id, t, call) {
            Out::Done(result) => Ok(self.done(t, result).unwrap_or(Chosen::GiveUp(t))),
            out => Err(self.k.after_call(self.id, t, call.nr, out)),
        }
    }

    /// `sched_yield(2)`.
    #[inline(always)]
    fn sched_yield(self) -> Chosen {
        let t = self.current();
        self.k.set_result(t, 0);
        self.k.m.save(t);
        self.choose(Prev::Yield)
    }

    /// `futex(2)`, except for its rarer operations.
    #[inline(always)]
    fn futex(self, call: &Call) -> Option<Chosen> {
        let t = self.current();
        Some(match self.k.futex_at_once(self.id, t, call)? {
            Out::Done(result) => self.done(t, result).unwrap_or(Chosen::GiveUp(t)),
            // These checks are those of `block`.
            Out::Blocked => {
                let thread = self.k.thread(t);
                if thread.hint.load(Acquire) != 0 || self.k.cputime.is_armed() {
                    return Some(Chosen::Block(t));
                }
                match self.choose(Prev::Block) {
                    Chosen::Watched(_) => Chosen::Block(t),
                    _ if thread.hint.load(Acquire) != 0 => Chosen::Hinted(t),
                    chosen => chosen,
                }
            }
            _ => return None,
        })
    }

    /// Sets the current thread's result; `None` if another thread must get the CPU.
    #[inline(always)]
    pub(crate) fn done(self, t: ThreadIdx, result: isize) -> Option<Chosen> {
        self.k.set_result(t, result);
        (!self.sched.need_resched()).then(|| self.try_exit(t, self.k.thread(t)))
    }

    /// The first choice, which is nearly always a thread that can continue.
    #[inline(always)]
    pub(crate) fn choose(self, prev: Prev) -> Chosen {
        let k = self.k;
        if k.watched {
            return Chosen::Watched(prev);
        }
        let (chosen, now) = self.choose_once(prev);
        match chosen {
            Some(t) => {
                let thread = k.thread(t);
                if k.is_ready(t, thread) {
                    k.cputime.cpu.run(self.id, now);
                    return self.try_exit(t, thread);
                }
            }
            None => k.turn_idle(self.id, now),
        }
        Chosen::Search(chosen)
    }

    #[inline(always)]
    pub(crate) fn choose_once(self, prev: Prev) -> (Option<ThreadIdx>, Nanos) {
        self.sched.schedule_by(Now(&self.k.m), prev, self.k.kicks(self.id))
    }

    /// `exit`, if nothing is due first.
    #[inline(always)]
    fn try_exit(self, t: ThreadIdx, thread: &Thread) -> Chosen {
        if self.must_look(thread) {
            return Chosen::Leave(t);
        }
        self.set_timer();
        Chosen::Run(t)
    }

    /// Whether something is due before this thread returns to user code.
    #[inline(always)]
    pub(crate) fn must_look(self, thread: &Thread) -> bool {
        thread.hint.load(Acquire) != 0 || thread.rseq_cpu.load(Relaxed) != u32::from(self.id.0) + 1
    }

    /// Sets this CPU's timer to the earlier of the next tick and the earliest timeout.
    /// A timer that is set too early is left alone: it goes off once for nothing, which
    /// costs less than setting it at every switch.
    ///
    /// Only a running thread needs ticks for CPU timers; an idle CPU needs none.
    #[inline(always)]
    pub(crate) fn set_timer(self) {
        let tick = (self.sched.tick_needed() || self.k.cputime.is_armed() || self.k.parked.is_used())
            && !self.cpu.is_ticking();
        if tick || self.cpu.must_arm() {
            self.k.set_timer_slow(self.id, tick);
        }
    }
}
