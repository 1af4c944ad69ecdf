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

    /// For a scheduler that counts what its threads run: the thread has consumed `exec` by now. Then a switch writes
    /// nothing here, and the clock must be brought up to date before it is used; it does not advance between such
    /// calls.
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

    /// Accounts all unclassified time as user or as system time, and returns its length.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_counted_elsewhere_is_followed() {
        let t = ThreadCputime::new();
        t.follow(Nanos(700));
        assert_eq!((t.clock(Nanos(5)), t.is_running()), (Nanos(700), false));
        t.follow(Nanos(600));
        assert_eq!((t.clock(Nanos(9)), t.sample(Nanos(9)).exec), (Nanos(700), Nanos(600)), "a reading stands still");
        assert_eq!((t.raise(Nanos(650)), t.raise(Nanos(800)), t.shown()), (Nanos(700), Nanos(800), Nanos(800)));
        t.start(Nanos(10));
        assert!(t.is_running());
        t.reset();
        assert_eq!((t.clock(Nanos(20)), t.shown(), t.is_running()), (Nanos::ZERO, Nanos::ZERO, false));
    }

    #[test]
    fn what_no_tick_has_told_apart_is_told_apart_once() {
        let t = ThreadCputime::new();
        t.follow(Nanos(100));
        assert_eq!(t.attribute_rest(Nanos(0), Mode::User), Nanos(100));
        assert_eq!(t.attribute_rest(Nanos(0), Mode::System), Nanos::ZERO);
        t.follow(Nanos(130));
        assert_eq!(t.attribute_rest(Nanos(0), Mode::System), Nanos(30));
        assert_eq!(t.sample(Nanos(0)), Cputime { utime: Nanos(100), stime: Nanos(30), exec: Nanos(130) });
    }
}
