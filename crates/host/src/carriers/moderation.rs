//! How long the carrier of an idle CPU leaves events alone so that several come together, as network drivers moderate
//! interrupts.
//!
//! Many clients that send at the same time are answered faster than they send. Then each event wakes a carrier that finds one
//! thread to run and sleeps again, and on a busy host each time takes the CPU from the client that would send more. A short
//! rest before the carrier looks makes one wake-up of several.
//!
//! **It is tried, and kept up only while it pays.** After some short sleeps in a row that few events ended, the carrier rests
//! once. If many events have come meanwhile, it goes on so; if not, as where two connections take turns, each further attempt
//! needs twice as many short sleeps.
//!
//! All words are hints: of two carriers that write at once, one is forgotten.

use ids::Nanos;
use sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// How long a carrier rests.
const REST: Nanos = Nanos::from_micros(60);
/// A rest pays if so many events come meanwhile.
const WORTH: usize = 6;
/// Short sleeps before the first attempt, and at most before another.
const SLEEPS_MIN: u32 = 16;
const SLEEPS_MAX: u32 = 1 << 12;

/// Shared by the carriers of a process.
#[derive(Debug, Default)]
pub(crate) struct Moderation {
    /// Carriers rest.
    rests: AtomicBool,
    /// Short sleeps in a row.
    short: AtomicU32,
    /// How many more than [`SLEEPS_MIN`] of them the next attempt needs.
    more: AtomicU32,
}

impl Moderation {
    /// How long a carrier rests before it looks.
    pub(crate) fn rest(&self) -> Option<Nanos> {
        self.rests.load(Relaxed).then_some(REST)
    }

    /// A carrier has slept in the poller for so long, after a rest or not, and found so many events.
    pub(crate) fn note(&self, rested: bool, slept: Nanos, found: usize) {
        let more = self.more.load(Relaxed);
        if rested {
            let pays = found >= WORTH;
            self.rests.store(pays, Relaxed);
            self.more.store(if pays { 0 } else { (2 * more + SLEEPS_MIN).min(SLEEPS_MAX) }, Relaxed);
        } else {
            let is_short = slept < REST && (1..WORTH).contains(&found);
            let short = if is_short { self.short.load(Relaxed) + 1 } else { 0 };
            let tries = short >= SLEEPS_MIN + more;
            self.short.store(if tries { 0 } else { short }, Relaxed);
            if tries {
                self.rests.store(true, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_micros(10);

    /// How many short sleeps with one event come before a rest.
    fn sleeps_until_rest(moderation: &Moderation) -> usize {
        (0..100_000)
            .find(|_| {
                moderation.rest().is_some() || {
                    moderation.note(false, SHORT, 1);
                    false
                }
            })
            .expect("it rests at last")
    }

    #[test]
    fn a_rest_is_kept_up_while_it_pays() {
        let moderation = Moderation::default();
        assert_eq!(sleeps_until_rest(&moderation), 16);
        (0..100).for_each(|_| {
            moderation.note(true, Nanos::ZERO, WORTH);
            assert!(moderation.rest().is_some());
        });
        moderation.note(true, Nanos::ZERO, WORTH - 1);
        assert!(moderation.rest().is_none());
    }

    #[test]
    fn a_rest_that_does_not_pay_is_tried_less_and_less_often() {
        let moderation = Moderation::default();
        let mut needed = 0;
        for _ in 0..20 {
            let sleeps = sleeps_until_rest(&moderation);
            assert!(sleeps > needed || sleeps == (SLEEPS_MIN + SLEEPS_MAX) as usize, "{sleeps} after {needed}");
            needed = sleeps;
            moderation.note(true, SHORT, 1);
        }
    }

    #[test]
    fn neither_long_sleeps_nor_full_ones_ask_for_a_rest() {
        let moderation = Moderation::default();
        for _ in 0..1_000 {
            moderation.note(false, Nanos::from_millis(1), 1);
            moderation.note(false, SHORT, 64);
            moderation.note(false, SHORT, 0);
        }
        assert!(moderation.rest().is_none());
    }
}
