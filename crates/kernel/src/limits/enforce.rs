//! Enforces limits: the check at a tick, and threads that wait for the next period.

use super::{Enforced, Moment, cpu_limit};
use crate::hint;
use crate::machine::{Clock, Event, Machine, Resume};
use crate::wait::{Deadline, Wait};
use crate::{Kernel, ThreadIdx};
use abi::frame::Registers;
use abi::{SigInfo, Signal, nr};
use ids::{CpuId, Nanos};
use sync::atomic::{Ordering::*, fence};
use time::cpu::limit::LimitReached;

impl<M: Machine> Kernel<M> {
    /// Called at a tick that found `t` running.
    pub(crate) fn enforce(&self, moment: Moment, t: ThreadIdx) -> Enforced {
        self.check_process(moment, t);
        self.check_thread(moment, t);
        if self.limits.holds && self.must_wait(t, moment.now).is_some() {
            Enforced::Throttled
        } else {
            Enforced::Nothing
        }
    }

    fn check_process(&self, Moment { cpu, now }: Moment, t: ThreadIdx) {
        let Some(limit) = &self.limits.process else { return };
        let reached = limit.lock().check(self.known_consumption(now));
        let signal = match reached {
            LimitReached::Nothing => return,
            LimitReached::Soft => self.limits.soft_signal.unwrap_or(Signal::XCPU),
            LimitReached::Hard(_) => {
                self.say(format_args!("the process has had its CPU time (--cpu-limit): it ends"));
                Signal::KILL
            }
        };
        let _ = self.send_to_process(cpu, Some(t), SigInfo::kernel(signal));
    }

    fn check_thread(&self, Moment { cpu, now }: Moment, t: ThreadIdx) {
        if self.limits.thread.soft.is_none() && self.limits.thread.hard.is_none() {
            return;
        }
        let consumed = self.consumed(t, now);
        let reached = {
            let mut own = self.thread(t).limits.own.lock();
            let limit = own.limit.take().or_else(|| cpu_limit(&self.limits.thread));
            let mut reached = LimitReached::Nothing;
            own.limit = limit.map(|mut limit| {
                reached = limit.check(consumed);
                limit
            });
            reached
        };
        match (reached, self.limits.thread.soft) {
            (LimitReached::Hard(_), _) => self.end_thread(t),
            (LimitReached::Soft, Some((_, signal))) => {
                let _ = self.send_to_thread(cpu, t, SigInfo::kernel(signal));
            }
            _ => {}
        }
    }

    /// Makes the interrupted thread `t` call `exit(0)` next.
    fn end_thread(&self, t: ThreadIdx) {
        self.say(format_args!("thread {} has had its CPU time (--cpu-limit thread:): it ends", self.tid(t).0));
        let registers = Registers { rdi: 0, ..self.m.registers(t) };
        self.m.set_resume(t, Resume::Registers(&registers));
        self.restart_call(t, Some(nr::EXIT));
    }

    /// Brings the count of `t`'s group up to date.
    pub(crate) fn count(&self, t: ThreadIdx, now: Nanos) {
        let consumed = self.consumed(t, now);
        // If stolen time was taken back, the group has been charged for it already.
        let before = Nanos(self.thread(t).limits.counted.fetch_max(consumed.0, AcqRel));
        if consumed > before
            && let Some(group) = self.group_of(t)
        {
            group.consumed.fetch_add((consumed - before).0, Relaxed);
        }
    }

    fn group_of(&self, t: ThreadIdx) -> Option<&super::Group> {
        let place = self.thread(t).limits.group.load(Relaxed) as usize;
        self.limits.groups.get(place.checked_sub(1)?)
    }

    /// Until when `t` must wait, if it must.
    fn must_wait(&self, t: ThreadIdx, now: Nanos) -> Option<Nanos> {
        self.count(t, now);
        if self.is_exempt(t) {
            return None;
        }
        let all = self.limits.all.until(self.cputime.cpu.clock(now), now);
        let group = self.group_of(t).and_then(|group| group.meter.until(Nanos(group.consumed.load(Relaxed)), now));
        all.max(group).max(self.own_wait(t, now))
    }

    fn own_wait(&self, t: ThreadIdx, now: Nanos) -> Option<Nanos> {
        let share = self.limits.thread.share?;
        share.until(&mut self.thread(t).limits.own.lock().bandwidth, self.consumed(t, now), now)
    }

    /// Exiting threads are not throttled, nor are owners of locks that others wait for.
    fn is_exempt(&self, t: ThreadIdx) -> bool {
        let thread = self.thread(t);
        thread.hint.load(Acquire) & hint::EXIT != 0 || thread.pi.holds_others_up()
    }

    /// Makes `t`, which is current on `cpu` and saved, wait for its next period if it must. If so, it has been marked
    /// as waiting.
    pub(crate) fn hold_back(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) -> bool {
        let Some(until) = self.must_wait(t, now) else { return false };
        let thread = self.thread(t);
        thread.wait.begin(Wait::Throttled);
        self.sched.prepare_block(t);
        // Pairs with `release_owner` and the end of the process: either they see the wait, or their change is seen
        // here.
        fence(SeqCst);
        if self.is_exempt(t) {
            self.cancel_wait(t);
            return false;
        }
        self.note_throttled(t);
        self.arm_exactly(cpu, t, Deadline { at: until, clock: Clock::Monotonic });
        true
    }

    fn say(&self, message: core::fmt::Arguments<'_>) {
        self.m.observe(Event::Message(message));
    }

    fn note_throttled(&self, t: ThreadIdx) {
        let meter = self.group_of(t).map_or(&self.limits.all, |group| &group.meter);
        meter.throttled.fetch_add(1, Relaxed);
    }

    /// A thread that was held back has been chosen: whether it may continue. If not, marks it as waiting again.
    pub(crate) fn is_let_go(&self, t: ThreadIdx) -> bool {
        self.disarm_timeout(t);
        self.thread(t).wait.set_kind(Wait::None);
        !self.hold_back(self.sched.cpu_of(t), t, self.now())
    }

    /// A thread begins to wait for a PI lock of `owner`, which must not be throttled.
    pub(crate) fn release_owner(&self, cpu: CpuId, owner: ThreadIdx) {
        if !self.limits.holds {
            return;
        }
        fence(SeqCst);
        if self.thread(owner).wait.kind() == Wait::Throttled {
            self.wake(cpu, owner);
        }
    }
}
