//! CPUs that no carrier serves for a while.

use crate::fair::Placement;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

/// The most threads that one trap moves; balancing by other CPUs moves the rest.
const MOST: u32 = 64;

impl Scheduler {
    /// Announces whether a carrier serves `cpu`. While it is absent, wake-ups avoid it if they can and other CPUs take
    /// its waiting threads. Becoming absent gives away threads that may leave.
    pub fn set_absent(&self, cpu: CpuId, absent: bool, now: Nanos, k: &mut impl Kick) {
        let mut h = self.lock(cpu);
        if h.rq.absent == absent {
            return;
        }
        h.rq.absent = absent;
        drop(h);
        if absent {
            self.domains.absent.insert(cpu);
            self.drain(cpu, now, k);
        } else {
            self.domains.absent.remove(cpu);
            self.pull(cpu, now, k);
        }
        if self.domains.is_limited() {
            self.offer(cpu, now, k);
        }
    }

    fn drain(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        for _ in 0..MOST {
            let mut h = self.lock(cpu);
            let Some(t) = self.first_to_drain(&h.rq) else { return };
            h.account(now);
            h.dequeue(t, self.table.get(t));
            h.publish();
            drop(h);
            self.activate(t, cpu, now, Placement::Moved, k);
        }
    }

    /// A waiting thread that could be served elsewhere.
    fn first_to_drain(&self, rq: &crate::cpu::RunQueue) -> Option<ThreadIdx> {
        let table = &self.table;
        let served = |&t: &ThreadIdx| {
            let e = table.get(t);
            let present = |i| table.mask_word(t, e, i) & !self.domains.absent.word(i) != 0;
            (0..self.domains.words()).any(present) && e.movable.get() != 0
        };
        let urgent = rq.first_pushable(table).filter(served);
        let throttled = || rq.deadline.first_throttled(table).filter(served);
        urgent.or_else(throttled).or_else(|| rq.fair.find_allowed(table, 0, MOST, |t, _| served(&t)))
    }
}
