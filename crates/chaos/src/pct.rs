//! Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, ASPLOS 2010).
//!
//! Each thread has a random priority, and the highest one runs. At `depth - 1` random steps the running thread falls
//! below all initial priorities. A bug that needs `depth` ordering constraints among n threads in k steps is found by
//! one run with a probability of at least 1 / (n · k^(depth - 1)).
//!
//! Of the steps of a long run, few matter. If it is known where threads meet ([`Learned`](crate::Learned)), the falls
//! of every second run are at such steps only.
//!
//! The paper assumes that no thread spins. Here a thread that yields falls below all others, so that those it waits
//! for run. In some runs it does so only after it has yielded a number of times: if the others are on other CPUs,
//! `sched_yield` changes nothing, and a loop that gives up after a hundred attempts may be through before they move.

use crate::Rng;
use crate::expected::Expected;
use crate::strategy::{Moment, Strategy, Why};
use alloc::vec::Vec;

/// One in so many runs ignores yields.
const IGNORING: u64 = 4;
/// It ignores 2^0 to 2^(this - 1) of each thread.
const IGNORED_LOG2: u64 = 9;
/// One in 2^0 to 2^(this - 1) of the steps at which threads meet is a fall, as long as there are some left.
const RATES_LOG2: u64 = 8;

/// The strategy of this module.
#[derive(Debug)]
pub struct Pct {
    rng: Rng,
    /// By thread; `None` for one that has not been offered yet.
    priorities: Vec<Option<i64>>,
    /// The steps at which the running thread's priority falls, each with the new priority.
    changes: Vec<(u64, i64)>,
    /// If the falls are where threads meet: one of so many such steps is one of them.
    rate: Option<u64>,
    /// The priority of the thread that yielded last, below all others.
    lowest: i64,
    /// How many yields of each thread are ignored.
    ignored_max: u32,
    /// By thread: how many have been.
    ignored: Vec<u32>,
}

impl Pct {
    /// For a run of which so much is expected.
    #[must_use]
    pub fn new(mut rng: Rng, depth: u32, expected: &Expected) -> Pct {
        let changes = (1..i64::from(depth)).map(|i| (rng.below(expected.steps.max(1)), i)).collect();
        let rate = (expected.meets && rng.below(2) == 0).then(|| 1 << rng.below(RATES_LOG2));
        let ignored_max = if rng.below(IGNORING) == 0 { 1 << rng.below(IGNORED_LOG2) } else { 0 };
        Pct { rng, priorities: Vec::new(), changes, rate, lowest: 0, ignored_max, ignored: Vec::new() }
    }

    /// The last thread falls behind all initial priorities if it is to do so at this step.
    fn fall(&mut self, moment: &Moment<'_>) {
        // A thread that seems to spin stays below all others, and the same step comes again.
        if moment.why == Why::Spins {
            return;
        }
        if let Some(rate) = self.rate {
            if moment.meets
                && self.rng.below(rate) == 0
                && let Some((_, priority)) = self.changes.pop()
            {
                self.set(moment.last, priority);
            }
            return;
        }
        for i in 0..self.changes.len() {
            let (step, priority) = self.changes[i];
            if step == moment.step {
                self.set(moment.last, priority);
            }
        }
    }

    /// Whether the last thread keeps its priority though it yields.
    fn ignores(&mut self, moment: &Moment<'_>) -> bool {
        let index = moment.last as usize;
        if moment.why != Why::Yield || self.ignored_max == 0 {
            return false;
        }
        self.ignored.resize(self.ignored.len().max(index + 1), 0);
        self.ignored[index] += 1;
        self.ignored[index] <= self.ignored_max
    }

    fn priority(&mut self, thread: u32) -> i64 {
        let index = thread as usize;
        if self.priorities.len() <= index {
            self.priorities.resize(index + 1, None);
        }
        // Above the priorities of all changes.
        let above = || (self.rng.next_u64() >> 2) as i64 + 1000;
        *self.priorities[index].get_or_insert_with(above)
    }

    fn set(&mut self, thread: u32, priority: i64) {
        self.priority(thread);
        self.priorities[thread as usize] = Some(priority);
    }
}

