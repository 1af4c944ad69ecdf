//! Waiting and waking: the protocol of `README.md`.

use crate::cpu::Idle;
use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::life::Wake;
use crate::planted::Fault;
use crate::queue::Held;
use crate::rank::Rank;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

impl Scheduler {
    /// Marks `t`, which runs, as about to wait. Call it **before** the wait is published anywhere a
    /// waker can find it; a condition that is not guarded by a lock of its own needs a
    /// sequentially consistent fence between this and looking at it.
    #[inline]
    pub fn prepare_block(&self, t: ThreadIdx) {
        self.table.get(t).life.prepare();
    }

    /// Takes the mark back: there is nothing to wait for. Harmless if a waker was faster.
    #[inline]
    pub fn cancel_block(&self, t: ThreadIdx) {
        let e = self.table.get(t);
        // It runs, so it stays where it is.
        let _held = self.lock(e.cpu());
        e.life.cancel();
    }

    /// Ends the wait of `t`; true if this call did it: of several wakers exactly one gets true.
    ///
    /// `t` may not have reached `schedule(Prev::Block)` yet; then it simply stays runnable.
    /// Otherwise it is queued where it should run, and that CPU is asked to `schedule` if `t` should
    /// run at once; it is kicked if it is not `from`, the waker's.
    pub fn wake(&self, t: ThreadIdx, from: CpuId, now: Nanos, k: &mut impl Kick) -> bool {
        self.wake_by(t, from, || now, k)
    }

    /// `wake`, with a clock that is read if there is something to do, under the lock (as for `schedule_by`).
    #[inline]
    pub fn wake_by(&self, t: ThreadIdx, from: CpuId, clock: impl FnOnce() -> Nanos, k: &mut impl Kick) -> bool {
        let e = self.table.get(t);
        let (h, wake) = loop {
            if !e.life.can_be_woken() {
                return false;
            }
            let home = e.cpu();
            let h = self.lock(home);
            if let Some(wake) = e.life.wake(|| e.cpu() == home) {
                break (h, wake);
            }
        };
        match wake {
            Wake::TooLate => return false,
            Wake::Done => return true,
            Wake::Claimed => {}
        }
        if self.table.plants(Fault::DropWake) && e.runtime.get().is_multiple_of(8) {
            return true;
        }
        let now = clock();
        let target = self.select(t, e, from);
        let h = if target == h.id {
            h
        } else {
            drop(h);
            self.lock(target)
        };
        self.arrive(h, t, e, from, now, Placement::Wake, k);
        true
    }

    /// Lets a new thread run for the first time. `from` is its creator's CPU.
    pub fn wake_new(&self, t: ThreadIdx, from: CpuId, now: Nanos, k: &mut impl Kick) {
        let e = self.table.get(t);
        if e.life.wake_first() {
            e.set_home(from, false);
            self.activate(t, from, now, Placement::Initial, k);
        }
    }

    /// Queues `t`, which the caller owns, on a CPU of its choice, and sees to it that it runs when it should.
    pub(crate) fn activate(&self, t: ThreadIdx, from: CpuId, now: Nanos, how: Placement, k: &mut impl Kick) {
        let e = self.table.get(t);
        let target = self.select(t, e, from);
        self.arrive(self.lock(target), t, e, from, now, how, k);
    }

