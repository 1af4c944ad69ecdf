//! A thread leaves its CPU for a host call, and returns with the result.
//!
//! The machine makes the call on a carrier that the CPU can spare ([`Next::Host`]), or on the CPU's own carrier as long
//! as no other thread wants the CPU ([`Next::Inline`]). The personality decides which form a call takes.

use crate::machine::{Call, Machine};
use crate::trap::{Next, Wanted, ends_in_time};
use crate::wait::Wait;
use crate::{Kernel, Thread, cpu};
use abi::{Errno, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Prev;
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// The thread leaves the CPU for a host call. `done` is the argument of [`Kernel::leave_for_host`]. For `poll(2)`,
    /// which has no partial result, it is the time at which the call ends, or 0 at its start.
    pub(crate) fn host_wait(&self, cpu: CpuId, t: ThreadIdx, call: Call, done: isize) -> Next {
        self.thread(t).wait.note_call(&call);
        self.cpu(cpu).count.waited_by_call.bump(call.nr);
        let wanted = self.leave_until(cpu, t, done, ends_in_time(call.nr));
        if call.nr == nr::POLL && done == 0 {
            self.begin_poll(t, call.args[2]);
        }
        Next::Host { thread: t, call, wanted }
    }

    /// The current thread leaves the CPU for a wait in the host, whose result returns like that of a host call; `done`
    /// is added to it. Returns whether the CPU is busy meanwhile.
    pub fn leave_for_host(&self, cpu: CpuId, t: ThreadIdx, done: isize) -> bool {
        self.leave_until(cpu, t, done, false) == Wanted::Now
    }

    /// Returns when the CPU is wanted. If the wait does not `end_in_time`, a CPU with a timeout is wanted at once.
    fn leave_until(&self, cpu: CpuId, t: ThreadIdx, done: isize, end_in_time: bool) -> Wanted {
        cpu::bump(&self.cpu(cpu).count.waited);
        if self.cputime.is_armed() {
            self.expire_before_wait(cpu, t);
        }
        self.begin_wait(t, Wait::Host);
        self.thread(t).wait.a.store(done as u64, Relaxed);
        let now = self.now();
        self.thread(t).wait.b.store(now.0, Relaxed);
        self.leave_carrier(cpu, t, now);
        self.note_wait(Some(t), Prev::Block);
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
            // Parked threads need a carrier that polls for their events.
            return Wanted::Now;
        }
        let due = self.idle_until(cpu);
        // Not in time: for a real-time thread's timeout the carrier must wake up early, a deadline thread that waits
        // for its budget needs ticks, and the host's clock knows nothing of virtual time.
        let is_in_time = |at| {
            let urgent = self.sched.tick_needed(cpu) || self.ends_urgent_sleep(cpu, at);
            end_in_time && !self.is_controlled() && !urgent
        };
        // A CPU whose carrier is away does not poll its run queue: wakers must kick.
        if !due.is_none_or(is_in_time) || !self.sched.idle_state(cpu, sched::Idle::Parked) {
            return Wanted::Now;
        }
        due.map_or(Wanted::Never, Wanted::At)
    }

    /// A call of [`Next::Inline`] has returned, and this carrier still has the CPU.
    ///
    /// If the call was cut short by something that the program must not notice, a tick or a kick, it is repeated in the
    /// waiting form, which neither can interrupt. `close(2)` is not repeated: the descriptor is gone after the first
    /// time.
    ///
    /// `None` if the call is done: the personality then ends it.
    #[must_use]
    pub fn inline_done(&self, cpu: CpuId, t: ThreadIdx, call: Call, result: isize) -> Option<Next> {
        self.end_inline(cpu, t);
        let disturbed = result == Errno::EINTR.to_ret() && call.nr != nr::CLOSE && !self.host_interrupted(t);
        disturbed.then(|| self.host_wait(cpu, t, call, 0))
    }

    /// A call of [`Next::Inline`] has done a part, `done`, when something that the program must not notice cut it
    /// short: makes the rest as a call that waits.
    pub fn inline_goes_on(&self, cpu: CpuId, t: ThreadIdx, rest: Call, done: isize) -> Next {
        self.end_inline(cpu, t);
        self.host_wait(cpu, t, rest, done)
    }

    /// The current thread of `cpu` is in a host call of [`Next::Inline`] on a carrier that loses the CPU: from now on
    /// it waits for that call. Its state is still on that carrier, which saves it and then calls
    /// [`Kernel::host_returned`]. The caller has the CPU to itself and gives it to a carrier that begins with
    /// [`crate::Trap::Seated`]. `host` is the time that the carrier has consumed so far.
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
        // The wake-up takes `from` for the caller's own CPU, which checks its queue and its timer before it leaves the
        // kernel (a deadline thread may have to wait for its budget).
        if self.sched.cpu_of(t) == from {
            self.m.kick(from);
        }
    }

    /// Stores the result of a host call, so that the thread can continue.
    pub(crate) fn host_result(&self, from: CpuId, t: ThreadIdx, result: isize) {
        let Thread { wait, parked, .. } = self.thread(t);
        parked.is_back(&self.parked);
        parked.lasting.is_over(|| self.now().since(Nanos(wait.b.load(Relaxed))));
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

/// The end of a `poll(2)` without a time limit.
pub const FOR_EVER: u64 = i64::MAX as u64;
