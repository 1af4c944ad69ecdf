use crate::cpu::{Cputime, ExpiryCache, Floor, Mode, Stopwatch};
use ids::Nanos;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

/// CPU time of one thread. Written by the CPU that runs the thread, read by anyone.
#[derive(Debug, Default)]
pub struct ThreadCputime {
    clock: Stopwatch,
    utime: AtomicU64,
    stime: AtomicU64,
    floor: Floor,
    /// The thread's own CPU timers: the earliest on each clock.
    pub expiry: ExpiryCache,
}

impl ThreadCputime {
    /// A thread that has not run yet.
    pub const fn new() -> ThreadCputime {
        ThreadCputime {
            clock: Stopwatch::new(),
            utime: AtomicU64::new(0),
            stime: AtomicU64::new(0),
            floor: Floor::new(),
            expiry: ExpiryCache::new(),
        }
    }

    /// CLOCK_THREAD_CPUTIME_ID: precise, and never less than anyone has read before.
    #[inline(always)]
    pub fn clock(&self, now: Nanos) -> Nanos {
        self.floor.raise(self.clock.read(now))
    }

    /// The three readings for checks and views, without raising the clock's floor.
    #[inline(always)]
    pub fn sample(&self, now: Nanos) -> Cputime {
        Cputime {
            utime: Nanos(self.utime.load(Relaxed)),
            stime: Nanos(self.stime.load(Relaxed)),
            exec: self.clock.read(now),
        }
    }

    /// Whether the clock runs.
    pub fn is_running(&self) -> bool {
        self.clock.is_running()
    }

    /// For a scheduler that counts what its threads run: the thread has consumed `exec` by now.
    /// Then nothing is written here at a switch, and the clock is brought up to date before
    /// it is used; it never runs by itself.
    #[inline]
    pub fn follow(&self, exec: Nanos) {
        self.clock.set(exec);
    }

    /// A reading of a clock that is counted elsewhere, never less than anyone has read before.
    #[inline]
    pub fn raise(&self, exec: Nanos) -> Nanos {
        self.floor.raise(exec)
    }

    /// The most that anyone has read.
    pub fn shown(&self) -> Nanos {
        self.floor.get()
    }

    #[inline(always)]
    pub(super) fn start(&self, now: Nanos) {
        self.clock.start(now);
    }

    #[inline(always)]
    pub(super) fn stop(&self, now: Nanos) {
        self.clock.stop(now);
    }

    pub(super) fn add(&self, span: Nanos, mode: Mode) {
        self.clock.add(span);
        self.attribute(span, mode);
    }

    pub(super) fn take_back(&self, span: Nanos, now: Nanos) -> Nanos {
        let before = self.clock.read(now);
        self.clock.take_back(span, now);
        before - self.clock.read(now)
    }

    /// Calls everything that has not been told apart yet user or system time, and says
    /// how much that was.
    #[inline]
    pub(super) fn attribute_rest(&self, now: Nanos, mode: Mode) -> Nanos {
        let t = self.sample(now);
        let rest = t.exec - (t.utime + t.stime);
        self.attribute(rest, mode);
        rest
    }

    #[inline(always)]
    pub(super) fn attribute(&self, span: Nanos, mode: Mode) {
        let part = match mode {
            Mode::User => &self.utime,
            Mode::System => &self.stime,
        };
        part.store(part.load(Relaxed) + span.0, Relaxed);
    }

    /// Makes the slot ready for another thread.
    pub fn reset(&self) {
        self.clock.reset();
        self.utime.store(0, Relaxed);
        self.stime.store(0, Relaxed);
        self.floor.reset();
        self.expiry.clear();
    }
}
