//! Choosing the next thread of a CPU.

use crate::cpu::Idle;
use crate::deadline;
use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::planted::Fault;
use crate::queue::Held;
use crate::rank::Rank;
use crate::{At, Clock, Kick, Prev, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering;

impl Scheduler {
    /// Gives the CPU to the thread that should have it now; `None` is idle. `prev` says what becomes of the previous
    /// thread. Clears `need_resched`.
    ///
    /// If the priority drops here, pulls real-time threads from other CPUs. Pushes waiting ones away after a switch,
    /// and looks for a fair thread elsewhere before it becomes idle.
    #[must_use]
    #[inline]
    pub fn schedule(&self, cpu: CpuId, now: Nanos, prev: Prev, k: &mut impl Kick) -> Option<ThreadIdx> {
        self.at(cpu).schedule_by(now, prev, k).0
    }

    /// Outlined: CPUs with fair threads only never need a kick, so its arguments stay in registers.
    #[inline(never)]
    fn schedule_rare(&self, h: Held<'_>, now: Nanos, prev: Prev, mut k: impl Kick) -> Option<ThreadIdx> {
        self.schedule_any(h, now, prev, &mut k)
    }

    #[inline(never)]
    fn schedule_any<'a>(&'a self, mut h: Held<'a>, now: Nanos, prev: Prev, k: &mut impl Kick) -> Option<ThreadIdx> {
        let cpu = h.id;
        let last = h.rq.current;
        let before = core::mem::replace(&mut h.rq.chosen, Rank::IDLE);
        let (stays, exiled) = h.put_prev(now, prev);
        let elsewhere = before < Rank::FAIR && self.domains.of(cpu).overload_count() > 0;
        let (mut place, mut refused) = (None, false);
        if elsewhere && !self.table.plants(Fault::SkipPull) && h.rq.best_rank(&self.table, None) > before {
            refused = !h.publish_between(&mut place);
            drop(h);
            if !refused {
                self.pull_urgent(cpu, now, k);
            }
            h = self.lock(cpu);
            h.cpu.seen.need_resched.store(false, Ordering::Release);
        }
        let next = h.pick(now);
        if let Some(t) = next {
            h.set_idle(None);
            h.begin(t, self.table.get(t), now);
            if t != last {
                h.rq.stats.switches += 1;
                h.rq.stats.preemptions += u64::from(stays && prev == Prev::Preempted);
                // If another CPU has pulled it meanwhile, it does not count here.
                if stays && self.table.get(last).is_at(cpu) {
                    self.table.get(last).involuntary.count();
                }
            }
        } else {
            h.set_idle(Some(Idle::Spinning));
            // A CPU that polls while idle and finds nothing has run no thread.
            if last.is_some() {
                h.cpu.seen.was_urgent.set(u8::from(before < Rank::FAIR));
            }
        }
        h.publish();
        let (push, vector) = (h.rq.overloaded, h.rq.vector);
        drop(h);
        drop(place);
        if let Some(t) = exiled {
            self.activate(t, cpu, now, Placement::Moved, k);
        }
        if push {
            self.push(cpu, now, k);
        }
        // A budget may have been replenished meanwhile, for a thread less urgent than some that wait elsewhere.
        if self.domains.is_limited() && ((vector == 0) == (before < Rank::FAIR) || refused) {
            self.offer(cpu, now, k);
        }
        let next = next.or_else(|| match last.is_some() {
            true => self.pull_fair(cpu, now),
            // It was idle until a kick woke it.
            false => self.help(cpu, now, k),
        });
        if self.domains.is_limited() {
            self.tell_core(cpu, next, k);
        }
        next
    }
}

impl At<'_> {
    /// [`Scheduler::schedule`], with a clock that is read once the lock is held. Returns the reading as well.
    #[must_use]
    #[inline(always)]
    pub fn schedule_by(self, clock: impl Clock, prev: Prev, k: impl Kick) -> (Option<ThreadIdx>, Nanos) {
        let (s, mut h) = (self.s, self.lock());
        let now = clock.read();
        h.cpu.seen.need_resched.store(false, Ordering::Release);
        let Some(e) = h.current() else { return (s.schedule_rare(h, now, prev, k), now) };
        if !h.has_only_fair() || h.rq.exile {
            h.account_for(e, now);
            return (s.schedule_rare(h, now, prev, k), now);
        }
        let next = h.schedule_fair(e, now, prev);
        if next.is_some() {
            return (next, now);
        }
        drop(h);
        (s.pull_fair(self.id, now), now)
    }
}

