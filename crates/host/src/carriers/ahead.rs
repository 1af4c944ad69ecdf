//! Wakes CPUs shortly before a real-time thread's sleep ends.
//!
//! An idle processor comes back late: from a deep sleep by up to 0.2 ms, and in a virtual machine, when its host
//! schedules it again, by 0.1 to 3.5 ms. A real-time thread that sleeps until a time is late by as much, and so is
//! each thread that it wakes on other CPUs, in the order in which the processors happen to come back. So the carrier
//! of an idle CPU whose next timeout belongs to a real-time thread sleeps until a little before it, its *lead*, and
//! wakes the carriers of the idle CPUs that had real-time threads last. They poll until the time has come, and for
//! 0.3 ms after it.
//!
//! The lead is twice the worst recent wake-up delay, decaying slowly: at least 0.5 ms, at most what `--ahead` says,
//! and at most a sixteenth of the rest of the sleep, which bounds its cost in CPU time.
//!
//! All words here are hints. A carrier that is woken early or late by one of them still checks the run queue and the
//! time.

use crate::carriers::seat::{Seat, Seats};
use crate::carriers::table::Carriers;
use ids::{CpuId, Nanos};
use kernel::{Kernel, Machine};
use sync::atomic::{AtomicU64, Ordering::*};

/// The longest lead unless told otherwise.
pub const MOST: Nanos = Nanos::from_millis(4);
/// The shortest one, where the sleep is long enough for it.
const LEAST: u64 = 500_000;
/// How long carriers go on looking around when the time has come: the thread wakes others then.
const SLACK: u64 = 300_000;
/// The assumed wake-up delay before any has been measured.
const LATE_AT_FIRST: u64 = 1_000_000;
/// A wake-up forgets this part of how late earlier ones were.
const FORGETS: u64 = 64;

/// Shared by the CPUs of the process.
#[derive(Debug)]
pub struct Ahead {
    /// The time until which the carriers that were called look around.
    until: AtomicU64,
    /// How late the host wakes carriers, at worst and lately, nanoseconds.
    late: AtomicU64,
    /// The longest lead; 0: nobody wakes early.
    most: AtomicU64,
    /// How often a carrier was to wake up early, and woke up.
    times: AtomicU64,
    /// How long carriers looked around for it, nanoseconds.
    looked: AtomicU64,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead {
            until: AtomicU64::new(0),
            late: AtomicU64::new(LATE_AT_FIRST),
            most: AtomicU64::new(MOST.0),
            times: AtomicU64::new(0),
            looked: AtomicU64::new(0),
        }
    }
}

impl Ahead {
    /// Sets the longest lead; zero: nobody wakes early.
    pub fn set_most(&self, most: Nanos) {
        self.most.store(most.0, Relaxed);
    }

    /// A forked child begins with what its parent was told and has learned.
    pub(crate) fn for_child(&self) -> Ahead {
        let [most, late] = [&self.most, &self.late].map(|word| AtomicU64::new(word.load(Relaxed)));
        Ahead { most, late, ..Ahead::default() }
    }

    /// How often a carrier was woken early, and how long carriers looked around for it.
    pub fn count(&self) -> (u64, Nanos) {
        (self.times.load(Relaxed), Nanos(self.looked.load(Relaxed)))
    }

    /// How long before its end a sleep of this length is to end.
    fn lead(&self, sleep: Nanos) -> Nanos {
        let late = self.late.load(Relaxed).saturating_mul(2);
        Nanos(late.max(LEAST).min(self.most.load(Relaxed)).min(sleep.0 / 16))
    }

    /// Records that a carrier which slept until a time was woken this much later.
    fn note(&self, late: Nanos) {
        // Two concurrent updates lose one, which only makes the estimate a little worse.
        let known = self.late.load(Relaxed);
        self.late.store(late.0.max(known - known / FORGETS), Relaxed);
    }

    /// The time until which the carrier of `cpu`, which is idle until `next`, looks around.
    fn looks_until(&self, k: &Kernel<impl Machine>, cpu: CpuId, next: Option<Nanos>) -> Option<Nanos> {
        let until = Nanos(self.until.load(Relaxed));
        let concerns = || k.sched.was_urgent(cpu) || next.is_some_and(|at| at <= until);
        (until != Nanos::ZERO && concerns()).then_some(until)
    }

