//! Before the patch: real-time threads are balanced like all others, by evening out queue lengths (`load_balance`,
//! called at once and at each tick for an idle CPU, much more rarely for a busy one).
//!
//! Its fault for real time: it compares numbers of threads, not priorities. A thread that waits behind a more urgent
//! one is not moved while every CPU has something to run, however little urgent.

use super::{Move, Queues, Rank, RtBalance, Thread};
use alloc::vec::Vec;
use ids::CpuId;

/// A busy CPU balances every so many ticks (`busy_factor`), an idle one at every tick.
const BUSY_TICKS: u64 = 64;

/// Passive balancing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passive;

impl RtBalance for Passive {
    fn name(&self) -> &'static str {
        "passive (before the patch)"
    }

    fn woken(&mut self, _: &mut Queues, _: CpuId, _: &mut Vec<Move>) {}

    fn before_choice(&mut self, q: &mut Queues, cpu: CpuId, _: Option<Rank>, moves: &mut Vec<Move>) {
        if q.load(cpu) == 0 {
            even_out(q, cpu, moves);
        }
    }

    fn after_switch(&mut self, _: &mut Queues, _: CpuId, _: &mut Vec<Move>) {}

    fn tick(&mut self, q: &mut Queues, cpu: CpuId, tick: u64, moves: &mut Vec<Move>) {
        if q.load(cpu) == 0 || tick.is_multiple_of(BUSY_TICKS) {
            even_out(q, cpu, moves);
        }
    }
}

/// Fetches waiting threads of the longest queue until the two differ by one at most; an idle CPU takes one of two
/// (`load_balance_rt` begins with the most urgent).
pub(super) fn even_out(q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
    let others = (0..q.cpus() as u16).map(CpuId).filter(|&c| c != cpu);
    let busiest = others.max_by_key(|&c| (q.load(c), core::cmp::Reverse(c)));
    q.look(q.cpus() as u64 - 1);
    let Some(busiest) = busiest.filter(|&c| q.load(c) > 1) else { return };
    let surplus = q.load(busiest).saturating_sub(q.load(cpu)) / 2;
    let movable: Vec<Thread> = q.waiting(busiest).filter(|&t| q.allows(t, cpu)).take(surplus).collect();
    for t in movable {
        q.shift(t, cpu, moves);
    }
}
