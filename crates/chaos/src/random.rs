//! The random walk: every thread is as likely at every choice.

use crate::Rng;
use crate::strategy::{Moment, Strategy};

/// See the module.
#[derive(Debug)]
pub struct RandomWalk(Rng);

impl RandomWalk {
    /// A walk by these numbers.
    #[must_use]
    pub fn new(rng: Rng) -> RandomWalk {
        RandomWalk(rng)
    }
}

impl Strategy for RandomWalk {
    fn choose(&mut self, moment: &Moment<'_>) -> u32 {
        moment.runnable[self.0.below(moment.runnable.len() as u64) as usize]
    }
}
