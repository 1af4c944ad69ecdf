//! Deadline threads over several CPUs: the M earliest deadlines should run on M CPUs.

use crate::Scheduler;
use crate::cpu::rank;
use crate::entity::Entity;
use ids::{CpuId, ThreadIdx};

impl Scheduler {
    /// Where a waking deadline thread goes: its last CPU if it can run there at once, else one
    /// that runs nothing as urgent.
    pub(crate) fn select_deadline(&self, t: ThreadIdx, e: &Entity) -> Option<CpuId> {
        let last = e.cpu();
        let lower = |c: CpuId| self.suits(t, e, c) && self.cpus[c.index()].seen.running.get() > rank::DEADLINE;
        if lower(last) {
            return Some(last);
        }
        let start = self.domain.turn().index();
        let n = self.cpus.len();
        (0..n).map(|i| CpuId(((start + i) % n) as u16)).find(|&c| lower(c))
    }
}
