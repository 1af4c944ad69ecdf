//! Waiting and waking: the protocol of `README.md`.

use crate::cpu::Idle;
use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::life::Wake;
use crate::planted::Fault;
use crate::queue::Held;
use crate::rank::Rank;
use crate::{Clock, Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

impl Scheduler {
    /// Marks the running thread `t` as about to wait. Call it **before** the wait is published anywhere a waker can
    /// find it. A condition without a lock of its own needs a sequentially consistent fence between this call and
    /// checking the condition.
    #[inline]
    pub fn prepare_block(&self, t: ThreadIdx) {
        self.table.get(t).life.prepare();
    }

    /// Revokes the mark: there is nothing to wait for. Harmless if a waker was faster.
    #[inline]
    pub fn cancel_block(&self, t: ThreadIdx) {
        let e = self.table.get(t);
        // The thread is running, so it stays on its CPU.
        let _held = self.lock(e.cpu());
        e.life.cancel();
    }

    /// Ends the wait of `t`; true if this call did it: of several wakers exactly one gets true.
    ///
    /// If `t` has not reached `schedule(Prev::Block)` yet, it simply stays runnable. Otherwise it is queued where it
    /// should run, and if it should run at once, that CPU is asked to `schedule`, and kicked unless it is `from`, the
    /// waker's.
    pub fn wake(&self, t: ThreadIdx, from: CpuId, now: Nanos, k: &mut impl Kick) -> bool {
        self.wake_by(t, from, now, k).is_some()
    }

    /// `wake`, with a clock that is read under the lock, if there is something to do (as for `schedule_by`). Returns
    /// the CPU where `t` is now.
    #[inline(always)]
    pub fn wake_by(&self, t: ThreadIdx, from: CpuId, clock: impl Clock, k: &mut impl Kick) -> Option<CpuId> {
        let e = self.table.get(t);
        // A thread that has waited long is cold: prefetch both lines before the lock stops speculation.
        sync::prefetch(e, 2);
        let (h, wake) = loop {
            if !e.life.can_be_woken() {
                return None;
            }
            let home = e.cpu();
            let h = self.lock(home);
            if let Some(wake) = e.life.wake(|| e.cpu() == home) {
                break (h, wake);
            }
        };
        match wake {
            Wake::TooLate => return None,
            Wake::Done => return Some(h.id),
            Wake::Claimed => {}
        }
        if self.table.plants(Fault::DropWake) && e.runtime.get().is_multiple_of(8) {
            return Some(h.id);
        }
        let now = clock.read();
        let target = self.select(t, e, from);
        let h = if target == h.id {
            h
        } else {
            drop(h);
            self.lock(target)
        };
        self.arrive(h, t, e, from, now, Placement::Wake, k);
        Some(target)
    }

    /// Lets a new thread run for the first time. `from` is its creator's CPU.
    pub fn wake_new(&self, t: ThreadIdx, from: CpuId, now: Nanos, k: &mut impl Kick) {
        let e = self.table.get(t);
        if e.life.wake_first() {
            e.set_home(from, false);
            self.activate(t, from, now, Placement::Initial, k);
        }
    }

    /// Queues `t`, which the caller owns, on a suitable CPU, and makes sure that it runs when it should.
    pub(crate) fn activate(&self, t: ThreadIdx, from: CpuId, now: Nanos, how: Placement, k: &mut impl Kick) {
        let e = self.table.get(t);
        let target = self.select(t, e, from);
        self.arrive(self.lock(target), t, e, from, now, how, k);
    }

    /// Queues `t`, which the caller owns, on the locked CPU.
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
        // The compiler does not merge atomic loads, so the commonest case reads these once.
        let fair = e.is_fair() && h.has_only_fair();
        if e.cpu() != target {
            h.rq.stats.migrations_in += 1;
            e.migrations.count();
        }
        match current {
            Some(c) if fair => h.account_fair(c, now),
            Some(c) => h.account_for(c, now),
            None => {}
        }
        if fair {
            h.enqueue_fair(t, e, how);
        } else {
            h.enqueue_any(t, e, now, how, false);
        }
        h.settle(e, now, how);
        if how != Placement::Moved {
            h.rq.stats.wakeups += 1;
            if !fair && !e.is_fair() {
                e.woken_at.set(now.0);
            }
            e.runtime_at_wake.set(e.runtime.get());
            e.life.queued();
        }
        let beats = match current {
            Some(c) if fair => h.fair_beats_current(t, e, c),
            _ => h.beats(t, e, current),
        };
        let told = beats && h.request();
        // No other thread has arrived meanwhile.
        let ticks = if fair { h.publish_for(true) } else { h.publish() };
        // A polling idle CPU notices the request by itself. Urgent threads do not rely on that.
        let spins = h.rq.idle == Some(Idle::Spinning);
        let lenient = fair || e.is_fair();
        let kick = target != from && if lenient { (told || ticks) && !spins } else { beats || ticks };
        let push = !beats && h.rq.overloaded;
        // Another CPU cannot help a thread that may not run there.
        let help = !beats && lenient && e.movable.get() != 0;
        drop(h);
        if kick {
            k.kick(target);
        }
        if push {
            self.push(target, now, k);
        }
        if !e.is_fair() && self.domains.is_limited() {
            self.offer(target, now, k);
        }
        if help {
            self.nudge((target, self.table.fold(t, e)), from, 1, now, k);
        }
    }

    /// The CPU where `t` should be queued.
    #[inline(always)]
    fn select(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> CpuId {
        if self.cpus.len() == 1 {
            return CpuId(0);
        }
        if e.movable.get() == 0 { self.any_allowed(t, e) } else { self.select_best(t, e, from) }
    }

    #[inline(never)]
    fn select_best(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> CpuId {
        let cpu = match e.class() {
            Class::Fair => self.select_fair(t, e, from),
            Class::Rt | Class::Deadline => self.select_urgent(t, e, from),
            Class::Stop => None,
        };
        cpu.unwrap_or_else(|| self.any_allowed(t, e))
    }

    /// The thread's last CPU if it may run there, else any that it may run on.
    #[inline(always)]
    fn any_allowed(&self, t: ThreadIdx, e: &Entity) -> CpuId {
        let last = e.cpu();
        if self.suits(t, e, last) { last } else { self.another_allowed(t, e, last) }
    }

    /// Any CPU where it may run; a served one if there is one.
    #[inline(never)]
    fn another_allowed(&self, t: ThreadIdx, e: &Entity, last: CpuId) -> CpuId {
        let start = self.domains.turn();
        let allowed = |i| self.table.mask_word(t, e, i);
        let present = self.domains.first(start, |i| allowed(i) & !self.domains.absent.word(i));
        present.or_else(|| self.domains.first(start, allowed)).unwrap_or(last)
    }

    /// Whether `t` may be put on `cpu` and a carrier serves it.
    #[inline(always)]
    pub(crate) fn suits(&self, t: ThreadIdx, e: &Entity, cpu: CpuId) -> bool {
        cpu.index() < self.cpus.len() && self.table.allows(t, e, cpu) && !self.domains.absent.contains(cpu)
    }

    /// Placement of a fair thread: the waker's CPU if the waker will soon wait itself (a hand-over: both stay where
    /// their data is) or is an interrupt of an idle CPU; otherwise an idle CPU that polls for work, the last one first;
    /// otherwise the cheaper of the last CPU and the waker's.
    fn select_fair(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        let last = e.cpu();
        let d = &self.domains;
        let (last_suits, from_suits) = (self.suits(t, e, last), self.suits(t, e, from));
        if last != from && last_suits && d.spinning.contains(last) {
            return Some(last);
        }
        if from_suits && self.hands_over(from) {
            return Some(from);
        }
        let idle = d.spinning.first(last, |i| self.table.mask_word(t, e, i) & !d.absent.word(i));
        if idle.is_some() {
            return idle;
        }
        match (last_suits, from_suits) {
            (true, true) if self.cost(from) < self.cost(last) => Some(from),
            (true, _) => Some(last),
            (false, true) => Some(from),
            (false, false) => None,
        }
    }

    /// Whether a thread woken by `from` will soon have that CPU to itself.
    fn hands_over(&self, from: CpuId) -> bool {
        let waker = &self.cpus[from.index()].seen;
        let running = Rank(waker.running.get());
        running == Rank::IDLE
            || (running == Rank::FAIR && waker.queued.get() == 0 && waker.usual_run.get() <= SOON_NANOS)
    }

    /// The cost of placing a fair thread on a CPU: threads ahead of it, waking the CPU up, waiting for real-time
    /// threads.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attr, Config};
    use ids::CpuMask;

    fn scheduler(cpus: usize) -> Scheduler {
        Scheduler::new(&Config { cpus, ..Config::default() }).unwrap()
    }

    /// Thread 0 was on CPU 0 last and may run on these.
    fn thread<'a>(s: &'a Scheduler, allowed: &[u16]) -> &'a Entity {
        let mut mask = CpuMask::empty();
        allowed.iter().for_each(|&c| mask.insert(CpuId(c)));
        s.attach(ThreadIdx(0), &Attr::DEFAULT, mask).unwrap();
        let e = s.table.get(ThreadIdx(0));
        e.set_home(CpuId(0), false);
        e
    }

    /// A waker's CPU publishes what it runs, how many wait, and how long it usually runs.
    #[test]
    fn an_idle_waker_and_one_that_waits_soon_hand_over() {
        let s = scheduler(2);
        let seen = &s.cpus[1].seen;
        for (running, queued, usual, hands_over) in [
            (Rank::IDLE, 9, 1 << 30, true),
            (Rank::FAIR, 0, 20_000, true),
            (Rank::FAIR, 0, 20_001, false),
            (Rank::FAIR, 1, 5, false),
            (Rank::rt(50), 0, 5, false),
            (Rank::deadline(50), 0, 5, false),
        ] {
            seen.running.set(running.0);
            seen.queued.set(queued);
            seen.usual_run.set(usual);
            assert_eq!(s.hands_over(CpuId(1)), hands_over, "{running:?} {queued} {usual}");
        }
    }

    /// The queue, waking a CPU up, or a real-time thread and the queue.
    #[test]
    fn a_cpu_costs_what_a_thread_waits_for_there() {
        let s = scheduler(2);
        let seen = &s.cpus[1].seen;
        for (running, queued, cost) in [
            (Rank::FAIR, 0, 0),
            (Rank::FAIR, 7, 7),
            (Rank::IDLE, 7, 256),
            (Rank::rt(99), 0, 65_536),
            (Rank::STOP, 3, 65_539),
        ] {
            seen.running.set(running.0);
            seen.queued.set(queued);
            assert_eq!(s.cost(CpuId(1)), cost, "{running:?} {queued}");
        }
    }

    #[test]
    fn a_cpu_suits_that_exists_is_allowed_and_served() {
        let s = scheduler(3);
        let e = thread(&s, &[0, 1]);
        s.domains.absent.insert(CpuId(1));
        let suits = [0, 1, 2, 3, u16::MAX].map(|c| s.suits(ThreadIdx(0), e, CpuId(c)));
        assert_eq!(suits, [true, false, false, false, false]);
    }

    #[test]
    fn who_may_not_go_back_goes_where_somebody_serves_it() {
        let s = scheduler(130);
        let e = thread(&s, &[2, 70, 129]);
        s.domains.absent.insert(CpuId(2));
        s.domains.absent.insert(CpuId(129));
        assert!((0..200).all(|_| s.any_allowed(ThreadIdx(0), e) == CpuId(70)));
        s.domains.absent.insert(CpuId(70));
        let any = s.any_allowed(ThreadIdx(0), e);
        assert!([2, 70, 129].contains(&any.0), "nobody serves it anywhere, but {any:?} it may not have");
        s.domains.absent.remove(CpuId(70));
        e.set_home(CpuId(70), false);
        assert_eq!(s.any_allowed(ThreadIdx(0), e), CpuId(70));
    }

    /// Where a fair thread of CPU 0 goes that is woken from CPU 1: what they run, how many wait, who looks for work.
    #[test]
    fn a_fair_thread_goes_where_it_waits_least() {
        let (fair, rt) = (Rank::FAIR, Rank::rt(50));
        for (allowed, last, from, spinning, expected) in [
            (&[0, 1, 2][..], (fair, 3), (fair, 2), &[][..], Some(1)),
            (&[0, 1, 2], (fair, 2), (fair, 2), &[], Some(0)),
            (&[0, 1, 2], (fair, 1), (fair, 2), &[], Some(0)),
            (&[0, 1, 2], (rt, 0), (fair, 200), &[], Some(1)),
            (&[0, 1, 2], (rt, 0), (rt, 0), &[2], Some(2)),
            (&[0, 1, 2], (fair, 1), (fair, 1), &[0, 2], Some(0)),
            (&[0, 1, 2], (Rank::IDLE, 0), (Rank::IDLE, 0), &[], Some(1)),
            (&[0, 2], (Rank::IDLE, 0), (Rank::IDLE, 0), &[], Some(0)),
            (&[1, 2], (Rank::IDLE, 0), (fair, 9), &[0], Some(1)),
            (&[1, 2], (Rank::IDLE, 0), (fair, 9), &[0, 2], Some(2)),
            (&[2, 3], (fair, 0), (Rank::IDLE, 0), &[0, 1], None),
            (&[2, 3], (fair, 0), (Rank::IDLE, 0), &[0, 1, 3], Some(3)),
        ] {
            let s = scheduler(4);
            let e = thread(&s, allowed);
            for (c, (running, queued)) in [(0, last), (1, from)] {
                s.cpus[c].seen.running.set(running.0);
                s.cpus[c].seen.queued.set(queued);
                s.cpus[c].seen.usual_run.set(SOON_NANOS + 1);
            }
            (0..4).filter(|c| !spinning.contains(c)).for_each(|c| s.domains.spinning.remove(CpuId(c)));
            let found = s.select_fair(ThreadIdx(0), e, CpuId(1));
            assert_eq!(found, expected.map(CpuId), "{allowed:?}: {last:?}, {from:?}, {spinning:?}");
        }
    }

    /// A CPU that looks for work but is not served, or is the waker's own, is not first choice.
    #[test]
    fn an_absent_cpu_does_not_look_for_work() {
        let s = scheduler(4);
        let e = thread(&s, &[0, 1, 2, 3]);
        for c in [0, 1] {
            s.cpus[c].seen.running.set(Rank::rt(50).0);
            s.domains.spinning.remove(CpuId(c as u16));
        }
        s.domains.absent.insert(CpuId(2));
        assert_eq!(s.select_fair(ThreadIdx(0), e, CpuId(1)), Some(CpuId(3)));
        s.domains.absent.insert(CpuId(3));
        assert_eq!(s.select_fair(ThreadIdx(0), e, CpuId(1)), Some(CpuId(0)));
        s.domains.absent.insert(CpuId(0));
        s.domains.spinning.insert(CpuId(0));
        assert_eq!(s.select_fair(ThreadIdx(0), e, CpuId(1)), Some(CpuId(1)), "its last one is not served either");
    }
}
