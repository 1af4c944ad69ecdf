//! When a process must check its CPU timers: a flag, a cache, and a hint.
//!
//! A tick first asks whether anything is armed (`active`), then whether anything *can* be due. A process on `n` CPUs
//! consumes at most `n` seconds a second, so after a check that found `left` until the next event, nothing is due for
//! `left / n`. Only ticks past that hint add up the CPUs' slots, about `n * ln(left)` times per event. Events are due
//! by consumption that is known; the hint goes by the most that may have been consumed, which is more until a
//! preempted CPU has compared its clock.
//!
//! The hint against a concurrent change (an earlier timer, a correction from the host):
//! ```text
//!   looker:  e = epoch;  sample;  hint = h;  fence;  epoch != e ? hint = 0
//!   changer: change;  epoch += 1;  fence;  hint = 0
//! ```
//! 1. If the looker misses the new epoch, its fence came first, so its hint was stored before the changer's zero and does not
//!    survive it.
//! 2. Otherwise the looker resets the hint itself.
//!
//! One thread at a time expires process timers: the winner of [`GroupExpiry::claim`]. The others do not wait; their
//! ticks see that the claim is taken and continue.

use crate::cpu::{CpuClock, Cputime, ExpiryCache};
use crate::planted::{self, Fault};
use ids::Nanos;
use sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// The lock-free half of a process's CPU timers.
#[derive(Debug)]
pub struct GroupExpiry {
    /// Something is armed: `timers_active`. Written under the process lock.
    active: AtomicBool,
    /// A thread is expiring: `expiry_active`.
    expiring: AtomicBool,
    /// No event is due before this moment.
    hint: AtomicU64,
    epoch: AtomicU64,
    /// Nanoseconds that were taken back in all.
    returned: AtomicU64,
    cache: ExpiryCache,
    /// How many CPUs can run the process at a time.
    cpus: u64,
}

impl GroupExpiry {
    /// Nothing is armed.
    pub const fn new(cpus: usize) -> GroupExpiry {
        GroupExpiry {
            active: AtomicBool::new(false),
            expiring: AtomicBool::new(false),
            hint: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            cache: ExpiryCache::new(),
            cpus: if cpus == 0 { 1 } else { cpus as u64 },
        }
    }

    /// Whether something is armed, so that the CPUs of this process must keep ticking (the opposite of
    /// `posix_cpu_timers_can_stop_tick`).
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// The next event on `clock`.
    pub fn next(&self, clock: CpuClock) -> Nanos {
        self.cache.next(clock)
    }

    /// Notes an event at `at`, which may be earlier than all known ones. The caller holds the process lock.
    pub fn lower(&self, clock: CpuClock, at: Nanos) {
        self.cache.lower(clock, at);
        self.active.store(true, Relaxed);
        if !planted::strikes(Fault::StaleHint) {
            self.disturb_always();
        }
    }

    /// An event was removed; the next tick checks again. Under the process lock.
    pub fn recheck(&self, clock: CpuClock) {
        self.lower(clock, Nanos::ZERO);
    }

    /// Time was consumed faster than by running: hints are void.
    #[inline]
    pub fn disturb(&self) {
        if self.is_active() {
            self.disturb_always();
        }
    }

    /// Announces that `span` of the consumed time is about to be taken back.
    ///
    /// Part of it may already have been attributed to user or system time. Its thread then has fewer nanoseconds than
    /// were attributed, and in the sums over all threads the excess hides as many unattributed ones of other threads.
    pub(super) fn take_back(&self, span: Nanos) {
        if span != Nanos::ZERO {
            self.returned.fetch_add(span.0, Relaxed);
            self.disturb();
        }
    }

    fn disturb_always(&self) {
        // Publish the epoch after the timers it covers.
        self.epoch.fetch_add(1, Release);
        fence(SeqCst);
        self.hint.store(0, Relaxed);
    }

    #[inline(always)]
    pub(super) fn may_be_due(&self, now: Nanos) -> bool {
        self.is_active() && now.0 >= self.hint.load(Relaxed) && !self.expiring.load(Relaxed)
    }

