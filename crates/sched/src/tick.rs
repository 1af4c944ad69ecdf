//! What the passing of time changes.

use crate::entity::{Class, Entity};
use crate::planted::Fault;
use crate::queue::Held;
use crate::weight::to_virtual;
use crate::{At, Kick, Scheduler};
use ids::{CpuId, Nanos, Policy, ThreadIdx};

impl Scheduler {
    /// Accounts the running thread; `need_resched` is set when it must give way. Also balances, every
    /// `Config::balance_every`, and wakes a parked CPU if threads wait here.
    pub fn tick(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let mut h = self.lock(cpu);
        h.account(now);
        let mut over = match h.current() {
            Some(e) => h.tick_class(h.rq.current, e),
            None => h.rq.waiting(None) > 0,
        };
        while h.rq.deadline.replenish_one(&self.table, now) {
            over = true;
        }
        over |= h.tick_server(now);
        if over {
            let _ = h.request();
        }
        let balance = self.cpus.len() > 1 && now.0 >= h.rq.balance_at && !h.rq.absent;
        if balance {
            h.rq.balance_at = now.0.saturating_add(self.config.balance_every.0);
        }
        let allowed = if self.cpus.len() == 1 { 0 } else { h.rq.fair.allowed(&self.table) };
        let push = h.rq.overloaded;
        h.publish();
        drop(h);
        if push {
            self.push(cpu, now, k);
        }
        if balance {
            self.balance(cpu, now, k);
        }
        self.nudge(cpu, cpu, allowed, now, k);
    }

    /// Whether `cpu` needs ticks: something waits, or a budget runs. Lock-free.
    #[inline]
    pub fn tick_needed(&self, cpu: CpuId) -> bool {
        self.at(cpu).tick_needed()
    }

    /// When at the latest `tick` must be called for this CPU because a budget ends or begins; `None` if no
    /// budget is concerned (slices are content with the regular tick).
    pub fn next_event(&self, cpu: CpuId) -> Option<Nanos> {
        let h = self.lock(cpu);
        let budget = h.current().filter(|e| e.class() == Class::Deadline && e.boosted_deadline().is_none());
        let budget = budget.map(|e| Nanos(h.rq.accounted) + Nanos(e.dl.budget.get().max(0) as u64));
        let replenishment = h.rq.deadline.next_replenishment(&self.table);
        let server = h.rq.server.next_event().filter(|_| h.rq.fair.waiting() > 0);
        [budget, replenishment, server].into_iter().flatten().min()
    }
}

impl At<'_> {
    /// [`Scheduler::tick_needed`].
    #[inline(always)]
    pub fn tick_needed(self) -> bool {
        self.cpu.seen.tick.get() != 0
    }
}

impl Held<'_> {
    /// Whether the running thread must give way.
    fn tick_class(&mut self, t: ThreadIdx, e: &Entity) -> bool {
        let run = (e.runtime.get() - e.runtime_at_wake.get()).min(1 << 30) as u32;
        self.cpu.seen.usual_run.set(run.max(e.usual_run.get()));
        match e.class() {
            Class::Stop => false,
            Class::Deadline => e.boosted_deadline().is_none() && e.dl.budget.get() <= 0,
            Class::Rt => self.tick_rt(t, e),
            Class::Fair => self.tick_fair(e),
        }
    }

    /// A round-robin slice that is over starts again; it matters only to those who share the level
    /// (`task_tick_rt`).
    fn tick_rt(&mut self, t: ThreadIdx, e: &Entity) -> bool {
        let over = e.rr_left.get() == 0 && !self.s.table.plants(Fault::EndlessSlice);
        if !e.has_policy(Policy::RoundRobin) || !over {
            return false;
        }
        e.rr_left.set(self.s.config.rr_slice.0);
        if !self.rq.rt.active.shares_level(e) {
            return false;
        }
        self.rq.rt.move_to_tail(&self.s.table, t);
        true
    }

    /// At the end of its slice (or of its protection, if somebody has a shorter one) it has to compete again; what is
    /// nearer to this tick than to the next ends now. Rounded up, slices of 1.4 ms lasted 2 ms under a tick of 1 ms.
    fn tick_fair(&mut self, e: &Entity) -> bool {
        let half_a_tick = to_virtual(self.s.config.tick.0 / 2, e.inverse.get());
        if self.rq.fair.is_protected_for(e, half_a_tick) {
            return false;
        }
        self.rq.fair.renew_if_used_up_in(e, half_a_tick);
        self.rq.fair.unprotect();
        self.rq.fair.choose(&self.s.table, Some(e)).is_some()
    }

    /// Whether the fair server takes the CPU from a real-time thread, or gives it back.
    fn tick_server(&mut self, now: Nanos) -> bool {
        let current = self.current();
        let fair_runs = current.is_some_and(|e| e.is_fair());
        let fair = fair_runs || self.rq.fair.waiting() > 0;
        self.update_server(now, fair);
        let best = self.rq.best_rank(&self.s.table, current);
        best < self.rq.running_rank(current)
    }
}