impl Strategy for Pct {
    fn choose(&mut self, moment: &Moment<'_>) -> u32 {
        if moment.gives_way() && !self.ignores(moment) {
            self.lowest -= 1;
            self.set(moment.last, self.lowest);
        }
        self.fall(moment);
        let mut best = (i64::MIN, moment.runnable[0]);
        for &thread in moment.runnable {
            best = best.max((self.priority(thread), thread));
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    /// Two threads of `steps` steps each; the bug is there if the second thread does its first step exactly when the
    /// first has done `at` of its own and not finished: a bug of depth 2.
    fn finds(spec: Spec, seed: u64, steps: u32, at: u32) -> bool {
        let mut strategy = spec.strategy(seed, &Expected { steps: u64::from(2 * steps), ..Expected::default() });
        let mut done = [0; 2];
        let (mut last, mut step) = (0, 0);
        while done != [steps; 2] {
            let runnable: Vec<u32> = (0..2).filter(|&t| done[t as usize] < steps).collect();
            if runnable.len() == 2 {
                let why = Why::Point;
                last =
                    strategy.choose(&Moment { last, nth: 1, why, runnable: &runnable, step, place: 0, meets: false });
                step += 1;
            } else {
                last = runnable[0];
            }
            if last == 1 && done[1] == 0 && done[0] == at {
                return true;
            }
            done[last as usize] += 1;
        }
        false
    }

    #[test]
    fn a_bug_is_found_as_often_as_the_paper_promises() {
        let (steps, at, runs) = (20, 13, 20_000u32);
        let found = (0..runs).filter(|&seed| finds(Spec::Pct(2), u64::from(seed), steps, at)).count() as f64;
        let promised = f64::from(runs) / f64::from(2 * 2 * steps);
        assert!(found >= promised * 0.9, "{found} of {runs}, promised {promised}");
        // The bound means something: a random walk stays below it.
        let walk = (0..runs).filter(|&seed| finds(Spec::Random, u64::from(seed), steps, at)).count() as f64;
        assert!(walk < promised / 4.0, "{walk}");
    }

    /// Also at a step at which the priority of the running thread falls: above those that have yielded.
    #[test]
    fn who_spins_lets_others_run_at_every_step() {
        for seed in 0..100 {
            let mut pct = Pct::new(Rng::new(seed), 3, &Expected { steps: 4, ..Expected::default() });
            let moment =
                |last, why, step| Moment { last, nth: 1, why, runnable: &[0, 1], step, place: 0, meets: false };
            let mut last = 0;
            for step in 0..4 {
                last = pct.choose(&moment(last, Why::Yield, step));
                let other = pct.choose(&moment(last, Why::Spins, step + 1));
                assert_ne!(other, last, "seed {seed}, step {step}");
            }
        }
    }

    /// Two threads, of which the second is to run when the first comes to the one step of 10,000 at which they meet.
    #[test]
    fn where_threads_meet_is_where_they_are_switched() {
        let found = |seed| {
            let expected = Expected { steps: 10_000, meets: true, ..Expected::default() };
            let mut pct = Pct::new(Rng::new(seed), 2, &expected);
            (0..5000).all(|step| {
                let (why, meets) = (Why::Point, step == 4999);
                let to = pct.choose(&Moment { last: 0, nth: 1, why, runnable: &[0, 1], step, place: 0, meets });
                (to == 1) == meets
            })
        };
        assert!((0..1000).filter(|&seed| found(seed)).count() > 20);
    }

    /// As on a machine with a CPU for each.
    #[test]
    fn who_yields_goes_on_for_long_in_some_runs() {
        let yields = |seed| {
            let mut pct = Pct::new(Rng::new(seed), 1, &Expected::default());
            let moment =
                |last, step| Moment { last, nth: 1, why: Why::Yield, runnable: &[0, 1], step, place: 0, meets: false };
            let first = pct.choose(&Moment { why: Why::Gone, ..moment(0, 0) });
            (1..1000).take_while(|&step| pct.choose(&moment(first, step)) == first).count()
        };
        let counts: Vec<usize> = (0..200).map(yields).collect();
        assert!(counts.iter().filter(|&&n| n == 0).count() > 120, "{counts:?}");
        assert!(counts.iter().any(|&n| n >= 100) && counts.iter().all(|&n| n <= 256), "{counts:?}");
    }

    #[test]
    fn who_yields_lets_all_others_go_first() {
        let mut pct = Pct::new(Rng::new(1), 1, &Expected::default());
        let runnable = [0, 1, 2];
        let moment = |last, why, step| Moment { last, nth: 1, why, runnable: &runnable, step, place: 0, meets: false };
        let mut seen = Vec::new();
        let mut last = pct.choose(&moment(0, Why::Point, 0));
        for step in 1..4 {
            seen.push(last);
            last = pct.choose(&moment(last, Why::Yield, step));
        }
        assert_eq!(last, seen[0], "after all have yielded it is the first one's turn again");
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    }
}
