//! POSIX timers: crates `time` (ids, expiries) and `signal` (queued signals) joined.
//!
//! * [`charge`]: what counts against RLIMIT_SIGPENDING.
//! * [`checkpoint`]: timers as records, and back.
//! * [`calls`]: the system calls.
//! * [`clocks`]: clock readings for them.
//! * [`expiry`]: expiry at the CPU's timer, and telling a CPU of an earlier expiry.
//! * [`talk`]: delivery of a timer's signal, its flush, and the end of its being ignored.
//! * [`cpu_clocks`]: timers on CPU clocks of this process; [`host_clocks`]: of others, which are the host's.
//!
//! Locks: the process's signals → the parked signals ([`PosixRoom::ignored`]) → one timer → one thread's signals
//! (only with the process's held, so that the order between those two does not matter), one expiry queue, or the
//! queues of CPU time. A CPU's `timeouts` comes before expiry queues.

mod calls;
mod charge;
mod checkpoint;
mod clocks;
mod cpu_clocks;
mod expiry;
mod host_clocks;
pub(crate) mod talk;

use crate::SetUpFailed;
use charge::{Kept, PendingLimit};
use host_clocks::HostTimers;
use sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use sync::{CachePadded, Lock};
use time::posix::{Base, IgnoredTimers, Notify, PosixTimers, Timer};

/// The timers of the process.
#[derive(Debug)]
pub struct PosixRoom {
    timers: PosixTimers,
    /// Unused charges of CPUs.
    kept: Kept,
    /// Parked signals of timers whose signal is ignored.
    ignored: CachePadded<Lock<IgnoredTimers>>,
    /// The clocks that timers were made on, one bit each: others are not read.
    clocks: AtomicU32,
    /// Some timer was aimed at one thread: threads' own queues may hold timers' signals.
    aimed: AtomicBool,
    host: HostTimers,
    limit: PendingLimit,
}

impl PosixRoom {
    /// Shows the timers in the first `most` slots.
    pub fn list(&self, most: u32, show: impl FnMut(time::posix::Listed)) {
        let _ = self.timers.table.list(0, most, show);
    }

    pub(crate) fn new(cpus: usize) -> Result<PosixRoom, SetUpFailed> {
        Ok(PosixRoom {
            timers: PosixTimers::new(cpus).map_err(|_| SetUpFailed)?,
            kept: Kept::new(cpus)?,
            ignored: CachePadded(Lock::new(IgnoredTimers::new())),
            clocks: AtomicU32::new(0),
            aimed: AtomicBool::new(false),
            host: HostTimers::default(),
            limit: PendingLimit::default(),
        })
    }

    /// Notes that a timer is made on this clock, for this receiver. (Read before written, because all CPUs that create
    /// timers read these.)
    fn note(&self, timer: &Timer) {
        let bit = clock_bit(timer.base);
        if self.clocks.load(Relaxed) & bit != bit {
            self.clocks.fetch_or(bit, Relaxed);
        }
        if matches!(timer.notify, Notify::Thread { .. }) && !self.aimed.load(Relaxed) {
            self.aimed.store(true, Relaxed);
        }
    }
}

/// The bit of a clock in [`PosixRoom::clocks`]; CPU clocks have none.
fn clock_bit(base: Base) -> u32 {
    match base {
        Base::Monotonic => 1,
        // Relative timers count on the monotonic clock.
        Base::Realtime => 1 | 2,
        Base::Boottime => 4,
        Base::Tai => 8,
        Base::ProcessCpu(_) | Base::ThreadCpu(..) => 0,
    }
}
