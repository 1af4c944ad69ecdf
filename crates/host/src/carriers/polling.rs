//! Whether the carrier of an idle CPU polls for events before it sleeps.
//!
//! Many clients that send at the same time are answered faster than they send. A carrier that slept between two requests would
//! be woken for each: the client pays for the wake-up, and the host often runs the carrier on the client's CPU, because whoever
//! writes to a socket is expected to wait for the answer (`select_task_rq_fair` with `WF_SYNC`). So the carrier looks again
//! for [`SPAN`], and between two looks lets others run on its host CPU. A client that runs there sends more meanwhile, and
//! all its requests are found by one look.
//!
//! **It polls only while that pays.** It begins after some sleeps in a row that were shorter than the span. It stops when it
//! finds nothing, and when another program computes on its host CPU: to let that run takes long and brings few events,
//! where a carrier that sleeps is woken at once. Each time that it stops, it needs more short sleeps to begin again; each
//! poll that pays makes up for one of them.
//!
//! All words are hints: of two carriers that write at once, one is forgotten.

use ids::Nanos;
use sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// For how long a carrier polls.
pub(crate) const SPAN: Nanos = Nanos::from_micros(40);
/// Others have run for long between two looks.
const LONG: Nanos = Nanos::from_micros(200);
/// Polls in vain, in a row, after which it stops.
const VAIN_MAX: u32 = 4;
/// Short sleeps in a row before it begins, and at most.
const SLEEPS_MIN: u32 = 16;
const SLEEPS_MAX: u32 = 1 << 12;

/// Shared by the carriers of a process.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    /// Carriers poll.
    polls: AtomicBool,
    /// Polls in vain, in a row.
    vain: AtomicU32,
    /// Short sleeps in a row.
    short: AtomicU32,
    /// How many more than [`SLEEPS_MIN`] of them it needs to begin.
    more: AtomicU32,
}

impl Polling {
    /// Whether a carrier polls before it sleeps.
    pub(crate) fn pays(&self) -> bool {
        self.polls.load(Relaxed)
    }

    /// A carrier that did not poll has slept in the poller for so long.
    pub(crate) fn slept(&self, span: Nanos) {
        if self.pays() {
            return;
        }
        let short = if span < SPAN { self.short.load(Relaxed) + 1 } else { 0 };
        let begins = short >= SLEEPS_MIN + self.more.load(Relaxed);
        self.short.store(if begins { 0 } else { short }, Relaxed);
        if begins {
            self.vain.store(0, Relaxed);
            self.polls.store(true, Relaxed);
        }
    }

    /// A carrier has polled for so long and found so many events.
    pub(crate) fn polled(&self, span: Nanos, found: usize) {
        let more = self.more.load(Relaxed);
        let vain = if found > 0 { 0 } else { self.vain.load(Relaxed) + 1 };
        self.vain.store(vain, Relaxed);
        // Had the carrier slept, it would have been woken for fewer than one event a span.
        let is_slow = span > LONG && span.0 > found as u64 * SPAN.0;
        if is_slow || vain >= VAIN_MAX {
            self.polls.store(false, Relaxed);
            self.more.store((2 * more + SLEEPS_MIN).min(SLEEPS_MAX), Relaxed);
        } else if found > 0 {
            self.more.store(more.saturating_sub(1), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_micros(10);

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
            (1..VAIN_MAX).for_each(|_| polling.polled(SPAN, 0));
            polling.polled(SHORT, 1);
            polling.polled(Nanos::from_millis(2), 60);
            assert!(polling.pays());
        }
        (0..VAIN_MAX).for_each(|_| polling.polled(SPAN, 0));
        assert!(!polling.pays());
    }

    /// The other program leaves the carrier its host CPU each 3 ms, in which 20 events come.
    #[test]
    fn beside_another_program_it_polls_less_and_less_often() {
        let polling = Polling::default();
        let mut needed = 0;
        for _ in 0..20 {
            let sleeps = sleeps_until_it_polls(&polling);
            assert!(sleeps > needed || sleeps >= SLEEPS_MAX, "{sleeps} after {needed}");
            needed = sleeps;
            polling.polled(SHORT, 1);
            polling.polled(Nanos::from_millis(3), 20);
        }
    }

    #[test]
    fn polls_that_pay_make_up_for_one_that_did_not() {
        let polling = Polling::default();
        sleeps_until_it_polls(&polling);
        polling.polled(Nanos::from_millis(3), 1);
        assert_eq!(sleeps_until_it_polls(&polling), 32);
        (0..16).for_each(|_| polling.polled(SHORT, 1));
        polling.polled(Nanos::from_millis(3), 1);
        assert_eq!(sleeps_until_it_polls(&polling), 32);
    }

    #[test]
    fn long_sleeps_do_not_ask_for_it() {
        let polling = Polling::default();
        (0..1_000).for_each(|_| polling.slept(Nanos::from_millis(1)));
        assert!(!polling.pays());
    }
}
