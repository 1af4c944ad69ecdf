//! Deliberate faults, planted one at a time to test the tests: the simulator's checks must catch each. Only with the
//! feature `planted`; otherwise none of this is compiled in.

#[cfg(feature = "planted")]
use sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The faults that a build with the feature `planted` can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "planted"), allow(dead_code, reason = "the hooks name faults that only that feature plants"))]
pub enum Fault {
    /// The rest of a write repeats the written part.
    RepeatPart,
    /// A write in several parts returns the length of the last part only.
    TellLastPart,
    /// A write that a signal cut short returns EINTR instead of its length.
    TellInterrupt,
    /// A blocking descriptor is taken for a non-blocking one.
    SeemNonblocking,
    /// A wait for a child ends before the child has exited.
    ForgetToWait,
    /// A descriptor that is closed stays open.
    KeepOpen,
    /// An event is counted, but wakes no thread that waits alone.
    DropEvent,
    /// A thread that was woken does not wake the next one.
    KeepWakeUp,
    /// An event between an attempt and the thread's entry into the queue is missed.
    MissEvent,
    /// An event wakes all threads that wait alone.
    WakeAll,
    /// A write that continues after a wait starts at its beginning.
    RepeatParked,
    /// A thread whose descriptor was closed continues with the number. Caught by models.
    KeepDescriptor,
}

#[cfg(feature = "planted")]
impl Fault {
    /// All faults that the swarm's checks catch.
    pub const ALL: [Fault; 11] = [
        Fault::RepeatPart,
        Fault::TellLastPart,
        Fault::TellInterrupt,
        Fault::SeemNonblocking,
        Fault::ForgetToWait,
        Fault::KeepOpen,
        Fault::DropEvent,
        Fault::KeepWakeUp,
        Fault::MissEvent,
        Fault::WakeAll,
        Fault::RepeatParked,
    ];

    /// The fault's name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::RepeatPart => "repeat-part",
            Fault::TellLastPart => "tell-last-part",
            Fault::TellInterrupt => "tell-interrupt",
            Fault::SeemNonblocking => "seem-nonblocking",
            Fault::ForgetToWait => "forget-to-wait",
            Fault::KeepOpen => "keep-open",
            Fault::DropEvent => "drop-event",
            Fault::KeepWakeUp => "keep-wake-up",
            Fault::MissEvent => "miss-event",
            Fault::WakeAll => "wake-all",
            Fault::RepeatParked => "repeat-parked",
            Fault::KeepDescriptor => "keep-descriptor",
        }
    }
}

/// The planted fault of a process.
#[derive(Debug, Default)]
pub struct Planted {
    /// The planted fault's number plus one; 0: none.
    #[cfg(feature = "planted")]
    fault: AtomicU64,
    /// How many opportunities pass before it strikes.
    #[cfg(feature = "planted")]
    left: AtomicU64,
    #[cfg(feature = "planted")]
    struck: AtomicBool,
}

impl Planted {
    /// Plants this fault; it strikes from its opportunity number `after` on.
    #[cfg(feature = "planted")]
    pub fn plant(&self, fault: Fault, after: u64) {
        self.left.store(after, Relaxed);
        self.fault.store(fault as u64 + 1, Relaxed);
    }

    /// Whether the fault has struck.
    #[cfg(feature = "planted")]
    pub fn has_struck(&self) -> bool {
        self.struck.load(Relaxed)
    }

    /// Whether this fault strikes now.
    #[inline(always)]
    #[cfg_attr(not(feature = "planted"), allow(unused_variables, reason = "nothing is planted then"))]
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        #[cfg(feature = "planted")]
        return self.fault.load(Relaxed) == fault as u64 + 1 && self.is_time();
        #[cfg(not(feature = "planted"))]
        false
    }

    #[cfg(feature = "planted")]
    fn is_time(&self) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        self.struck.fetch_or(left == 0, Relaxed);
        left == 0
    }
}
