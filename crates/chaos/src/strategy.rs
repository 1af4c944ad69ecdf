//! What every strategy is asked.

use core::fmt::Debug;

/// Why the next thread is chosen now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The last thread is at a scheduling point and could go on.
    Point,
    /// The last thread could go on but would rather not: it yields.
    Yield,
    /// The last thread has computed for long and has come to no scheduling point: it may be waiting for others in a loop. When
    /// that is found is not repeatable.
    Spins,
    /// The last thread waits or has ended.
    Gone,
}

/// A choice to be made.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The thread that ran last.
    pub last: u32,
    /// How many choices have been made after this thread, this one included unless it is because the thread [`Why::Spins`].
    pub nth: u32,
    /// Why.
    pub why: Why,
    /// The threads that could run, in ascending order: at least two.
    pub runnable: &'a [u32],
    /// How many choices among at least two threads were made before.
    pub step: u64,
    /// The place in the code that the last thread has come to; 0 if that is not known.
    pub place: u64,
}

impl Moment<'_> {
    /// Whether the last thread could go on and is to let others run.
    #[must_use]
    pub fn gives_way(&self) -> bool {
        matches!(self.why, Why::Yield | Why::Spins)
    }

    /// The choice of a run without preemptions: the thread goes on if it can; else the next one in the order of numbers has
    /// its turn.
    #[must_use]
    pub fn plain(&self) -> u32 {
        let goes_on = self.why == Why::Point && self.runnable.binary_search(&self.last).is_ok();
        if goes_on {
            return self.last;
        }
        let after = self.runnable.partition_point(|&thread| thread <= self.last);
        self.runnable[after % self.runnable.len()]
    }
}

/// A way to choose.
pub trait Strategy: Debug + Send {
    /// The thread that runs next: one of `moment.runnable`.
    fn choose(&mut self, moment: &Moment<'_>) -> u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_choice_goes_on_or_goes_round() {
        let moment = |last, why, runnable| Moment { last, nth: 1, why, runnable, step: 0, place: 0 }.plain();
        assert_eq!(moment(2, Why::Point, &[0, 2, 5]), 2);
        assert_eq!(moment(2, Why::Yield, &[0, 2, 5]), 5);
        assert_eq!(moment(5, Why::Yield, &[0, 2, 5]), 0);
        assert_eq!(moment(3, Why::Gone, &[0, 2, 5]), 5);
        assert_eq!(moment(7, Why::Gone, &[0, 2, 5]), 0);
    }
}
