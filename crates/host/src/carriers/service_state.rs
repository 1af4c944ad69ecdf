//! The service thread as the others see it: how it is called, and what they and it tell each other.

use crate::base::os;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// By this signal it is called.
pub(crate) const CALL: i32 = os::SIGNAL_INTERRUPT;
/// The call when there is no room to queue the other one (SIGSTKFLT, which no program uses). The service thread
/// receives it like the program's signals, so no call comes too early for its sleep.
pub(crate) const CALL_NO_ROOM: i32 = 16;

/// The words that carriers and the service thread share.
#[derive(Debug)]
pub(crate) struct Service {
    pid: i32,
    /// Its host thread; 0: there is none yet. The host writes it.
    pub tid: AtomicU32,
    /// The host has refused it.
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
    /// It may have been called by [`CALL_NO_ROOM`].
    pub called: AtomicBool,
    /// Signals that are left pending, for descriptors of the program to read.
    pub left: AtomicU64,
    /// Those of them that it no longer asks for.
    pub heeded: AtomicU64,
    /// It watches the CPUs, or has been called to.
    pub watches: AtomicBool,
    /// Some carrier has been refused a timer, and may have to be rung.
    pub rings: AtomicBool,
    /// The stop that it is to make: the signal, and above it the count of SIGCONT that voids it. 0: none.
    pub stop: AtomicU64,
    /// Stop signals that it lets through.
    pub simple_stops: AtomicU64,
}

impl Service {
    /// That of the process `pid`, which has not begun.
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
            rings: AtomicBool::new(false),
            stop: AtomicU64::new(0),
            simple_stops: AtomicU64::new(0),
        }
    }

    /// Its host thread's id; 0 if it could not be started.
    pub fn tid(&self) -> i32 {
        self.tid.load(Relaxed) as i32
    }

    /// The host has refused it.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.missing.load(Relaxed)
    }

    /// There is none because none is needed yet.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.alone.load(Relaxed)
    }

    /// Calls it; false if there is none yet.
    pub fn call(&self) -> bool {
        let tid = self.tid();
        if tid != 0 && os::queue(self.pid, tid, CALL, os::COOKIE) != 0 {
            self.called.store(true, SeqCst);
            os::send(self.pid, tid, CALL_NO_ROOM);
        }
        tid != 0
    }

    /// Has it watch the CPUs: threads are queued, or somebody waits in the host and keeps its CPU meanwhile.
    #[cold]
    pub fn watch(&self) {
        if !self.watches.swap(true, SeqCst) && !self.call() {
            // No service thread yet: the next tick asks again.
            self.watches.store(false, SeqCst);
        }
    }
}
