//! The limits on delays on a machine with a model: kicks and migrations take longer there, and CPUs may be away.

use super::World;
use crate::check::Bounds;
use crate::config::Config;
use crate::hardware::Calm;
use crate::rng::Rng;
use ids::Nanos;

/// The limits, and when CPUs are away.
#[derive(Debug)]
pub(crate) struct Patience {
    /// While no CPU is away.
    calm: Bounds,
    /// In any case.
    most: Bounds,
    times: Option<Calm>,
}

impl Patience {
    /// `flat`: the limits of the flat machine; `stolen`: the machine's own stream of numbers.
    pub(crate) fn new(config: &Config, flat: Bounds, stolen: &Rng) -> Option<Patience> {
        let hardware = config.hardware.as_ref()?;
        let (kick, migration) = (config.cost.kick_most().0 + config.faults.kick_late, config.cost.migration);
        let further = hardware.kick.most(kick) - kick + hardware.migration.most(migration) - migration;
        let calm = each(flat, |bound, way| bound + Nanos(way * further));
        let most = each(calm, |bound, _| hardware.longest(bound));
        Some(Patience { calm, most, times: Calm::new(hardware, stolen) })
    }

    /// The limits now. The time in which a CPU is away does not count, because what waits may wait for that CPU; but nothing
    /// waits for all CPUs one after the other.
    fn bounds(&mut self, now: Nanos) -> Bounds {
        let Some(times) = &mut self.times else { return self.calm };
        times.advance(now.0);
        times.forget(now.0, self.calm.settle.max(self.calm.idle).max(self.calm.late).0);
        let Bounds { settle, idle, late } = each(self.calm, |bound, _| Nanos(times.passed(now.0, bound.0)));
        let most = self.most;
        Bounds { settle: settle.min(most.settle), idle: idle.min(most.idle), late: late.min(most.late) }
    }
}

/// Every limit, and how many kicks one after the other it allows for.
fn each(bounds: Bounds, how: impl Fn(Nanos, u64) -> Nanos) -> Bounds {
    Bounds { settle: how(bounds.settle, 2), idle: how(bounds.idle, 1), late: how(bounds.late, 1) }
}

impl World {
    /// Before a check.
    pub(super) fn be_patient(&mut self) {
        if let Some(patience) = &mut self.patience {
            self.checker.set_bounds(patience.bounds(self.now));
        }
    }
}
