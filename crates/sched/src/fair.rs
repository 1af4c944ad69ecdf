//! The fair class: EEVDF, earliest eligible virtual deadline first
//! (Stoica and Abdel-Wahab 1995; `kernel/sched/fair.c` since 6.6).
//!
//! Every thread has a virtual run time that advances by its CPU time divided by its
//! weight. The weighted mean V of all is what an ideal machine would have given each;
//! `lag = V - vruntime` is what a thread is owed. Threads that are owed something
//! (`vruntime ≤ V`) are *eligible*; of those the one whose virtual deadline (`vruntime` +
//! slice / weight) is earliest runs.
//!
//! V is kept as Σ (vruntime − base) · weight and Σ weight, so that eligibility needs only a multiplication. A division
//! happens only when a thread joins or leaves, and for V not even then while the sum of the weights is a power of two.
//!
//! Two differences from Linux:
//!
//! - A thread that goes to sleep with a debt leaves the queue at once. Linux keeps it there ("delayed dequeue") until V
//!   has caught up, so that sleeping does not pay a debt. Here its next placement has the same effect: not before its
//!   old `vruntime` until V has reached it.
//! - A waiting thread keeps no more credit than its share of two slices, or what it usually consumes between two waits.
//!   Linux lets it keep two slices whatever competes. Among a thousand threads that run for microseconds each, those
//!   that once waited long would run some hundred times before the others did again. Beside few threads the share is
//!   large: each wake-up that preempts consumes credit, and without any left a thread waits for the end of a slice.

use crate::entity::Entity;
use crate::planted::Fault;
use crate::table::Table;
use crate::tree::Tree;
use crate::weight::to_virtual;
use ids::{CpuId, ThreadIdx};

/// How far the virtual times of a queue may move from `base` before it follows: 16 ms of nice 0.
const REBASE_AFTER: i64 = 1 << 24;

/// How a thread enters a fair queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// A new thread, which gets half a slice, so that it joins the competition gently (PLACE_DEADLINE_INITIAL).
    Initial,
    /// After a wait, keeping its lag.
    Wake,
    /// From another CPU, or after a change of attributes: keeps its lag and the distance to its deadline.
    Moved,
}

/// The fair threads of one CPU: one that may be running, and those that wait.
#[derive(Debug)]
pub(crate) struct FairQueue {
    /// A single waiting thread needs no tree.
    solo: Option<ThreadIdx>,
    tree: Tree,
    /// Waiting threads.
    waiting: u32,
    /// Origin of `sum`, near V.
    base: i64,
    /// Σ (vruntime − base) · weight, the running thread included.
    sum: i64,
    /// Σ weight, the running thread included.
    load: i64,
    /// The running thread, while eligible, is not preempted by another fair one before its vruntime reaches this
    /// (RUN_TO_PARITY).
    protected_until: i64,
    /// The shortest slice among threads that joined since the queue was empty.
    shortest_slice: u32,
}

impl FairQueue {
    pub(crate) const fn new() -> FairQueue {
        FairQueue {
            solo: None,
            tree: Tree::new(),
            waiting: 0,
            base: 0,
            sum: 0,
            load: 0,
            protected_until: 0,
            shortest_slice: u32::MAX,
        }
    }

    #[inline(always)]
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// V: the weighted mean of all virtual run times.
    #[inline(always)]
    fn mean(&self) -> i64 {
        self.base
            + match self.load as u64 {
                0 => 0,
                w if w.is_power_of_two() => self.sum >> w.trailing_zeros(),
                // Positive. The mask tells the compiler, which saves a check for -1.
                _ => self.sum.div_euclid(self.load & i64::MAX),
            }
    }

    /// Whether a thread with this virtual run time is owed time.
    #[inline(always)]
    fn eligible(&self, vruntime: i64) -> bool {
        i128::from(self.sum) >= i128::from(vruntime - self.base) * i128::from(self.load)
    }

    /// Charges the running thread `e` for `delta` nanoseconds.
    #[inline(always)]
    pub(crate) fn charge(&mut self, e: &Entity, delta: u64) {
        let dv = to_virtual(delta, e.inverse.get());
        self.advance(e, dv);
    }

