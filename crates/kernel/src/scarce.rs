//! Too few carriers for all runnable threads.
//!
//! A thread whose credentials no free carrier has is **held back**: it waits like a throttled thread
//! ([`Wait::Throttled`]) and asks again when it is next chosen. A CPU that no carrier serves keeps its threads until
//! a carrier **visits** it, which leaves its own CPU behind in the same way. The machine makes these decisions.

use crate::hint;
use crate::machine::{Clock, Machine};
use crate::wait::{Deadline, Wait};
use crate::{Kernel, Next};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Prev;
use sync::atomic::{Ordering::*, fence};

/// The work of a CPU that is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Unserved {
    /// No work.
    Nothing,
    /// A timeout at that time of CLOCK_MONOTONIC.
    Until(Nanos),
    /// Threads that could run.
    Threads,
}

impl<M: Machine> Kernel<M> {
    /// Makes the chosen thread `t` of `cpu`, which is not loaded or has been saved, wait for `span` before it asks for
    /// a carrier again. Returns the CPU's next decision.
    pub fn without_carrier(&self, cpu: CpuId, t: ThreadIdx, span: Nanos) -> Next {
        let thread = self.thread(t);
        // Its critical section, if it is in one, must be aborted (`rseq_preempt`).
        thread.rseq_cpu.store(0, Relaxed);
        thread.wait.begin(Wait::Throttled);
        self.sched.prepare_block(t);
        fence(SeqCst);
        // Ending the process needs no credentials.
        if thread.hint.load(Acquire) & hint::EXIT != 0 {
            self.cancel_wait(t);
            return self.resched(cpu);
        }
        let at = self.clock(Clock::Monotonic) + span;
        self.arm_exactly(cpu, t, Deadline { at, clock: Clock::Monotonic });
        self.schedule(cpu, Prev::Block)
    }

    /// The carrier of `cpu` leaves it unserved. The current thread has been saved.
    pub fn leave_seat(&self, cpu: CpuId) {
        match self.sched.current(cpu) {
            // Our clocks count the thread as running.
            Some(t) => drop(self.compare_with_host(cpu, t)),
            None => {
                let _ = self.sched.idle_state(cpu, sched::Idle::Parked);
            }
        }
    }

    /// The caller, which served no CPU, has taken `cpu`, which had no carrier for a while.
    pub fn take_seat(&self, cpu: CpuId) -> Next {
        match self.sched.current(cpu) {
            Some(t) => self.was_unserved(cpu, t),
            None => {
                let _ = self.sched.idle_state(cpu, sched::Idle::Spinning);
            }
        }
        self.trap(cpu, crate::Trap::Seated)
    }

    /// The threads that wait on a CPU that is not served.
    pub fn unserved(&self, cpu: CpuId) -> Unserved {
        if self.sched.queued(cpu) > 0 || self.sched.current(cpu).is_some() {
            return Unserved::Threads;
        }
        self.earliest(cpu).map_or(Unserved::Nothing, Unserved::Until)
    }
}
