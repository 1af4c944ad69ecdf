//! Admission control of the deadline class: what is reserved must exist.

use crate::Scheduler;
use crate::attr::{Attr, AttrError, DeadlineParams};
use crate::config::Config;
use crate::entity::Entity;
use crate::planted::Fault;
use ids::{CpuMask, Policy, ThreadIdx};
use sync::Lock;

/// Bandwidth is counted in units of 2^-20 of a CPU (`BW_SHIFT`).
const ONE_CPU: u64 = 1 << 20;

/// The reserved bandwidth of all deadline threads.
#[derive(Debug)]
pub(crate) struct Admission {
    reserved: Lock<u64>,
    limit: u64,
}

impl Admission {
    pub(crate) fn new(config: &Config) -> Admission {
        let limit = match config.deadline_permille {
            p if p > 1000 => u64::MAX,
            p => config.cpus as u64 * ONE_CPU * u64::from(p) / 1000,
        };
        Admission { reserved: Lock::new(0), limit }
    }

    /// Exchanges the reservation of `e`, if there is room (`sched_dl_overflow`).
    fn exchange(&self, e: &Entity, new: u64) -> Result<(), AttrError> {
        let mut total = self.reserved.lock();
        let others = *total - u64::from(e.reserved.get());
        if new > 0 && others.saturating_add(new) > self.limit {
            return Err(AttrError::Busy);
        }
        *total = others + new;
        e.reserved.set(new as u32);
        Ok(())
    }

    /// Gives back what `e` had reserved.
    pub(crate) fn release(&self, e: &Entity) {
        // Giving back always fits.
        let _ = self.exchange(e, 0);
    }
}

impl Scheduler {
    /// Reserves what `attr` asks for in the name of `t`.
    pub(crate) fn reserve_bandwidth(&self, t: ThreadIdx, attr: &Attr) -> Result<(), AttrError> {
        let e = self.table.get(t);
        if attr.policy == Policy::Deadline && !CpuMask::first(self.cpus.len()).is_subset(&self.table.mask(t)) {
            return Err(AttrError::NotPermitted);
        }
        if self.table.plants(Fault::AdmitAll) {
            return Ok(());
        }
        self.admission.exchange(e, attr.deadline.map_or(0, |p| bandwidth(&p)))
    }
}

fn bandwidth(p: &DeadlineParams) -> u64 {
    (u128::from(p.runtime.0) * u128::from(ONE_CPU) / u128::from(p.period().0.max(1))) as u64
}