    #[inline(always)]
    fn advance(&mut self, e: &Entity, dv: i64) {
        let v = e.vruntime.get() + dv;
        e.vruntime.set(v);
        self.sum += dv * i64::from(e.weight.get());
        self.follow(v);
    }

    /// Moves `base` if the virtual run time `v` is far from it.
    #[inline(always)]
    fn follow(&mut self, v: i64) {
        if v - self.base > REBASE_AFTER {
            self.rebase();
        }
    }

    #[cold]
    fn rebase(&mut self) {
        let to = self.mean();
        self.sum -= (to - self.base) * self.load;
        self.base = to;
    }

    /// Adds `e` to those that compete here. If it is to wait, `insert` it afterwards.
    #[inline(always)]
    pub(crate) fn join(&mut self, e: &Entity, cpu: CpuId, how: Placement) {
        self.place(e, cpu, how);
        let w = i64::from(e.weight.get());
        self.sum += (e.vruntime.get() - self.base) * w;
        self.load += w;
        self.shortest_slice = self.shortest_slice.min(e.slice.get());
    }

    /// Chooses `vruntime` and deadline of a thread that joins (`place_entity`).
    #[inline(always)]
    fn place(&self, e: &Entity, cpu: CpuId, how: Placement) {
        let mean = self.mean();
        let slice = e.virtual_slice();
        let lag = bounded(e.lag.get(), 2 * slice);
        // Joining moves V towards the new thread; compensate, so that its lag is `lag` afterwards.
        let w = i64::from(e.weight.get());
        let owed = if lag == 0 || self.load == 0 { 0 } else { lag + scale(lag, w, self.load) };
        let vruntime = if lag < 0 && how == Placement::Wake && e.cpu() == cpu {
            // A debt is paid by V's progress without the thread, not by sleeping alone.
            e.vruntime.get().max(mean).min(mean - owed)
        } else {
            mean - owed
        };
        let to_deadline = match how {
            Placement::Initial => slice / 2,
            Placement::Wake => slice,
            Placement::Moved => e.key.get().max(0).min(slice),
        };
        e.vruntime.set(vruntime);
        e.key.set(vruntime + to_deadline);
    }

    /// Removes the entity from the competition; if it waits in the queue, `remove` it first. Its lag stays in it. With
    /// `relative` (it moves to another CPU), its deadline becomes relative, and its credit is not limited.
    #[inline(always)]
    pub(crate) fn leave(&mut self, e: &Entity, relative: bool) {
        let v = e.vruntime.get();
        let mean = self.mean();
        let limit = 2 * e.virtual_slice();
        let lag = bounded(mean - v, limit);
        if relative {
            e.lag.set(lag);
            e.key.set(e.key.get() - v);
        } else {
            e.lag.set(self.keep(e, lag, limit));
        }
        let w = i64::from(e.weight.get());
        self.sum -= (v - self.base) * w;
        self.load -= w;
        if self.load == 0 {
            self.base = mean.max(self.base);
            self.sum = 0;
            self.shortest_slice = u32::MAX;
        }
    }

    /// The part of `lag` that `e` keeps while it waits. Credit is limited to the larger of its share of `limit` and its usual
    /// run; a debt stays whole.
    #[inline(always)]
    fn keep(&self, e: &Entity, lag: i64, limit: i64) -> i64 {
        let usual = to_virtual(u64::from(e.usual_run.get()), e.inverse.get());
        if lag <= usual { lag } else { lag.min(usual.max(scale(limit, i64::from(e.weight.get()), self.load))) }
    }

    /// Adds `t` to the waiting threads; it competes already.
    #[inline(always)]
    pub(crate) fn insert(&mut self, table: &Table, t: ThreadIdx, e: &Entity) {
        self.waiting += 1;
        if self.waiting == 1 {
            self.solo = Some(t);
            return;
        }
        if let Some(other) = self.solo.take() {
            self.tree.insert(table, other, table.get(other));
        }
        self.tree.insert(table, t, e);
    }

