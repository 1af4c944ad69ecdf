//! How fast a CPU works: its capacity, its frequency, and the times at which it is taken away.
//!
//! Time is cut into stretches of one speed. Both questions are answered by walking over them: when some work is done, and
//! how much is done by some time.

use super::stolen::Pieces;
use super::{Hardware, Place, Ramp};
use crate::rng::Rng;

/// Full speed: work in one nanosecond.
const FULL: u64 = 10_000;
/// A frequency is one of so many and the lowest.
const STEPS: u64 = 8;

/// One CPU.
#[derive(Debug)]
pub(super) struct Pace {
    /// Per cent.
    capacity: u64,
    ramp: Option<Ramp>,
    pieces: Option<Pieces>,
    /// How long it has been busy, less how long idle, up to a time: from 0 to the length of the ramp.
    busy: u64,
    up_to: u64,
    /// No walk goes on after it.
    limit: u64,
}

/// The work of a CPU in some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Done {
    /// Nanoseconds of work at full speed.
    pub work: u64,
    /// Nanoseconds that were stolen.
    pub stolen: u64,
}

/// The one who works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worker {
    /// A thread: at the CPU's speed.
    Thread,
    /// The kernel: as fast on every CPU.
    Kernel,
}

/// A time of one speed.
struct Stretch {
    end: u64,
    /// Of [`FULL`]; 0: it is stolen.
    speed: u64,
}

impl Pace {
    pub(super) fn new(hardware: &Hardware, place: &Place, rng: &Rng, limit: u64) -> Pace {
        Pace {
            capacity: place.capacity,
            ramp: hardware.ramp,
            pieces: hardware.stolen.map(|how| Pieces::new(how, rng.clone())),
            busy: 0,
            up_to: 0,
            limit,
        }
    }

    /// The end of the piece of stolen time that is under way.
    pub(super) fn stolen_until(&mut self, now: u64) -> Option<u64> {
        let (begin, end) = self.pieces.as_mut()?.from(now);
        (begin <= now).then_some(end)
    }

