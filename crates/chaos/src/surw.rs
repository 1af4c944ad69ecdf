//! The selectively uniform random walk (Zhao, Wolff, Mathur and Roychoudhury, ASPLOS 2025).
//!
//! A plain random walk favours orders in which threads alternate, because a long run of one thread needs many equal
//! draws. This walk knows about how many events each thread has left and more often picks a thread with more of them,
//! so that every order of these events is about equally likely. Among all events of a program that would hardly help to
//! find a bug that depends on few of them, so each run selects some: here the events at the places of one [`class`]. A
//! plain random walk orders the others.
//!
//! In every second run the others go first: no selected event comes before all threads that can come to one have done so.
//! A bug that shows if all of a hundred threads stop there, and one more does what it has to do, would need luck at each choice otherwise.
//!
//! The paper obtains the events, accesses to one variable, from an analysis of the program. Here a place in the
//! code stands for the variable accessed there, and the numbers of events are those of earlier runs.

use crate::Rng;
use crate::census::{CLASSES, Census, class};
use crate::strategy::{Moment, Strategy, Why};
use alloc::vec::Vec;

/// The strategy of this module.
#[derive(Debug)]
pub struct Surw {
    rng: Rng,
    /// The class of the selected events; `None`: all events.
    selected: Option<usize>,
    /// Whether a thread that is not about to perform a selected event goes before those that are.
    others_first: bool,
    /// How many selected events each thread probably has left.
    left: Vec<u64>,
    /// Whether each thread is about to perform a selected event.
    at_event: Vec<bool>,
    /// The thread whose selected event comes next.
    intended: Option<u32>,
}

impl Surw {
    /// For a run of which `expected` events are expected.
    #[must_use]
    pub fn new(mut rng: Rng, expected: &Census) -> Surw {
        let classes: Vec<usize> = (0..CLASSES).filter(|&class| expected.total(class) > 0).collect();
        // The one index beyond the classes selects all events.
        let selected = classes.get(rng.below(classes.len() as u64 + 1) as usize).copied();
        let left = expected.threads().map(|counts| selected.map_or(counts.iter().sum(), |class| counts[class]));
        let (left, others_first) = (left.collect(), rng.below(2) == 0);
        Surw { rng, selected, others_first, left, at_event: Vec::new(), intended: None }
    }

    fn is_at_event(&self, thread: u32) -> bool {
        self.at_event.get(thread as usize).is_some_and(|&is| is)
    }

    fn set_at_event(&mut self, thread: u32, is: bool) {
        let index = thread as usize;
        if self.at_event.len() <= index {
            self.at_event.resize(index + 1, false);
        }
        self.at_event[index] = is;
    }

    /// The number of selected events that a thread probably has left. Those of threads that have not begun count
    /// for the first thread, because in most programs it creates them.
    fn weight(&self, thread: u32) -> u64 {
        let unborn = if thread == 0 { self.left.iter().skip(self.at_event.len().max(1)).sum() } else { 0 };
        // At least one: a thread that has had more events than expected must not starve.
        (self.left.get(thread as usize).copied().unwrap_or(0) + unborn).max(1)
    }

    /// Draws a thread, weighted by the events that each has left.
    fn draw(&mut self, among: &[u32]) -> u32 {
        let total: u64 = among.iter().map(|&thread| self.weight(thread)).sum();
        let mut at = self.rng.below(total);
        for &thread in among {
            let weight = self.weight(thread);
            if at < weight {
                return thread;
            }
            at -= weight;
        }
        among[0]
    }
}