    /// Whether something is due by the second of the readings that `sample` takes: what may have been
    /// consumed, and what is known to have been. If not, leaves a hint.
    pub(super) fn look(&self, now: Nanos, sample: impl FnOnce() -> (Cputime, Cputime)) -> bool {
        let epoch = self.epoch.load(Acquire);
        let (most, known) = sample();
        if self.cache.is_due(&known) {
            return true;
        }
        self.hint.store((now + Nanos(self.left(&most).0 / self.cpus)).0, Relaxed);
        fence(SeqCst);
        if self.epoch.load(Relaxed) != epoch {
            self.hint.store(0, Relaxed);
        }
        false
    }

    /// How much CPU time the process must at least consume until the next event.
    fn left(&self, at: &Cputime) -> Nanos {
        CpuClock::ALL.iter().fold(Nanos::MAX, |left, &clock| {
            // A tick may call everything that is not system time yet user time at once: all that is in no thread's sums.
            let returned = Nanos(self.returned.load(Relaxed));
            let most = if clock == CpuClock::Virt { at.exec + returned - at.stime } else { at.of(clock) };
            let next = self.cache.next(clock);
            if next == Nanos::MAX { left } else { left.min(next - most) }
        })
    }

    /// The right to expire the process's timers, unless another thread has it. Dropping it releases it.
    pub fn claim(&self) -> Option<ExpiryClaim<'_>> {
        // Lazily: a claim that was never won must not be dropped.
        (!self.expiring.swap(true, Acquire)).then(|| ExpiryClaim { group: self })
    }

    /// After an expiry pass: the next events. With none left, ticks cost nothing again.
    /// Under the process lock.
    pub(super) fn set_next(&self, next: [Nanos; 3]) {
        CpuClock::ALL.iter().zip(next).for_each(|(&clock, at)| self.cache.set(clock, at));
        let armed = next.iter().any(|at| *at != Nanos::MAX) && !planted::strikes(Fault::StopTooEarly);
        self.active.store(armed, Relaxed);
        self.disturb_always();
    }

    pub(super) fn reset(&self) {
        self.cache.clear();
        self.active.store(false, Relaxed);
        self.expiring.store(false, Relaxed);
        self.returned.store(0, Relaxed);
        self.disturb_always();
    }
}

/// The right of one thread to expire the process's CPU timers.
#[derive(Debug)]
#[must_use = "whoever has the claim expires the timers"]
pub struct ExpiryClaim<'a> {
    group: &'a GroupExpiry,
}

impl ExpiryClaim<'_> {
    pub(super) fn is_for(&self, group: &GroupExpiry) -> bool {
        core::ptr::eq(self.group, group)
    }
}

