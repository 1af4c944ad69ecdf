//! Whether the carrier of an idle CPU polls for events before it sleeps.
//!
//! Many clients that send at the same time are answered faster than they send. A carrier that slept between two
//! requests would be woken for each. The client pays for the wake-up, and the host often runs the carrier on the
//! client's CPU, because it expects the writer to a socket to wait for the answer (`select_task_rq_fair` with
//! `WF_SYNC`). So the carrier polls for [`SPAN`] and yields its host CPU between two polls. A client that runs there
//! sends more meanwhile, and one poll finds all its requests.
//!
//! **It polls only while that pays.** It begins when most sleeps are shorter than the span. It stops when it finds
//! nothing, or when another program computes on its host CPU: yielding to that program takes long and brings few
//! events, whereas a carrier that sleeps is woken at once. Each time it stops for such a program, it needs more short
//! sleeps to begin again; each poll that pays cancels one of them.
//!
//! All words are hints: of two concurrent updates, one may be lost.

use ids::Nanos;
use sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// How long a carrier polls.
pub(crate) const SPAN: Nanos = Nanos::from_micros(40);
/// About how long another program keeps the host CPU when a carrier yields to it: its slice.
pub(crate) const HOST_SLICE: Nanos = Nanos::from_millis(4);
/// If a poll takes longer than this, other programs have run, not just a client or another carrier.
const LONG: Nanos = Nanos::from_millis(1);
/// The number of successive polls without events after which polling stops.
const VAIN_MAX: u32 = 4;
/// The number of short sleeps after which polling begins. Each longer sleep takes back two of them.
const SLEEPS_MIN: u32 = 16;
/// The most short sleeps required beyond these.
const MORE_MAX: u32 = 1 << 10;

/// Shared by the carriers of a process.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    /// Whether carriers poll.
    polls: AtomicBool,
    /// Successive polls without events.
    vain: AtomicU32,
    /// Short sleeps so far.
    short: AtomicU32,
    /// How many short sleeps more than [`SLEEPS_MIN`] are required.
    more: AtomicU32,
    /// Events that idle CPUs have found. Wraps.
    events: AtomicU32,
}

impl Polling {
    /// Whether a carrier polls before it sleeps.
    pub(crate) fn pays(&self) -> bool {
        self.polls.load(Relaxed)
    }

    /// A carrier that did not poll has slept in the poller for `span` until there were events.
    pub(crate) fn slept(&self, span: Nanos) {
        if self.pays() {
            return;
        }
        let short = self.short.load(Relaxed);
        let short = if span < SPAN { short + 1 } else { short.saturating_sub(2) };
        let begins = short >= SLEEPS_MIN + self.more.load(Relaxed);
        self.short.store(if begins { 0 } else { short }, Relaxed);
        if begins {
            self.vain.store(0, Relaxed);
            self.polls.store(true, Relaxed);
        }
    }

    /// How many events idle CPUs have found so far.
    pub(crate) fn events(&self) -> u32 {
        self.events.load(Relaxed)
    }

    /// Counts events that an idle CPU has found.
    pub(crate) fn add_events(&self, found: usize) {
        self.events.fetch_add(found as u32, Relaxed);
    }

    /// A carrier has polled for `span` and has found events, or `none`. `before` is the count of events when it began.
    pub(crate) fn polled(&self, span: Nanos, none: bool, before: u32) {
        let vain = if none { self.vain.load(Relaxed) + 1 } else { 0 };
        self.vain.store(vain, Relaxed);
        if self.is_slow(span, before) {
            self.give_way();
        } else if vain >= VAIN_MAX {
            self.polls.store(false, Relaxed);
        } else if !none {
            self.more.store(self.more.load(Relaxed).saturating_sub(1), Relaxed);
        }
    }

    /// The poll was ended by something other than an event.
    pub(crate) fn interrupted(&self, span: Nanos, before: u32) {
        if self.is_slow(span, before) {
            self.give_way();
        }
    }

    /// Whether other programs have run for long while fewer than one event per span arrived: a carrier that sleeps
    /// would have been woken for it at once.
    fn is_slow(&self, span: Nanos, before: u32) -> bool {
        let come = self.events().wrapping_sub(before);
        span > LONG && span.0 > u64::from(come) * SPAN.0
    }

    /// Stops polling, because another program has the host CPU.
    fn give_way(&self) {
        self.polls.store(false, Relaxed);
        self.more.store((2 * self.more.load(Relaxed) + SLEEPS_MIN).min(MORE_MAX), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_micros(10);

    /// One poll that ends with so many events.
    fn poll(polling: &Polling, span: Nanos, found: usize) {
        let before = polling.events();
        polling.add_events(found);
        polling.polled(span, found == 0, before);
    }

    /// How many short sleeps come before it polls.
    fn sleeps_until_it_polls(polling: &Polling) -> u32 {
        let sleeps = (0..100_000).find(|_| {
            let pays = polling.pays();
            polling.slept(SHORT);
            pays
        });
        sleeps.expect("it polls at last")
    }

    #[test]
    fn it_polls_for_as_long_as_it_finds_something() {
        let polling = Polling::default();
        assert_eq!(sleeps_until_it_polls(&polling), 16);
        for _ in 0..1_000 {
            (1..VAIN_MAX).for_each(|_| poll(&polling, SPAN, 0));
            poll(&polling, SHORT, 1);
            poll(&polling, Nanos::from_millis(2), 60);
            assert!(polling.pays());
        }
        (0..VAIN_MAX).for_each(|_| poll(&polling, SPAN, 0));
        assert!(!polling.pays());
    }

    /// The other program leaves the carrier its host CPU each 3 ms, in which 20 events come.
    #[test]
    fn beside_another_program_it_polls_less_and_less_often() {
        let polling = Polling::default();
        let mut needed = 0;
        for _ in 0..20 {
            let sleeps = sleeps_until_it_polls(&polling);
            assert!(sleeps > needed || sleeps >= MORE_MAX, "{sleeps} after {needed}");
            needed = sleeps;
            poll(&polling, SHORT, 1);
            poll(&polling, Nanos::from_millis(3), 20);
        }
    }

    #[test]
    fn a_kick_after_another_program_has_run_stops_it() {
        let polling = Polling::default();
        sleeps_until_it_polls(&polling);
        polling.interrupted(SHORT, 0);
        // Another carrier has found what came.
        let before = polling.events();
        polling.add_events(100);
        polling.interrupted(Nanos::from_millis(3), before);
        assert!(polling.pays());
        polling.interrupted(Nanos::from_millis(3), polling.events());
        assert!(!polling.pays());
    }

    #[test]
    fn polls_that_pay_make_up_for_one_that_did_not() {
        let polling = Polling::default();
        sleeps_until_it_polls(&polling);
        poll(&polling, Nanos::from_millis(3), 1);
        assert_eq!(sleeps_until_it_polls(&polling), 32);
        (0..16).for_each(|_| poll(&polling, SHORT, 1));
        poll(&polling, Nanos::from_millis(3), 1);
        assert_eq!(sleeps_until_it_polls(&polling), 32);
    }

    #[test]
    fn long_sleeps_do_not_ask_for_it() {
        let polling = Polling::default();
        (0..1_000).for_each(|_| polling.slept(Nanos::from_millis(1)));
        assert!(!polling.pays());
    }
}