impl Strategy for Surw {
    fn choose(&mut self, moment: &Moment<'_>) -> u32 {
        let counts = moment.why == Why::Point && self.selected.is_none_or(|selected| selected == class(moment.place));
        self.set_at_event(moment.last, counts);
        moment.runnable.iter().for_each(|&thread| self.set_at_event(thread, self.is_at_event(thread)));
        // A thread that yields is not chosen.
        let may: Vec<u32> =
            moment.runnable.iter().copied().filter(|&t| !moment.gives_way() || t != moment.last).collect();
        let intended = self.intended.filter(|thread| may.contains(thread)).unwrap_or_else(|| self.draw(&may));
        self.intended = Some(intended);
        // The others may run up to their next selected event only.
        let mut free: Vec<u32> = may.into_iter().filter(|&t| t == intended || !self.is_at_event(t)).collect();
        if self.others_first && !moment.gives_way() && free.len() > 1 {
            free.retain(|&t| !self.is_at_event(t));
        }
        let to = free[self.rng.below(free.len() as u64) as usize];
        if to == intended && self.is_at_event(to) {
            self.set_at_event(to, false);
            self.intended = None;
            if let Some(left) = self.left.get_mut(to as usize) {
                *left = left.saturating_sub(1);
            }
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomWalk;
    use alloc::collections::BTreeMap;

    /// How often each order of the events of two threads comes about, by which thread each event is of.
    fn orders(
        lengths: [u32; 2],
        runs: u64,
        mut strategy: impl FnMut(u64) -> alloc::boxed::Box<dyn Strategy>,
    ) -> Vec<u64> {
        let mut seen = BTreeMap::new();
        for seed in 0..runs {
            let mut strategy = strategy(seed);
            let (mut left, mut order, mut last, mut began) = (lengths, Vec::new(), 0, [false; 2]);
            // Each thread comes to its first event before either has one.
            while left != [0; 2] {
                let runnable: Vec<u32> = (0..2).filter(|&t| left[t as usize] > 0).collect();
                if runnable.len() == 2 {
                    let why = if began[last as usize] { Why::Point } else { Why::Gone };
                    last = strategy.choose(&Moment {
                        last,
                        nth: 1,
                        why,
                        runnable: &runnable,
                        step: 0,
                        place: 0,
                        meets: false,
                    });
                } else {
                    last = runnable[0];
                }
                // A thread's first turn brings it to its first event.
                if core::mem::replace(&mut began[last as usize], true) {
                    left[last as usize] -= 1;
                    order.push(last);
                }
            }
            *seen.entry(order).or_insert(0) += 1;
        }
        seen.into_values().collect()
    }

    #[test]
    fn every_order_is_about_as_likely() {
        let (lengths, runs) = ([2, 6], 28_000);
        let mut census = Census::default();
        (0..2).for_each(|thread| census.set(thread, class(0), u64::from(lengths[thread as usize])));
        let selective = orders(lengths, runs, |seed| alloc::boxed::Box::new(Surw::new(Rng::new(seed), &census)));
        // 8 over 2 orders, a thousand times each.
        assert_eq!(selective.len(), 28);
        let (least, most) = (selective.iter().min().unwrap(), selective.iter().max().unwrap());
        assert!(most < &(2 * least), "{selective:?}");
        let walk = orders(lengths, runs, |seed| alloc::boxed::Box::new(RandomWalk::new(Rng::new(seed))));
        let (least, most) = (walk.iter().min().unwrap(), walk.iter().max().unwrap());
        assert!(walk.len() < 28 || *most > 8 * least, "{walk:?}");
    }

    #[test]
    fn what_was_never_seen_is_no_trouble() {
        let mut surw = Surw::new(Rng::new(1), &Census::default());
        let mut last = 3;
        let mut seen = [0; 9];
        for step in 0..900 {
            let moment =
                Moment { last, nth: 1, why: Why::Point, runnable: &[3, 5, 8], step, place: step, meets: false };
            last = surw.choose(&moment);
            seen[last as usize] += 1;
        }
        assert!([3, 5, 8].iter().all(|&t| seen[t] > 200), "{seen:?}");
    }

    /// A hundred threads have one selected event each; another thread has many others, and is done before all of them.
    #[test]
    fn others_may_all_go_first() {
        let mut expected = Census::default();
        (0..100).for_each(|thread| expected.set(thread, class(0), 1));
        let is_first = |seed| {
            let mut surw = Surw::new(Rng::new(seed), &expected);
            let runnable: Vec<u32> = (0..=100).collect();
            let other = (0..).find(|&place| class(place) != class(0)).unwrap();
            // All but the last one have come to their event.
            (0..100).for_each(|thread| surw.set_at_event(thread, true));
            let mut last = 100;
            (0..50).all(|step| {
                let place = if last == 100 { other } else { 0 };
                last = surw.choose(&Moment {
                    last,
                    nth: 1,
                    why: Why::Point,
                    runnable: &runnable,
                    step,
                    place,
                    meets: false,
                });
                last == 100
            })
        };
        assert!((10..90).contains(&(0..100).filter(|&seed| is_first(seed)).count()));
    }

    #[test]
    fn who_yields_is_not_chosen() {
        let mut surw = Surw::new(Rng::new(1), &Census::default());
        for step in 0..100 {
            let moment = Moment { last: 1, nth: 1, why: Why::Yield, runnable: &[1, 2], step, place: 0, meets: false };
            assert_eq!(surw.choose(&moment), 2);
        }
    }
}
