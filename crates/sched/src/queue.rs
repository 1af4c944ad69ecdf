//! A locked run queue, and the basic steps of scheduling.

use crate::Scheduler;
use crate::cpu::{Cpu, Idle, RtLatency, RunQueue};
use crate::deadline;
use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::planted::Fault;
use crate::rank::Rank;
use ids::{CpuId, CpuMask, Nanos, Policy, ThreadIdx};
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
        if let Some(e) = self.current() {
            self.account_for(e, now);
        }
    }

    /// `account`, for callers that already have the running thread's entity.
    #[inline(always)]
    pub(crate) fn account_for(&mut self, e: &Entity, now: Nanos) {
        if e.is_fair() {
            self.account_fair(e, now);
        } else {
            self.account_urgent(e, now);
        }
    }

    /// Whether only fair threads have been here since the running one was chosen; if none runs, whether only fair
    /// threads wait.
    #[inline(always)]
    pub(crate) fn has_only_fair(&self) -> bool {
        // One sum, one branch.
        self.rq.chosen >= Rank::FAIR && self.rq.rt.count() + self.rq.deadline.count() == 0
    }

    /// `account_for` where the running thread is known to be fair.
    #[inline(always)]
    pub(crate) fn account_fair(&mut self, e: &Entity, now: Nanos) {
        let delta = self.rq.elapsed(now);
        if delta != 0 {
            self.count_span(e, delta);
            self.rq.fair.charge(e, delta);
            self.rq.server.charge(delta, now);
        }
    }

    /// `account_fair` for a thread that yields.
    #[inline(always)]
    pub(crate) fn account_and_give_way(&mut self, e: &Entity, now: Nanos) {
        let delta = self.rq.elapsed(now);
        self.count_span(e, delta);
        self.rq.fair.charge_and_give_way(e, delta);
        self.rq.server.charge(delta, now);
    }

    // Each caller names the fair queue's part itself. LLVM compiles a method that is passed as a value into a call
    // (`FnOnce::call_once`), even if it is marked for inlining.
    #[inline(always)]
    fn count_span(&mut self, e: &Entity, delta: u64) {
        e.runtime.add(delta);
        if self.s.table.plants(Fault::ChargeTwice) && delta.is_multiple_of(2) {
            self.rq.fair.charge(e, delta);
        }
    }

    #[inline(never)]
    fn account_urgent(&mut self, e: &Entity, now: Nanos) {
        let delta = self.rq.elapsed(now);
        if delta == 0 {
            return;
        }
        e.runtime.add(delta);
        if e.class() == Class::Deadline && !self.s.table.plants(Fault::FreeBudget) {
            deadline::charge(e, delta);
        } else if e.has_policy(Policy::RoundRobin) {
            e.rr_left.set(e.rr_left.get().saturating_sub(delta));
        }
    }

    /// Puts `t` into its class's queue. It is owned by the caller and in no queue.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, t: ThreadIdx, e: &Entity, now: Nanos, how: Placement, head: bool) {
        self.enqueue_any(t, e, now, how, head);
        self.settle(e, now, how);
    }

    /// The first half of `enqueue`.
    #[inline(always)]
    pub(crate) fn enqueue_any(&mut self, t: ThreadIdx, e: &Entity, now: Nanos, how: Placement, head: bool) {
        if e.is_fair() {
            self.enqueue_fair(t, e, how);
        } else {
            self.enqueue_urgent(t, e, now, how, head);
        }
    }

    #[inline(always)]
    pub(crate) fn enqueue_fair(&mut self, t: ThreadIdx, e: &Entity, how: Placement) {
        self.rq.fair.join(e, self.id, how);
        self.rq.fair.insert(&self.s.table, t, e);
        self.cpu.seen.load.set(self.rq.fair.load() as u64);
    }

    /// The second half of `enqueue`.
    #[inline(always)]
    pub(crate) fn settle(&mut self, e: &Entity, now: Nanos, how: Placement) {
        // A moved thread has been waiting since before the move.
        let since = if how == Placement::Moved { e.queued_at.get().min(now.0) } else { now.0 };
        self.stamp(e, Nanos(since));
        e.set_home(self.id, true);
    }

    #[inline(never)]
    fn enqueue_urgent(&mut self, t: ThreadIdx, e: &Entity, now: Nanos, how: Placement, head: bool) {
        let table = &self.s.table;
        match e.class() {
            Class::Fair => {}
            Class::Rt | Class::Stop => {
                self.rq.rt.enqueue(table, t, head);
                if head {
                    self.keep_running_first(e);
                }
            }
            Class::Deadline => {
                if how != Placement::Moved || e.dl.absolute.get() == 0 {
                    deadline::begin_job(e, now);
                }
                self.rq.deadline.insert(table, t, now);
            }
        }
    }

    /// A thread queued at the head of its level must still come after the running thread.
    fn keep_running_first(&mut self, e: &Entity) {
        let (table, running) = (&self.s.table, self.rq.current);
        if self.current().is_some_and(|c| c.in_rt_queue() && c.level.get() == e.level.get()) {
            self.rq.rt.active.remove(table, running);
            self.rq.rt.active.push_front(table, running);
        }
    }

    /// Records that the thread's wait began at `since`.
    #[inline(always)]
    pub(crate) fn stamp(&self, e: &Entity, since: Nanos) {
        e.queued_at.set(since.0);
        if self.rq.fair.waiting() == 1 {
            self.cpu.seen.waiting_since.set(since.0);
        }
    }

    /// Takes a waiting thread out of its queue; the caller then owns it.
    pub(crate) fn dequeue(&mut self, t: ThreadIdx, e: &Entity) {
        let table = &self.s.table;
        if Rank::of(e) < self.rq.running_rank(self.current()) {
            // Other CPUs kept away because of this thread. Treat it as if it had run, so that the next `schedule` pulls
            // what they did not push.
            self.rq.chosen = self.rq.chosen.min(Rank::of(e));
        }
        match e.class() {
            Class::Fair => {
                self.rq.fair.remove(table, t);
                if !table.plants(Fault::KeepWeight) {
                    self.rq.fair.leave(e, true);
                }
                self.cpu.seen.load.set(self.rq.fair.load() as u64);
            }
            Class::Rt | Class::Stop => self.rq.rt.dequeue(table, t, false),
            Class::Deadline => self.rq.deadline.remove(table, t),
        }
        e.set_home(self.id, false);
    }

    /// Replaces the affinity mask of a queued thread that stays in this queue, at the same place.
    pub(crate) fn remask(&mut self, t: ThreadIdx, e: &Entity, mask: &CpuMask, now: Nanos) {
        let table = &self.s.table;
        match e.class() {
            Class::Fair => {
                self.rq.fair.remove(table, t);
                table.set_mask(t, mask);
                self.rq.fair.insert(table, t, e);
            }
            Class::Rt | Class::Stop => {
                self.rq.rt.take_from_pushable(table, t);
                table.set_mask(t, mask);
                self.rq.rt.make_pushable(table, t);
            }
            Class::Deadline => {
                self.rq.deadline.remove(table, t);
                table.set_mask(t, mask);
                self.rq.deadline.insert(table, t, now);
            }
        }
    }

    /// Removes the running thread from the competition; it stays `current` for now.
    #[inline(always)]
    pub(crate) fn leave_running(&mut self, t: ThreadIdx, e: &Entity, relative: bool) {
        if e.is_fair() {
            self.rq.fair.leave(e, relative);
            self.cpu.seen.load.set(self.rq.fair.load() as u64);
        } else if e.in_rt_queue() {
            self.rq.rt.dequeue(&self.s.table, t, true);
        }
    }

    /// The inverse of `leave_running`.
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
            Class::Deadline => deadline::go_on(e, now),
        }
    }

    /// The running thread becomes a waiting one.
    pub(crate) fn put_back(&mut self, t: ThreadIdx, e: &Entity, now: Nanos) {
        match e.class() {
            Class::Fair => self.rq.fair.insert(&self.s.table, t, e),
            Class::Rt | Class::Stop => self.rq.rt.make_pushable(&self.s.table, t),
            Class::Deadline => self.rq.deadline.insert(&self.s.table, t, now),
        }
        self.stamp(e, now);
    }

    /// Clears `current`: the thread is about to get another owner.
    #[inline(always)]
    pub(crate) fn vacate(&mut self) {
        self.rq.current = ThreadIdx::NONE;
        self.cpu.seen.current.store(ThreadIdx::NONE.0, Ordering::Release);
    }

    /// Dequeues the most urgent waiting thread to run it; `None` is idle. There must be no current thread.
    pub(crate) fn pick(&mut self, now: Nanos) -> Option<ThreadIdx> {
        let table = &self.s.table;
        let fair = self.rq.fair.waiting() > 0;
        let urgent = !self.rq.rt.is_empty() || !self.rq.deadline.is_empty();
        if urgent {
            while self.rq.deadline.throttled() > 0 && self.rq.deadline.replenish_one(table, now) {}
            self.update_server(now, fair);
            if let Some(t) = self.pick_urgent(fair) {
                return Some(t);
            }
        }
        let t = self.rq.fair.choose(table, None)?;
        self.rq.fair.remove(table, t);
        Some(t)
    }

    /// Updates the fair server from the clock; `fair` says whether there are fair threads.
    pub(crate) fn update_server(&mut self, now: Nanos, fair: bool) {
        let rt = !self.rq.rt.is_empty();
        if (fair || self.rq.server.armed()) && !self.s.table.plants(Fault::SleepingServer) {
            self.rq.server.update(now, fair, rt);
        }
    }

    /// The most urgent thread above the fair class; none if the fair server takes precedence.
    fn pick_urgent(&mut self, fair: bool) -> Option<ThreadIdx> {
        let table = &self.s.table;
        if self.rq.rt.active.best() == 0 {
            return self.pick_rt();
        }
        let by_server = fair && self.rq.server.active();
        if let Some(t) = self.rq.deadline.first(table)
            && !(by_server && self.rq.server.deadline() < deadline::deadline_of(table.get(t)))
        {
            self.rq.deadline.remove(table, t);
            return Some(t);
        }
        if by_server { None } else { self.pick_rt() }
    }

    fn pick_rt(&mut self) -> Option<ThreadIdx> {
        let t = self.rq.rt.active.first()?;
        if !self.s.table.plants(Fault::KeepPushable) {
            self.rq.rt.take_from_pushable(&self.s.table, t);
        }
        Some(t)
    }

    /// The part of `begin` that all classes share: `t` has the CPU from `now` on.
    #[inline(always)]
    fn become_current(&mut self, t: ThreadIdx, e: &Entity, now: Nanos) {
        self.rq.current = t;
        e.waited.add(now.since(Nanos(e.queued_at.get())).0);
        self.cpu.seen.current.store(t.0, Ordering::Release);
        self.cpu.seen.usual_run.set(e.usual_run.get());
    }

    /// `begin` where a fair thread follows a fair one whose time has been accounted.
    #[inline(always)]
    pub(crate) fn begin_fair(&mut self, t: ThreadIdx, now: Nanos) {
        let e = self.s.table.get(t);
        self.rq.stats.switches += 1;
        self.become_current(t, e, now);
        self.rq.fair.begin(e);
    }

    /// `t` runs from `now` on.
    #[inline(always)]
    pub(crate) fn begin(&mut self, t: ThreadIdx, e: &Entity, now: Nanos) {
        self.rq.accounted = now.0;
        self.become_current(t, e, now);
        if e.is_fair() {
            self.rq.chosen = Rank::FAIR;
            self.rq.fair.begin(e);
        } else {
            self.rq.chosen = Rank::of(e);
            if e.woken_at.get() != 0 {
                self.note_latency(e, now);
            }
        }
    }

    /// Records the first run of a real-time thread since it was woken.
    fn note_latency(&mut self, e: &Entity, now: Nanos) {
        let woken = Nanos(e.woken_at.get());
        e.woken_at.set(0);
        if e.class() == Class::Rt {
            let seen = RtLatency { priority: 100 - e.level.get(), wakeups: 1, worst: now.since(woken) };
            self.rq.stats.rt.merge(seen);
        }
    }

    /// Publishes the state that other CPUs read. Every change of membership or of the running thread ends with this
    /// call. True if the CPU needs ticks and did not before: then a CPU other than the caller's must be kicked.
    #[inline(always)]
    pub(crate) fn publish(&mut self) -> bool {
        self.publish_for(self.has_only_fair())
    }

    /// `publish`, for callers that know whether only fair threads are here.
    #[inline(always)]
    pub(crate) fn publish_for(&mut self, only_fair: bool) -> bool {
        let before = self.cpu.seen.tick.get();
        if only_fair && self.rq.vector == 0 && !self.rq.overloaded {
            self.publish_fair();
        } else {
            self.publish_urgent();
        }
        before == 0 && self.cpu.seen.tick.get() != 0
    }

    /// `publish` if there are only fair threads.
    #[inline(always)]
    pub(crate) fn publish_fair(&self) {
        let (waiting, seen) = (self.rq.fair.waiting(), &self.cpu.seen);
        seen.queued.set(waiting);
        seen.fair_waiting.set(waiting);
        seen.running.set(if self.rq.current.is_some() { Rank::FAIR.0 } else { Rank::IDLE.0 });
        seen.tick.set(u8::from(waiting > 0));
        self.list(waiting);
    }

    /// On a large machine, makes idle CPUs see that fair threads wait here. They unlist the queue when they find it
    /// empty, so a thread that comes and goes costs a load (`help.rs`).
    #[inline(always)]
    fn list(&self, waiting: u32) {
        let d = &self.s.domains;
        if waiting > 0 && d.is_large() && !d.waiting.contains(self.id) && !self.s.table.plants(Fault::ForgetQueue) {
            d.waiting.insert(self.id);
        }
    }

    #[inline(never)]
    fn publish_urgent(&mut self) {
        let e = self.current();
        let (rq, seen, table) = (&mut *self.rq, &self.cpu.seen, &self.s.table);
        let waiting = rq.waiting(e);
        seen.queued.set(waiting);
        let fair_waiting = rq.fair.waiting();
        seen.fair_waiting.set(fair_waiting);
        let (running, best, pushable) = rq.ranks(table, e);
        seen.running.set(running.0);
        seen.best.set(best.0);
        seen.pushable.set(pushable.0);
        seen.running_pinned.set(u8::from(e.is_some_and(|e| e.movable.get() == 0)));
        let budget = e.is_some_and(|e| e.class() == Class::Deadline);
        seen.tick.set(u8::from(waiting > 0 || budget || rq.deadline.throttled() > 0));
        let vector = best.vector();
        if vector != rq.vector && !table.plants(Fault::StaleVector) {
            self.s.domains.of(self.id).set_priority(self.id, rq.vector, vector);
            rq.vector = vector;
        }
        let overloaded = pushable < Rank::IDLE;
        if overloaded != rq.overloaded {
            if overloaded {
                self.s.domains.of(self.id).set_overload(self.id);
            } else if !table.plants(Fault::StaleOverload) {
                self.s.domains.of(self.id).clear_overload(self.id);
            }
            rq.overloaded = overloaded;
        }
        if self.s.domains.is_limited() {
            self.settle_core();
        }
        self.list(fair_waiting);
    }

    /// Updates the idle masks: whether this CPU is idle, and how.
    #[inline(never)]
    pub(crate) fn set_idle(&mut self, idle: Option<Idle>) {
        if self.rq.idle == idle {
            return;
        }
        let d = &self.s.domains;
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

    /// Requests a call of `schedule` on this CPU; returns whether it must be kicked (it was not requested before).
    #[must_use]
    pub(crate) fn request(&self) -> bool {
        let asked = self.cpu.need_resched();
        if self.s.table.plants(Fault::LoseRequest) && self.rq.accounted.is_multiple_of(4) {
            return !asked;
        }
        self.cpu.seen.need_resched.store(true, Ordering::Release);
        !asked
    }

    /// Whether the woken or arrived `t` should run before the running thread
    /// (`wakeup_preempt`). The running thread's time has been accounted.
    #[inline]
    pub(crate) fn beats_current(&mut self, t: ThreadIdx, e: &Entity) -> bool {
        self.beats(t, e, self.current())
    }

    /// `beats_current`, for callers that already have the running thread's entity.
    #[inline(always)]
    pub(crate) fn beats(&mut self, t: ThreadIdx, e: &Entity, current: Option<&Entity>) -> bool {
        match current {
            Some(c) if e.is_fair() && c.is_fair() => self.fair_beats_current(t, e, c),
            c => self.outranks(t, e, c),
        }
    }

    #[inline(never)]
    fn outranks(&mut self, t: ThreadIdx, e: &Entity, current: Option<&Entity>) -> bool {
        if e.class() == Class::Deadline && e.dl.throttled.get() != 0 {
            return false;
        }
        let (mine, running) = (Rank::of(e), self.rq.running_rank(current));
        mine < running
            || (mine == running && e.class() == Class::Rt && current.is_some_and(|c| self.equal_but_pinned(t, e, c)))
    }

    /// An equal real-time thread does not preempt, unless it can only run here and the running one can run elsewhere:
    /// then the latter moves behind it (`check_preempt_equal_prio`).
    fn equal_but_pinned(&mut self, t: ThreadIdx, e: &Entity, c: &Entity) -> bool {
        let current = self.rq.current;
        if e.movable.get() != 0 || c.movable.get() == 0 || self.s.find_lower(current, c, self.id).is_none() {
            return false;
        }
        self.rq.rt.active.remove(&self.s.table, t);
        self.rq.rt.active.push_front(&self.s.table, t);
        true
    }

    #[inline(always)]
    pub(crate) fn fair_beats_current(&mut self, t: ThreadIdx, e: &Entity, c: &Entity) -> bool {
        if c.has_policy(Policy::Idle) && !e.has_policy(Policy::Idle) {
            self.rq.fair.unprotect();
            return true;
        }
        if !e.has_policy(Policy::Other) {
            return false;
        }
        self.rq.fair.end_protection_for(e, c);
        self.rq.fair.choose(&self.s.table, Some(c)) == Some(t)
    }
}
