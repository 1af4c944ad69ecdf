//! A run queue whose lock is held, and the steps of which all scheduling is made.

use crate::Scheduler;
use crate::cpu::{Cpu, Idle, RunQueue, rank, vector_of};
use crate::deadline;
use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::rt::NO_LEVEL;
use ids::{CpuId, Nanos, ThreadIdx};
use sync::Guard;
use sync::atomic::Ordering;

/// The run queue of one CPU, locked.
pub(crate) struct Held<'a> {
    pub s: &'a Scheduler,
    pub id: CpuId,
    pub cpu: &'a Cpu,
    pub rq: Guard<'a, RunQueue>,
}

impl<'a> Held<'a> {
    /// The running thread's entity.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<&'a Entity> {
        let t = self.rq.current;
        t.is_some().then(|| self.s.table.get(t))
    }

    /// Accounts the running thread's time up to `now`.
    #[inline(always)]
    pub(crate) fn account(&mut self, now: Nanos) {
        let Some(e) = self.current() else { return };
        let delta = now.0.saturating_sub(self.rq.accounted);
        if delta == 0 {
            return;
        }
        self.rq.accounted = now.0;
        e.runtime.add(delta);
        if e.is_fair() {
            self.rq.fair.charge(e, delta);
            self.rq.server.charge(delta, now);
        } else if e.class() == Class::Deadline {
            deadline::charge(e, delta);
        }
    }

    /// Puts `t` into its class's queue. It is owned by the caller and in no queue.
    pub(crate) fn enqueue(&mut self, t: ThreadIdx, e: &Entity, now: Nanos, how: Placement, head: bool) {
        let table = &self.s.table;
        match e.class() {
            Class::Fair => {
                self.rq.fair.join(e, self.id, how);
                self.rq.fair.insert(table, t);
                self.cpu.seen.load.set(self.rq.fair.load() as u64);
            }
            Class::Rt | Class::Stop => self.rq.rt.enqueue(table, t, head),
            Class::Deadline => {
                if how != Placement::Moved || e.dl.absolute.get() == 0 {
                    deadline::begin_job(e, now);
                }
                self.rq.deadline.insert(table, t, now);
            }
        }
        e.queued_at.set(now.0);
        e.set_home(self.id, true);
    }

    /// Takes a waiting thread out of its queue; the caller owns it then.
    pub(crate) fn dequeue(&mut self, t: ThreadIdx, e: &Entity) {
        let table = &self.s.table;
        match e.class() {
            Class::Fair => {
                self.rq.fair.remove(table, t);
                self.rq.fair.leave(e, true);
                self.cpu.seen.load.set(self.rq.fair.load() as u64);
            }
            Class::Rt | Class::Stop => self.rq.rt.dequeue(table, t, false),
            Class::Deadline => self.rq.deadline.remove(table, t),
        }
        e.set_home(self.id, false);
    }

    /// The running thread leaves the competition, but stays `current` for the moment.
    pub(crate) fn leave_running(&mut self, t: ThreadIdx, e: &Entity, relative: bool) {
        match e.class() {
            Class::Fair => {
                self.rq.fair.leave(e, relative);
                self.cpu.seen.load.set(self.rq.fair.load() as u64);
            }
            Class::Rt | Class::Stop => self.rq.rt.dequeue(&self.s.table, t, true),
            Class::Deadline => {}
        }
    }

    /// The opposite of `leave_running`.
    pub(crate) fn rejoin_running(&mut self, t: ThreadIdx, e: &Entity, now: Nanos, head: bool) {
        match e.class() {
            Class::Fair => {
                self.rq.fair.join(e, self.id, Placement::Moved);
                self.cpu.seen.load.set(self.rq.fair.load() as u64);
            }
            Class::Rt | Class::Stop => {
                let active = &mut self.rq.rt.active;
                if head {
                    active.push_front(&self.s.table, t)
                } else {
                    active.push_back(&self.s.table, t)
                }
                self.rq.rt.len += 1;
            }
            Class::Deadline => deadline::begin_job(e, now),
        }
    }

    /// The running thread becomes a waiting one.
    pub(crate) fn put_back(&mut self, t: ThreadIdx, e: &Entity, now: Nanos) {
        match e.class() {
            Class::Fair => self.rq.fair.insert(&self.s.table, t),
            Class::Rt | Class::Stop => self.rq.rt.make_pushable(&self.s.table, t),
            Class::Deadline => self.rq.deadline.insert(&self.s.table, t, now),
        }
        e.queued_at.set(now.0);
    }

    /// Nobody runs here any more: `current` is about to belong to somebody else.
    pub(crate) fn vacate(&mut self) {
        self.rq.current = ThreadIdx::NONE;
        self.cpu.seen.current.store(ThreadIdx::NONE.0, Ordering::Release);
    }

    /// The most urgent waiting thread, taken out of the queue to run; `None` is idle.
    /// Nobody is current.
    pub(crate) fn pick(&mut self, now: Nanos) -> Option<ThreadIdx> {
        let table = &self.s.table;
        while self.rq.deadline.throttled() > 0 && self.rq.deadline.replenish_one(table, now) {}
        let fair = self.rq.fair.waiting() > 0;
        let rt = !self.rq.rt.active.is_empty();
        self.rq.server.update(now, fair, rt);
        if self.rq.rt.active.best() == 0 {
            return self.pick_rt();
        }
        let by_server = fair && self.rq.server.active();
        if let Some(t) = self.rq.deadline.first()
            && !(by_server && self.rq.server.deadline() < deadline::deadline_of(table.get(t)))
        {
            self.rq.deadline.remove(table, t);
            return Some(t);
        }
        if rt && !by_server {
            return self.pick_rt();
        }
        let t = self.rq.fair.choose(table, None)?;
        self.rq.fair.remove(table, t);
        Some(t)
    }

    fn pick_rt(&mut self) -> Option<ThreadIdx> {
        let t = self.rq.rt.active.first()?;
        self.rq.rt.take_from_pushable(&self.s.table, t);
        Some(t)
    }

    /// `t` runs from `now` on.
    #[inline(always)]
    pub(crate) fn begin(&mut self, t: ThreadIdx, e: &Entity, now: Nanos) {
        self.rq.accounted = now.0;
        self.rq.current = t;
        self.cpu.seen.current.store(t.0, Ordering::Release);
        self.cpu.seen.usual_run.set(e.usual_run.get());
        if e.is_fair() {
            self.rq.fair.begin(e);
        }
    }

    /// Publishes what others look at. Everything that changed membership or the running
    /// thread ends with this.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let e = self.current();
        let waiting = self.rq.waiting(e);
        let seen = &self.cpu.seen;
        seen.queued.set(waiting);
        seen.fair_waiting.set(self.rq.fair.waiting());
        let only_fair = self.rq.rt.len == 0 && self.rq.deadline.waiting() == 0 && e.is_none_or(|e| e.is_fair());
        if only_fair && self.rq.vector == 0 && !self.rq.overloaded {
            let running = if e.is_some() { rank::FAIR } else { rank::IDLE };
            seen.running.set(running);
            seen.deadline_waiting.set(0);
            seen.tick.set(u8::from(waiting > 0 || self.rq.deadline.throttled() > 0));
        } else {
            self.publish_urgent(e, waiting);
        }
    }

    #[cold]
    #[inline(never)]
    fn publish_urgent(&mut self, e: Option<&Entity>, waiting: u32) {
        let seen = &self.cpu.seen;
        let by_server = self.rq.server.active() && e.is_some_and(|e| e.is_fair());
        let running = if by_server { rank::DEADLINE } else { e.map_or(rank::IDLE, rank::of) };
        seen.running.set(running);
        seen.running_pinned.set(u8::from(e.is_some_and(|e| e.movable.get() == 0)));
        seen.pushable.set(self.rq.rt.pushable.best());
        seen.deadline_waiting.set(self.rq.deadline.waiting());
        let budget = e.is_some_and(|e| e.class() == Class::Deadline) || by_server;
        seen.tick.set(u8::from(waiting > 0 || budget || self.rq.deadline.throttled() > 0));
        let vector = vector_of(running.min(self.rq.best_rank(e)));
        if vector != self.rq.vector {
            self.s.domain.set_priority(self.id, self.rq.vector, vector);
            self.rq.vector = vector;
        }
        let overloaded = self.rq.rt.pushable.best() < NO_LEVEL;
        if overloaded != self.rq.overloaded {
            if overloaded {
                self.s.domain.set_overload(self.id)
            } else {
                self.s.domain.clear_overload(self.id)
            }
            self.rq.overloaded = overloaded;
        }
    }

    /// Says in the idle masks whether this CPU is idle, and how.
    pub(crate) fn set_idle(&mut self, idle: Option<Idle>) {
        if self.rq.idle == idle {
            return;
        }
        let d = &self.s.domain;
        match self.rq.idle {
            Some(Idle::Spinning) => d.spinning.remove(self.id),
            Some(Idle::Parked) => d.parked.remove(self.id),
            None => {}
        }
        match idle {
            Some(Idle::Spinning) => d.spinning.insert(self.id),
            Some(Idle::Parked) => d.parked.insert(self.id),
            None => {}
        }
        self.rq.idle = idle;
    }

    /// Asks this CPU to call `schedule`; says whether it must be told (it had not been asked yet).
    #[must_use]
    pub(crate) fn request(&self) -> bool {
        let asked = self.cpu.need_resched();
        self.cpu.seen.need_resched.store(true, Ordering::Release);
        !asked
    }

    /// Whether the woken or arrived `t` should run before the running thread
    /// (`wakeup_preempt`). The running thread's time has been accounted.
    pub(crate) fn beats_current(&mut self, t: ThreadIdx, e: &Entity) -> bool {
        if e.class() == Class::Deadline && e.dl.throttled.get() != 0 {
            return false;
        }
        let Some(c) = self.current() else { return true };
        let by_server = self.rq.server.active() && c.is_fair();
        match (e.class(), c.class()) {
            (Class::Stop, Class::Stop) => false,
            (Class::Stop, _) => true,
            (_, Class::Stop) => false,
            (Class::Deadline, Class::Deadline) => deadline::deadline_of(e) < deadline::deadline_of(c),
            (Class::Deadline, Class::Fair) if by_server => deadline::deadline_of(e) < self.rq.server.deadline(),
            (Class::Deadline, _) => true,
            (_, Class::Deadline) => false,
            (Class::Rt, Class::Rt) => {
                e.level.get() < c.level.get() || (e.level.get() == c.level.get() && self.equal_but_pinned(t, e, c))
            }
            (Class::Rt, Class::Fair) => !by_server,
            (Class::Fair, Class::Rt) => false,
            (Class::Fair, Class::Fair) => self.fair_beats_current(t, e, c),
        }
    }

    /// An equal real-time thread does not preempt, unless it can run only here and the running one
    /// can go elsewhere: then the latter moves behind it (`check_preempt_equal_prio`).
    fn equal_but_pinned(&mut self, t: ThreadIdx, e: &Entity, c: &Entity) -> bool {
        let current = self.rq.current;
        if e.movable.get() != 0 || c.movable.get() == 0 || self.s.find_lowest(current, c, self.id).is_none() {
            return false;
        }
        self.rq.rt.active.remove(&self.s.table, t);
        self.rq.rt.active.push_front(&self.s.table, t);
        true
    }

    fn fair_beats_current(&mut self, t: ThreadIdx, e: &Entity, c: &Entity) -> bool {
        use ids::Policy;
        if c.policy() == Policy::Idle && e.policy() != Policy::Idle {
            self.rq.fair.unprotect();
            return true;
        }
        if e.policy() != Policy::Other {
            return false;
        }
        self.rq.fair.end_protection_for(e, c);
        self.rq.fair.choose(&self.s.table, Some(c)) == Some(t)
    }
}
