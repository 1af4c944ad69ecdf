//! Changes of attributes, affinity, boosts, and of the CPUs themselves.

use crate::attr::{Attr, AttrError, Urgency};
use crate::entity::{Entity, ON_RQ, state};
use crate::fair::Placement;
use crate::queue::Held;
use crate::{Kick, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use sync::atomic::Ordering;

/// Somebody's entity, claimed for a change.
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
        let base = self.config.base_slice();
        self.change(t, now, k, |e| e.set_attr(attr, base, self.config.rr_slice));
        Ok(())
    }

    /// Makes the urgency of `t` at least `boost`, for as long as it holds what a more urgent thread
    /// waits for; `None` ends that.
    pub fn set_boost(&self, t: ThreadIdx, boost: Option<Urgency>, now: Nanos, k: &mut impl Kick) {
        self.change(t, now, k, |e| e.set_boost(boost));
    }

    /// Replaces the affinity mask of `t`. A thread that runs outside the new mask leaves its CPU when that
    /// CPU next schedules: it is asked to.
    pub fn set_affinity(&self, t: ThreadIdx, mask: CpuMask, now: Nanos, k: &mut impl Kick) -> Result<(), AttrError> {
        let mask = mask.and(&CpuMask::first(self.cpus.len()));
        if mask.is_empty() {
            return Err(AttrError::Invalid);
        }
        if self.table.get(t).reserved.get() != 0 && mask.count() < self.cpus.len() {
            return Err(AttrError::Busy);
        }
        self.change(t, now, k, |_| self.table.set_mask(t, &mask));
        Ok(())
    }

    /// Takes `t` out of its queue, changes it, puts it back, and lets the consequences follow.
    fn change(&self, t: ThreadIdx, now: Nanos, k: &mut impl Kick, apply: impl Fn(&Entity)) {
        let e = self.table.get(t);
        match self.claim(t, e) {
            Claim::Gone => {}
            Claim::Waiting => {
                apply(e);
                self.unclaim(t, e, now, k);
            }
            Claim::Queued(mut h) => {
                h.account(now);
                if h.rq.current == t {
                    self.change_running(h, t, e, now, k, apply)
                } else {
                    self.change_queued(h, t, e, now, k, apply)
                }
            }
        }
    }

    fn change_running(
        &self,
        mut h: Held<'_>,
        t: ThreadIdx,
        e: &Entity,
        now: Nanos,
        k: &mut impl Kick,
        apply: impl Fn(&Entity),
    ) {
        let before = e.urgency();
        h.leave_running(t, e, true);
        apply(e);
        h.rejoin_running(t, e, now, e.urgency() < before);
        h.rq.exile = !self.table.allows(t, e, h.id);
        // Whoever is less urgent now, or must go, lets the CPU choose again.
        let again = h.rq.exile || e.urgency() < before;
        let told = again && h.request();
        h.publish();
        let cpu = h.id;
        let push = h.rq.overloaded;
        drop(h);
        if told {
            k.kick(cpu);
        }
        if push {
            self.push_rt(cpu, now, k);
        }
    }

    fn change_queued(
        &self,
        mut h: Held<'_>,
        t: ThreadIdx,
        e: &Entity,
        now: Nanos,
        k: &mut impl Kick,
        apply: impl Fn(&Entity),
    ) {
        let before = e.urgency();
        h.dequeue(t, e);
        apply(e);
        if !self.table.allows(t, e, h.id) {
            h.publish();
            let from = h.id;
            drop(h);
            return self.activate(t, from, now, Placement::Moved, k);
        }
        h.enqueue(t, e, now, Placement::Moved, e.urgency() < before);
        let told = h.beats_current(t, e) && h.request();
        h.publish();
        let cpu = h.id;
        let push = h.rq.overloaded;
        drop(h);
        if told {
            k.kick(cpu);
        }
        if push {
            self.push_rt(cpu, now, k);
        }
    }

    /// Gets hold of `t`, whatever it is doing. Waits for a waker or another changer, both of which are quick.
    fn claim<'a>(&'a self, t: ThreadIdx, e: &Entity) -> Claim<'a> {
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
            match e.state.compare_exchange(state::BLOCKED, state::CHANGING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Claim::Waiting,
                Err(state::FREE | state::DEAD) => return Claim::Gone,
                Err(_) => sync::relax(round),
            }
            round += 1;
            debug_assert!(t.is_some());
        }
    }

    /// Lets go of a waiting thread; if it was woken meanwhile, that is done now.
    fn unclaim(&self, t: ThreadIdx, e: &Entity, now: Nanos, k: &mut impl Kick) {
        let back = e.state.compare_exchange(state::CHANGING, state::BLOCKED, Ordering::AcqRel, Ordering::Acquire);
        if back.is_err() {
            e.state.store(state::WAKING, Ordering::Release);
            self.activate(t, e.cpu(), now, Placement::Wake, k);
        }
    }

    /// Says whether anybody serves `cpu`. While it is absent, wake-ups avoid it where they can and others
    /// take its waiting threads; going absent gives away what may go.
    pub fn set_absent(&self, cpu: CpuId, absent: bool, now: Nanos, k: &mut impl Kick) {
        let mut h = self.lock(cpu);
        if h.rq.absent == absent {
            return;
        }
        h.rq.absent = absent;
        if !absent {
            self.domain.absent.remove(cpu);
            return;
        }
        self.domain.absent.insert(cpu);
        drop(h);
        self.push_rt(cpu, now, k);
        self.nudge(cpu, cpu, now, k);
    }

    /// The effective urgency of `t`.
    pub fn urgency(&self, t: ThreadIdx) -> Urgency {
        self.table.get(t).urgency()
    }
}
