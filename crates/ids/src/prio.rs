/// A scheduling policy, with Linux's numbers (`sched(7)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Policy {
    /// SCHED_OTHER: fair.
    Other = 0,
    /// SCHED_FIFO: real time, no slice.
    Fifo = 1,
    /// SCHED_RR: real time, round robin.
    RoundRobin = 2,
    /// SCHED_BATCH: fair, never preempts on wake-up.
    Batch = 3,
    /// SCHED_IDLE: fair with the smallest weight.
    Idle = 5,
    /// SCHED_DEADLINE: constant bandwidth server, earliest deadline first.
    Deadline = 6,
}

impl Policy {
    /// The policy with Linux's number `n`, if there is one.
    pub const fn from_raw(n: u32) -> Option<Policy> {
        Some(match n {
            0 => Policy::Other,
            1 => Policy::Fifo,
            2 => Policy::RoundRobin,
            3 => Policy::Batch,
            5 => Policy::Idle,
            6 => Policy::Deadline,
            _ => return None,
        })
    }

    /// Whether the policy is one of the two real-time ones.
    pub const fn is_rt(self) -> bool {
        matches!(self, Policy::Fifo | Policy::RoundRobin)
    }

    /// Whether the policy belongs to the fair class.
    pub const fn is_fair(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch | Policy::Idle)
    }
}

/// A user real-time priority, 1 (lowest) to 99 (highest); 0 means "not real time".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct RtPriority(pub u8);

/// A nice value, -20 (most favoured) to 19.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Nice(pub i8);

impl Nice {
    /// The nearest legal nice value, as `setpriority(2)` clamps.
    pub const fn clamp_from(n: i32) -> Nice {
        Nice(if n < -20 {
            -20
        } else if n > 19 {
            19
        } else {
            n as i8
        })
    }
}
