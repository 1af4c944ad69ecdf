//! More CPUs than the host has processors for.
//!
//! The host lets CPUs that share a processor take turns in slices that know no priority, milliseconds long. So real-time and
//! deadline threads have a *core* to themselves: every `Config::at_once`th CPU is taken to be on the same one, the kernel has
//! it so while a CPU runs such threads ([`crate::Kick::serves`]), and of those CPUs one has urgent threads at a time. The most
//! urgent threads then run, as many as there are cores; who is more urgent takes the CPU of the least urgent one.
//!
//! A thread whose mask has no CPU with a core left, and none that has an urgent thread, has a CPU with a core that is taken:
//! a mask counts for more. What is published is a hint here as elsewhere: between a look and what follows from it two CPUs
//! of a core may get urgent threads. Then they share it until one has none.

use crate::entity::{Class, Entity};
use crate::rank::Rank;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

/// An offer is made so often at most.
const MOST: u32 = 64;

impl Scheduler {
    /// Where a waking urgent thread goes (`select_urgent`): where one that is less urgent makes way, if that is its last CPU;
    /// to a CPU that has a core; where the least urgent one is; and else where it waits for one of them.
    pub(crate) fn select_among_few(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        let (last, mine) = (e.cpu(), Rank::of(e));
        if self.suits(t, e, last) && self.domains.is_urgent(last) && self.makes_way(last, mine) {
            return Some(last);
        }
        let found = self.find_lower(t, e, from).filter(|&c| self.runs(c) > mine);
        found.or_else(|| self.near(e, from).find(|&c| self.suits(t, e, c) && self.domains.is_urgent(c)))
    }

    /// A CPU with a core left where `t` may run, which has no urgent thread. One that sleeps would have to wait at the host for
    /// one that does not, so one that looks around is preferred; of equals its last one, then `this`.
    pub(crate) fn open_cpu(&self, t: ThreadIdx, e: &Entity, this: CpuId) -> Option<CpuId> {
        if e.movable.get() == 0 || e.class() == Class::Stop {
            return None;
        }
        let d = &self.domains;
        let open = |c: &CpuId| self.suits(t, e, *c) && !d.is_urgent(*c) && d.is_open(*c);
        let awake = self.near(e, this).filter(|&c| d.spinning.contains(c)).find(open);
        awake.or_else(|| self.near(e, this).find(open))
    }

    /// All CPUs, the last one of `e` and `this` first.
    fn near(&self, e: &Entity, this: CpuId) -> impl Iterator<Item = CpuId> {
        let all = (0..self.cpus.len()).map(|c| CpuId(c as u16));
        // A waker without a CPU (a signal from outside) has none to offer.
        [e.cpu(), this].into_iter().filter(|c| c.index() < self.cpus.len()).chain(all)
    }

    /// `cpu` has no urgent thread any more, so that another CPU may have one; or it has one now, less urgent maybe than what
    /// waits elsewhere. What waits looks anew, until nothing moves.
    #[cold]
    pub(crate) fn offer(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let n = self.cpus.len();
        for _ in 0..MOST {
            let mut moved = false;
            for src in (1..=n).map(|distance| CpuId(((cpu.index() + distance) % n) as u16)) {
                moved |= self.domains.of(src).is_overloaded(src) && self.push_from(src, now, k);
            }
            if !moved {
                return;
            }
        }
    }

    /// `cpu`, the caller's, has chosen `next`: tells whether it serves urgent threads from now on, if that is new.
    #[cold]
    pub(crate) fn tell_service(&self, cpu: CpuId, next: Option<ThreadIdx>, k: &mut impl Kick) {
        let Some(next) = next else { return };
        let (seen, urgent) = (&self.cpus[cpu.index()].seen, u8::from(!self.table.get(next).is_fair()));
        if seen.serves_urgent.get() != urgent {
            seen.serves_urgent.set(urgent);
            k.serves(cpu, urgent != 0);
        }
    }
}
