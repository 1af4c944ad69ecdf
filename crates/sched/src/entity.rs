//! The scheduler's record of one thread.
//!
//! # Who owns the fields
//! | `life`, `home` | owner of all other fields |
//! |---|---|
//! | `home` has `ON_RQ` | the holder of the lock of the run queue `home` names |
//! | `BLOCKED` | no owner; claim it first |
//! | `WAKING`, `CHANGING`, `CHANGING_WOKEN` | the waker or changer that set `WAKING` or `CHANGING` |
//! | runnable, `home` without `ON_RQ` | the CPU that dequeued it and carries it to another |
//!
//! `README.md` beside this file has the protocol and its proof sketch.

use crate::attr::{Attr, Urgency};
use crate::field::{FieldI64, FieldU8, FieldU32, FieldU64};
use crate::life::Life;
use crate::rt;
use crate::weight;
use core::cmp::Reverse;
use ids::{CpuId, Nanos, Nice, Policy, RtPriority, ThreadIdx};
use sync::atomic::{AtomicU32, Ordering};

/// In [`Entity::home`]: current on, or queued at, the CPU in the low 16 bits.
pub(crate) const ON_RQ: u32 = 1 << 16;

/// Scheduling classes, most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    Stop = 0,
    Deadline = 1,
    Rt = 2,
    Fair = 3,
}

/// Its place: the node of a tree, or next and previous in a list.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub left: FieldU32,
    pub right: FieldU32,
    pub leaf: FieldU32,
}

/// One thread's scheduling state. The first two lines are what a switch or wake-up needs, the others the rest.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Entity {
    /// The tree's sort key: virtual deadline (fair), deadline or replenishment time (deadline).
    pub key: FieldI64,
    /// Virtual run time, weighted nanoseconds.
    pub vruntime: FieldI64,
    /// The first word of the affinity mask.
    pub mask: FieldU64,
    pub links: Links,
    pub weight: FieldU32,
    pub inverse: FieldU32,

    pub life: Life,
    class: FieldU8,
    /// Level in the real-time queue: 0 stop, 1 = priority 99 … 99 = priority 1.
    pub level: FieldU8,
    policy: FieldU8,
    pub home: AtomicU32,
    /// Times the affinity mask allows more than one CPU: 0 or 1.
    pub movable: FieldU8,
    /// The slice in nanoseconds.
    pub slice: FieldU32,
    /// Its usual run length between two waits, in nanoseconds; a decaying average.
    pub usual_run: FieldU32,
    /// Involuntary context switches: how often it was preempted.
    pub involuntary: FieldU32,
    /// CPU time so far.
    pub runtime: FieldU64,
    /// `runtime` when it last became runnable.
    pub runtime_at_wake: FieldU64,
    /// Lag (how much virtual time it was owed) when it left its queue.
    pub lag: FieldI64,
    /// When it was put into a queue.
    pub queued_at: FieldU64,
    /// Time spent in run queues before running, in nanoseconds.
    pub waited: FieldU64,

    /// When it was woken, for a real-time thread that has not run since; otherwise 0.
    pub woken_at: FieldU64,
    /// Links of the list of pushable real-time threads.
    pub push_next: FieldU32,
    pub push_prev: FieldU32,
    /// The rest of the RR slice.
    pub rr_left: FieldU64,
    nice: FieldU8,
    rt: FieldU8,
    reset_on_fork: FieldU8,
    custom_slice: FieldU32,
    /// How often it came to another CPU.
    pub migrations: FieldU32,
    /// Boost: see `encode_boost`.
    boost: FieldU64,
    /// Reserved bandwidth, 2^-20 of a CPU; under the admission lock.
    pub reserved: FieldU32,
    /// The root domain of the reservation.
    pub reserved_in: FieldU32,
    pub dl: DeadlineState,
}

/// Everything that a wake-up or a switch between fair threads touches is in the first two cache lines.
const _: () = assert!(cfg!(any(loom, shuttle)) || core::mem::offset_of!(Entity, woken_at) <= 128);

/// Constant-bandwidth-server state of a deadline thread.
#[derive(Debug, Default)]
pub(crate) struct DeadlineState {
    pub runtime: FieldU64,
    pub relative: FieldU64,
    pub period: FieldU64,
    /// The rest of the current job's budget; negative after an overrun.
    pub budget: FieldI64,
    /// Absolute deadline of the present job.
    pub absolute: FieldU64,
    /// 1 while it waits for its replenishment.
    pub throttled: FieldU8,
}

