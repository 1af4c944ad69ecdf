//! The times at which no CPU is taken away, for the limits on delays.

use super::Hardware;
use super::stolen::Pieces;
use crate::rng::Rng;
use std::collections::VecDeque;

/// The recent past.
#[derive(Debug)]
pub(crate) struct Calm {
    /// By CPU: its pieces, which are the same as those that the CPU itself meets, and the first that has not begun.
    cpus: Vec<(Pieces, (u64, u64))>,
    /// When the first of them begins.
    next: u64,
    /// When some CPU was away: apart from each other and in order.
    away: VecDeque<(u64, u64)>,
}

impl Calm {
    /// `None`: no CPU is ever taken away.
    pub(crate) fn new(hardware: &Hardware, seed: &Rng) -> Option<Calm> {
        let how = hardware.stolen?;
        let cpu = |i| {
            let mut pieces = Pieces::new(how, seed.fork(i));
            let first = pieces.from(0);
            (pieces, first)
        };
        Some(Calm { cpus: (0..hardware.cpus() as u64).map(cpu).collect(), next: 0, away: VecDeque::new() })
    }

    /// Time has come to `now`.
    pub(crate) fn advance(&mut self, now: u64) {
        if now < self.next {
            return;
        }
        let mut begun = Vec::new();
        for (pieces, piece) in &mut self.cpus {
            while piece.0 <= now {
                begun.push(*piece);
                pieces.forget(piece.1);
                *piece = pieces.from(piece.1);
            }
        }
        self.next = self.cpus.iter().map(|(_, (begin, _))| *begin).min().unwrap_or(u64::MAX);
        begun.sort_unstable();
        begun.into_iter().for_each(|piece| self.add(piece));
    }

    /// Adds a piece that begins after those that were there before the last [`Calm::advance`].
    fn add(&mut self, (mut begin, mut end): (u64, u64)) {
        while let Some(&(b, e)) = self.away.back().filter(|(_, e)| *e >= begin) {
            (begin, end) = (begin.min(b), end.max(e));
            self.away.pop_back();
        }
        self.away.push_back((begin, end));
    }

    /// How long ago it was that `calm` nanoseconds of calm began to pass.
    pub(crate) fn passed(&self, now: u64, calm: u64) -> u64 {
        let (mut at, mut left) = (now, calm);
        for &(begin, end) in self.away.iter().rev() {
            let quiet = at.saturating_sub(end);
            if quiet >= left {
                break;
            }
            left -= quiet;
            at = begin.min(at);
        }
        now - at + left
    }

    /// Nobody asks for more than so much calm.
    pub(crate) fn forget(&mut self, now: u64, calm: u64) {
        let from = now.saturating_sub(self.passed(now, calm));
        while self.away.front().is_some_and(|(_, end)| *end < from) {
            self.away.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stolen;
    use super::*;

    #[test]
    fn only_calm_time_passes() {
        let mut calm = Calm { cpus: Vec::new(), next: 0, away: VecDeque::new() };
        [(100, 200), (150, 260), (400, 450)].into_iter().for_each(|piece| calm.add(piece));
        assert_eq!(calm.away, [(100, 260), (400, 450)]);
        assert_eq!(calm.passed(500, 40), 40);
        assert_eq!(calm.passed(500, 60), 50 + 50 + 10);
        assert_eq!(calm.passed(500, 190), 240);
        assert_eq!(calm.passed(500, 200), 200 + 50 + 160);
        // A piece is under way.
        assert_eq!(calm.passed(430, 10), 30 + 10);
        calm.forget(500, 60);
        assert_eq!(calm.away, [(400, 450)]);
    }

    #[test]
    fn the_pieces_are_those_of_the_cpus() {
        let how = Stolen { percent: 20, length: 1_000 };
        let hardware = Hardware { stolen: Some(how), ..Hardware::sockets(1, 3, 1) };
        let seed = Rng::new(8);
        let mut calm = Calm::new(&hardware, &seed).unwrap();
        let mut cpus: Vec<Pieces> = (0..3).map(|i| Pieces::new(how, seed.fork(i))).collect();
        for now in (0..200_000).step_by(37) {
            calm.advance(now);
            let away = cpus.iter_mut().any(|pieces| pieces.from(now).0 <= now);
            assert_eq!(calm.away.back().is_some_and(|(_, end)| *end > now), away, "at {now}");
            calm.forget(now, 5_000);
        }
    }
}