    /// Queues `t`, which the caller owns, on the CPU that is locked.
    #[expect(clippy::too_many_arguments, reason = "all of them are what there is to say")]
    #[inline(always)]
    fn arrive(
        &self,
        mut h: Held<'_>,
        t: ThreadIdx,
        e: &Entity,
        from: CpuId,
        now: Nanos,
        how: Placement,
        k: &mut impl Kick,
    ) {
        let target = h.id;
        let current = h.current();
        if let Some(c) = current {
            h.account_for(c, now);
        }
        if e.cpu() != target {
            h.rq.stats.migrations_in += 1;
            e.migrations.count();
        }
        h.enqueue(t, e, now, how, false);
        if how != Placement::Moved {
            h.rq.stats.wakeups += 1;
            if !e.is_fair() {
                e.woken_at.set(now.0);
            }
            e.runtime_at_wake.set(e.runtime.get());
            e.life.queued();
        }
        let beats = h.beats(t, e, current);
        let told = beats && h.request();
        let ticks = h.publish();
        // A spinning idle CPU sees the request by itself. Urgent threads rely on nothing.
        let spins = h.rq.idle == Some(Idle::Spinning);
        let kick = target != from && if e.is_fair() { (told || ticks) && !spins } else { beats || ticks };
        let push = !beats && h.rq.overloaded;
        let help = !beats && e.is_fair();
        drop(h);
        if kick {
            k.kick(target);
        }
        if push {
            self.push(target, now, k);
        }
        if help {
            self.nudge(target, from, self.table.fold(t, e), now, k);
        }
    }

    /// The CPU where `t` should be queued.
    #[inline]
    fn select(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> CpuId {
        if self.cpus.len() == 1 {
            return CpuId(0);
        }
        let cpu = if e.movable.get() == 0 {
            None
        } else if e.is_fair() {
            self.select_fair(t, e, from)
        } else if e.class() == Class::Stop {
            None
        } else {
            self.select_urgent(t, e, from)
        };
        cpu.unwrap_or_else(|| self.any_allowed(t, e))
    }

    /// Its last CPU if it may run there, else any: a present one if there is one.
    fn any_allowed(&self, t: ThreadIdx, e: &Entity) -> CpuId {
        let last = e.cpu();
        if self.suits(t, e, last) {
            return last;
        }
        let start = self.domain.turn();
        let allowed = |i| self.table.mask_word(t, e, i);
        let present = self.domain.first(start, |i| allowed(i) & !self.domain.absent.word(i));
        present.or_else(|| self.domain.first(start, allowed)).unwrap_or(last)
    }

    /// Whether `t` may be put on `cpu` and somebody serves it.
    #[inline]
    pub(crate) fn suits(&self, t: ThreadIdx, e: &Entity, cpu: CpuId) -> bool {
        cpu.index() < self.cpus.len() && self.table.allows(t, e, cpu) && !self.domain.absent.contains(cpu)
    }

    /// Fair placement: the waker's CPU if the waker will soon wait itself (a hand-over: both stay where their
    /// data is) or is an interrupt of an idle CPU; an idle CPU that looks for work, the last one first;
    /// else the cheaper of the last and the waker's CPU.
    fn select_fair(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        let last = e.cpu();
        let d = &self.domain;
        let from_suits = self.suits(t, e, from);
        if last != from && d.spinning.contains(last) && self.suits(t, e, last) {
            return Some(last);
        }
        if from_suits && self.hands_over(from) {
            return Some(from);
        }
        let idle = d.first(last, |i| d.spinning.word(i) & self.table.mask_word(t, e, i) & !d.absent.word(i));
        if idle.is_some() {
            return idle;
        }
        match (self.suits(t, e, last), from_suits) {
            (true, true) if self.cost(from) < self.cost(last) => Some(from),
            (true, _) => Some(last),
            (false, true) => Some(from),
            (false, false) => None,
        }
    }

    /// Whether what is woken by `from` will have that CPU soon.
    fn hands_over(&self, from: CpuId) -> bool {
        let waker = &self.cpus[from.index()].seen;
        let running = Rank(waker.running.get());
        running == Rank::IDLE
            || (running == Rank::FAIR && waker.queued.get() == 0 && waker.usual_run.get() <= SOON_NANOS)
    }

    /// What it costs a fair thread, or its waker, to be put on a CPU: waiting for others, waking the CPU
    /// up, waiting for real-time threads.
    fn cost(&self, cpu: CpuId) -> u32 {
        let seen = &self.cpus[cpu.index()].seen;
        match Rank(seen.running.get()) {
            Rank::FAIR => seen.queued.get(),
            Rank::IDLE => 1 << 8,
            _ => (1 << 16) + seen.queued.get(),
        }
    }
}

/// A waker that usually runs no longer than this before it waits again is handing over.
const SOON_NANOS: u32 = 20_000;
