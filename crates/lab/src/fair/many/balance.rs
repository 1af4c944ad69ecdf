//! To which CPU threads go.

use super::{Many, State};
use crate::fair::Thread;
use alloc::vec::Vec;
use ids::{CpuId, Nanos};

/// A thread that ran so recently has its data in the cache (`sysctl_sched_migration_cost`).
const HOT: Nanos = Nanos::from_micros(500);
/// The waker's CPU is taken while it has less to do than so many per cent of what the last CPU has: 100 and half of what is
/// beyond 100 in `imbalance_pct`.
const AFFINE: u64 = 108;
/// How much more rarely a busy CPU balances (`busy_factor`).
const BUSY_FACTOR: u64 = 16;
/// After more failures than this, threads that ran just now are moved, too (`cache_nice_tries`).
const NICE_TRIES: u32 = 1;

impl Many {
    /// `select_task_rq_fair`.
    pub(super) fn place(&self, thread: Thread, waker: Option<CpuId>) -> CpuId {
        let entity = &self.threads[thread];
        if entity.is_new {
            return self.least_loaded(thread);
        }
        let last = entity.cpu;
        let allowed = |cpu: &CpuId| entity.mask.contains(*cpu);
        let target = match waker.filter(allowed) {
            Some(here) if allowed(&last) => self.affine(thread, here, last),
            Some(here) => here,
            None if allowed(&last) => last,
            None => return self.least_loaded(thread),
        };
        let idle = |cpu: &CpuId| self.cpus[cpu.index()].count == 0 && allowed(cpu);
        if idle(&target) {
            return target;
        }
        if idle(&last) {
            return last;
        }
        let count = self.cpus.len();
        let mut others = (1..count).map(|n| CpuId(((target.index() + n) % count) as u16));
        others.find(idle).unwrap_or(target)
    }

    /// `wake_affine_weight`: the waker's CPU if it has less to do, the thread included.
    fn affine(&self, thread: Thread, here: CpuId, last: CpuId) -> CpuId {
        let weight = u64::from(self.threads[thread].share.weight());
        let load = |cpu: CpuId| self.cpus[cpu.index()].weight;
        if (load(here) + weight) * 100 < load(last) * AFFINE { here } else { last }
    }

    /// The allowed CPU with the fewest threads; of equals the first.
    fn least_loaded(&self, thread: Thread) -> CpuId {
        let entity = &self.threads[thread];
        let allowed = (0..self.cpus.len() as u16).map(CpuId).filter(|&cpu| entity.mask.contains(cpu));
        allowed.min_by_key(|cpu| self.cpus[cpu.index()].count).unwrap_or(entity.cpu)
    }

    /// An idle CPU takes a thread from the CPU where most wait.
    pub(super) fn take_one(&mut self, to: CpuId, now: Nanos) {
        if let Some(from) = self.busiest(to) {
            self.pull(from, to, 1, false, now);
        }
    }

    /// The regular balance of a CPU.
    pub(super) fn balance(&mut self, cpu: CpuId, now: Nanos) {
        let busy = self.cpus[cpu.index()].count > 0;
        let c = &mut self.cpus[cpu.index()];
        if now < c.balances {
            return;
        }
        let failed = c.failed;
        let Some(from) = self.busiest(cpu) else { return self.balance_again(cpu, busy, now) };
        let more = self.cpus[from.index()].count - self.cpus[cpu.index()].count;
        // Half of the difference; a difference of one moves nobody at the first time (`shr_bound` in `detach_tasks`).
        let most = if more == 1 { usize::from(failed > 0) } else { more / 2 };
        if self.pull(from, cpu, most, failed > NICE_TRIES, now) {
            self.cpus[cpu.index()].failed = 0;
        } else {
            self.cpus[cpu.index()].failed += 1;
        }
        self.balance_again(cpu, busy, now);
    }

    /// `get_sd_balance_interval`: as many milliseconds as there are CPUs, for a busy CPU sixteen times as long.
    fn balance_again(&mut self, cpu: CpuId, busy: bool, now: Nanos) {
        let interval = Nanos::from_millis(self.cpus.len() as u64).0 * if busy { BUSY_FACTOR } else { 1 };
        self.cpus[cpu.index()].balances = now + Nanos(interval);
    }

    /// The CPU with the most threads, if it has more than `than` and one waits there that may run on `than`.
    fn busiest(&self, than: CpuId) -> Option<CpuId> {
        let count = |cpu: &CpuId| self.cpus[cpu.index()].count;
        let all = (0..self.cpus.len() as u16).map(CpuId);
        let waits = |thread: &Thread| {
            let entity = &self.threads[*thread];
            entity.state == State::Waits && entity.mask.contains(than)
        };
        let movable = |cpu: &CpuId| self.cpus[cpu.index()].threads.iter().flatten().any(waits);
        let more = all.filter(|cpu| count(cpu) > count(&than).max(1)).filter(movable);
        // Of equals the next after the one that asks, so that not all ask the same.
        let from = |cpu: &CpuId| (cpu.index() + self.cpus.len() - than.index()) % self.cpus.len();
        more.min_by_key(|cpu| (core::cmp::Reverse(count(cpu)), from(cpu)))
    }

    /// Moves so many waiting threads at most; says whether any was moved.
    fn pull(&mut self, from: CpuId, to: CpuId, most: usize, hot: bool, now: Nanos) -> bool {
        let movable = |&thread: &Thread| {
            let entity = &self.threads[thread];
            let cold = hot || now.since(entity.ran_until) >= HOT;
            entity.state == State::Waits && entity.mask.contains(to) && cold
        };
        let threads = self.cpus[from.index()].threads.iter().flatten().copied();
        let mut chosen: Vec<Thread> = threads.filter(movable).collect();
        // Those first that have waited longest (`detach_tasks` takes them from the end of the list).
        chosen.sort_by_key(|&thread| self.threads[thread].ran_until);
        chosen.truncate(most);
        for &thread in &chosen {
            self.set_state(thread, State::Sleeps);
            self.move_to(thread, to, now);
            self.enqueue(thread, now);
        }
        !chosen.is_empty()
    }
}
