//! How real-time threads move from CPU to CPU: three designs from the months around October 2007, and one from 2015.
//!
//! | | a thread is woken | a CPU's priority drops | a CPU becomes idle | ticks |
//! |---|---|---|---|---|
//! | [`Passive`] before | stays on its last CPU | | fetches one from the longest queue | even out |
//! | [`Active`] the patch | is pushed if it cannot run there | pulls more urgent threads | the same | |
//! | [`Both`] the patch, the old balance left on | is pushed | pulls | pulls, then fetches | even out |
//! | [`Roaming`] RT_PUSH_IPI | is pushed | sends a push around the overloaded CPUs | the same | |
//!
//! Rebuilt from "New RT Task Balancing" (Rostedt, 22 October 2007). The patch finds the least urgent CPU by reading
//! every one of them; the index that made that cheap (`cpupri`) came a year later. [`Roaming`] is what larger
//! machines made of the pull (`tell_cpu_to_push` in `kernel/sched/rt.c`). Left out: the migration thread's last
//! resort of pushing a running thread away, caches and NUMA.

mod active;
mod passive;
mod queues;
mod roaming;

pub use active::{Active, Both};
pub use passive::Passive;
pub use queues::{Queues, Rank};
pub use roaming::Roaming;

use alloc::vec::Vec;
use ids::CpuId;

/// Threads of a model are numbered.
pub type Thread = usize;

/// A thread went from one run queue to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Which.
    pub thread: Thread,
    /// From there.
    pub from: CpuId,
    /// The CPU it moves to, which must look at its queue if the thread is more urgent than its current one.
    pub to: CpuId,
}

/// A way to balance. Each method may move waiting threads, and says so in `moves`.
pub trait RtBalance {
    /// The design's name in tables.
    fn name(&self) -> &'static str;

    /// `cpu` got a woken thread that does not preempt what runs there.
    fn woken(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>);

    /// `cpu` is about to choose its next thread; what ran had this rank (`None`: it was idle).
    fn before_choice(&mut self, q: &mut Queues, cpu: CpuId, ran: Option<Rank>, moves: &mut Vec<Move>);

    /// `cpu` has begun to run another thread.
    fn after_switch(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>);

    /// The tick of `cpu`, counted from 0.
    fn tick(&mut self, q: &mut Queues, cpu: CpuId, tick: u64, moves: &mut Vec<Move>);

    /// `cpu` was interrupted by [`Queues::call`].
    fn called(&mut self, _q: &mut Queues, _cpu: CpuId, _moves: &mut Vec<Move>) {}
}

#[cfg(test)]
mod tests;
