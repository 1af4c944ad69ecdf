//! The words through which carriers and the service thread talk, and how the service thread is called.

use crate::base::os;
use ids::CpuId;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// The signal that calls the service thread.
pub(crate) const CALL: i32 = os::SIGNAL_INTERRUPT;
/// The call if there is no room to queue the other one (SIGSTKFLT, which no program uses). The service thread receives
/// it with `rt_sigtimedwait` like the program's signals, so a call before its sleep is not lost.
pub(crate) const CALL_NO_ROOM: i32 = 16;

/// The words that carriers and the service thread share.
#[derive(Debug)]
pub(crate) struct Service {
    pid: i32,
    /// The service thread's host id, which the host writes; 0: it has not been started.
    pub tid: AtomicU32,
    /// The host has refused a service thread.
    pub missing: AtomicBool,
    /// The process has no service thread, because it needs none yet (`services::alone`).
    pub alone: AtomicBool,
    /// While `alone`: the signals that the only carrier lets through.
    pub open: AtomicU64,
    /// The signals for which our handler is installed at the host on the program's behalf.
    pub installed: AtomicU64,
    /// When the process publishes its page; MAX: it has.
    pub until: AtomicU64,
    /// The service thread may have been called by [`CALL_NO_ROOM`].
    pub called: AtomicBool,
    /// Signals that are left pending at the host, for descriptors of the program to read.
    pub left: AtomicU64,
    /// How often `left` has changed.
    pub changes: AtomicU64,
    /// The number of changes that the service thread has heeded in its present round. A number, because the set may have
    /// changed and changed back while the service thread had read it but not yet stored what it heeds.
    pub heeded: AtomicU64,
    /// The service thread watches the CPUs, or has been called to.
    pub watches: AtomicBool,
    /// CPUs without a carrier that a borrower has kicked, because a borrower may not make one: bit `c % 64` for CPU
    /// `c`.
    pub unserved: AtomicU64,
    /// The host has refused some carrier a timer, so the service thread rings it.
    pub rings: AtomicBool,
    /// The stop that the service thread must make: the signal, and above it the count of SIGCONT at which the stop is
    /// void. 0: none.
    pub stop: AtomicU64,
    /// Stop signals that the service thread does not block.
    pub simple_stops: AtomicU64,
}

impl Service {
    /// The state of the process `pid` before it begins.
    pub fn new(pid: i32) -> Service {
        Service {
            pid,
            tid: AtomicU32::new(0),
            missing: AtomicBool::new(false),
            alone: AtomicBool::new(false),
            open: AtomicU64::new(0),
            installed: AtomicU64::new(0),
            until: AtomicU64::new(0),
            called: AtomicBool::new(false),
            left: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            heeded: AtomicU64::new(0),
            watches: AtomicBool::new(false),
            unserved: AtomicU64::new(0),
            rings: AtomicBool::new(false),
            stop: AtomicU64::new(0),
            simple_stops: AtomicU64::new(0),
        }
    }

    /// The service thread's host id; 0 if it could not be started.
    pub fn tid(&self) -> i32 {
        self.tid.load(Relaxed) as i32
    }

    /// Whether the host has refused it.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.missing.load(Relaxed)
    }

    /// Whether the process has no service thread, because it needs none yet.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.alone.load(Relaxed)
    }

    /// Calls the service thread; false if there is none yet.
    pub fn call(&self) -> bool {
        let tid = self.tid();
        if tid != 0 && os::queue(self.pid, tid, CALL, os::COOKIE) != 0 {
            self.called.store(true, SeqCst);
            os::send(self.pid, tid, CALL_NO_ROOM);
        }
        tid != 0
    }

    /// Waits until the service thread asks for the present set of signals. If fewer signals are left pending than
    /// before, it is called and until then takes none of the new ones.
    pub(crate) fn catch_up(&self) {
        for round in 0.. {
            if self.heeded.load(SeqCst) == self.changes.load(SeqCst) {
                return;
            }
            os::relax(round);
        }
    }

    /// Has the service thread kick a CPU that has no carrier.
    #[cold]
    pub(crate) fn kick_unserved(&self, cpu: CpuId) {
        self.unserved.fetch_or(1 << (cpu.0 % 64), SeqCst);
        self.call();
    }

    /// Has the service thread watch the CPUs, because threads are queued or a carrier waits in the host and keeps its
    /// CPU.
    #[cold]
    pub fn watch(&self) {
        if !self.watches.swap(true, SeqCst) && !self.call() {
            // There is no service thread yet: the next tick asks again.
            self.watches.store(false, SeqCst);
        }
    }
}
