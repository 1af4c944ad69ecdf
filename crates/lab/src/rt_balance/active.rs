//! The patch: a real-time thread that cannot run where it is goes at once where it can.

use super::passive::even_out;
use super::{Move, Passive, Queues, Rank, RtBalance, Thread};
use alloc::vec::Vec;
use ids::CpuId;

/// Active balancing: push and pull.
#[derive(Clone, Copy, Debug, Default)]
pub struct Active;

/// The patch with the old balance still at work, which the patch's author tried and gave up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Both;

impl RtBalance for Active {
    fn name(&self) -> &'static str {
        "push and pull (the patch)"
    }

    fn woken(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
        push(q, cpu, moves);
    }

    fn before_choice(&mut self, q: &mut Queues, cpu: CpuId, ran: Option<Rank>, moves: &mut Vec<Move>) {
        if q.best_rank(cpu) < ran {
            pull(q, cpu, moves);
        }
    }

    fn after_switch(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
        push(q, cpu, moves);
    }

    fn tick(&mut self, _: &mut Queues, _: CpuId, _: u64, _: &mut Vec<Move>) {}
}

impl RtBalance for Both {
    fn name(&self) -> &'static str {
        "push and pull, the old balance left on"
    }

    fn woken(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
        Active.woken(q, cpu, moves);
    }

    fn before_choice(&mut self, q: &mut Queues, cpu: CpuId, ran: Option<Rank>, moves: &mut Vec<Move>) {
        Active.before_choice(q, cpu, ran, moves);
        if q.load(cpu) == 0 {
            even_out(q, cpu, moves);
        }
    }

    fn after_switch(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
        Active.after_switch(q, cpu, moves);
    }

    fn tick(&mut self, q: &mut Queues, cpu: CpuId, tick: u64, moves: &mut Vec<Move>) {
        Passive.tick(q, cpu, tick, moves);
    }
}

/// Pushes waiting threads away, the most urgent first, until one finds no CPU: then the less urgent ones most likely
/// find none either (`push_rt_tasks`).
pub(super) fn push(q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
    loop {
        let Some(t) = q.waiting(cpu).find(|&t| !q.is_pinned(t)) else { return };
        // One that beats what runs here is about to run here.
        if Some(q.rank(t)) > q.running_rank(cpu) {
            return;
        }
        let Some(target) = find_lowest(q, t, cpu) else { return };
        q.shift(t, target, moves);
    }
}

/// The CPU on which `t` can run that has the least urgent work: the first without real-time threads, else the one
/// with the lowest priority below its own (`find_lowest_rq`, which then read every run queue).
fn find_lowest(q: &mut Queues, t: Thread, this: CpuId) -> Option<CpuId> {
    let mut lowest: Option<(Rank, CpuId)> = None;
    let mut looks = 0;
    for cpu in (0..q.cpus() as u16).map(CpuId).filter(|&c| c != this) {
        if !q.allows(t, cpu) {
            continue;
        }
        looks += 1;
        match q.best_rank(cpu) {
            None => {
                q.look(looks);
                return Some(cpu);
            }
            Some(rank) if rank < q.rank(t) && lowest.is_none_or(|(low, _)| rank < low) => lowest = Some((rank, cpu)),
            Some(_) => {}
        }
    }
    q.look(looks);
    lowest.map(|(_, cpu)| cpu)
}

/// Fetches from every overloaded CPU the thread that is more urgent than anything here (`pull_rt_task`).
fn pull(q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
    let sources: Vec<CpuId> = q.overloaded().iter().filter(|&c| c != cpu).collect();
    q.look(sources.len() as u64);
    for src in sources {
        // Whether there is something is only known under the lock.
        q.lock(src);
        let Some(t) = q.waiting(src).find(|&t| q.allows(t, cpu)) else { continue };
        let here = Some(q.rank(t)) > q.best_rank(cpu);
        // One that beats what runs there is about to run there.
        let there = q.running(src).is_none() || Some(q.rank(t)) > q.running_rank(src);
        if here && !there {
            q.shift(t, cpu, moves);
        }
    }
}
