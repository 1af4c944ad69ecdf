//! All schedules that differ from the plain one in at most a given number of choices, those with the fewest first.
//!
//! This is delay bounding (Emmi, Qadeer and Rakamarić, POPL 2011): the plain schedule is deterministic, each
//! [`Switch`] deviates from it once, and most bugs need few. Each run reports the switches that it could have made
//! after its own last one ([`Log::could`](crate::Log::could)); each of these, appended to its own, is a schedule of the
//! next level. So no schedule is tried twice. Within a level the order is random, because neighbouring schedules tend
//! to behave alike.

use crate::log::Switch;
use crate::rng::Rng;
use alloc::vec::Vec;

/// The search of this module.
#[derive(Debug)]
pub struct Search {
    bound: usize,
    rng: Rng,
    level: Level,
    next: Level,
    /// The number of schedules that are being tried.
    running: usize,
    begun: bool,
    is_whole: bool,
}

/// Schedules with the same number of switches.
#[derive(Debug, Default)]
struct Level {
    begins: Vec<Begin>,
    /// Those not tried yet: indices into `begins` and into its `ends`.
    untried: Vec<(u32, u32)>,
}

/// Schedules that differ only in their last switch.
#[derive(Debug)]
struct Begin {
    switches: Vec<Switch>,
    ends: Vec<Switch>,
}

impl Search {
    /// The largest number of schedules of one level that are kept, which take 48 MiB.
    const KEPT_MAX: usize = 1 << 21;

    /// A search of all schedules with at most `bound` switches.
    #[must_use]
    pub fn new(bound: u32, seed: u64) -> Search {
        let (level, next) = (Level::default(), Level::default());
        Search { bound: bound as usize, rng: Rng::new(seed), level, next, running: 0, begun: false, is_whole: true }
    }

    /// The switches of the schedule to try next. `None` if the search is exhausted or needs the result of a running
    /// one first.
    pub fn take_one(&mut self) -> Option<Vec<Switch>> {
        if self.level.untried.is_empty() && self.running == 0 {
            self.level = core::mem::take(&mut self.next);
        }
        let switches = if self.begun { self.draw()? } else { Vec::new() };
        self.begun = true;
        self.running += 1;
        Some(switches)
    }

    fn draw(&mut self) -> Option<Vec<Switch>> {
        let untried = &mut self.level.untried;
        let at = self.rng.below(untried.len().max(1) as u64) as usize;
        let (begin, end) = (at < untried.len()).then(|| untried.swap_remove(at))?;
        let begin = &self.level.begins[begin as usize];
        Some([&begin.switches[..], &[begin.ends[end as usize]]].concat())
    }

    /// Reports the result of a schedule: `ends` are its alternatives after its own switches, all of them if
    /// `is_whole`.
    pub fn tried(&mut self, switches: Vec<Switch>, ends: Vec<Switch>, is_whole: bool) {
        self.running -= 1;
        if !self.goes_on_from(&switches) {
            return;
        }
        let fits = self.next.untried.len() + ends.len() <= Self::KEPT_MAX;
        self.is_whole &= is_whole && fits;
        if fits {
            let begin = self.next.begins.len() as u32;
            self.next.untried.extend((0..ends.len() as u32).map(|end| (begin, end)));
            self.next.begins.push(Begin { switches, ends });
        }
    }

    /// Whether every schedule within the bound has been tried.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let none_left = self.level.untried.is_empty() && self.next.untried.is_empty();
        self.begun && self.running == 0 && none_left && self.is_whole
    }

    /// Whether the search extends a schedule with these switches.
    #[must_use]
    pub fn goes_on_from(&self, switches: &[Switch]) -> bool {
        switches.len() < self.bound
    }

    /// The largest number of switches of a schedule.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// A program of `steps` choices between two threads: the switches that it could make after its own.
    fn ends(switches: &[Switch], steps: u32) -> Vec<Switch> {
        let from = switches.last().map_or(0, |switch| switch.nth);
        (from + 1..=steps).map(|nth| Switch { nth, to: 1, ..Switch::default() }).collect()
    }

    fn all(bound: u32, steps: u32, at_once: usize) -> (Vec<Vec<u32>>, Search) {
        let mut search = Search::new(bound, 7);
        let (mut seen, mut running) = (Vec::new(), Vec::new());
        loop {
            while running.len() < at_once
                && let Some(switches) = search.take_one()
            {
                running.push(switches);
            }
            if running.is_empty() {
                return (seen, search);
            }
            let switches = running.remove(0);
            seen.push(switches.iter().map(|switch| switch.nth).collect());
            let ends = ends(&switches, steps);
            search.tried(switches, ends, true);
        }
    }

    #[test]
    fn each_schedule_is_tried_once_and_the_fewest_switches_first() {
        for at_once in [1, 3] {
            let (seen, search) = all(3, 9, at_once);
            // 1 + 9 + 9 · 8 / 2 + 9 · 8 · 7 / 6
            assert_eq!(seen.len(), 130);
            assert!(seen.is_sorted_by_key(Vec::len) && search.is_exhausted());
            assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 130);
        }
    }

    #[test]
    fn what_is_left_out_is_known() {
        let mut search = Search::new(2, 1);
        let switches = search.take_one().unwrap();
        search.tried(switches, ends(&[], 1), false);
        let switches = search.take_one().unwrap();
        search.tried(switches, Vec::new(), true);
        assert!(search.take_one().is_none() && !search.is_exhausted());
    }

    #[test]
    fn a_program_without_choices_has_one_schedule() {
        let (seen, search) = all(2, 0, 2);
        assert!(seen == [[0; 0]] && search.is_exhausted());
    }
}
