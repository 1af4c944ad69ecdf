//! More CPUs than the host has processors.
//!
//! CPUs that share a host processor take turns in slices of milliseconds that ignore priorities. So only as many CPUs
//! as the host runs at the same time ([`Config::at_once`](crate::Config::at_once)) have real-time and deadline threads,
//! and each of those gets a host *core* to itself, to which the kernel binds it ([`Scheduler::core`]). So as many of
//! the most urgent threads run as there are cores; a more urgent thread takes the CPU of the least urgent one.
//!
//! | CPU | counts as urgent | has a core |
//! |---|---|---|
//! | its vector is not 0: an urgent thread runs or waits there | yes | yes, if one was free |
//! | it just lost its last urgent thread and looks for another (`Place`) | yes | no |
//! | it is idle, or has fair threads only | no | no |
//!
//! Affinity takes precedence: a thread that may not run on any urgent CPU gets another one, and pinned threads get
//! their own. There are then more urgent CPUs than cores; the last ones have no core and run wherever the host puts
//! them. All published words are hints, so concurrent wake-ups and pushes may also exceed the limit.

use crate::domain::Place;
use crate::entity::{Class, Entity};
use crate::queue::Held;
use crate::rank::Rank;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

/// The most offers in a row.
const MOST: u32 = 64;

impl Scheduler {
    /// The CPU for a waking urgent thread (`select_urgent`): its last CPU, if a less urgent thread makes way there;
    /// a CPU without urgent threads, if a core is free; the CPU with the least urgent one; otherwise one where it waits.
    pub(crate) fn select_among_few(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        let (last, mine) = (e.cpu(), Rank::of(e));
        if self.suits(t, e, last) && self.domains.is_urgent(last) && self.makes_way(last, mine) {
            return Some(last);
        }
        let found = self.find_lower(t, e, from).filter(|&c| self.runs(c) > mine);
        found.or_else(|| self.near(e, from).find(|&c| self.suits(t, e, c) && self.domains.is_urgent(c)))
    }

    /// A CPU without urgent threads where `t` may run, if the limit allows another one. A CPU that polls is preferred
    /// to one that sleeps, which would have to wait for a host processor; among equals, the thread's last CPU, then
    /// `this`.
    pub(crate) fn open_cpu(&self, t: ThreadIdx, e: &Entity, this: CpuId) -> Option<CpuId> {
        if e.movable.get() == 0 || e.class() == Class::Stop {
            return None;
        }
        let d = &self.domains;
        // A thread that may run on no urgent CPU need not wait for one.
        if d.is_crowded() && self.near(e, this).any(|c| self.suits(t, e, c) && d.is_urgent(c)) {
            return None;
        }
        let open = |c: &CpuId| self.suits(t, e, *c) && !d.is_urgent(*c);
        let awake = self.near(e, this).filter(|&c| d.spinning.contains(c)).find(open);
        awake.or_else(|| self.near(e, this).find(open))
    }

    /// All CPUs, the last one of `e` and `this` first.
    fn near(&self, e: &Entity, this: CpuId) -> impl Iterator<Item = CpuId> {
        let all = (0..self.cpus.len()).map(|c| CpuId(c as u16));
        // A waker without a CPU (a signal from outside) has none to offer.
        [e.cpu(), this].into_iter().filter(|c| c.index() < self.cpus.len()).chain(all)
    }

    /// `cpu` has lost its urgent threads, so another CPU may have some; or its urgent thread may be less urgent than
    /// threads that wait elsewhere. Places waiting threads again until nothing moves.
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

    /// The caller's CPU `cpu` has chosen `next`: reports the core to which it must be bound.
    #[cold]
    pub(crate) fn tell_core(&self, cpu: CpuId, next: Option<ThreadIdx>, k: &mut impl Kick) {
        // An idle CPU may be needed for the next urgent thread there.
        let Some(next) = next else { return };
        if self.table.get(next).is_fair() && !self.domains.is_urgent(cpu) {
            self.cpus[cpu.index()].seen.bound.set(0);
        }
        k.serves(cpu, self.core(cpu));
    }
}

impl<'a> Held<'a> {
    /// The CPU gained or lost its urgent threads: takes or releases a core. The next carrier that serves it must be
    /// bound.
    #[cold]
    pub(crate) fn settle_core(&mut self) {
        let (seen, d) = (&self.cpu.seen, &self.s.domains);
        let kept = (seen.bound.get() as usize).checked_sub(1);
        match (self.rq.vector != 0, self.rq.has_core) {
            (true, false) => {
                let core = d.take_core(self.id, kept);
                self.rq.has_core = core.is_some();
                seen.bound.set(core.map_or(0, |core| core as u32 + 1));
            }
            (false, true) => {
                self.rq.has_core = false;
                kept.into_iter().for_each(|core| d.leave_core(core));
            }
            _ => {}
        }
    }

    /// Publishes that the CPU has lost its most urgent thread, and keeps its place if it was the last; returns whether
    /// the CPU may look for another one.
    pub(crate) fn publish_between(&mut self, place: &mut Option<Place<'a>>) -> bool {
        let d = &self.s.domains;
        // The CPU counts twice for a moment, so that no other takes the place meanwhile.
        let kept = d.is_limited().then(|| d.keep_place());
        self.publish();
        match kept {
            Some(kept) if self.rq.vector == 0 => *place = d.confirm(kept),
            _ => return true,
        }
        place.is_some()
    }
}
