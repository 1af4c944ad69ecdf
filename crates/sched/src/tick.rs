//! Effects of the passage of time.

use crate::entity::{Class, Entity};
use crate::planted::Fault;
use crate::queue::Held;
use crate::rank::Rank;
use crate::weight::{to_real, to_virtual};
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
        let allowed = if self.cpus.len() == 1 { 0 } else { h.allowed_soon(over) };
        h.publish();
        // A replenished thread may be more urgent than those elsewhere.
        let push = h.rq.overloaded;
        drop(h);
        if push {
            self.push(cpu, now, k);
        }
        if balance {
            self.balance(cpu, now, k);
        }
        self.nudge((cpu, allowed), cpu, 1, now, k);
    }

    /// Whether `cpu` needs ticks: a thread waits, or a budget is running. Lock-free.
    #[inline]
    pub fn tick_needed(&self, cpu: CpuId) -> bool {
        self.at(cpu).tick_needed()
    }

    /// When the slice of the fair thread that has this CPU ends, if others compete with it, and the length of its next
    /// one: `tick` should be called then.
    pub fn slice_end(&self, cpu: CpuId) -> Option<(Nanos, Nanos)> {
        let h = self.lock(cpu);
        let e = h.current().filter(|e| e.is_fair() && h.rq.fair.waiting() > 0)?;
        let left = to_real(h.rq.fair.protection_left(e), e.weight.get());
        Some((Nanos(h.rq.accounted.saturating_add(left)), Nanos(u64::from(e.slice.get()))))
    }

    /// The latest time at which `tick` must be called for this CPU because a budget ends or begins; `None` if no budget
    /// is involved.
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
            // A thread whose own budget is used up may continue under an inherited deadline, which is later.
            Class::Deadline if e.boosted_deadline().is_some() => Rank::of(e) > self.rq.chosen,
            Class::Deadline => e.dl.budget.get() <= 0,
            Class::Rt => self.tick_rt(t, e),
            Class::Fair => self.tick_fair(e),
        }
    }

    /// Restarts a round-robin slice that is over; it matters only among threads that share the level (`task_tick_rt`).
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

    /// At the end of its slice (or of its protection, if another thread has a shorter slice) the thread has to compete
    /// again.
    fn tick_fair(&mut self, e: &Entity) -> bool {
        let grace = to_virtual(self.s.config.slice_grace(), e.inverse.get());
        if self.rq.fair.is_protected_for(e, grace) {
            return false;
        }
        self.rq.fair.renew_if_used_up_in(e, grace);
        self.rq.fair.unprotect();
        let gives_way = self.rq.fair.choose(&self.s.table, Some(e)).is_some();
        if !gives_way {
            self.rq.fair.begin(e);
        }
        gives_way
    }

    /// Where those fair threads may run that will still wait when help arrives. If the running one's slice is `over`,
    /// it waits by then and the single other one has the CPU: help called for that one would always come too late. An
    /// idle CPU takes a single one by itself, too.
    fn allowed_soon(&self, over: bool) -> u64 {
        let table = &self.s.table;
        let alone = self.rq.fair.waiting() == 1;
        match self.current() {
            Some(e) if over && e.is_fair() && alone => table.fold(self.rq.current, e),
            Some(e) if over && e.is_fair() => self.rq.fair.allowed(table) | table.fold(self.rq.current, e),
            None if alone && !self.rq.absent => 0,
            _ => self.rq.fair.allowed(table),
        }
    }

    /// Whether the fair server takes the CPU from a real-time thread, or returns it.
    fn tick_server(&mut self, now: Nanos) -> bool {
        let current = self.current();
        let fair_runs = current.is_some_and(|e| e.is_fair());
        let fair = fair_runs || self.rq.fair.waiting() > 0;
        self.update_server(now, fair);
        let best = self.rq.best_rank(&self.s.table, current);
        best < self.rq.running_rank(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attr, Config, NoKick, Prev};
    use ids::CpuMask;

    const CPU: CpuId = CpuId(0);
    const T: ThreadIdx = ThreadIdx(0);

    fn scheduler() -> Scheduler {
        let s = Scheduler::new(&Config { cpus: 2, ..Config::default() }).unwrap();
        s.attach(T, &Attr::DEFAULT, CpuMask::only(CPU)).unwrap();
        s.wake_new(T, CPU, Nanos(1_000), &mut NoKick);
        s
    }

    /// Each wait moves it by an eighth towards how long the thread has run, and what runs for longer is seen at a tick.
    #[test]
    fn the_usual_run_is_a_decaying_average() {
        let s = scheduler();
        let usual = || s.table.get(T).usual_run.get();
        let mut now = 1_000;
        for (runs, expected) in [(8_000, 1_000), (8_000, 1_875), (80_000, 11_641), (0, 10_186)] {
            assert_eq!(s.schedule(CPU, Nanos(now), Prev::Preempted, &mut NoKick), Some(T));
            now += runs;
            s.prepare_block(T);
            assert_eq!(s.schedule(CPU, Nanos(now), Prev::Block, &mut NoKick), None);
            assert_eq!(usual(), expected);
            assert!(s.wake(T, CPU, Nanos(now), &mut NoKick));
        }
        assert_eq!(s.schedule(CPU, Nanos(now), Prev::Preempted, &mut NoKick), Some(T));
        let seen = || s.cpus[0].seen.usual_run.get();
        assert_eq!(seen(), 10_186);
        s.tick(CPU, Nanos(now + 9_000), &mut NoKick);
        assert_eq!(seen(), 10_186);
        s.tick(CPU, Nanos(now + 11_000), &mut NoKick);
        assert_eq!((seen(), usual()), (11_000, 10_186));
        s.tick(CPU, Nanos(now + (2 << 30)), &mut NoKick);
        assert_eq!(seen(), 1 << 30, "a second is as good as a year");
        s.prepare_block(T);
        assert_eq!(s.schedule(CPU, Nanos(now + (2 << 30)), Prev::Block, &mut NoKick), None);
        assert_eq!(usual(), 10_186 - 1_273 + (1 << 27));
    }

    /// A lost request of an idle CPU is repeated.
    #[test]
    fn a_tick_makes_up_for_a_lost_request() {
        let s = scheduler();
        s.cpus[0].seen.need_resched.store(false, sync::atomic::Ordering::Release);
        s.tick(CPU, Nanos(2_000), &mut NoKick);
        assert!(s.need_resched(CPU));
    }
}
