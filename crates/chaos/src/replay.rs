//! Repeats the choices of another run.
//!
//! The host interrupts a thread that computes for long, but not at a repeatable moment. If the first run switched
//! away from a thread that it so interrupted, the repetition switches away from it where it interrupts the thread, or
//! at the thread's next choice if that comes first. If the first run let the thread continue, so does the repetition.

use crate::log::Switch;
use crate::strategy::{Moment, Strategy, Why};
use alloc::vec::Vec;

/// Makes the recorded choices, and plain ones elsewhere.
#[derive(Debug)]
pub struct Replay {
    /// The switches in the order of their moments (at equal moments in the order of the run), and whether each has
    /// been made.
    switches: Vec<(Switch, bool)>,
    /// How often in a row a thread may be found spinning where the first run found none.
    patience: u64,
    found: u64,
}

impl Replay {
    /// Repeats `switches`. A thread that spins where none did in the first run continues `patience` times: it might
    /// only compute.
    #[must_use]
    pub fn new(mut switches: Vec<Switch>, patience: u64) -> Replay {
        switches.sort_by_key(Switch::key);
        Replay { switches: switches.into_iter().map(|switch| (switch, false)).collect(), patience, found: 0 }
    }

    /// The thread that ran next at this moment. If there were several, each call returns the next one.
    fn take(&mut self, last: u32, nth: u32, spins: bool) -> Option<u32> {
        let moment = (last, nth, spins);
        let first = self.switches.partition_point(|(switch, _)| switch.key() < moment);
        let mut at_moment = self.switches[first..].iter_mut().take_while(|(switch, _)| switch.key() == moment);
        let (switch, made) = at_moment.find(|(_, made)| !made)?;
        *made = true;
        Some(switch.to)
    }
}

impl Strategy for Replay {
    fn choose(&mut self, moment: &Moment<'_>) -> u32 {
        let (last, nth) = (moment.last, moment.nth);
        let spins = moment.why == Why::Spins;
        let to = match spins {
            true => self.take(last, nth, true),
            false => self.take(last, nth, false).or_else(|| self.take(last, nth.wrapping_sub(1), true)),
        };
        let may_compute = spins && to.is_none() && self.found < self.patience;
        self.found = if may_compute { self.found + 1 } else { 0 };
        if may_compute {
            return last;
        }
        // A run that has diverged may not have offered this thread.
        to.filter(|to| moment.runnable.binary_search(to).is_ok()).unwrap_or_else(|| moment.plain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPUN: Switch = Switch { last: 1, nth: 3, to: 2, spins: true, place: 0 };

    fn choose(replay: &mut Replay, (last, nth): (u32, u32), why: Why) -> u32 {
        replay.choose(&Moment { last, nth, why, runnable: &[0, 1, 2], step: 0, place: 0, meets: false })
    }

    #[test]
    fn a_thread_that_spun_is_switched_away_from_where_it_is_found() {
        let mut replay = Replay::new(Vec::from([SPUN, SPUN]), 5);
        assert_eq!(choose(&mut replay, (1, 2), Why::Spins), 1, "it did so later");
        assert_eq!(choose(&mut replay, (1, 3), Why::Spins), 2);
        assert_eq!(choose(&mut replay, (1, 3), Why::Spins), 2);
        assert_eq!(choose(&mut replay, (1, 3), Why::Spins), 1, "it did so twice");
    }

    #[test]
    fn a_thread_that_spun_is_switched_away_from_at_its_next_choice_at_the_latest() {
        let mut replay = Replay::new(Vec::from([SPUN]), 5);
        assert_eq!(choose(&mut replay, (1, 3), Why::Point), 1);
        assert_eq!(choose(&mut replay, (1, 4), Why::Point), 2);
        assert_eq!(choose(&mut replay, (1, 4), Why::Point), 1);
    }

    #[test]
    fn a_thread_that_did_not_spin_goes_on_as_long_as_there_is_patience() {
        let mut replay = Replay::new(Vec::new(), 5);
        for _ in 0..2 {
            (0..5).for_each(|_| assert_eq!(choose(&mut replay, (1, 3), Why::Spins), 1));
            assert_eq!(choose(&mut replay, (1, 3), Why::Spins), 2);
        }
    }
}
