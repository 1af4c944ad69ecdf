//! Changes of attributes, affinity, boosts, and of the CPUs themselves.

use crate::attr::{Attr, AttrError, Urgency};
use crate::entity::{Class, Entity, ON_RQ};
use crate::fair::Placement;
use crate::life;
use crate::planted::Fault;
use crate::queue::Held;
use crate::rank::Rank;
use crate::{Kick, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use sync::atomic::Ordering;

/// The attribute that changes.
#[derive(Clone, Copy)]
enum Change<'a> {
    Attr(&'a Attr),
    Boost(Option<Urgency>),
}

/// An entity claimed for a change.
enum Claim<'a> {
    /// Running or queued: the lock of its run queue is held.
    Queued(Held<'a>),
    /// Waiting: nobody else touches it until `unclaim`.
    Waiting,
    /// Exited or never there.
    Gone,
}

impl Scheduler {
    /// Replaces the attributes of `t`.
    pub fn set_attr(&self, t: ThreadIdx, attr: &Attr, now: Nanos, k: &mut impl Kick) -> Result<(), AttrError> {
        if !attr.is_valid() {
            return Err(AttrError::Invalid);
        }
        self.reserve_bandwidth(t, attr)?;
        self.change(t, Change::Attr(attr), now, k);
        Ok(())
    }

    /// Makes the urgency of `t` at least `boost`, while it holds what a more urgent thread waits for; `None` ends that.
    /// A thread whose urgency stays the same keeps its place.
    pub fn set_boost(&self, t: ThreadIdx, boost: Option<Urgency>, now: Nanos, k: &mut impl Kick) {
        self.change(t, Change::Boost(boost), now, k);
    }

    fn apply(&self, e: &Entity, what: Change<'_>) {
        match what {
            Change::Attr(attr) => {
                let before = e.class();
                e.set_attr(attr, self.config.base_slice(), self.config.rr_slice);
                self.note_urgency(e);
                // CPU time consumed in another class does not count towards a real-time slice.
                if e.class() == Class::Rt && before != Class::Rt {
                    e.runtime_at_wake.set(e.runtime.get());
                }
            }
            Change::Boost(None) if self.table.plants(Fault::KeepBoost) => {}
            Change::Boost(boost) => e.set_boost(boost),
        }
    }

    /// Takes `t` out of its queue, changes it, puts it back, and handles the consequences.
    fn change(&self, t: ThreadIdx, what: Change<'_>, now: Nanos, k: &mut impl Kick) {
        let e = self.table.get(t);
        match self.claim(e) {
            Claim::Gone => {}
            Claim::Waiting => {
                self.apply(e, what);
                self.unclaim(t, e, now, k);
            }
            Claim::Queued(_h) if keeps_place(e, what) => self.apply(e, what),
            Claim::Queued(mut h) => {
                h.account(now);
                let request = match h.rq.current == t {
                    true => h.change_running(t, e, what, now),
                    false => h.change_waiting(t, e, what, now),
                };
                self.follow_up(h, request, now, k);
            }
        }
    }

    /// Publishes a change. If `request` is set, that CPU reschedules; otherwise other CPUs may take the waiting
    /// threads.
    fn follow_up(&self, mut h: Held<'_>, request: bool, now: Nanos, k: &mut impl Kick) {
        let told = request && h.request();
        let kick = h.publish() || told;
        let (cpu, push) = (h.id, h.rq.overloaded);
        drop(h);
        if kick {
            k.kick(cpu);
        }
        if push {
            self.push(cpu, now, k);
        }
        if self.domains.is_limited() {
            self.offer(cpu, now, k);
        }
    }

    /// Replaces the affinity mask of `t`. A thread that runs outside the new mask leaves its CPU at the next
    /// `schedule`, which is requested.
    pub fn set_affinity(&self, t: ThreadIdx, mask: CpuMask, now: Nanos, k: &mut impl Kick) -> Result<(), AttrError> {
        let all = CpuMask::first(self.cpus.len());
        let mask = mask.and(&all);
        let e = self.table.get(t);
        if mask.is_empty() {
            return Err(AttrError::Invalid);
        }
        if e.reserved.get() != 0 && !self.domain_reserved(e).span().is_subset(&mask) {
            return Err(AttrError::Busy);
        }
        match self.claim(e) {
            Claim::Gone => {}
            Claim::Waiting => {
                self.table.set_mask(t, &mask);
                self.unclaim(t, e, now, k);
            }
            Claim::Queued(mut h) if h.rq.current == t => {
                self.table.set_mask(t, &mask);
                h.rq.exile = !mask.contains(h.id);
                let request = h.rq.exile;
                self.follow_up(h, request, now, k);
            }
            Claim::Queued(mut h) if mask.contains(h.id) => {
                h.remask(t, e, &mask, now);
                // A throttled thread may have received its new budget on the way.
                let request = e.class() == Class::Deadline && h.beats_current(t, e);
                self.follow_up(h, request, now, k);
            }
            Claim::Queued(mut h) => {
                h.account(now);
                h.dequeue(t, e);
                h.publish();
                let (from, push) = (h.id, h.rq.overloaded);
                drop(h);
                self.table.set_mask(t, &mask);
                self.activate(t, from, now, Placement::Moved, k);
                if push {
                    self.push(from, now, k);
                }
                if self.domains.is_limited() {
                    self.offer(from, now, k);
                }
            }
        }
        Ok(())
    }

    /// Claims `t`, whatever it is doing. Waits for a waker or another changer, both of which are quick.
    fn claim<'a>(&'a self, e: &Entity) -> Claim<'a> {
        let mut round = 0;
        loop {
            let home = e.home.load(Ordering::Acquire);
            if home & ON_RQ != 0 {
                let h = self.lock(CpuId(home as u16));
                if e.home.load(Ordering::Relaxed) == home {
                    return Claim::Queued(h);
                }
                continue;
            }
            let h = self.lock(CpuId(home as u16));
            match e.life.claim(|| e.home.load(Ordering::Relaxed) == home) {
                life::Claim::Claimed => return Claim::Waiting,
                life::Claim::Gone => return Claim::Gone,
                life::Claim::Busy => drop(h),
            }
            sync::relax(round);
            round += 1;
        }
    }

    /// Releases a waiting thread; queues it if it was woken meanwhile.
    fn unclaim(&self, t: ThreadIdx, e: &Entity, now: Nanos, k: &mut impl Kick) {
        let waits = {
            let _held = self.lock(e.cpu());
            e.life.unclaim()
        };
        if !waits {
            self.activate(t, e.cpu(), now, Placement::Wake, k);
        }
    }

    /// The effective urgency of `t`.
    pub fn urgency(&self, t: ThreadIdx) -> Urgency {
        self.table.get(t).urgency()
    }
}