    /// Removes `t` from the waiting threads; it stays in the competition.
    #[inline(always)]
    pub(crate) fn remove(&mut self, table: &Table, t: ThreadIdx) {
        self.waiting -= 1;
        if self.solo == Some(t) {
            self.solo = None;
        } else {
            self.tree.remove(table, t);
        }
    }

    /// Exchanges the waiting thread `next` and the running thread `last`.
    #[inline(always)]
    pub(crate) fn exchange(&mut self, table: &Table, next: ThreadIdx, (last, e): (ThreadIdx, &Entity)) {
        if self.solo == Some(next) {
            self.solo = Some(last);
        } else {
            self.remove(table, next);
            self.insert(table, last, e);
        }
    }

    /// The thread that should run; `None` means the running thread `current`, or idle.
    #[inline(always)]
    pub(crate) fn choose(&self, table: &Table, current: Option<&Entity>) -> Option<ThreadIdx> {
        if self.waiting == 0 {
            return None;
        }
        let current = match current {
            Some(e) if self.eligible(e.vruntime.get()) => Some(e),
            _ => None,
        };
        if current.is_some_and(|e| self.is_protected(e)) {
            return None;
        }
        let best = match self.solo {
            Some(t) if current.is_none() || self.eligible(table.get(t).vruntime.get()) => Some(t),
            Some(_) => None,
            None => self.first_eligible(table),
        };
        match (current, best) {
            // On a tie the other thread runs: otherwise the first to end its slice would run twice in a row (`pick_eevdf`).
            (Some(e), Some(t)) => (table.get(t).key.get() <= e.key.get()).then_some(t),
            // Rounding can make no thread eligible: take the earliest deadline.
            (None, None) => self.tree.first(table),
            (_, best) => best,
        }
    }

    #[inline(always)]
    fn first_eligible(&self, table: &Table) -> Option<ThreadIdx> {
        self.tree.first_eligible(table, |v| self.eligible(v) || table.plants(Fault::IgnoreEligibility))
    }

    /// Makes `e` the running thread.
    #[inline(always)]
    pub(crate) fn begin(&mut self, e: &Entity) {
        self.renew_if_used_up(e);
        let until = e.key.get();
        self.protected_until = if self.shortest_slice < e.slice.get() {
            let part = to_virtual(u64::from(self.shortest_slice), e.inverse.get());
            until.min(e.vruntime.get().saturating_add(part))
        } else {
            until
        };
    }

    /// Gives `e` a new deadline if it has used its slice.
    #[inline(always)]
    pub(crate) fn renew_if_used_up(&self, e: &Entity) {
        self.renew_if_used_up_in(e, 0);
    }

    /// The same if time advances in steps: a slice counts as complete this much virtual time before its end, and the
    /// difference is added to the next one.
    #[inline(always)]
    pub(crate) fn renew_if_used_up_in(&self, e: &Entity, about: i64) {
        let (v, deadline) = (e.vruntime.get(), e.key.get());
        if v + about >= deadline {
            let end = if v - deadline <= about { deadline } else { v };
            e.key.set(end + e.virtual_slice());
        }
    }

    /// The running thread yields (`yield_task_fair`): counts its slice as used.
    #[inline(always)]
    pub(crate) fn give_way(&mut self, e: &Entity) {
        if self.eligible(e.vruntime.get()) {
            self.advance(e, e.key.get() - e.vruntime.get());
            e.key.set(e.vruntime.get() + e.virtual_slice());
        }
        self.protected_until = i64::MIN;
    }

    /// `charge` and `give_way` in one. If eligible, `vruntime` becomes the deadline however much of the slice was
    /// used, so these stores do not depend on the clock, which is on a yield's critical path.
    #[inline(always)]
    pub(crate) fn charge_and_give_way(&mut self, e: &Entity, delta: u64) {
        let (v, deadline, w) = (e.vruntime.get(), e.key.get(), i64::from(e.weight.get()));
        let dv = to_virtual(delta, e.inverse.get());
        // `eligible(v + dv)` with dv · w more in the sum; everything known before the clock is read is on one side.
        let owed = i128::from(self.sum) - i128::from(v - self.base) * i128::from(self.load);
        if owed < i128::from(dv) * i128::from(self.load - w) {
            return self.charge_indebted(e, dv);
        }
        e.vruntime.set(deadline);
        e.key.set(deadline + e.virtual_slice());
        self.sum += (deadline - v) * w;
        self.follow(deadline);
        self.protected_until = i64::MIN;
    }

