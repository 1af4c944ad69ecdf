//! The fast path: the calls by which programs hand a CPU over, and the choice of the next thread.
//!
//! Each call is one straight piece of code whose decision fits into registers. [`Next`] goes through memory, where
//! storing and reloading it in other pieces costs more than the decision itself. Cases that are not decided here go
//! to `trap.rs`, which returns a [`Next`].

use crate::cpu::{self, Cpu};
use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, Next, Now, Thread};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Prev;
use sync::atomic::Ordering::*;

/// The next thread of the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Chosen {
    /// This thread, at once.
    Run(ThreadIdx),
    /// This thread, when what is due on its way out has been seen to.
    Leave(ThreadIdx),
    /// Choose another thread: this one keeps waiting. `None`: no thread was found yet.
    Search(Option<ThreadIdx>),
    /// Nothing has been chosen yet: somebody wants to see every choice.
    Watched(Prev),
}

/// The outcome of one of the commonest calls ([`Kernel::next`] says more).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Brief {
    /// The CPU goes to somebody.
    Chosen(Chosen),
    /// The same, but the thread that waits now may have been given a signal meanwhile.
    Hinted(ThreadIdx, Chosen),
    /// The thread has its result, and somebody else shall have the CPU.
    GiveUp(ThreadIdx),
    /// The thread waits, and may have a signal.
    Block(ThreadIdx),
    /// Nothing has been done yet: one of the rarer operations of `futex(2)`.
    Futex(ThreadIdx),
}

const _: () = assert!(size_of::<Brief>() <= 16);

/// The CPU that a trap came to, looked up once.
#[derive(Debug)]
pub struct Here<'k, M: Machine> {
    k: &'k Kernel<M>,
    id: CpuId,
    cpu: &'k Cpu,
    sched: sched::At<'k>,
}

// Derived, they would ask the same of the machine.
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
        let brief = match call.nr {
            abi::nr::SCHED_YIELD => Brief::Chosen(self.here(cpu).sched_yield()),
            abi::nr::FUTEX => self.here(cpu).futex(call),
            _ => return self.call_other(cpu, call),
        };
        self.next(cpu, call, brief)
    }

    /// The decision that a [`Brief`] stands for. `call` is the call that returned it.
    #[inline(never)]
    pub fn next(&self, cpu: CpuId, call: &Call, brief: Brief) -> Next {
        match brief {
            Brief::Chosen(chosen) => self.carry_on(cpu, chosen),
            Brief::Hinted(t, chosen) => {
                let next = self.carry_on(cpu, chosen);
                self.look_after(cpu, t, next)
            }
            Brief::GiveUp(t) => self.give_up(cpu, t, Prev::Preempted),
            Brief::Block(t) => self.block(cpu, t),
            Brief::Futex(t) => {
                let out = self.futex_rare(cpu, t, call);
                self.after_call(cpu, t, call.nr, out)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn carry_on(&self, cpu: CpuId, chosen: Chosen) -> Next {
        match chosen {
            Chosen::Run(t) => Next::Run(t),
            Chosen::Leave(t) => self.exit(cpu, t),
            Chosen::Search(last) => self.search(cpu, last),
            Chosen::Watched(prev) => self.schedule_watched(cpu, prev),
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

    /// `sched_yield(2)`.
    #[inline(always)]
    pub fn sched_yield(self) -> Chosen {
        let t = self.current();
        self.k.set_result(t, 0);
        self.k.m.save(t);
        self.choose(Prev::Yield)
    }

    /// `futex(2)`.
    #[inline(always)]
    pub fn futex(self, call: &Call) -> Brief {
        let t = self.current();
        match self.k.futex_at_once(self.id, t, call) {
            Some(Out::Done(result)) => self.done(t, result).map_or(Brief::GiveUp(t), Brief::Chosen),
            // The two looks at the hint are those of `block`.
            Some(Out::Blocked) => {
                let thread = self.k.thread(t);
                if thread.hint.load(Acquire) != 0 {
                    return Brief::Block(t);
                }
                let chosen = self.choose(Prev::Block);
                if thread.hint.load(Acquire) != 0 { Brief::Hinted(t, chosen) } else { Brief::Chosen(chosen) }
            }
            _ => Brief::Futex(t),
        }
    }

    /// The current thread has its result; `None` if somebody else shall have the CPU.
    #[inline(always)]
    pub(crate) fn done(self, t: ThreadIdx, result: isize) -> Option<Chosen> {
        self.k.set_result(t, result);
        (!self.sched.need_resched()).then(|| self.try_exit(t, self.k.thread(t)))
    }

    /// The first choice, which nearly always is a thread that can go on.
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

    /// `exit`, unless there is something to see to.
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
    /// CPU timers want ticks where a thread runs; an idle CPU has no use for them.
    #[inline(always)]
    pub(crate) fn set_timer(self) {
        let tick = (self.sched.tick_needed() || self.k.cputime.is_armed() || self.k.parked.is_used())
            && !self.cpu.is_ticking();
        if tick || self.cpu.must_arm() {
            self.k.set_timer_slow(self.id, tick);
        }
    }
}