/// Whether a real-time thread keeps its place in the change, so that nothing needs to be done.
fn keeps_place(e: &Entity, what: Change<'_>) -> bool {
    let after = match what {
        Change::Attr(attr) if attr.policy != e.policy() => return false,
        Change::Attr(attr) => e.urgency_with(attr.policy, attr.rt, e.boost()),
        Change::Boost(boost) => e.urgency_with(e.policy(), e.attr().rt, boost.unwrap_or(Urgency::Fair)),
    };
    e.in_rt_queue() && after == e.urgency()
}

impl Held<'_> {
    /// Changes the running thread. True if the CPU must reschedule: a thread that became less urgent may have to
    /// leave.
    fn change_running(&mut self, t: ThreadIdx, e: &Entity, what: Change<'_>, now: Nanos) -> bool {
        let before = e.urgency();
        self.leave_running(t, e, true);
        self.s.apply(e, what);
        self.rejoin_running(t, e, now, e.urgency() < before);
        self.rq.chosen = self.rq.chosen.min(Rank::of(e));
        // A job may have begun with a later deadline, or the budget may have been used up before.
        let current = Some(e);
        let outranked = self.rq.best_rank(&self.s.table, current) < self.rq.running_rank(current);
        e.urgency() < before || outranked
    }

    /// Changes a thread that waits here; returns whether it should run at once. A raised thread goes behind its new
    /// equals, a lowered one before them (`__sched_setscheduler`).
    fn change_waiting(&mut self, t: ThreadIdx, e: &Entity, what: Change<'_>, now: Nanos) -> bool {
        let before = e.urgency();
        self.dequeue(t, e);
        self.s.apply(e, what);
        self.enqueue(t, e, now, Placement::Moved, e.urgency() < before);
        self.beats_current(t, e)
    }
}
