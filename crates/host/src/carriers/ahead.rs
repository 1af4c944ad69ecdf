//! Wakes CPUs shortly before a real-time thread's sleep ends.
//!
//! An idle processor comes back late: from a deep sleep by up to 0.2 ms, and in a virtual machine, when its host
//! schedules it again, by 0.1 to 3.5 ms. A real-time thread that sleeps until a time is late by as much, and so is each
//! thread that it wakes on other CPUs, in the order in which the processors happen to come back. So if the next timeout
//! of an idle CPU belongs to a real-time thread, its carrier wakes up a little earlier, by the *lead*, and wakes the
//! carriers of the idle CPUs that last had real-time threads. They poll until the time has come, and for 0.3 ms after
//! it.
//!
//! The lead is twice the worst recent wake-up delay, decaying slowly: at least 0.5 ms, at most what `--ahead` says, and
//! at most a sixteenth of the rest of the sleep, which bounds its cost in CPU time.
//!
//! All words here are hints. A carrier that is woken early or late by one of them still checks the run queue and the
//! time.

use crate::carriers::seat::{Seat, Seats};
use crate::carriers::table::Carriers;
use ids::{CpuId, Nanos};
use kernel::{Kernel, Machine};
use sync::atomic::{AtomicU64, Ordering::*};

/// The longest lead by default.
pub const MOST: Nanos = Nanos::from_millis(4);
/// The shortest lead, if the sleep is long enough for it. Nanoseconds.
const LEAST: u64 = 500_000;
/// How long carriers keep polling after the time has come, because the thread wakes others then. Nanoseconds.
const SLACK: u64 = 300_000;
/// The assumed wake-up delay before any has been measured.
const LATE_AT_FIRST: u64 = 1_000_000;
/// The estimate decays by this fraction with each wake-up.
const FORGETS: u64 = 64;

/// Shared by the CPUs of the process.
#[derive(Debug)]
pub struct Ahead {
    /// The time until which woken carriers poll.
    until: AtomicU64,
    /// The worst recent delay of the host's wake-ups, in nanoseconds.
    late: AtomicU64,
    /// The longest lead; 0: disabled.
    most: AtomicU64,
    /// How often a carrier woke up early for a timeout.
    times: AtomicU64,
    /// How long carriers polled because of this, in nanoseconds.
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
    /// Sets the longest lead; zero disables early wake-ups.
    pub fn set_most(&self, most: Nanos) {
        self.most.store(most.0, Relaxed);
    }

    /// A forked child keeps its parent's setting and estimate.
    pub(crate) fn for_child(&self) -> Ahead {
        let [most, late] = [&self.most, &self.late].map(|word| AtomicU64::new(word.load(Relaxed)));
        Ahead { most, late, ..Ahead::default() }
    }

    /// How often a carrier woke up early, and how long carriers polled because of it.
    pub fn count(&self) -> (u64, Nanos) {
        (self.times.load(Relaxed), Nanos(self.looked.load(Relaxed)))
    }

    /// The lead for a sleep of this length.
    fn lead(&self, sleep: Nanos) -> Nanos {
        let late = self.late.load(Relaxed).saturating_mul(2);
        Nanos(late.max(LEAST).min(self.most.load(Relaxed)).min(sleep.0 / 16))
    }

    /// Records that a carrier was woken this much after the end of its sleep.
    fn note(&self, late: Nanos) {
        // Two concurrent updates lose one, which only makes the estimate slightly worse.
        let known = self.late.load(Relaxed);
        self.late.store(late.0.max(known - known / FORGETS), Relaxed);
    }

    /// The time until which the carrier of `cpu`, which is idle until `next`, polls.
    fn looks_until(&self, k: &Kernel<impl Machine>, cpu: CpuId, next: Option<Nanos>) -> Option<Nanos> {
        let until = Nanos(self.until.load(Relaxed));
        let concerns = || k.sched.was_urgent(cpu) || next.is_some_and(|at| at <= until);
        (until != Nanos::ZERO && concerns()).then_some(until)
    }

    /// The time at which the carrier of `cpu`, which is idle until `next`, must wake up.
    pub(crate) fn wake_up_at(&self, k: &Kernel<impl Machine>, cpu: CpuId, next: Nanos) -> Nanos {
        let lead = self.lead(next.since(k.now()));
        if lead != Nanos::ZERO && k.ends_urgent_sleep(cpu, next) { next - lead } else { next }
    }

    /// The carrier of `cpu`, which was to wake up at `at` for the timeout `next`, has woken up at `now`. Returns
    /// whether `next` is still to come; if so, wakes carriers of other CPUs that the thread may need.
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
        // More carriers than the host runs at once would only wait for each other.
        for other in others.take(k.config().at_once.max(1) - 1) {
            if let (Seat::Parked, carrier) = seats.look(other) {
                // The carrier checks the time and the run queue itself.
                all.get(carrier).wake();
            }
        }
        true
    }

    /// Polls on `cpu`, which is idle until `next`, for as long as a thread is expected.
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
            // On a crowded host, an idle CPU that polls would take a processor from one that has a thread.
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

/// The result of [`Ahead::look`].
pub(crate) enum Seen<T> {
    /// No thread is expected.
    Nothing,
    /// The time `next` has come.
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