    /// Negative lag: nothing to forfeit. Outlined so that LLVM emits a branch, not a cmov.
    #[cold]
    #[inline(never)]
    fn charge_indebted(&mut self, e: &Entity, dv: i64) {
        self.advance(e, dv);
        self.protected_until = i64::MIN;
    }

    /// A thread with a shorter slice and an earlier deadline may end the protection (PREEMPT_SHORT).
    #[inline(always)]
    pub(crate) fn end_protection_for(&mut self, woken: &Entity, current: &Entity) {
        if woken.slice.get() < current.slice.get()
            && woken.key.get() < current.key.get()
            && self.eligible(woken.vruntime.get())
        {
            self.protected_until = i64::MIN;
        }
    }

    /// Whether the running thread `e` is still protected from preemption.
    #[inline(always)]
    pub(crate) fn is_protected(&self, e: &Entity) -> bool {
        e.vruntime.get() < self.protected_until
    }

    /// Whether the protection lasts for longer than this virtual time.
    pub(crate) fn is_protected_for(&self, e: &Entity, time: i64) -> bool {
        e.vruntime.get().saturating_add(time) < self.protected_until
    }

    /// The virtual time left of the protection.
    pub(crate) fn protection_left(&self, e: &Entity) -> i64 {
        self.protected_until.saturating_sub(e.vruntime.get()).max(0)
    }

    /// Ends the protection of the running thread.
    pub(crate) fn unprotect(&mut self) {
        self.protected_until = i64::MIN;
    }

    /// The union of the waiting threads' masks, folded.
    pub(crate) fn allowed(&self, table: &Table) -> u64 {
        self.solo.map_or_else(|| self.tree.allowed(table), |t| table.fold(t, table.get(t)))
    }

    /// Waiting threads allowed on a CPU with this folded mask bit, by deadline.
    pub(crate) fn find_allowed(
        &self,
        table: &Table,
        bit: u64,
        most: u32,
        mut visit: impl FnMut(ThreadIdx, &Entity) -> bool,
    ) -> Option<ThreadIdx> {
        match self.solo {
            Some(t) => Some(t).filter(|&t| visit(t, table.get(t))),
            None => self.tree.find_allowed(table, bit, most, visit),
        }
    }

    /// Visits every waiting thread.
    pub(crate) fn visit(&self, table: &Table, visit: &mut impl FnMut(ThreadIdx)) {
        match self.solo {
            Some(t) => visit(t),
            None => self.tree.visit(table, visit),
        }
    }

    /// The contribution of `e` to the two sums.
    pub(crate) fn audit_share(&self, e: &Entity) -> (i64, i64) {
        let w = i64::from(e.weight.get());
        ((e.vruntime.get() - self.base) * w, w)
    }

    /// The two sums.
    pub(crate) fn audit_sums(&self) -> (i64, i64) {
        (self.sum, self.load)
    }

    /// Whether the tree is in order.
    pub(crate) fn audit_tree(&self, table: &Table) -> bool {
        self.tree.is_sound(table) && self.waiting == self.tree.len() + u32::from(self.solo.is_some())
    }

    /// `load`, for comparing CPUs.
    pub(crate) fn load(&self) -> i64 {
        self.load
    }
}

/// `lag`, but no more than `limit` either way. (`clamp` has a check that costs a call here.)
#[inline(always)]
fn bounded(lag: i64, limit: i64) -> i64 {
    lag.max(-limit).min(limit)
}

/// `lag · w / load`. A lag is at most two virtual slices, and a virtual slice is a slice at nice 0 divided by the
/// weight. So the product is bounded by two slices and cannot overflow. With a large load the result is less than a
/// nanosecond and needs no division.
#[inline(always)]
fn scale(lag: i64, w: i64, load: i64) -> i64 {
    let product = lag * w;
    if w == load {
        lag
    } else if product.unsigned_abs() < load.unsigned_abs() {
        0
    } else {
        product / (load & i64::MAX)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
