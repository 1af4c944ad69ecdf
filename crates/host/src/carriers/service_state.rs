//! The service thread as the others see it: how it is called, and what they and it tell each other.

use crate::base::os;
use ids::CpuId;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// The signal that calls the service thread.
pub(crate) const CALL: i32 = os::SIGNAL_INTERRUPT;
/// The call when there is no room to queue the other one (SIGSTKFLT, which no program uses). The service thread
/// receives it like the program's signals, so no call comes too early for its sleep.
pub(crate) const CALL_NO_ROOM: i32 = 16;

/// The words that carriers and the service thread share.
#[derive(Debug)]
pub(crate) struct Service {
    pid: i32,
    /// The service thread's host id, which the host writes; 0: it has not been started.
    pub tid: AtomicU32,
    /// The host has refused a service thread.
    pub missing: AtomicBool,
    /// The process does without one (`services::alone`).
    pub alone: AtomicBool,
    /// The signals that its only carrier lets through then.
    pub open: AtomicU64,
    /// The signals with handlers that its only thread did not block when it was looked at last.
    pub takes: AtomicU64,
    /// The signals whose action at the host is our handler for the program's.
    pub installed: AtomicU64,
    /// When the process leaves its page; MAX: it has.
    pub until: AtomicU64,
    /// The service thread may have been called by [`CALL_NO_ROOM`].
    pub called: AtomicBool,
    /// Signals that are left pending, for descriptors of the program to read.
    pub left: AtomicU64,
    /// The signals in `left` when the service thread began its present round.
    pub heeded: AtomicU64,
    /// The service thread watches the CPUs, or has been called to.
    pub watches: AtomicBool,
    /// CPUs without a carrier that a borrower has kicked, which may not make one: bit `c % 64` for CPU `c`.
    pub unserved: AtomicU64,
    /// Some carrier has been refused a timer, so the service thread rings it.
    pub rings: AtomicBool,
    /// The stop that the service thread is to make: the signal, and above it the count of SIGCONT that voids it. 0:
    /// none.
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
            takes: AtomicU64::new(0),
            installed: AtomicU64::new(0),
            until: AtomicU64::new(0),
            called: AtomicBool::new(false),
            left: AtomicU64::new(0),
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

    /// The host has refused it.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.missing.load(Relaxed)
    }

    /// Whether the process does without a service thread, because it needs none yet.
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

    /// Waits until the service thread asks for all that it is to ask for. When signals are no longer left pending it is called,
    /// and takes none of them before it comes.
    pub(crate) fn catch_up(&self) {
        for round in 0.. {
            if self.heeded.load(SeqCst) == self.left.load(SeqCst) {
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
            // No service thread yet: the next tick asks again.
            self.watches.store(false, SeqCst);
        }
    }
}
