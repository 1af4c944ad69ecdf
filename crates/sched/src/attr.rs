//! What a thread asks of the scheduler, and how urgent that makes it.

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