impl Drop for ExpiryClaim<'_> {
    fn drop(&mut self) {
        self.group.expiring.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(ns: u64) -> (Cputime, Cputime) {
        let at = Cputime { exec: Nanos(ns), ..Cputime::ZERO };
        (at, at)
    }

    #[test]
    fn nothing_armed_is_never_due() {
        assert!(!GroupExpiry::new(4).may_be_due(Nanos::MAX));
    }

    #[test]
    fn the_hint_spares_looks_and_never_hides_an_event() {
        let g = GroupExpiry::new(4);
        g.lower(CpuClock::Prof, Nanos(1_000));
        assert!(g.may_be_due(Nanos(0)));
        assert!(!g.look(Nanos(50), || exec(200)));
        // 800 are left, four CPUs can consume them in 200.
        assert!(!g.may_be_due(Nanos(249)));
        assert!(g.may_be_due(Nanos(250)));
        assert!(g.look(Nanos(250), || exec(1_000)));
    }

    #[test]
    fn an_earlier_event_or_a_lump_of_time_voids_the_hint() {
        let g = GroupExpiry::new(1);
        g.lower(CpuClock::Prof, Nanos(1_000));
        assert!(!g.look(Nanos(0), || exec(0)));
        assert!(!g.may_be_due(Nanos(10)));
        g.lower(CpuClock::Sched, Nanos(5));
        assert!(g.may_be_due(Nanos(10)));
        assert!(!g.look(Nanos(0), || exec(0)) && !g.may_be_due(Nanos(4)));
        g.disturb();
        assert!(g.may_be_due(Nanos(4)));
    }

    #[test]
    fn a_change_during_the_look_voids_its_hint() {
        let g = GroupExpiry::new(1);
        g.lower(CpuClock::Prof, Nanos(1_000));
        let due = g.look(Nanos(0), || {
            g.disturb();
            exec(0)
        });
        assert!(!due && g.may_be_due(Nanos(1)));
    }

    #[test]
    fn user_time_may_jump_by_what_is_not_told_apart() {
        let g = GroupExpiry::new(1);
        g.lower(CpuClock::Virt, Nanos(1_000));
        let sample = Cputime { utime: Nanos(10), stime: Nanos(100), exec: Nanos(900) };
        assert!(!g.look(Nanos(0), || (sample, sample)));
        // 790 are not told apart: user time may be 800 at the next tick, 200 are left.
        assert!(!g.may_be_due(Nanos(199)) && g.may_be_due(Nanos(200)));
    }

    #[test]
    fn what_was_taken_back_after_it_was_told_apart_hides_nothing() {
        let g = GroupExpiry::new(2);
        g.lower(CpuClock::Virt, Nanos(1_000));
        // One thread had 500 of system time, all of which are taken back; another has 600 that are not told apart.
        g.take_back(Nanos(500));
        let sample = Cputime { utime: Nanos(0), stime: Nanos(500), exec: Nanos(600) };
        assert!(!g.look(Nanos(0), || (sample, sample)));
        assert!(!g.may_be_due(Nanos(199)) && g.may_be_due(Nanos(200)), "400 are left, not 900");
        g.reset();
        g.lower(CpuClock::Virt, Nanos(1_000));
        assert!(!g.look(Nanos(0), || exec(600)) && !g.may_be_due(Nanos(199)));
    }

    #[test]
    fn what_may_have_been_consumed_is_not_due_but_soon_looked_at() {
        let g = GroupExpiry::new(2);
        g.lower(CpuClock::Prof, Nanos(1_000));
        let known = exec(600).1;
        assert!(!g.look(Nanos(50), || (exec(900).0, known)));
        assert!(!g.may_be_due(Nanos(99)) && g.may_be_due(Nanos(100)), "100 may be left, not 400");
        assert!(!g.look(Nanos(100), || (exec(2_000).0, known)));
        assert!(g.may_be_due(Nanos(100)), "nothing may be left");
        assert!(g.look(Nanos(101), || exec(1_000)));
    }

    #[test]
    fn one_expirer_at_a_time() {
        let g = GroupExpiry::new(1);
        g.recheck(CpuClock::Prof);
        let claim = g.claim();
        assert!(claim.is_some() && g.claim().is_none());
        assert!(!g.may_be_due(Nanos(1)), "ticks do not wait for the expirer");
        drop(claim);
        assert!(g.may_be_due(Nanos(1)) && g.claim().is_some());
    }

    #[test]
    fn a_fork_s_child_has_nothing_armed_and_nobody_at_it() {
        let g = GroupExpiry::new(1);
        g.lower(CpuClock::Prof, Nanos(1_000));
        assert!(!g.look(Nanos(0), || exec(0)));
        core::mem::forget(g.claim());
        g.reset();
        assert!(!g.is_active() && CpuClock::ALL.iter().all(|clock| g.next(*clock) == Nanos::MAX));
        g.lower(CpuClock::Sched, Nanos(5));
        assert!(g.may_be_due(Nanos(1)) && g.claim().is_some(), "neither the old hint nor the old expirer");
    }

    #[test]
    fn with_nothing_left_the_group_is_inactive() {
        let g = GroupExpiry::new(1);
        g.recheck(CpuClock::Virt);
        g.set_next([Nanos::MAX, Nanos(7), Nanos::MAX]);
        assert!(g.is_active());
        g.set_next([Nanos::MAX; 3]);
        assert!(!g.is_active());
    }
}
