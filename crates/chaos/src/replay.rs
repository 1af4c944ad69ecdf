//! The choices of another run.
//!
//! The host interrupts a thread that computes for long, and when it does so is not repeatable. A thread that was switched away
//! from there is switched away from before its next choice: where it is interrupted, or at that choice if it comes there first.
//! One that was not goes on.

use crate::log::Switch;
use crate::strategy::{Moment, Strategy, Why};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Makes the choices that were written down, and plain ones elsewhere.
#[derive(Debug)]
pub struct Replay {
    /// In the order of (last thread, its count).
    switches: Vec<Switch>,
    /// The next threads after one that spun, by (last thread, its count), in the order of the run.
    spins: BTreeMap<(u32, u32), VecDeque<u32>>,
    /// How often a thread may be found spinning in a row where none did.
    patience: u64,
    found: u64,
}

impl Replay {
    /// Of these switches. A thread that spins where none did runs on so many times: it might only compute.
    #[must_use]
    pub fn new(switches: Vec<Switch>, patience: u64) -> Replay {
        let (spun, mut switches): (Vec<Switch>, Vec<Switch>) = switches.into_iter().partition(|switch| switch.spins);
        switches.sort_unstable_by_key(Switch::key);
        let mut spins = BTreeMap::<_, VecDeque<u32>>::new();
        spun.iter().for_each(|switch| spins.entry(switch.key()).or_default().push_back(switch.to));
        Replay { switches, spins, patience, found: 0 }
    }

    /// Takes the thread that ran after this one spun, if it did.
    fn after_spin(&mut self, last: u32, nth: u32) -> Option<u32> {
        self.spins.get_mut(&(last, nth))?.pop_front()
    }

    /// The thread that ran after this choice.
    fn after_choice(&self, last: u32, nth: u32) -> Option<u32> {
        let found = self.switches.binary_search_by_key(&(last, nth), Switch::key);
        found.ok().map(|at| self.switches[at].to)
    }
}

impl Strategy for Replay {
    fn choose(&mut self, moment: &Moment<'_>) -> u32 {
        let (last, nth) = (moment.last, moment.nth);
        let spins = moment.why == Why::Spins;
        let to = match spins {
            true => self.after_spin(last, nth),
            false => self.after_choice(last, nth).or_else(|| self.after_spin(last, nth.wrapping_sub(1))),
        };
        let may_compute = spins && to.is_none() && self.found < self.patience;
        self.found = if may_compute { self.found + 1 } else { 0 };
        if may_compute {
            return last;
        }
        // A run that has taken another course may not have the thread to offer.
        to.filter(|to| moment.runnable.binary_search(to).is_ok()).unwrap_or_else(|| moment.plain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPUN: Switch = Switch { last: 1, nth: 3, to: 2, spins: true, place: 0 };

    fn choose(replay: &mut Replay, (last, nth): (u32, u32), why: Why) -> u32 {
        replay.choose(&Moment { last, nth, why, runnable: &[0, 1, 2], step: 0, place: 0 })
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
