//! Work deferred until the locks are released: wake-ups and kicks are host calls, which are not made under a lock.

use crate::futex::wake::Batch;
use crate::machine::Machine;
use crate::{Kernel, Kicks};
use ids::{CpuId, ThreadIdx};

const KICKS_MAX: usize = 16;

/// Kicks to be sent later. A chain reaches few CPUs; beyond 16 they go out at once.
pub(super) struct LaterKicks<'a, M: Machine> {
    now: Kicks<'a, M>,
    cpus: [CpuId; KICKS_MAX],
    len: usize,
}

impl<M: Machine> sched::Kick for LaterKicks<'_, M> {
    fn kick(&mut self, cpu: CpuId) {
        if self.cpus[..self.len].contains(&cpu) {
            return;
        }
        match self.cpus.get_mut(self.len) {
            Some(place) => {
                *place = cpu;
                self.len += 1;
            }
            None => self.now.kick(cpu),
        }
    }
}

/// All deferred work.
pub(in crate::futex) struct Later<'a, M: Machine> {
    pub(super) kicks: LaterKicks<'a, M>,
    pub(super) batch: Batch,
    /// The owner has a waiter from now on and must not be throttled (`limits`).
    pub(super) owner: Option<ThreadIdx>,
}

impl<M: Machine> Kernel<M> {
    pub(in crate::futex) fn later(&self, cpu: CpuId) -> Later<'_, M> {
        let kicks = LaterKicks { now: self.kicks(cpu), cpus: [CpuId::NONE; KICKS_MAX], len: 0 };
        Later { kicks, batch: Batch::new(), owner: None }
    }

    /// Does the deferred work. No lock is held.
    pub(in crate::futex) fn settle(&self, cpu: CpuId, later: Later<'_, M>) {
        let LaterKicks { mut now, cpus, len } = later.kicks;
        for &cpu in &cpus[..len] {
            sched::Kick::kick(&mut now, cpu);
        }
        self.wake_batch(cpu, &later.batch);
        if let Some(owner) = later.owner {
            self.release_owner(cpu, owner);
        }
    }
}