impl Entity {
    pub(crate) fn new() -> Entity {
        Entity {
            key: FieldI64::default(),
            vruntime: FieldI64::default(),
            mask: FieldU64::default(),
            links: Links::default(),
            weight: FieldU32::from(weight::NICE_0),
            inverse: FieldU32::from(weight::inverse(weight::NICE_0)),
            life: Life::new(),
            class: FieldU8::from(Class::Fair as u8),
            level: FieldU8::default(),
            policy: FieldU8::default(),
            home: AtomicU32::new(0),
            movable: FieldU8::default(),
            slice: FieldU32::default(),
            usual_run: FieldU32::default(),
            involuntary: FieldU32::default(),
            runtime: FieldU64::default(),
            runtime_at_wake: FieldU64::default(),
            lag: FieldI64::default(),
            queued_at: FieldU64::default(),
            waited: FieldU64::default(),
            woken_at: FieldU64::default(),
            push_next: FieldU32::from(ThreadIdx::NONE.0),
            push_prev: FieldU32::from(ThreadIdx::NONE.0),
            rr_left: FieldU64::default(),
            nice: FieldU8::default(),
            rt: FieldU8::default(),
            reset_on_fork: FieldU8::default(),
            custom_slice: FieldU32::default(),
            migrations: FieldU32::default(),
            boost: FieldU64::default(),
            reserved: FieldU32::default(),
            reserved_in: FieldU32::default(),
            dl: DeadlineState::default(),
        }
    }

    /// Clears what the slot's last thread has left.
    pub(crate) fn reset(&self) {
        self.boost.set(0);
        self.usual_run.set(0);
        self.involuntary.set(0);
        self.waited.set(0);
        self.migrations.set(0);
        self.runtime.set(0);
        self.runtime_at_wake.set(0);
        self.lag.set(0);
        self.woken_at.set(0);
        self.vruntime.set(0);
        self.key.set(0);
        self.dl.throttled.set(0);
        self.dl.absolute.set(0);
    }

