//! A thread's scheduling attributes, and the urgency that follows from them.

use core::cmp::Reverse;
use ids::{Nanos, Nice, Policy, RtPriority};

/// The scheduling attributes of a thread (`sched_setattr(2)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// The policy.
    pub policy: Policy,
    /// The nice value; kept, without effect, while the policy is not a fair one.
    pub nice: Nice,
    /// The real-time priority: 1..=99 for FIFO and RR, 0 otherwise.
    pub rt: RtPriority,
    /// Whether children start as SCHED_OTHER, nice 0.
    pub reset_on_fork: bool,
    /// The slice a fair thread asks for; zero is the default. Clamped to 0.1..=100 ms.
    pub slice: Nanos,
    /// The reservation of SCHED_DEADLINE, `None` for every other policy.
    pub deadline: Option<DeadlineParams>,
}

impl Attr {
    /// SCHED_OTHER, nice 0.
    pub const DEFAULT: Attr = Attr {
        policy: Policy::Other,
        nice: Nice(0),
        rt: RtPriority(0),
        reset_on_fork: false,
        slice: Nanos::ZERO,
        deadline: None,
    };

    /// SCHED_FIFO with this priority.
    pub const fn fifo(rt: u8) -> Attr {
        Attr { policy: Policy::Fifo, rt: RtPriority(rt), ..Attr::DEFAULT }
    }

    /// SCHED_RR with this priority.
    pub const fn round_robin(rt: u8) -> Attr {
        Attr { policy: Policy::RoundRobin, rt: RtPriority(rt), ..Attr::DEFAULT }
    }

    /// A fair policy with this nice value.
    pub const fn fair(policy: Policy, nice: i8) -> Attr {
        Attr { policy, nice: Nice(nice), ..Attr::DEFAULT }
    }

    /// SCHED_DEADLINE with this reservation.
    pub const fn deadline(params: DeadlineParams) -> Attr {
        Attr { policy: Policy::Deadline, deadline: Some(params), ..Attr::DEFAULT }
    }

    /// Whether the parts fit together as `sched_setattr(2)` demands.
    pub fn is_valid(&self) -> bool {
        let rt_fits = if self.policy.is_rt() { (1..=99).contains(&self.rt.0) } else { self.rt.0 == 0 };
        let deadline_fits = match (self.policy, &self.deadline) {
            (Policy::Deadline, Some(p)) => p.is_valid(),
            (Policy::Deadline, None) => false,
            (_, params) => params.is_none(),
        };
        rt_fits && deadline_fits && (-20..=19).contains(&self.nice.0)
    }
}

/// The reservation of a SCHED_DEADLINE thread: `runtime` in every `period`, each time
/// before `deadline` has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlineParams {
    /// CPU time of one job.
    pub runtime: Nanos,
    /// Relative deadline of a job.
    pub deadline: Nanos,
    /// Distance of two jobs; zero means `deadline`.
    pub period: Nanos,
}

impl DeadlineParams {
    /// The period with its default filled in.
    pub fn period(&self) -> Nanos {
        if self.period.0 == 0 { self.deadline } else { self.period }
    }

    /// The limits of `__checkparam_dl`: 1024 ns ≤ runtime ≤ deadline ≤ period, and the
    /// period within 100 µs and 2^22 µs.
    fn is_valid(&self) -> bool {
        let period = self.period();
        self.runtime.0 >= 1024
            && self.runtime <= self.deadline
            && self.deadline <= period
            && (100_000..=(1 << 22) * 1000).contains(&period.0)
    }
}

/// Why attributes or an affinity were refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttrError {
    /// The values do not fit together, or the mask holds no CPU (EINVAL).
    Invalid,
    /// The reservation does not fit into what is left of the CPUs (EBUSY).
    Busy,
    /// A deadline thread must be allowed on all CPUs (EPERM).
    NotPermitted,
}

/// How urgent a thread is, comparable over all classes: greater is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// A fair thread: all are equal here, their nice values divide time.
    Fair,
    /// A real-time thread.
    Rt(RtPriority),
    /// A deadline thread: the earlier its absolute deadline, the more urgent.
    Deadline(Reverse<Nanos>),
    /// Above everything, never preempted: for what the kernel must finish.
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserves(runtime: u64, deadline: u64, period: u64) -> bool {
        let n = Nanos;
        Attr::deadline(DeadlineParams { runtime: n(runtime), deadline: n(deadline), period: n(period) }).is_valid()
    }

    #[test]
    fn priorities_belong_to_real_time_policies() {
        for (p, valid) in [(0, false), (1, true), (50, true), (99, true), (100, false)] {
            assert_eq!((Attr::fifo(p).is_valid(), Attr::round_robin(p).is_valid()), (valid, valid), "{p}");
            for policy in [Policy::Other, Policy::Batch, Policy::Idle] {
                assert_eq!(Attr { rt: RtPriority(p), ..Attr::fair(policy, 0) }.is_valid(), p == 0);
            }
        }
    }

    #[test]
    fn nice_values_reach_from_minus_20_to_19() {
        for (nice, valid) in [(-21, false), (-20, true), (0, true), (19, true), (20, false)] {
            assert_eq!(Attr::fair(Policy::Other, nice).is_valid(), valid, "{nice}");
            assert_eq!(Attr { nice: Nice(nice), ..Attr::fifo(1) }.is_valid(), valid, "{nice}");
        }
    }

    /// `__checkparam_dl` and the limits of the sysctls: 100 µs to 4,194,304 µs.
    #[test]
    fn reservations_have_limits() {
        assert!(reserves(1024, 100_000, 100_000) && !reserves(1023, 100_000, 100_000));
        assert!(reserves(100_000, 100_000, 100_000) && !reserves(100_001, 100_000, 100_000));
        assert!(reserves(1024, 50_000, 100_000) && !reserves(1024, 100_001, 100_000));
        assert!(!reserves(1024, 99_999, 99_999) && !reserves(1024, 2_000, 99_999));
        assert!(reserves(1024, 100_000, 0) && !reserves(1024, 99_999, 0), "no period is the deadline");
        assert!(reserves(1024, 100_000, 4_194_304_000) && !reserves(1024, 100_000, 4_194_304_001));
    }

    #[test]
    fn a_reservation_belongs_to_the_deadline_policy() {
        let params = DeadlineParams { runtime: Nanos(2_000), deadline: Nanos(200_000), period: Nanos(0) };
        assert_eq!(params.period(), Nanos(200_000));
        assert_eq!(DeadlineParams { period: Nanos(300_000), ..params }.period(), Nanos(300_000));
        assert!(Attr::deadline(params).is_valid());
        assert!(!Attr { deadline: None, ..Attr::deadline(params) }.is_valid());
        for other in [Attr::DEFAULT, Attr::fifo(3)] {
            assert!(!Attr { deadline: Some(params), ..other }.is_valid());
        }
    }

    #[test]
    fn urgencies_are_ordered_by_class_priority_and_deadline() {
        let by = |at| Urgency::Deadline(Reverse(Nanos(at)));
        let order =
            [Urgency::Fair, Urgency::Rt(RtPriority(1)), Urgency::Rt(RtPriority(99)), by(9), by(8), Urgency::Stop];
        assert!(order.is_sorted_by(|a, b| a < b));
    }
}
