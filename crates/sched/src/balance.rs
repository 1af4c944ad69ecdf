//! Fair threads across CPUs: idle CPUs pull, busy ones balance periodically.

use crate::cpu::Idle;
use crate::entity::Entity;
use crate::fair::Placement;
use crate::help::MOST_QUEUES;
use crate::planted::Fault;
use crate::rank::Rank;
use crate::{Kick, Prev, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering;

/// How many waiting threads of a queue an idle CPU examines before it gives up on that queue.
const MOST_LOOKS: u32 = 8;

impl Scheduler {
    /// An idle CPU looks for work: its own queue first, then other CPUs'. It takes a fair thread that has
    /// waited for `Config::pull_after`; what it returns is current on `cpu`.
    pub fn idle_pull(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) -> Option<ThreadIdx> {
        let me = &self.cpus[cpu.index()];
        if self.domains.of(cpu).overload_count() > 0 && !self.domains.absent.contains(cpu) {
            self.pull(cpu, now, k);
        }
        if me.need_resched() || me.seen.queued.get() > 0 {
            return self.schedule(cpu, now, Prev::Preempted, k);
        }
        self.help(cpu, now, k)
    }

    /// Takes a fair thread from another CPU and makes it current here.
    pub(crate) fn pull_fair(&self, cpu: CpuId, now: Nanos) -> Option<ThreadIdx> {
        if self.cpus.len() == 1 || self.domains.absent.contains(cpu) {
            return None;
        }
        if self.table.plants(Fault::SkipSteal) {
            return None;
        }
        let t = self.steal(cpu, now)?;
        let mut h = self.lock(cpu);
        h.rq.stats.pulls += 1;
        h.rq.stats.migrations_in += 1;
        self.table.get(t).migrations.count();
        h.enqueue(t, self.table.get(t), now, Placement::Moved, false);
        // Something more urgent may have arrived meanwhile.
        let next = h.pick(now);
        if let Some(n) = next {
            h.cpu.seen.need_resched.store(false, Ordering::Release);
            h.set_idle(None);
            h.rq.stats.switches += 1;
            h.begin(n, self.table.get(n), now);
        }
        self.settle_nudge(cpu, true);
        h.publish();
        next
    }

    /// Takes a waiting fair thread from another CPU: the one with most of them first, then any.
    fn steal(&self, cpu: CpuId, now: Nanos) -> Option<ThreadIdx> {
        let start = self.search_start(cpu);
        let others = || self.crowded(start).filter(|&c| c != cpu && self.old_enough(c, now));
        let most = others().max_by_key(|c| self.cpus[c.index()].seen.fair_waiting.get())?;
        self.steal_from(cpu, most, now).or_else(|| {
            let mut rest = others().filter(|&c| c != most);
            rest.find_map(|c| self.steal_from(cpu, c, now))
        })
    }

    /// Whether some thread has waited on `cpu` for long enough, as far as published words show.
    fn old_enough(&self, cpu: CpuId, now: Nanos) -> bool {
        let since = Nanos(self.cpus[cpu.index()].seen.waiting_since.get());
        now.since(since) >= self.config.pull_after || self.domains.absent.contains(cpu)
    }

    fn steal_from(&self, cpu: CpuId, victim: CpuId, now: Nanos) -> Option<ThreadIdx> {
        let mut h = self.lock(victim);
        h.account(now);
        let (rq, table) = (&mut *h.rq, &self.table);
        let after = if rq.absent { Nanos::ZERO } else { self.config.pull_after };
        let any = table.plants(Fault::StealAnything);
        let bit = if any { 0 } else { 1 << (cpu.index() % 64) };
        let t = rq.fair.find_allowed(table, bit, MOST_LOOKS, |t, e| {
            (any || table.allows(t, e, cpu)) && now.since(Nanos(e.queued_at.get())) >= after
        })?;
        h.dequeue(t, table.get(t));
        h.publish();
        Some(t)
    }

    /// Announces how an idle CPU spends its time from now on. False: there is work, so do not park; check
    /// `need_resched` and `idle_pull` again.
    pub fn idle_state(&self, cpu: CpuId, idle: Idle) -> bool {
        let mut h = self.lock(cpu);
        if h.rq.current.is_some() || h.cpu.need_resched() || h.cpu.seen.queued.get() > 0 {
            return false;
        }
        if idle == Idle::Parked {
            self.settle_nudge(cpu, false);
        }
        h.set_idle(Some(idle));
        true
    }

    /// Balances: moves some waiting fair threads from the CPU with the greatest load to this one, or from this one to
    /// the CPU with the smallest, if a thread's weight is less than the difference. (A CPU without waiting threads has
    /// no tick, so it only receives.) An unserved CPU counts as overloaded.
    pub(crate) fn balance(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let n = self.cpus.len();
        let start = self.search_start(cpu);
        if let Some(most) = self.crowded(start).filter(|&c| c != cpu).max_by_key(|&c| self.load(c)) {
            self.even_out(most, cpu, now, k);
        }
        let near = (0..n.min(MOST_QUEUES)).map(|i| CpuId(((start.index() + i) % n) as u16));
        let runs_fair = |c: &CpuId| Rank(self.cpus[c.index()].seen.running.get()) == Rank::FAIR;
        let others = near.filter(|&c| c != cpu).filter(runs_fair);
        if let Some(least) = others.min_by_key(|&c| self.load(c)) {
            self.even_out(cpu, least, now, k);
        }
    }

    /// The sum of the fair weights, for comparison; unlimited where fair threads get no time.
    fn load(&self, cpu: CpuId) -> u64 {
        let without = self.domains.absent.contains(cpu) || self.is_taken(cpu);
        if without { u64::MAX } else { self.cpus[cpu.index()].seen.load.get() }
    }

    /// Whether something more urgent than fair threads has the CPU, and usually for longer than balancing takes (Linux:
    /// `scale_rt_capacity`). Short bursts do not count.
    fn is_taken(&self, cpu: CpuId) -> bool {
        let seen = &self.cpus[cpu.index()].seen;
        let usually = u64::from(seen.usual_run.get());
        Rank(seen.running.get()) < Rank::FAIR && usually >= self.config.balance_every.0
    }

    fn even_out(&self, src: CpuId, dst: CpuId, now: Nanos, k: &mut impl Kick) {
        for _ in 0..MOST_LOOKS {
            let gap = self.load(src).saturating_sub(self.load(dst));
            if gap == 0 || !self.move_one(src, dst, gap, now, k) {
                return;
            }
        }
    }

    /// Moves a waiting fair thread whose weight is below `gap`, so that the difference shrinks.
    fn move_one(&self, src: CpuId, dst: CpuId, gap: u64, now: Nanos, k: &mut impl Kick) -> bool {
        let mut h = self.lock(src);
        h.account(now);
        let table = &self.table;
        let (rq, bit) = (&mut *h.rq, 1 << (dst.index() % 64));
        let fits = |t, e: &Entity| table.allows(t, e, dst) && u64::from(e.weight.get()) < gap;
        let Some(t) = rq.fair.find_allowed(table, bit, MOST_LOOKS, fits) else { return false };
        h.dequeue(t, table.get(t));
        h.publish();
        drop(h);
        let mut h = self.lock(dst);
        h.account(now);
        h.rq.stats.migrations_in += 1;
        table.get(t).migrations.count();
        h.enqueue(t, table.get(t), now, Placement::Moved, false);
        let told = h.beats_current(t, table.get(t)) && h.request();
        let kick = h.publish() || told;
        drop(h);
        if kick {
            k.kick(dst);
        }
        true
    }
}
