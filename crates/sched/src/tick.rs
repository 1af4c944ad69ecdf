//! What the passing of time changes.

use crate::entity::{Class, Entity};
use crate::queue::Held;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, Policy};

impl Scheduler {
    /// Accounts the running thread; `need_resched` is set when it must give way. Also balances, every
    /// `Config::balance_every`, and wakes a parked CPU if threads wait here.
    pub fn tick(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let mut h = self.lock(cpu);
        let used = now.0.saturating_sub(h.rq.accounted);
        h.account(now);
        let mut over = match h.current() {
            Some(e) => h.tick_class(e, used),
            None => h.rq.waiting(None) > 0,
        };
        while h.rq.deadline.throttled() > 0 && h.rq.deadline.replenish_one(&self.table, now) {
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
        let waiting = h.rq.fair.waiting() > 0;
        let push = h.rq.overloaded;
        h.publish();
        drop(h);
        if push {
            self.push_rt(cpu, now, k);
        }
        if balance {
            self.balance(cpu, now, k);
        }
        if waiting {
            self.nudge(cpu, cpu, now, k);
        }
    }

    /// Whether `cpu` needs ticks: something waits, or a budget runs. Lock-free.
    #[inline]
    pub fn tick_needed(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].seen.tick.get() != 0
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

impl Held<'_> {
    /// Whether the running thread must give way.
    fn tick_class(&mut self, e: &Entity, used: u64) -> bool {
        match e.class() {
            Class::Stop => false,
            Class::Deadline => e.boosted_deadline().is_none() && e.dl.budget.get() <= 0,
            Class::Rt => self.tick_rt(e, used),
            Class::Fair => self.tick_fair(e),
        }
    }

    /// `task_tick_rt`: a slice that ends matters only if somebody shares the level.
    fn tick_rt(&mut self, e: &Entity, used: u64) -> bool {
        if e.policy() != Policy::RoundRobin {
            return false;
        }
        e.rr_left.set(e.rr_left.get().saturating_sub(used));
        if e.rr_left.get() > 0 {
            return false;
        }
        if self.rq.rt.active.shares_level(e) {
            return true;
        }
        e.rr_left.set(self.s.config.rr_slice.0);
        false
    }

    fn tick_fair(&mut self, e: &Entity) -> bool {
        let renewed = self.rq.fair.renew_if_used_up(e);
        if renewed {
            self.rq.fair.unprotect();
        }
        self.rq.fair.choose(&self.s.table, Some(e)).is_some()
    }

    /// Whether the fair server takes the CPU or gives it back.
    fn tick_server(&mut self, now: Nanos) -> bool {
        let fair_runs = self.current().is_some_and(|e| e.is_fair());
        let fair = fair_runs || self.rq.fair.waiting() > 0;
        let rt = !self.rq.rt.active.is_empty();
        self.rq.server.update(now, fair, rt);
        rt && self.rq.server.active() != fair_runs
            && (fair_runs || self.current().is_none_or(|e| e.class() > Class::Deadline))
    }
}
