//! The pull turned round (RT_PUSH_IPI, 2015; one at a time since 2017): a CPU whose priority drops does not fetch. It asks
//! the overloaded CPUs to push, by one interrupt that goes from one to the next.
//!
//! On a machine with many CPUs that become less urgent at the same moment, as all do that woke for the same timer, each of
//! them would take the lock of the one overloaded queue in order to find that another was faster.

use super::active::push;
use super::{Active, Move, Queues, Rank, RtBalance};
use alloc::vec::Vec;
use ids::CpuId;

/// Push, and a push that goes around instead of the pull.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roaming {
    /// A tour is on its way.
    touring: bool,
    /// Rounds asked for and rounds begun (`rto_loop_next`, `rto_loop`).
    asked: u64,
    begun: u64,
    /// The CPU that the present round has come to.
    at: Option<CpuId>,
}

impl RtBalance for Roaming {
    fn name(&self) -> &'static str {
        "push and roaming push (RT_PUSH_IPI)"
    }

    fn woken(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
        Active.woken(q, cpu, moves);
    }

    fn before_choice(&mut self, q: &mut Queues, cpu: CpuId, ran: Option<Rank>, _: &mut Vec<Move>) {
        if q.best_rank(cpu) >= ran || q.overloaded().iter().all(|c| c == cpu) {
            return;
        }
        // One word, on a line that all who come at the same moment write.
        q.look(1);
        self.asked += 1;
        if !self.touring {
            self.touring = true;
            self.begun = self.asked;
            self.go_on(q);
        }
    }

    fn after_switch(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
        Active.after_switch(q, cpu, moves);
    }

    fn tick(&mut self, _: &mut Queues, _: CpuId, _: u64, _: &mut Vec<Move>) {}

    fn called(&mut self, q: &mut Queues, cpu: CpuId, moves: &mut Vec<Move>) {
        push(q, cpu, moves);
        self.go_on(q);
    }
}

impl Roaming {
    /// Calls the next overloaded CPU; behind the last one another round begins if somebody has asked since this one did
    /// (`rto_next_cpu`).
    fn go_on(&mut self, q: &mut Queues) {
        q.look(1);
        loop {
            let next = q.overloaded().iter().find(|&c| self.at.is_none_or(|at| c > at));
            self.at = next;
            if let Some(cpu) = next {
                return q.call(cpu);
            }
            if self.begun == self.asked {
                self.touring = false;
                return;
            }
            self.begun = self.asked;
        }
    }
}