    /// When so much work that begins now is done.
    pub(super) fn finish(&mut self, who: Worker, now: u64, work: u64) -> u64 {
        let mut left = u128::from(work) * u128::from(FULL);
        let (mut at, mut busy) = (now, self.busy_at(now));
        loop {
            let stretch = self.stretch(who, at, busy);
            let gained = u128::from(stretch.end - at) * u128::from(stretch.speed);
            if gained >= left || at > self.limit {
                let rest = left.div_ceil(u128::from(stretch.speed.max(1)));
                return at.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX));
            }
            left -= gained;
            busy = self.busier(busy, at, &stretch);
            at = stretch.end;
        }
    }

    /// The work of that time, which makes the CPU busier.
    pub(super) fn pass(&mut self, who: Worker, from: u64, to: u64) -> Done {
        let (mut at, mut busy) = (from, self.busy_at(from));
        let (mut done, mut work) = (Done::default(), 0u128);
        while at < to {
            let mut stretch = self.stretch(who, at, busy);
            stretch.end = stretch.end.min(to);
            work += u128::from(stretch.end - at) * u128::from(stretch.speed);
            if stretch.speed == 0 {
                done.stolen += stretch.end - at;
            }
            busy = self.busier(busy, at, &stretch);
            at = stretch.end;
        }
        (self.busy, self.up_to) = (busy, to.max(self.up_to));
        if let Some(pieces) = &mut self.pieces {
            pieces.forget(from);
        }
        done.work = (work / u128::from(FULL)) as u64;
        done
    }

    fn stretch(&mut self, who: Worker, at: u64, busy: u64) -> Stretch {
        let (begin, end) = self.pieces.as_mut().map_or((u64::MAX, u64::MAX), |pieces| pieces.from(at));
        if begin <= at {
            return Stretch { end, speed: 0 };
        }
        match (who, self.ramp) {
            (Worker::Kernel, _) => Stretch { end: begin, speed: FULL },
            (Worker::Thread, None) => Stretch { end: begin, speed: 100 * self.capacity },
            (Worker::Thread, Some(ramp)) => {
                let step = busy * STEPS / ramp.length;
                let percent = ramp.from + (100 - ramp.from) * step / STEPS;
                let next = ((step + 1) * ramp.length).div_ceil(STEPS) - busy;
                let end = if step < STEPS { begin.min(at.saturating_add(next)) } else { begin };
                Stretch { end, speed: self.capacity * percent }
            }
        }
    }

    /// How busy it is at a time that is not before what was asked last.
    fn busy_at(&self, at: u64) -> u64 {
        self.busy.saturating_sub(at.saturating_sub(self.up_to))
    }

    fn busier(&self, busy: u64, at: u64, stretch: &Stretch) -> u64 {
        match self.ramp {
            Some(ramp) if stretch.speed > 0 => busy.saturating_add(stretch.end - at).min(ramp.length),
            _ => busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stolen;
    use super::*;
    use Worker::{Kernel, Thread};

    fn pace(capacity: u64, ramp: Option<Ramp>, stolen: Option<Stolen>) -> Pace {
        let mut hardware = Hardware::sockets(1, 1, 1);
        (hardware.ramp, hardware.stolen, hardware.cores[0].capacity) = (ramp, stolen, capacity);
        Pace::new(&hardware, &hardware.places()[0], &Rng::new(5), 1 << 40)
    }

    #[test]
    fn half_a_cpu_takes_twice_the_time() {
        let mut half = pace(50, None, None);
        assert_eq!(half.finish(Thread, 100, 1_000), 2_100);
        assert_eq!(half.pass(Thread, 100, 2_100), Done { work: 1_000, stolen: 0 });
        assert_eq!(half.finish(Kernel, 100, 1_000), 1_100);
        // Rounded up: what was planned is done by then.
        let mut odd = pace(45, None, None);
        let end = odd.finish(Thread, 0, 1_001);
        assert_eq!((end, odd.pass(Thread, 0, end).work), (2_225, 1_001));
    }

    #[test]
    fn a_ramp_is_eight_steps() {
        let ramp = Ramp { from: 20, length: 8_000 };
        let mut c = pace(100, Some(ramp), None);
        // 20, 30, … 90 % for 1,000 ns each: 4,400 ns of work in 8,000; then full speed.
        assert_eq!(c.finish(Thread, 0, 200), 1_000);
        assert_eq!(c.finish(Thread, 0, 4_400), 8_000);
        assert_eq!(c.finish(Thread, 0, 5_400), 9_000);
        assert_eq!(c.pass(Thread, 0, 9_000).work, 5_400);
        // Idle for half of the ramp: back at 60 %.
        assert_eq!(c.finish(Thread, 13_000, 600), 14_000);
        // Idle for long: at the lowest.
        assert_eq!(c.finish(Thread, 100_000, 200), 101_000);
        // The kernel's time counts as busy.
        c.pass(Kernel, 100_000, 104_000);
        assert_eq!(c.finish(Thread, 104_000, 600), 105_000);
    }

    #[test]
    fn stolen_time_is_no_work() {
        let mut c = pace(50, None, Some(Stolen { percent: 10, length: 1_000 }));
        let mut at = 0;
        for work in [1, 500, 20_000, 400_000] {
            let end = c.finish(Thread, at, work);
            let done = c.pass(Thread, at, end);
            assert_eq!((done.work, end - at), (work, 2 * work + done.stolen));
            at = end;
        }
        // Until then some 94 pieces.
        let stolen = at - 2 * 420_501;
        assert!((80_000..105_000).contains(&stolen), "{stolen}");
    }

    #[test]
    fn a_walk_ends_at_the_limit() {
        let mut c = pace(1, None, Some(Stolen { percent: 50, length: 1 << 30 }));
        assert!(c.finish(Thread, 0, u64::MAX / 4) > 1 << 40);
    }
}
