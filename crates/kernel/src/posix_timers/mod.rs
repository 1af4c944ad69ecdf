//! POSIX timers at work: the rooms `time` (who is due, who is called what) and `signal` (what
//! is queued) joined.
//!
//! * [`create`]: `timer_create(2)` and exact ids.
//! * [`calls`]: setting, reading and deleting.
//! * [`clocks`]: what the clocks read, for that.
//! * [`expiry`]: the CPU's timer goes off; which CPU must be told of an earlier expiry.
//! * [`talk`]: what a timer says when its signal is delivered, ignored, or no longer ignored.
//! * [`host_clocks`]: timers on CPU clocks, which are the host's.
//!
//! Locks: the process's signals → the parked signals ([`PosixRoom::ignored`]) → one timer → one
//! thread's signals (only with the process's held, so that the order between those two does not
//! matter) or one expiry queue. A CPU's `timeouts` comes before expiry queues.

mod calls;
mod clocks;
mod create;
mod expiry;
mod host_clocks;
mod talk;

use crate::SetUpFailed;
use host_clocks::HostTimers;
use sync::Lock;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use time::posix::{Base, IgnoredTimers, PosixTimers};

/// The timers of the process.
#[derive(Debug)]
pub(crate) struct PosixRoom {
    timers: PosixTimers,
    /// Parked signals of timers whose signal is ignored.
    ignored: Lock<IgnoredTimers>,
    /// The clocks that timers were made on, a bit each: others are not read.
    clocks: AtomicU32,
    /// A timer was aimed at one thread: threads' own queues may hold timers' signals.
    aimed: AtomicBool,
    host: HostTimers,
    limit: PendingLimit,
}

impl PosixRoom {
    /// Shows the timers in the first `most` slots: those on CPU clocks are the host's and not among them.
    pub(crate) fn list(&self, most: u32, show: impl FnMut(time::posix::Listed)) {
        let _ = self.timers.table.list(0, most, show);
    }

    pub fn new(cpus: usize) -> Result<PosixRoom, SetUpFailed> {
        Ok(PosixRoom {
            timers: PosixTimers::new(cpus).map_err(|_| SetUpFailed)?,
            ignored: Lock::new(IgnoredTimers::new()),
            clocks: AtomicU32::new(0),
            aimed: AtomicBool::new(false),
            host: HostTimers::default(),
            limit: PendingLimit::default(),
        })
    }
}

/// The bit of a clock in [`PosixRoom::clocks`]; CPU clocks have none.
fn clock_bit(base: Base) -> u32 {
    match base {
        Base::Monotonic => 1,
        // Relative ones count on the monotonic clock.
        Base::Realtime => 1 | 2,
        Base::Boottime => 4,
        Base::Tai => 8,
        Base::ProcessCpu(_) | Base::ThreadCpu(..) => 0,
    }
}

/// RLIMIT_SIGPENDING as it was last seen. The program's own changes are noticed at once,
/// another process's (`prlimit(2)`) only when the limit that we know is reached.
#[derive(Debug)]
struct PendingLimit(AtomicU64);

/// No limit is known. (RLIM_INFINITY is the number above.)
const UNKNOWN: u64 = u64::MAX - 1;

impl Default for PendingLimit {
    fn default() -> PendingLimit {
        PendingLimit(AtomicU64::new(UNKNOWN))
    }
}

impl PendingLimit {
    fn get(&self, ask: impl FnOnce() -> u64) -> u64 {
        match self.0.load(Relaxed) {
            UNKNOWN => {
                let limit = ask();
                self.0.store(limit, Relaxed);
                limit
            }
            limit => limit,
        }
    }

    fn forget(&self) {
        self.0.store(UNKNOWN, Relaxed);
    }
}
