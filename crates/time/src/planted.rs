//! Deliberate faults, one at a time, for testing the tests: every check must catch one that no other check catches.
//! Compiled into this crate's own tests only.

/// A fault that a test can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code, reason = "the hooks name faults that only tests plant"))]
pub(crate) enum Fault {
    /// A host call's time is charged twice.
    ChargeTwice,
    /// A thread's consumption since its last tick is lost when it exits.
    LoseAtExit,
    /// A process's clock goes back to zero when a CPU starts to account for it.
    BackAtStart,
    /// Stolen time makes a clock go back that was read.
    NoFloor,
    /// An expiry pass stops the accounting although a timer is armed.
    StopTooEarly,
    /// An event that is armed does not void the hint that nothing is due.
    StaleHint,
    /// Timers expire a millisecond early.
    EarlyByATick,
    /// A periodic timer is not armed again at delivery.
    LoseRearm,
    /// A signal of an earlier setting is delivered.
    DeliverStale,
    /// A taken id is given out again.
    DuplicateId,
    /// A parked signal is forgotten when its signal is no longer ignored.
    ForgetParked,
    /// Periods that passed before a delivery are not counted.
    LoseOverrun,
}

#[cfg(test)]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<Fault>> = const { core::cell::Cell::new(None) };
}

/// Whether this fault is planted.
#[inline(always)]
pub(crate) fn strikes(fault: Fault) -> bool {
    #[cfg(test)]
    return PLANTED.get() == Some(fault);
    #[cfg(not(test))]
    {
        let _ = fault;
        false
    }
}

/// Runs `check` with the fault planted for this thread.
#[cfg(test)]
pub(crate) fn with<R>(fault: Fault, check: impl FnOnce() -> R) -> R {
    PLANTED.set(Some(fault));
    let result = check();
    PLANTED.set(None);
    result
}
