//! Waiting and waking: the protocol of `README.md`.

use crate::cpu::{Idle, rank};
use crate::entity::{Class, Entity, state};
use crate::fair::Placement;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering;

impl Scheduler {
    /// Marks `t`, which runs, as about to wait. Call it **before** the wait is published anywhere a
    /// waker can find it; a condition that is not guarded by a lock of its own needs a
    /// sequentially consistent fence between this and looking at it.
    #[inline]
    pub fn prepare_block(&self, t: ThreadIdx) {
        self.table.get(t).state.store(state::WAITING, Ordering::Release);
    }

    /// Takes the mark back: there is nothing to wait for. Harmless if a waker was faster.
    #[inline]
    pub fn cancel_block(&self, t: ThreadIdx) {
        // Whatever the outcome, the thread is runnable now.
        let _ = self.table.get(t).state.compare_exchange(
            state::WAITING,
            state::RUNNABLE,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// Ends the wait of `t`; true if this call did it: of several wakers exactly one gets true.
    ///
    /// `t` may not have reached `schedule(Prev::Block)` yet; then it simply stays runnable.
    /// Otherwise it is queued where it should run, and that CPU is asked to `schedule` if `t` should
    /// run at once; it is kicked if it is not `from`, the waker's.
    pub fn wake(&self, t: ThreadIdx, from: CpuId, now: Nanos, k: &mut impl Kick) -> bool {
        let e = self.table.get(t);
        let s = &e.state;
        let mut seen = s.load(Ordering::Acquire);
        loop {
            let to = match seen {
                state::BLOCKED => state::WAKING,
                state::WAITING => state::RUNNABLE,
                state::CHANGING => state::CHANGING_WOKEN,
                _ => return false,
            };
            match s.compare_exchange_weak(seen, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(state::BLOCKED) => break,
                Ok(_) => return true,
                Err(now_seen) => seen = now_seen,
            }
        }
        self.activate(t, from, now, Placement::Wake, k);
        true
    }

    /// Lets a new thread run for the first time. `from` is its creator's CPU.
    pub fn wake_new(&self, t: ThreadIdx, from: CpuId, now: Nanos, k: &mut impl Kick) {
        let e = self.table.get(t);
        let claimed =
            e.state.compare_exchange(state::BLOCKED, state::WAKING, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if claimed {
            e.set_home(from, false);
            self.activate(t, from, now, Placement::Initial, k);
        }
    }

    /// Queues `t`, which the caller owns, on a CPU of its choice, and sees to it that it runs when it should.
    pub(crate) fn activate(&self, t: ThreadIdx, from: CpuId, now: Nanos, how: Placement, k: &mut impl Kick) {
        let e = self.table.get(t);
        let target = self.select(t, e, from);
        if how != Placement::Moved {
            e.runtime_at_wake.set(e.runtime.get());
        }
        let mut h = self.lock(target);
        h.account(now);
        h.rq.stats.wakeups += u64::from(how != Placement::Moved);
        h.rq.stats.migrations_in += u64::from(e.cpu() != target);
        h.enqueue(t, e, now, how, false);
        e.state.store(state::RUNNABLE, Ordering::Release);
        let beats = h.beats_current(t, e);
        let told = beats && h.request();
        h.publish();
        // A spinning idle CPU sees the request by itself; urgent threads do not rely on it.
        let kick = told && target != from && (!e.is_fair() || h.rq.idle != Some(Idle::Spinning));
        let push = !beats && h.rq.overloaded && e.class() == Class::Rt;
        let help = !beats && e.is_fair();
        drop(h);
        if kick {
            k.kick(target);
        }
        if push {
            self.push_rt(target, now, k);
        } else if help {
            self.nudge(target, from, now, k);
        }
    }

    /// The CPU where `t` should be queued.
    pub(crate) fn select(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> CpuId {
        if self.cpus.len() == 1 {
            return CpuId(0);
        }
        let cpu = match e.class() {
            _ if e.movable.get() == 0 => None,
            Class::Fair => self.select_fair(t, e, from),
            Class::Rt => self.select_rt(t, e, from),
            Class::Stop | Class::Deadline => self.select_deadline(t, e),
        };
        cpu.unwrap_or_else(|| self.any_allowed(t, e))
    }

    /// Its last CPU if it may run there, else any: a present one if there is one.
    fn any_allowed(&self, t: ThreadIdx, e: &Entity) -> CpuId {
        let last = e.cpu();
        if self.table.allows(t, e, last) && (e.movable.get() == 0 || !self.domain.absent.contains(last)) {
            return last;
        }
        let start = self.domain.turn();
        let words = self.domain.absent.len();
        let allowed = |i| self.table.mask_word(t, e, i);
        crate::cpuset::first_from(words, start, |i| allowed(i) & !self.domain.absent.word(i))
            .or_else(|| crate::cpuset::first_from(words, start, allowed))
            .unwrap_or(last)
    }

    /// Whether `t` may be put on `cpu` and somebody serves it.
    pub(crate) fn suits(&self, t: ThreadIdx, e: &Entity, cpu: CpuId) -> bool {
        cpu.index() < self.cpus.len() && self.table.allows(t, e, cpu) && !self.domain.absent.contains(cpu)
    }

    /// Fair placement: an idle previous CPU; the waker's, if the waker will soon wait itself
    /// (a hand-over: both stay where their data is); an idle CPU that looks for work; else
    /// the less busy of the previous and the waker's CPU.
    fn select_fair(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        let last = e.cpu();
        let last_suits = self.suits(t, e, last);
        if last_suits && self.domain.spinning.contains(last) {
            return Some(last);
        }
        let from_suits = self.suits(t, e, from);
        if from_suits {
            let waker = &self.cpus[from.index()].seen;
            if waker.running.get() == rank::IDLE
                || (waker.queued.get() == 0 && waker.usual_run.get() <= SOON_NANOS && waker.running.get() == rank::FAIR)
            {
                return Some(from);
            }
        }
        let words = self.domain.spinning.len();
        let spinning = crate::cpuset::first_from(words, last, |i| {
            self.domain.spinning.word(i) & self.table.mask_word(t, e, i) & !self.domain.absent.word(i)
        });
        let queued = |c: CpuId| self.cpus[c.index()].seen.queued.get();
        spinning.or(match (last_suits, from_suits) {
            (true, true) if queued(from) < queued(last) => Some(from),
            (true, _) => Some(last),
            (false, true) => Some(from),
            (false, false) => None,
        })
    }
}

/// A waker that usually runs no longer than this before it waits again is handing over.
const SOON_NANOS: u32 = 20_000;