    /// The time at which the carrier of `cpu`, which is idle and sleeps until `next`, wakes up for it.
    pub(crate) fn wake_up_at(&self, k: &Kernel<impl Machine>, cpu: CpuId, next: Nanos) -> Nanos {
        let lead = self.lead(next.since(k.now()));
        if lead != Nanos::ZERO && k.ends_urgent_sleep(cpu, next) { next - lead } else { next }
    }

    /// The carrier of `cpu`, which was to wake up at `at` for what happens at `next`, has woken up at `now`. Returns
    /// whether `next` is still to come; if so, carriers of other CPUs that may be needed are woken.
    pub(crate) fn woke(
        &self,
        k: &Kernel<impl Machine>,
        (seats, all): (&Seats, &Carriers),
        cpu: CpuId,
        [at, now, next]: [Nanos; 3],
    ) -> bool {
        self.note(now.since(at));
        self.times.fetch_add(1, Relaxed);
        if now >= next {
            return false;
        }
        self.until.fetch_max(next.0 + SLACK, SeqCst);
        let others = (0..k.config().cpus as u16).map(CpuId).filter(move |&c| c != cpu && k.sched.was_urgent(c));
        // More than the host runs at the same time would wait for each other there.
        for other in others.take(k.config().at_once.max(1) - 1) {
            if let (Seat::Parked, carrier) = seats.look(other) {
                // The carrier there checks the time and the run queue.
                all.get(carrier).wake();
            }
        }
        true
    }

    /// Looks around, on `cpu`, which is idle until `next`, for as long as somebody is expected.
    pub(crate) fn look<T>(
        &self,
        k: &Kernel<impl Machine>,
        cpu: CpuId,
        next: Option<Nanos>,
        mut once: impl FnMut() -> Option<T>,
    ) -> Seen<T> {
        let Some(until) = self.looks_until(k, cpu, next) else { return Seen::Nothing };
        let begin = k.now();
        let mut now = begin;
        let seen = loop {
            if next.is_some_and(|at| now >= at) {
                break Seen::Due;
            }
            // A CPU that gets no thread would keep a host processor from one that has.
            if now >= until || k.sched.is_crowded() {
                break Seen::Nothing;
            }
            if let Some(found) = once() {
                break Seen::Found(found);
            }
            now = k.now();
        };
        self.looked.fetch_add(now.since(begin).0, Relaxed);
        seen
    }
}

/// The end of a look ahead.
pub(crate) enum Seen<T> {
    /// No thread is expected.
    Nothing,
    /// The time until which the CPU was idle has come.
    Due,
    /// The CPU has something to do.
    Found(T),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(ahead: &Ahead, sleep_us: u64) -> u64 {
        ahead.lead(Nanos::from_micros(sleep_us)).0 / 1000
    }

    #[test]
    fn the_lead_is_twice_what_the_host_is_late_within_bounds() {
        let ahead = Ahead::default();
        assert_eq!([lead(&ahead, 100_000), lead(&ahead, 16_000), lead(&ahead, 1_000)], [2_000, 1_000, 62]);
        ahead.note(Nanos::from_micros(1_500));
        assert_eq!(lead(&ahead, 100_000), 3_000);
        ahead.note(Nanos::from_millis(9));
        assert_eq!(lead(&ahead, 100_000), 4_000, "no more than the most");
        ahead.set_most(Nanos::from_micros(700));
        assert_eq!(lead(&ahead, 100_000), 700);
        ahead.set_most(Nanos::ZERO);
        assert_eq!(lead(&ahead, 100_000), 0);
    }

    #[test]
    fn lateness_is_forgotten_slowly_and_not_below_the_least() {
        let ahead = Ahead::default();
        (0..32).for_each(|_| ahead.note(Nanos::from_micros(5)));
        assert!((1_150..1_250).contains(&lead(&ahead, 100_000)), "{}", lead(&ahead, 100_000));
        (0..500).for_each(|_| ahead.note(Nanos::from_micros(5)));
        assert_eq!(lead(&ahead, 100_000), 500);
    }
}
