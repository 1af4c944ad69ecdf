//! A thread's CPU time, apart from what the scheduler counts.

use super::usage::ShownUsage;
use ids::Nanos;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::*};
use time::cpu::ThreadCputime;

/// No reading.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// CPU time of a thread, apart from what the scheduler counts. Written by the CPU that runs it.
#[derive(Debug)]
pub(crate) struct ThreadTime {
    pub(super) cpu: ThreadCputime,
    /// Added to the scheduler's count. A carrier tied to this thread also changes it when it hands its CPU on.
    pub(super) extra: AtomicI64,
    /// How far its clock, as last read, is ahead of its consumption. Written like `extra`.
    pub(super) ahead: AtomicU64,
    /// When its host call began: by scheduling time if it keeps its CPU, otherwise by the carrier's CPU time.
    pub(super) since: AtomicU64,
    /// CPU time of its host call that is not charged yet. Written by the carrier that made the call.
    pub(super) owed: AtomicU64,
    pub(super) since_wake: SinceWake,
    pub(super) shown: ShownUsage,
    /// The thread's place in a queue of sleepers. Written under the lock of `Timers`.
    pub(super) place: AtomicU32,
    /// Which queue that is.
    pub(super) sleeps_on: AtomicU64,
    /// The thread's consumption at its last sample.
    pub(crate) sampled: AtomicU64,
    /// Sleepers or timers may wait on the thread's time. Written under the lock of `Timers`.
    pub(super) has_queues: AtomicBool,
}

impl Default for ThreadTime {
    fn default() -> ThreadTime {
        ThreadTime {
            cpu: ThreadCputime::new(),
            extra: AtomicI64::new(0),
            ahead: AtomicU64::new(0),
            since: AtomicU64::new(UNKNOWN),
            owed: AtomicU64::new(0),
            since_wake: SinceWake::default(),
            shown: ShownUsage::default(),
            place: AtomicU32::new(time::Heap::ABSENT),
            sleeps_on: AtomicU64::new(0),
            sampled: AtomicU64::new(0),
            has_queues: AtomicBool::new(false),
        }
    }
}

impl ThreadTime {
    pub(crate) fn reset(&self) {
        self.cpu.reset();
        self.extra.store(0, Relaxed);
        self.ahead.store(0, Relaxed);
        self.since.store(UNKNOWN, Relaxed);
        self.owed.store(0, Relaxed);
        self.sampled.store(0, Relaxed);
        self.since_wake.forget();
        self.shown.reset();
    }

    /// Records the CPU time of its host call's carrier at the start of the call; `None` if unknown.
    pub(crate) fn call_began_at(&self, host: Option<Nanos>) {
        self.since.store(host.map_or(UNKNOWN, |n| n.0), Relaxed);
    }

    pub(super) fn add_extra(&self, span: Nanos) {
        self.extra.fetch_add(span.0 as i64, Relaxed);
    }
}

/// The part of `extra` since a real-time thread woke up, for RLIMIT_RTTIME. Written at ticks by the thread's CPU.
#[derive(Debug)]
pub(super) struct SinceWake {
    /// The scheduler's count of the thread when it woke up.
    woke_at: AtomicU64,
    /// `extra` at its last tick before that.
    at_wake: AtomicI64,
    /// `extra` at its last tick; MIN: there was none.
    at_tick: AtomicI64,
}

impl Default for SinceWake {
    fn default() -> SinceWake {
        SinceWake { woke_at: AtomicU64::new(UNKNOWN), at_wake: AtomicI64::new(0), at_tick: AtomicI64::new(i64::MIN) }
    }
}

impl SinceWake {
    fn forget(&self) {
        self.woke_at.store(UNKNOWN, Relaxed);
        self.at_tick.store(i64::MIN, Relaxed);
    }

    /// Corrects `run`, the scheduler's count since the thread woke up, when it had run for `woke_at`. `extra` holds all
    /// corrections so far. The host has just been asked, so those since the last tick belong to the time since then.
    pub(super) fn correct(&self, woke_at: Nanos, run: Nanos, extra: i64) -> Nanos {
        let before = self.at_tick.load(Relaxed);
        self.at_tick.store(extra, Relaxed);
        if self.woke_at.load(Relaxed) != woke_at.0 {
            self.woke_at.store(woke_at.0, Relaxed);
            self.at_wake.store(if before == i64::MIN { extra } else { before }, Relaxed);
        }
        Nanos((run.0 as i64).saturating_add(extra - self.at_wake.load(Relaxed)).max(0) as u64)
    }
}
