//! A thread leaves its CPU for a host call, and comes back with the result.
//!
//! The machine makes the call on a carrier that the CPU can spare ([`Next::Host`]), or on the CPU's own while nobody
//! wants it ([`Next::Inline`]). Which calls are made in which form the personality decides.

use crate::machine::{Call, Machine};
use crate::trap::{Next, Wanted, ends_in_time};
use crate::wait::Wait;
use crate::{Kernel, cpu};
use abi::{Errno, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Prev;
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// The thread leaves the CPU for a host call. `done` is the argument of [`Kernel::leave_for_host`]. `poll(2)`,
    /// which has no parts, keeps the time at which it ends there, or 0 when it begins.
    pub(crate) fn host_wait(&self, cpu: CpuId, t: ThreadIdx, call: Call, done: isize) -> Next {
        self.thread(t).wait.note_call(&call);
        self.cpu(cpu).count.waited_by_call.bump(call.nr);
        let wanted = self.leave_until(cpu, t, done, ends_in_time(call.nr));
        if call.nr == nr::POLL && done == 0 {
            self.begin_poll(t, call.args[2]);
        }
        Next::Host { thread: t, call, wanted }
    }

    /// The current thread leaves the CPU for something in the host that may wait, whose result comes
    /// back as that of a host call; `done` is added to it. Says whether the CPU is busy meanwhile.
    pub fn leave_for_host(&self, cpu: CpuId, t: ThreadIdx, done: isize) -> bool {
        self.leave_until(cpu, t, done, false) == Wanted::Now
    }

    /// Says when the CPU is wanted. If the wait does not `end_in_time`, a CPU with a timeout is wanted at once.
    fn leave_until(&self, cpu: CpuId, t: ThreadIdx, done: isize, end_in_time: bool) -> Wanted {
        cpu::bump(&self.cpu(cpu).count.waited);
        self.begin_wait(t, Wait::Host);
        self.thread(t).wait.a.store(done as u64, Relaxed);
        let now = self.now();
        self.thread(t).wait.b.store(now.0, Relaxed);
        self.leave_carrier(cpu, t, now);
        let next = match &self.controlled {
            Some(controlled) => self.elect(controlled, cpu, Prev::Block),
            None => self.sched.schedule(cpu, now, Prev::Block, &mut self.kicks(cpu)),
        };
        if self.watched && self.controlled.is_none() {
            self.switched(cpu, Some(t), next, Prev::Block, now);
        }
        match next {
            Some(_) => self.cputime.cpu.run(cpu, now),
            None => self.turn_idle(cpu, now),
        }
        if next.is_some() || self.parked.is_any() {
            // Parked threads need a carrier that looks for them.
            return Wanted::Now;
        }
        let due = self.earliest(cpu);
        // For a real-time thread's timeout the carrier wakes up early, for a deadline thread that waits for its budget there are
        // ticks, and the host's clock knows nothing of virtual time.
        let is_in_time = |at| {
            let urgent = self.sched.tick_needed(cpu) || self.ends_urgent_sleep(cpu, at);
            end_in_time && !self.is_controlled() && !urgent
        };
        // A CPU whose carrier is away does not look around: wakers must kick.
        if !due.is_none_or(is_in_time) || !self.sched.idle_state(cpu, sched::Idle::Parked) {
            return Wanted::Now;
        }
        due.map_or(Wanted::Never, Wanted::At)
    }

    /// A call of [`Next::Inline`] has returned, and this carrier still has the CPU.
    ///
    /// One that was cut short by something that the program cannot see, a tick or a kick, is made
    /// again as one that waits: then nothing of the kind disturbs it. Only `close(2)` is not made
    /// twice: the descriptor is gone after the first time.
    ///
    /// The answer is `None` if the call is done: what follows from that is the personality's, which ends the call.
    #[must_use]
    pub fn inline_done(&self, cpu: CpuId, t: ThreadIdx, call: Call, result: isize) -> Option<Next> {
        self.end_inline(cpu, t);
        let disturbed = result == Errno::EINTR.to_ret() && call.nr != nr::CLOSE && !self.host_interrupted(t);
        disturbed.then(|| self.host_wait(cpu, t, call, 0))
    }

    /// A call of [`Next::Inline`] has done so much, `done`, when something that the program cannot see cut it short: the
    /// rest is made as a call that waits.
    pub fn inline_goes_on(&self, cpu: CpuId, t: ThreadIdx, rest: Call, done: isize) -> Next {
        self.end_inline(cpu, t);
        self.host_wait(cpu, t, rest, done)
    }

    /// The current thread of `cpu` is in a host call of [`Next::Inline`] on a carrier that loses the CPU:
    /// from now on it waits for that call. Its state is still on that carrier, which saves it and
    /// then says [`Kernel::host_returned`]. The caller has the CPU to itself and gives it
    /// to a carrier that begins with [`crate::Trap::Seated`]. The carrier has consumed `host` so far.
    pub fn set_aside(&self, cpu: CpuId, host: Nanos) -> Option<ThreadIdx> {
        let t = self.sched.current(cpu)?;
        let wait = &self.thread(t).wait;
        wait.begin(Wait::Host);
        wait.a.store(0, Relaxed);
        self.compare_with(cpu, t, self.now(), host);
        self.thread(t).time.call_began_at(Some(host));
        Some(t)
    }

    /// A host call has returned on a carrier without a CPU; `from` is the CPU that it had
    /// when it made the call.
    pub fn host_returned(&self, from: CpuId, t: ThreadIdx, result: isize) {
        let _ = self.return_carrier(t);
        self.host_result(from, t, result);
        // The wake-up takes `from` for the caller's own CPU, which looks around before it leaves the
        // kernel: at its queue, and at its timer (a deadline thread may have to wait for its budget).
        if self.sched.cpu_of(t) == from {
            self.m.kick(from);
        }
    }

    /// Stores the result of a host call, so that the thread can continue.
    pub(crate) fn host_result(&self, from: CpuId, t: ThreadIdx, result: isize) {
        self.thread(t).parked.is_back(&self.parked);
        let wait = &self.thread(t).wait;
        wait.value.store(result as i64, Relaxed);
        wait.set_done();
        self.wake(from, t);
    }

    /// A `poll(2)` begins to wait: when it ends, by [`Kernel::now`].
    pub fn begin_poll(&self, t: ThreadIdx, ms: u64) {
        let wait = &self.thread(t).wait;
        let span = u64::try_from(ms as i32).map_or(FOR_EVER, |ms| ms * 1_000_000);
        wait.a.store(wait.b.load(Relaxed).saturating_add(span).min(FOR_EVER), Relaxed);
    }
}

/// The end of a `poll(2)` without a time.
pub const FOR_EVER: u64 = i64::MAX as u64;
