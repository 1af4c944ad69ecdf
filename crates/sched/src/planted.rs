//! Deliberate faults, planted one at a time to test the tests: every check must have something that it alone catches.
//! Only with the feature `planted`; otherwise none of this is compiled in.

/// The faults that a build with the feature `planted` can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "planted"), allow(dead_code, reason = "the hooks name faults that only that feature plants"))]
pub enum Fault {
    /// Every eighth wake-up claims the thread and forgets it.
    DropWake,
    /// A thread blocks although its mark was revoked.
    BlockAnyway,
    /// A request to schedule is lost.
    LoseRequest,
    /// Nothing is ever pushed.
    SkipPush,
    /// Nothing is ever pulled.
    SkipPull,
    /// A push goes to a CPU outside the mask.
    PushAnywhere,
    /// An idle CPU takes threads that may not run there.
    StealAnything,
    /// Idle CPUs take nothing.
    SkipSteal,
    /// A preempted real-time thread goes behind its equals.
    LosePlace,
    /// A yielding real-time thread stays at the head.
    YieldNothing,
    /// A running real-time thread stays pushable.
    KeepPushable,
    /// The overload mask is never cleared.
    StaleOverload,
    /// The priority vector is not updated.
    StaleVector,
    /// A thread outside its new mask keeps running.
    IgnoreExile,
    /// The weight of a leaving thread stays in the sum.
    KeepWeight,
    /// Fair threads are charged twice.
    ChargeTwice,
    /// The earliest deadline runs, eligible or not.
    IgnoreEligibility,
    /// Deadline threads are not charged.
    FreeBudget,
    /// Reservations always succeed.
    AdmitAll,
    /// The fair server never acts.
    SleepingServer,
    /// The bounds of a tree's nodes do not follow an insertion.
    StaleMinimum,
    /// A boost stays when it ends.
    KeepBoost,
    /// A round-robin slice never ends.
    EndlessSlice,
    /// Parked CPUs are never woken to help.
    SkipNudge,
    /// Queues with waiting threads are not listed.
    ForgetQueue,
}

impl Fault {
    /// All of them.
    #[cfg(feature = "planted")]
    pub const ALL: [Fault; 25] = [
        Fault::DropWake,
        Fault::BlockAnyway,
        Fault::LoseRequest,
        Fault::SkipPush,
        Fault::SkipPull,
        Fault::PushAnywhere,
        Fault::StealAnything,
        Fault::SkipSteal,
        Fault::LosePlace,
        Fault::YieldNothing,
        Fault::KeepPushable,
        Fault::StaleOverload,
        Fault::StaleVector,
        Fault::IgnoreExile,
        Fault::KeepWeight,
        Fault::ChargeTwice,
        Fault::IgnoreEligibility,
        Fault::FreeBudget,
        Fault::AdmitAll,
        Fault::SleepingServer,
        Fault::StaleMinimum,
        Fault::KeepBoost,
        Fault::EndlessSlice,
        Fault::SkipNudge,
        Fault::ForgetQueue,
    ];
}
