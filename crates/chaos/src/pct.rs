//! Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, ASPLOS 2010).
//!
//! Each thread has a random priority, and the highest one runs. At `depth - 1` random steps the running thread falls
//! below all initial priorities. A bug that needs `depth` ordering constraints among n threads in k steps is found by
//! one run with a probability of at least 1 / (n · k^(depth - 1)).
//!
//! The paper assumes that no thread spins. Here a thread that yields falls below all others, so that those it waits
//! for run.

use crate::Rng;
use crate::strategy::{Moment, Strategy, Why};
use alloc::vec::Vec;

/// The strategy of this module.
#[derive(Debug)]
pub struct Pct {
    rng: Rng,
    /// By thread; `None` for one that has not been offered yet.
    priorities: Vec<Option<i64>>,
    /// The steps at which the running thread's priority falls, each with the new priority.
    changes: Vec<(u64, i64)>,
    /// The priority of the thread that yielded last, below all others.
    lowest: i64,
}

impl Pct {
    /// For a run of about `steps` steps.
    #[must_use]
    pub fn new(mut rng: Rng, depth: u32, steps: u64) -> Pct {
        let changes = (1..i64::from(depth)).map(|i| (rng.below(steps.max(1)), i)).collect();
        Pct { rng, priorities: Vec::new(), changes, lowest: 0 }
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
        if moment.gives_way() {
            self.lowest -= 1;
            self.set(moment.last, self.lowest);
        }
        for i in 0..self.changes.len() {
            let (step, priority) = self.changes[i];
            // A thread that seems to spin stays below all others, and the same step comes again.
            if step == moment.step && moment.why != Why::Spins {
                self.set(moment.last, priority);
            }
        }
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
    use crate::{Expected, Spec};

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
                last = strategy.choose(&Moment { last, nth: 1, why, runnable: &runnable, step, place: 0 });
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
            let mut pct = Pct::new(Rng::new(seed), 3, 4);
            let moment = |last, why, step| Moment { last, nth: 1, why, runnable: &[0, 1], step, place: 0 };
            let mut last = 0;
            for step in 0..4 {
                last = pct.choose(&moment(last, Why::Yield, step));
                let other = pct.choose(&moment(last, Why::Spins, step + 1));
                assert_ne!(other, last, "seed {seed}, step {step}");
            }
        }
    }

    #[test]
    fn who_yields_lets_all_others_go_first() {
        let mut pct = Pct::new(Rng::new(1), 1, 100);
        let runnable = [0, 1, 2];
        let moment = |last, why, step| Moment { last, nth: 1, why, runnable: &runnable, step, place: 0 };
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