    /// The CPU it is on, or was on last.
    #[inline(always)]
    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.home.load(Ordering::Relaxed) as u16)
    }

    /// Whether it is current on, or queued at, that CPU.
    pub(crate) fn is_at(&self, cpu: CpuId) -> bool {
        self.home.load(Ordering::Relaxed) == u32::from(cpu.0) | ON_RQ
    }

    #[inline(always)]
    pub(crate) fn set_home(&self, cpu: CpuId, on_rq: bool) {
        self.home.store(u32::from(cpu.0) | if on_rq { ON_RQ } else { 0 }, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> Class {
        match self.class.get() {
            0 if rt::BUILT => Class::Stop,
            1 => Class::Deadline,
            2 if rt::BUILT => Class::Rt,
            _ => Class::Fair,
        }
    }

    #[inline(always)]
    pub(crate) fn is_fair(&self) -> bool {
        self.class.get() == Class::Fair as u8
    }

    /// Whether it belongs to the real-time queue (the stop class is its level 0).
    #[inline(always)]
    pub(crate) fn in_rt_queue(&self) -> bool {
        matches!(self.class(), Class::Stop | Class::Rt)
    }

    #[inline(always)]
    pub(crate) fn policy(&self) -> Policy {
        Policy::from_raw(u32::from(self.policy.get())).unwrap_or(Policy::Other)
    }

    /// Whether this is its policy: cheaper than decoding the policy.
    #[inline(always)]
    pub(crate) fn has_policy(&self, policy: Policy) -> bool {
        self.policy.get() == policy as u8
    }

    /// The virtual length of its slice.
    #[inline(always)]
    pub(crate) fn virtual_slice(&self) -> i64 {
        weight::to_virtual(u64::from(self.slice.get()), self.inverse.get())
    }

    pub(crate) fn attr(&self) -> Attr {
        let policy = self.policy();
        let params = crate::attr::DeadlineParams {
            runtime: Nanos(self.dl.runtime.get()),
            deadline: Nanos(self.dl.relative.get()),
            period: Nanos(self.dl.period.get()),
        };
        Attr {
            policy,
            nice: Nice(self.nice.get() as i8),
            rt: RtPriority(self.rt.get()),
            reset_on_fork: self.reset_on_fork.get() != 0,
            slice: Nanos(u64::from(self.custom_slice.get())),
            deadline: (policy == Policy::Deadline).then_some(params),
        }
    }

    /// Takes over `attr`; the caller owns the entity, and it is in no queue.
    pub(crate) fn set_attr(&self, attr: &Attr, base_slice: u64, rr_slice: Nanos) {
        let before = self.policy();
        if before != attr.policy || self.rt.get() != attr.rt.0 {
            self.rr_left.set(rr_slice.0);
        }
        self.policy.set(attr.policy as u8);
        self.nice.set(attr.nice.0 as u8);
        self.rt.set(attr.rt.0);
        self.reset_on_fork.set(u8::from(attr.reset_on_fork));
        let custom = if attr.slice.0 == 0 { 0 } else { attr.slice.0.clamp(100_000, 100_000_000) };
        self.custom_slice.set(custom as u32);
        self.slice.set(if custom == 0 { base_slice.min(100_000_000) } else { custom } as u32);
        let w = weight::weight(attr.policy, attr.nice);
        self.weight.set(w);
        self.inverse.set(weight::inverse(w));
        if let Some(p) = &attr.deadline {
            let replenished = self.next_period();
            self.dl.runtime.set(p.runtime.0);
            self.dl.relative.set(p.deadline.0);
            self.dl.period.set(p.period().0);
            // A thread that had the policy continues with what is left of its job (`__setparam_dl`), or waits for its
            // budget as before.
            if before != Policy::Deadline {
                self.dl.budget.set(0);
                self.dl.absolute.set(0);
            } else if self.dl.budget.get() <= 0 && self.dl.absolute.get() != 0 {
                self.dl.absolute.set((replenished + p.deadline.0).saturating_sub(p.period().0).max(1));
            }
        }
        self.derive_class();
    }

    /// When a deadline thread without budget gets a new one: at the end of its deadline's period.
    pub(crate) fn next_period(&self) -> u64 {
        let dl = &self.dl;
        dl.absolute.get().saturating_sub(dl.relative.get()).saturating_add(dl.period.get())
    }

    /// Takes over a boost; the caller owns the entity, and it is in no queue.
    pub(crate) fn set_boost(&self, boost: Option<Urgency>) {
        self.boost.set(match boost {
            None | Some(Urgency::Fair) => 0,
            Some(Urgency::Rt(p)) => u64::from(p.0.clamp(1, 99)),
            Some(Urgency::Deadline(Reverse(d))) => d.0.clamp(BOOST_DEADLINE_MIN, u64::MAX - 1),
            Some(Urgency::Stop) => u64::MAX,
        });
        self.derive_class();
    }

    /// The inherited deadline, if that is effective: it is earlier than its own, or its own budget is used up. Its
    /// budget is not charged meanwhile.
    pub(crate) fn boosted_deadline(&self) -> Option<Nanos> {
        let Urgency::Deadline(Reverse(d)) = self.boost() else { return None };
        let own = self.policy() == Policy::Deadline && self.dl.budget.get() > 0 && self.dl.absolute.get() <= d.0;
        (!own).then_some(d)
    }

    /// The boost alone.
    pub(crate) fn boost(&self) -> Urgency {
        match self.boost.get() {
            0 => Urgency::Fair,
            u64::MAX => Urgency::Stop,
            p if p < BOOST_DEADLINE_MIN => Urgency::Rt(RtPriority(p as u8)),
            d => Urgency::Deadline(Reverse(Nanos(d))),
        }
    }

    /// The urgency with this policy, priority and boost.
    pub(crate) fn urgency_with(&self, policy: Policy, rt: RtPriority, boost: Urgency) -> Urgency {
        let own = match policy {
            Policy::Fifo | Policy::RoundRobin => Urgency::Rt(rt),
            Policy::Deadline => Urgency::Deadline(Reverse(Nanos(self.dl.absolute.get()))),
            _ => Urgency::Fair,
        };
        own.max(boost)
    }

    /// The effective urgency: its own or a boost, whichever is greater.
    pub(crate) fn urgency(&self) -> Urgency {
        match self.class() {
            Class::Stop => Urgency::Stop,
            Class::Deadline => {
                let own = Nanos(self.dl.absolute.get());
                Urgency::Deadline(Reverse(self.boosted_deadline().unwrap_or(own)))
            }
            Class::Rt => Urgency::Rt(RtPriority(100 - self.level.get())),
            Class::Fair => Urgency::Fair,
        }
    }

    fn derive_class(&self) {
        let urgency = self.urgency_with(self.policy(), RtPriority(self.rt.get()), self.boost());
        let (class, level) = match urgency {
            Urgency::Stop if rt::BUILT => (Class::Stop, 0),
            Urgency::Deadline(_) => (Class::Deadline, 0),
            Urgency::Rt(p) if rt::BUILT => (Class::Rt, 100 - p.0),
            _ => (Class::Fair, 0),
        };
        self.class.set(class as u8);
        self.level.set(level);
    }
}

/// Encoded boosts below this are real-time priorities: no deadline is earlier than 128 ns.
const BOOST_DEADLINE_MIN: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_asked_for_is_clamped_and_none_is_the_default() {
        let e = Entity::new();
        for (asked, base, custom, slice) in [
            (0, 700_000, 0, 700_000),
            (0, 1_000_000_000, 0, 100_000_000),
            (1, 700_000, 100_000, 100_000),
            (100_001, 700_000, 100_001, 100_001),
            (200_000_000, 700_000, 100_000_000, 100_000_000),
        ] {
            e.set_attr(&Attr { slice: Nanos(asked), ..Attr::DEFAULT }, base, Nanos(1));
            assert_eq!((e.attr().slice, e.slice.get()), (Nanos(custom), slice), "{asked} of {base}");
        }
    }

    /// A new priority or policy starts a new slice; any other change keeps the old one.
    #[test]
    fn a_round_robin_slice_outlasts_what_does_not_concern_it() {
        let e = Entity::new();
        let set = |attr: Attr| {
            e.rr_left.set(7);
            e.set_attr(&attr, 700_000, Nanos(100));
            e.rr_left.get()
        };
        assert_eq!(set(Attr::round_robin(5)), 100);
        assert_eq!(set(Attr::round_robin(5)), 7);
        assert_eq!(set(Attr { nice: Nice(3), reset_on_fork: true, ..Attr::round_robin(5) }), 7);
        assert_eq!(set(Attr::round_robin(6)), 100);
        assert_eq!(set(Attr::fifo(6)), 100);
    }

    #[test]
    fn levels_count_down_from_the_highest_priority() {
        let e = Entity::new();
        for (attr, boost, class, level) in [
            (Attr::fifo(99), None, Class::Rt, 1),
            (Attr::fifo(1), None, Class::Rt, 99),
            (Attr::fifo(1), Some(Urgency::Rt(RtPriority(40))), Class::Rt, 60),
            (Attr::fifo(40), Some(Urgency::Rt(RtPriority(1))), Class::Rt, 60),
            (Attr::DEFAULT, Some(Urgency::Rt(RtPriority(0))), Class::Rt, 99),
            (Attr::DEFAULT, Some(Urgency::Rt(RtPriority(200))), Class::Rt, 1),
            (Attr::DEFAULT, Some(Urgency::Stop), Class::Stop, 0),
            (Attr::fifo(9), Some(Urgency::Deadline(Reverse(Nanos(0)))), Class::Deadline, 0),
            (Attr::DEFAULT, Some(Urgency::Fair), Class::Fair, 0),
        ] {
            e.set_attr(&attr, 700_000, Nanos(100));
            e.set_boost(boost);
            assert_eq!((e.class(), e.level.get()), (class, level), "{attr:?} {boost:?}");
            assert_eq!((e.is_fair(), e.in_rt_queue()), (class == Class::Fair, level > 0 || class == Class::Stop));
            assert!(e.has_policy(attr.policy) && !e.has_policy(Policy::Batch));
        }
    }

    /// Its own deadline counts while it has a budget and is not later than the inherited one.
    #[test]
    fn an_inherited_deadline_counts_if_it_is_earlier_or_alone() {
        let e = Entity::new();
        let params = crate::DeadlineParams { runtime: Nanos(5_000), deadline: Nanos(200_000), period: Nanos(0) };
        e.set_attr(&Attr::deadline(params), 700_000, Nanos(100));
        assert_eq!(e.attr().deadline.map(|p| p.period), Some(Nanos(200_000)), "the default is filled in");
        e.set_boost(Some(Urgency::Deadline(Reverse(Nanos(1_000)))));
        for (budget, absolute, boosted) in
            [(1, 999, false), (1, 1_000, false), (1, 1_001, true), (0, 999, true), (-1, 999, true)]
        {
            e.dl.budget.set(budget);
            e.dl.absolute.set(absolute);
            assert_eq!(e.boosted_deadline(), boosted.then_some(Nanos(1_000)), "{budget} until {absolute}");
            let counts = Nanos(if boosted { 1_000 } else { absolute });
            assert_eq!(e.urgency(), Urgency::Deadline(Reverse(counts)));
        }
        e.set_boost(Some(Urgency::Stop));
        assert_eq!((e.boosted_deadline(), e.urgency()), (None, Urgency::Stop));
    }

    #[test]
    fn the_earliest_deadlines_to_inherit_are_told_from_priorities() {
        let e = Entity::new();
        for (given, kept) in [(0, 128), (127, 128), (128, 128), (129, 129), (u64::MAX, u64::MAX - 1)] {
            e.set_boost(Some(Urgency::Deadline(Reverse(Nanos(given)))));
            assert_eq!(e.boost(), Urgency::Deadline(Reverse(Nanos(kept))));
        }
        e.set_boost(Some(Urgency::Rt(RtPriority(99))));
        assert_eq!(e.boost(), Urgency::Rt(RtPriority(99)));
    }

    #[test]
    fn a_home_says_where_and_whether_in_a_queue() {
        let e = Entity::new();
        for (cpu, on_rq) in [(0, true), (7, false), (7, true), (4095, true), (4095, false)] {
            e.set_home(CpuId(cpu), on_rq);
            assert_eq!((e.cpu(), e.is_at(CpuId(cpu)), e.is_at(CpuId(cpu ^ 1))), (CpuId(cpu), on_rq, false));
        }
    }
}
