//! How time passes. Pauses: moments at which the machine has other things to do. Time passes, and no thread runs.
//!
//! Virtual time advances by a microsecond at each scheduling point. So a thread that sleeps for half a millisecond would
//! always come after the few steps that another one has to do, though on a busy machine it may well come before. A pause
//! lasts up to the next timeout. Together those of a run are no longer than [`PAUSES_MAX_NS`], which a busy machine may
//! take at any time: timeouts that are longer keep their meaning.
//!
//! Some runs have a machine that is a little faster or slower instead, so that timers expire elsewhere.
//!
//! Whether there is a pause at a choice follows from the seed, the thread that ran and how many choices it has had. So a
//! schedule with a switch less has the others' pauses where they were.

use crate::Rng;

/// How long all pauses of a run take, in nanoseconds.
pub const PAUSES_MAX_NS: u64 = 10_000_000;
/// One in so many runs has pauses.
const RUNS: u64 = 4;
/// In such a run, one in 2^0 to 2^(this - 1) of the choices at which there could be a pause has one.
const RATES: u64 = 8;
/// The virtual time between two scheduling points, in nanoseconds.
pub const STEP_NS: u64 = 1000;
/// One in so many runs has another one, of at least half and less than twice as much.
const OTHER_STEPS: u64 = 4;

/// The pauses of one run.
#[derive(Debug)]
pub struct Pauses {
    seed: u64,
    /// One in so many.
    rate: u64,
    /// How much longer they may take, in nanoseconds.
    left_ns: u64,
    step_ns: u64,
}

impl Pauses {
    /// Those of a run with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Pauses {
        let mut rng = Rng::new(seed ^ 0x9a05);
        let left_ns = if rng.below(RUNS) == 0 { PAUSES_MAX_NS } else { 0 };
        let (rate, seed) = (1 << rng.below(RATES), rng.next_u64());
        let is_other = left_ns == 0 && rng.below(OTHER_STEPS) == 0;
        let step_ns = if is_other { STEP_NS / 2 + rng.below(STEP_NS * 3 / 2) } else { STEP_NS };
        Pauses { seed, rate, left_ns, step_ns }
    }

    /// The virtual time between two scheduling points, in nanoseconds.
    #[must_use]
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Whether the machine pauses before this thread's `nth` choice, for as long as the next timeout is away.
    pub fn pauses(&mut self, thread: u32, nth: u32, timeout_ns: u64) -> bool {
        if timeout_ns == 0 || timeout_ns > self.left_ns {
            return false;
        }
        let place = u64::from(thread) << 32 | u64::from(nth);
        let does = Rng::new(self.seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(self.rate) == 0;
        self.left_ns -= if does { timeout_ns } else { 0 };
        does
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn pauses_are_rare_short_and_repeatable() {
        let (mut with, mut rates) = (0, Vec::new());
        for seed in 0..1000 {
            let made =
                |mut pauses: Pauses| (0..2000).filter(|&n| pauses.pauses(n % 3, n / 3, 500_000)).collect::<Vec<_>>();
            let all = made(Pauses::new(seed));
            assert_eq!(all, made(Pauses::new(seed)));
            assert!(all.len() as u64 * 500_000 <= PAUSES_MAX_NS);
            with += u32::from(!all.is_empty());
            rates.extend(all.first().copied());
            assert!(!Pauses::new(seed).pauses(0, 0, PAUSES_MAX_NS + 1) && !Pauses::new(seed).pauses(0, 0, 0));
        }
        assert!((200..300).contains(&with), "{with}");
        // Time passes at the usual pace in most runs, and all are about as likely otherwise.
        let others: Vec<u64> = (0..1000).map(|seed| Pauses::new(seed).step_ns()).filter(|&ns| ns != STEP_NS).collect();
        assert!((130..260).contains(&others.len()), "{}", others.len());
        assert!(others.iter().all(|ns| (500..2000).contains(ns)) && others.iter().any(|&ns| ns < 700));
        // At the first choice as well as late.
        assert!(rates.contains(&0) && rates.iter().any(|&n| n > 100));
    }
}
