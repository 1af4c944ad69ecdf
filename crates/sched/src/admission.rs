//! Admission control of the deadline class: only existing bandwidth can be reserved.

use crate::OutOfMemory;
use crate::Scheduler;
use crate::attr::{Attr, AttrError, DeadlineParams};
use crate::config::Config;
use crate::domain::{Domain, Domains};
use crate::entity::Entity;
use crate::planted::Fault;
use alloc::boxed::Box;
use ids::{Policy, ThreadIdx};
use sync::Lock;
use sync::boxed_slice;

/// Bandwidth is counted in units of 2^-20 of a CPU (`BW_SHIFT`).
const ONE_CPU: u64 = 1 << 20;

/// The reserved bandwidth of all deadline threads, in each root domain (`struct dl_bw`).
#[derive(Debug)]
pub(crate) struct Admission {
    domains: Box<[Bandwidth]>,
}

#[derive(Debug)]
struct Bandwidth {
    reserved: Lock<u64>,
    limit: u64,
}

impl Admission {
    pub(crate) fn new(config: &Config, domains: &Domains) -> Result<Admission, OutOfMemory> {
        let limit = |cpus: usize| match config.deadline_permille {
            p if p > 1000 => u64::MAX,
            p => cpus as u64 * ONE_CPU * u64::from(p) / 1000,
        };
        let of = |domain: &Domain| Bandwidth { reserved: Lock::new(0), limit: limit(domain.span().count()) };
        Ok(Admission { domains: boxed_slice(domains.all().len(), |i| of(&domains.all()[i]))? })
    }

    /// Gives back what `e` had reserved.
    pub(crate) fn release(&self, e: &Entity) {
        // Cannot fail, because a reservation shrinks.
        let _ = self.domains[e.reserved_in.get() as usize].exchange(e, 0);
    }
}

impl Bandwidth {
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
}

impl Scheduler {
    /// The root domain where `e` has reserved bandwidth.
    pub(crate) fn domain_reserved(&self, e: &Entity) -> &Domain {
        &self.domains.all()[e.reserved_in.get() as usize]
    }

    /// Reserves bandwidth for `attr` on behalf of `t`, which must be allowed on all CPUs of its root domain.
    pub(crate) fn reserve_bandwidth(&self, t: ThreadIdx, attr: &Attr) -> Result<(), AttrError> {
        let e = self.table.get(t);
        let number = match e.reserved.get() {
            0 => self.domain_of(t, e),
            _ => e.reserved_in.get() as usize,
        };
        if attr.policy == Policy::Deadline && !self.domains.all()[number].span().is_subset(&self.table.mask(t)) {
            return Err(AttrError::NotPermitted);
        }
        if self.table.plants(Fault::AdmitAll) {
            return Ok(());
        }
        self.admission.domains[number].exchange(e, attr.deadline.map_or(0, |p| bandwidth(&p)))?;
        e.reserved_in.set(number as u32);
        Ok(())
    }
}

fn bandwidth(p: &DeadlineParams) -> u64 {
    (u128::from(p.runtime.0) * u128::from(ONE_CPU) / u128::from(p.period().0.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Nanos;

    fn params(runtime: u64, period: u64) -> DeadlineParams {
        DeadlineParams { runtime: Nanos(runtime), deadline: Nanos(period), period: Nanos(0) }
    }

    #[test]
    fn bandwidths_are_counted_in_units_of_a_2_to_the_20th_of_a_cpu() {
        for (runtime, period, units) in [
            (1, 1, 1 << 20),
            (1, 2, 1 << 19),
            (1, 1 << 20, 1),
            (1, 1 << 21, 0),
            (3 << 10, 1 << 20, 3 << 10),
            (1, 0, 1 << 20),
        ] {
            assert_eq!(bandwidth(&params(runtime, period)), units, "{runtime} of {period}");
        }
        // No overflow: the longest period there is.
        assert_eq!(bandwidth(&params(4_194_304_000, 4_194_304_000)), 1 << 20);
    }

    #[test]
    fn a_reservation_takes_the_place_of_the_old_one_up_to_the_limit() {
        let with = |deadline_permille| {
            let domains = Domains::new(2, &[], 0).unwrap();
            let config = Config { cpus: 2, deadline_permille, ..Config::default() };
            Admission::new(&config, &domains).unwrap().domains.into_iter().next().unwrap()
        };
        let (a, b) = (Entity::new(), Entity::new());
        let half = with(500);
        assert_eq!(half.limit, ONE_CPU);
        assert_eq!(half.exchange(&a, ONE_CPU - 1), Ok(()));
        assert_eq!(half.exchange(&b, 2), Err(AttrError::Busy));
        assert_eq!((u64::from(a.reserved.get()), b.reserved.get()), (ONE_CPU - 1, 0));
        assert_eq!(half.exchange(&b, 1), Ok(()));
        assert_eq!(half.exchange(&b, 2), Err(AttrError::Busy));
        assert_eq!((b.reserved.get(), *half.reserved.lock()), (1, ONE_CPU), "the refused one changed nothing");
        assert_eq!(half.exchange(&a, 10), Ok(()));
        assert_eq!(*half.reserved.lock(), 11);
        half.exchange(&a, 0).unwrap();
        assert_eq!((a.reserved.get(), *half.reserved.lock()), (0, 1));
        assert_eq!((with(1000).limit, with(1001).limit, with(0).limit), (2 * ONE_CPU, u64::MAX, 0));
        assert_eq!(with(0).exchange(&a, 0), Ok(()), "nothing fits even into nothing");
        assert_eq!(with(0).exchange(&a, 1), Err(AttrError::Busy));
    }
}