impl Held<'_> {
    /// The common case: a fair thread had the CPU and there are only fair ones. `None` leaves
    /// the CPU idle.
    #[inline(always)]
    fn schedule_fair(&mut self, e: &Entity, now: Nanos, prev: Prev) -> Option<ThreadIdx> {
        if prev == Prev::Yield {
            self.account_and_give_way(e, now);
            return self.take_turns(e, now, prev);
        }
        self.account_fair(e, now);
        match prev {
            Prev::Preempted | Prev::Yield => self.take_turns(e, now, prev),
            Prev::Block if !self.block_fair(e) => self.take_turns(e, now, prev),
            Prev::Block => self.follow_fair(now),
            Prev::Exit => {
                self.exit(self.rq.current, e);
                self.follow_fair(now)
            }
        }
    }

    /// The running thread `e` could continue, but another one may be preferred.
    #[inline(always)]
    fn take_turns(&mut self, e: &Entity, now: Nanos, prev: Prev) -> Option<ThreadIdx> {
        let (s, last) = (self.s, self.rq.current);
        // A yielding thread does not compete with those it yields to.
        let rival = prev != Prev::Yield;
        let Some(next) = self.rq.fair.choose(&s.table, rival.then_some(e)) else {
            self.rq.fair.begin(e);
            return Some(last);
        };
        self.rq.fair.renew_if_used_up(e);
        self.rq.fair.exchange(&s.table, next, (last, e));
        self.stamp(e, now);
        e.involuntary.count();
        self.rq.stats.preemptions += u64::from(prev == Prev::Preempted);
        // The number of waiting threads is unchanged: only the running thread must be published.
        self.begin_fair(next, now);
        Some(next)
    }

    /// The running thread has exited.
    #[inline(always)]
    fn follow_fair(&mut self, now: Nanos) -> Option<ThreadIdx> {
        let s = self.s;
        let next = self.rq.fair.choose(&s.table, None);
        match next {
            Some(next) => {
                self.rq.fair.remove(&s.table, next);
                self.begin_fair(next, now);
            }
            None => {
                self.vacate();
                self.set_idle(Some(Idle::Spinning));
                self.cpu.seen.was_urgent.set(0);
            }
        }
        self.publish_fair();
        next
    }

    /// Disposes of the running thread as `prev` says; there is no current thread afterwards. Returns whether it stays
    /// runnable, and the thread itself if it must move to another CPU.
    pub(crate) fn put_prev(&mut self, now: Nanos, prev: Prev) -> (bool, Option<ThreadIdx>) {
        let Some(e) = self.current() else { return (false, None) };
        let t = self.rq.current;
        let gone = match prev {
            Prev::Preempted => false,
            Prev::Yield => {
                self.give_way(t, e);
                false
            }
            Prev::Block => self.try_block(t, e),
            Prev::Exit => {
                self.exit(t, e);
                true
            }
        };
        if gone {
            self.rq.exile = false;
            return (false, None);
        }
        self.vacate();
        if core::mem::take(&mut self.rq.exile)
            && !self.s.table.plants(Fault::IgnoreExile)
            && !self.s.table.allows(t, e, self.id)
        {
            self.leave_running(t, e, true);
            e.set_home(self.id, false);
            e.involuntary.count();
            return (true, Some(t));
        }
        if e.is_fair() {
            self.rq.fair.renew_if_used_up(e);
        }
        if self.s.table.plants(Fault::LosePlace) && e.in_rt_queue() {
            self.rq.rt.move_to_tail(&self.s.table, t);
        }
        self.put_back(t, e, now);
        (true, None)
    }

    fn give_way(&mut self, t: ThreadIdx, e: &Entity) {
        match e.class() {
            Class::Fair => self.rq.fair.give_way(e),
            Class::Rt | Class::Stop if self.s.table.plants(Fault::YieldNothing) => {}
            Class::Rt | Class::Stop => self.rq.rt.move_to_tail(&self.s.table, t),
            Class::Deadline => deadline::give_way(e),
        }
    }

    /// Ends the running of a thread that has marked itself as waiting; true if the mark was still set. See README.md:
    /// the mark cannot change while the lock is held, and wakers own the entity once it is released.
    fn try_block(&mut self, t: ThreadIdx, e: &Entity) -> bool {
        if !self.is_to_block(e) {
            return false;
        }
        self.leave_running(t, e, false);
        e.set_home(self.id, false);
        self.vacate();
        e.life.block();
        true
    }

    #[inline(always)]
    fn is_to_block(&self, e: &Entity) -> bool {
        if !e.life.is_waiting() && !self.s.table.plants(Fault::BlockAnyway) {
            return false;
        }
        let run = (e.runtime.get() - e.runtime_at_wake.get()).min(1 << 30) as u32;
        let usual = e.usual_run.get();
        e.usual_run.set(usual - usual / 8 + run / 8);
        true
    }

    /// `try_block` for a fair thread. The caller sets the next current thread.
    #[inline(always)]
    fn block_fair(&mut self, e: &Entity) -> bool {
        if !self.is_to_block(e) {
            return false;
        }
        self.rq.fair.leave(e, false);
        self.cpu.seen.load.set(self.rq.fair.load() as u64);
        e.set_home(self.id, false);
        e.life.block();
        true
    }

    #[inline(never)]
    fn exit(&mut self, t: ThreadIdx, e: &Entity) {
        self.leave_running(t, e, false);
        e.set_home(self.id, false);
        self.vacate();
        e.life.exit();
    }
}
