//! The earliest expiry on each of the three clocks, known without a lock.
//!
//! | value | meaning |
//! |---|---|
//! | `u64::MAX` | nothing is armed |
//! | 0 | something changed: look again at the next tick |
//! | else | no event before this reading of the clock |
//!
//! Written under the process lock only; read by every tick.

use crate::cpu::{CpuClock, Cputime};
use ids::Nanos;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The cache of next events (`posix_cputimer_base::nextevt`) of a thread or a process.
#[derive(Debug)]
pub struct ExpiryCache([AtomicU64; 3]);

impl Default for ExpiryCache {
    fn default() -> ExpiryCache {
        ExpiryCache::new()
    }
}

impl ExpiryCache {
    /// Nothing is armed.
    pub const fn new() -> ExpiryCache {
        ExpiryCache([const { AtomicU64::new(u64::MAX) }; 3])
    }

    /// The next event on `clock`.
    #[inline(always)]
    pub fn next(&self, clock: CpuClock) -> Nanos {
        Nanos(self.0[clock.index()].load(Relaxed))
    }

    /// Whether nothing at all is armed.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|next| next.load(Relaxed) == u64::MAX)
    }

    /// Whether an event is due at these readings.
    #[inline(always)]
    pub fn is_due(&self, at: &Cputime) -> bool {
        CpuClock::ALL.iter().any(|&clock| at.of(clock) >= self.next(clock))
    }

    /// Notes an event at `at`, which may be earlier than all known ones.
    pub fn lower(&self, clock: CpuClock, at: Nanos) {
        if at < self.next(clock) {
            self.set(clock, at);
        }
    }

    /// The next event is at `at`.
    pub fn set(&self, clock: CpuClock, at: Nanos) {
        self.0[clock.index()].store(at.0, Relaxed);
    }

    /// An event was removed: the next tick recomputes, and may find nothing left.
    pub fn recheck(&self, clock: CpuClock) {
        self.set(clock, Nanos::ZERO);
    }

    /// Nothing is armed any more.
    pub fn clear(&self) {
        CpuClock::ALL.iter().for_each(|&clock| self.set(clock, Nanos::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(utime: u64, stime: u64, exec: u64) -> Cputime {
        Cputime { utime: Nanos(utime), stime: Nanos(stime), exec: Nanos(exec) }
    }

    #[test]
    fn an_empty_cache_is_never_due() {
        let c = ExpiryCache::new();
        assert!(c.is_empty());
        assert!(!c.is_due(&at(1 << 60, 1 << 60, 1 << 61)));
    }

    #[test]
    fn due_at_equality_on_any_clock() {
        for (clock, sample) in
            [(CpuClock::Prof, at(0, 0, 100)), (CpuClock::Virt, at(100, 0, 0)), (CpuClock::Sched, at(0, 0, 100))]
        {
            let c = ExpiryCache::new();
            c.lower(clock, Nanos(100));
            assert!(!c.is_empty() && c.is_due(&sample));
            c.set(clock, Nanos(101));
            assert!(!c.is_due(&sample));
            c.recheck(clock);
            assert!(c.is_due(&at(0, 0, 0)), "a recheck is due at once");
            c.clear();
            assert!(c.is_empty());
        }
    }

    #[test]
    fn lower_only_lowers() {
        let c = ExpiryCache::new();
        c.lower(CpuClock::Prof, Nanos(5));
        c.lower(CpuClock::Prof, Nanos(9));
        assert_eq!(c.next(CpuClock::Prof), Nanos(5));
    }
}
