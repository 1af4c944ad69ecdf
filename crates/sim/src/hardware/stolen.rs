//! Stolen time: the pieces that a hypervisor takes from one CPU.
//!
//! Between two pieces lies a time that is uniformly random, from half to one and a half times the mean that makes the
//! percentage true. Each CPU has its own stream of numbers, so what happens on the machine does not move the pieces.

use super::Stolen;
use crate::rng::Rng;
use std::collections::VecDeque;

impl Stolen {
    /// The mean time between two pieces.
    fn gap(self) -> u64 {
        (self.length * (100 - self.percent) / self.percent).max(2)
    }

    /// How many pieces can fall, at most, into the time in which a CPU works for `work`: one at its beginning, and one
    /// after each of the shortest gaps. What needs two CPUs one after the other meets two more.
    pub(super) fn most_pieces(self, work: u64) -> u64 {
        work / (self.gap() / 2) + 4
    }
}

/// The pieces of one CPU, as far as they have been asked for.
#[derive(Debug)]
pub(super) struct Pieces {
    how: Stolen,
    rng: Rng,
    /// Beginnings and ends, in order.
    pieces: VecDeque<(u64, u64)>,
    last_end: u64,
}

impl Pieces {
    pub(super) fn new(how: Stolen, mut rng: Rng) -> Pieces {
        // The first one is as likely to have begun before the run as later ones are to be under way.
        let first = rng.below(how.length + how.gap());
        let pieces = VecDeque::from([(first.saturating_sub(how.length), first)]);
        Pieces { how, rng, pieces, last_end: first }
    }

    /// The piece that is under way then, or the next one.
    pub(super) fn from(&mut self, at: u64) -> (u64, u64) {
        while self.last_end <= at {
            let gap = self.how.gap();
            let begin = self.last_end + self.rng.between(gap / 2, gap + gap / 2);
            self.last_end = begin + self.how.length;
            self.pieces.push_back((begin, self.last_end));
        }
        self.pieces[self.pieces.partition_point(|(_, end)| *end <= at)]
    }

    /// Nobody asks for what was over by then again.
    pub(super) fn forget(&mut self, before: u64) {
        while self.pieces.len() > 1 && self.pieces.front().is_some_and(|(_, end)| *end <= before) {
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_percentage() {
        for (percent, length) in [(5, 2_000_000), (20, 500_000), (50, 10_000_000)] {
            let mut pieces = Pieces::new(Stolen { percent, length }, Rng::new(3));
            let (mut at, mut taken) = (0, 0);
            let end = 1_000 * length * 100 / percent;
            while at < end {
                let (begin, until) = pieces.from(at);
                assert!(begin >= at || at == 0, "pieces do not overlap");
                taken += until - begin;
                at = until;
                pieces.forget(at);
            }
            // A thousand gaps with a standard deviation of 0.29 of their mean: one per cent of the sum.
            let share = 100.0 * taken as f64 / at as f64;
            assert!((share / percent as f64 - 1.0).abs() < 0.03, "{share} of {percent}");
        }
    }

    #[test]
    fn the_answer_does_not_depend_on_who_asked_before() {
        let how = Stolen { percent: 10, length: 1_000 };
        let (mut a, mut b) = (Pieces::new(how, Rng::new(1)), Pieces::new(how, Rng::new(1)));
        b.from(1_000_000);
        assert!((0..200).all(|i| a.from(i * 777) == b.from(i * 777)));
    }
}
