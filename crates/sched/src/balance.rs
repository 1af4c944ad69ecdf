//! Fair threads across CPUs: idle CPUs pull, busy ones balance periodically.

use crate::cpu::Idle;
use crate::entity::Entity;
use crate::fair::Placement;
use crate::planted::Fault;
use crate::rank::Rank;
use crate::{Kick, Prev, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering;

/// How many waiting threads of a queue an idle CPU examines before it gives up on that queue.
const MOST_LOOKS: u32 = 8;
/// How many queues one search visits.
const MOST_QUEUES: usize = 64;
/// The shortest and the longest pause after nudges that did not help.
const PAUSE_MIN: u64 = 50_000;
const PAUSE_MAX: u64 = 1_000_000;

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

    /// A CPU that was idle takes a fair thread from another CPU and makes it current here. If there are more, it wakes a further CPU.
    pub(crate) fn help(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) -> Option<ThreadIdx> {
        let found = self.pull_fair(cpu, now);
        if found.is_some() {
            self.call_next_helper(cpu, now, k);
        }
        found
    }

    /// A CPU that found work wakes the next parked one if there is more. So the number of helpers doubles, while a busy
    /// CPU alone wakes one per tick. Only CPUs that were idle pay for this.
    fn call_next_helper(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let d = &self.domains;
        if (0..d.words()).all(|i| d.parked.word(i) == 0) {
            return;
        }
        let n = self.cpus.len();
        let start = if n <= MOST_QUEUES { cpu.index() } else { d.turn().index() };
        let near = (0..n.min(MOST_QUEUES)).map(|i| CpuId(((start + i) % n) as u16));
        let waiting = |c: &CpuId| self.cpus[c.index()].seen.fair_waiting.get();
        let Some(busy) = near.max_by_key(waiting).filter(|c| waiting(c) > 0) else { return };
        let allowed = self.lock(busy).rq.fair.allowed(&self.table);
        self.nudge(busy, cpu, allowed, now, k);
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
        let n = self.cpus.len();
        let start = if n <= MOST_QUEUES { cpu.index() } else { self.domains.turn().index() };
        let others = || (0..n.min(MOST_QUEUES)).map(|i| (start + i) % n).filter(|&c| c != cpu.index());
        let waiting = |c: usize| if self.old_enough(c, now) { self.cpus[c].seen.fair_waiting.get() } else { 0 };
        let most = others().max_by_key(|&c| waiting(c)).filter(|&c| waiting(c) > 0)?;
        self.steal_from(cpu, most, now).or_else(|| {
            let mut rest = others().filter(|&c| c != most && waiting(c) > 0);
            rest.find_map(|c| self.steal_from(cpu, c, now))
        })
    }

    /// Whether some thread has waited on CPU `c` for long enough, as far as published words show.
    fn old_enough(&self, c: usize, now: Nanos) -> bool {
        let since = Nanos(self.cpus[c].seen.waiting_since.get());
        now.since(since) >= self.config.pull_after || self.domains.absent.contains(CpuId(c as u16))
    }

    fn steal_from(&self, cpu: CpuId, victim: usize, now: Nanos) -> Option<ThreadIdx> {
        let mut h = self.lock(CpuId(victim as u16));
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

    /// Fair threads that may run on the CPUs `allowed` (folded) wait on `busy`: wakes one parked CPU to help, unless
    /// one is on its way already, and less often if this did not help lately.
    #[inline]
    pub(crate) fn nudge(&self, busy: CpuId, from: CpuId, allowed: u64, now: Nanos, k: &mut impl Kick) {
        let d = &self.domains;
        if !self.table.plants(Fault::SkipNudge) && (0..d.words()).any(|i| d.parked.word(i) & allowed != 0) {
            self.nudge_parked(busy, from, allowed, now, k);
        }
    }

    #[cold]
    fn nudge_parked(&self, busy: CpuId, from: CpuId, allowed: u64, now: Nanos, k: &mut impl Kick) {
        let d = &self.domains;
        // A folded mask can name the wrong CPU: then start elsewhere each time.
        let start = if d.words() == 1 { busy } else { d.turn() };
        let Some(target) = d.first(start, |i| d.parked.word(i) & allowed & !d.absent.word(i)) else { return };
        // A waker without a CPU (a signal from outside) uses the pace of the busy one.
        let from = if from.index() < self.cpus.len() { from } else { busy };
        let pace = &self.cpus[from.index()].nudges;
        if pace.useful.get() != 0 {
            pace.useful.set(0);
            pace.pause.set(0);
        } else if now.0 < pace.not_before.get() {
            return;
        }
        let out = d.nudge.load(Ordering::Relaxed);
        if out != 0 && !is_lost(out, now) {
            return;
        }
        let word = nudge_word(now, from, target);
        if d.nudge.compare_exchange(out, word, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        // No further nudge from this CPU for a while; the pause doubles each time.
        pace.pause.set((pace.pause.get() * 2).clamp(PAUSE_MIN, PAUSE_MAX));
        pace.not_before.set(now.0.saturating_add(pace.pause.get()));
        pace.count.add(1);
        k.kick(target);
    }

    /// The nudged CPU has looked for work; `found` says whether there was any. If so, the CPU that nudged it may do so
    /// again at once.
    fn settle_nudge(&self, cpu: CpuId, found: bool) {
        let d = &self.domains;
        let out = d.nudge.load(Ordering::Relaxed);
        if out & OUTSTANDING == 0 || out & 0xffff != u64::from(cpu.0) {
            return;
        }
        let from = (out & !OUTSTANDING) as u32 >> 16;
        if d.nudge.compare_exchange(out, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() && found {
            self.cpus[from as usize].nudges.useful.set(1);
        }
    }

    /// Balances: moves some waiting fair threads from the CPU with the greatest load to this one, or from this one to
    /// the CPU with the smallest, if a thread's weight is less than the difference. (A CPU without waiting threads has
    /// no tick, so it only receives.) An unserved CPU counts as overloaded.
    pub(crate) fn balance(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let n = self.cpus.len();
        let start = if n <= MOST_QUEUES { cpu.index() } else { self.domains.turn().index() };
        let others = || {
            let near = (0..n.min(MOST_QUEUES)).map(|i| CpuId(((start + i) % n) as u16));
            near.filter(|&c| c != cpu)
        };
        let waits = |c: &CpuId| self.cpus[c.index()].seen.fair_waiting.get() > 0;
        let runs_fair = |c: &CpuId| Rank(self.cpus[c.index()].seen.running.get()) == Rank::FAIR;
        if let Some(most) = others().filter(waits).max_by_key(|&c| self.load(c)) {
            self.even_out(most, cpu, now, k);
        }
        if let Some(least) = others().filter(runs_fair).min_by_key(|&c| self.load(c)) {
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

/// Set in the nudge word while a nudge is outstanding. The rest: the nudged CPU (bits 0..16), the CPU that nudged
/// (16..31) and the time in units of 2^20 ns (32..64).
const OUTSTANDING: u64 = 1 << 31;

fn nudge_word(now: Nanos, from: CpuId, target: CpuId) -> u64 {
    (now.0 >> 20) << 32 | OUTSTANDING | u64::from(from.0) << 16 | u64::from(target.0)
}

/// Whether the nudge is so old that its kick must have been lost: more than 1 ms.
fn is_lost(word: u64, now: Nanos) -> bool {
    ((now.0 >> 20) as u32).wrapping_sub((word >> 32) as u32) >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_s_word_says_who_when_and_to_whom() {
        let at = |unit: u64| Nanos((unit << 20) + 7);
        assert_eq!(nudge_word(at(5), CpuId(3), CpuId(9)), 5 << 32 | 1 << 31 | 3 << 16 | 9);
        assert_eq!(nudge_word(at(0), CpuId(0), CpuId(0)), OUTSTANDING, "which is never zero");
        assert_eq!(nudge_word(at(1), CpuId(4095), CpuId(4095)), 1 << 32 | 1 << 31 | 0x0fff_0fff);
    }

    /// A unit of time is 2^20 ns: what lies two of them back is more than one unit old. They come round.
    #[test]
    fn a_call_is_lost_in_the_second_unit_of_time_after_its_own() {
        let made = |unit: u64| nudge_word(Nanos(unit << 20), CpuId(1), CpuId(2));
        for (then, now, lost) in
            [(5, 5, false), (5, 6, false), (5, 7, true), (5, 90, true), (u64::from(u32::MAX), 1 << 32, false)]
        {
            assert_eq!(is_lost(made(then), Nanos(now << 20)), lost, "{then} to {now}");
            assert_eq!(is_lost(made(then), Nanos((now << 20) + (1 << 20) - 1)), lost, "{then} to {now}");
        }
    }
}
