//! The interface of every strategy.

use core::fmt::Debug;

/// Why a thread is chosen now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The last thread is at a scheduling point and could continue.
    Point,
    /// The last thread could continue but yields.
    Yield,
    /// The last thread has computed for long without a scheduling point: it may be spinning. The moment at which
    /// this is found is not repeatable.
    Spins,
    /// The last thread waits or has ended.
    Gone,
}

/// A choice to be made.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The thread that ran last.
    pub last: u32,
    /// How many choices have been made after this thread ran, including this one unless it is due to
    /// [`Why::Spins`].
    pub nth: u32,
    /// Why the choice is made.
    pub why: Why,
    /// The runnable threads in ascending order: at least two.
    pub runnable: &'a [u32],
    /// How many choices among at least two threads have been made before.
    pub step: u64,
    /// The address in the program that the last thread has reached; 0 if unknown.
    pub place: u64,
    /// The last thread is about to access what others access as well, as far as earlier runs have shown.
    pub meets: bool,
}

impl Moment<'_> {
    /// Whether the last thread could continue but should let others run.
    #[must_use]
    pub fn gives_way(&self) -> bool {
        matches!(self.why, Why::Yield | Why::Spins)
    }

    /// The choice of a run without preemptions: the last thread if it can continue; otherwise the next runnable one
    /// by number, wrapping around.
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
        let moment =
            |last, why, runnable| Moment { last, nth: 1, why, runnable, step: 0, place: 0, meets: false }.plain();
        assert_eq!(moment(2, Why::Point, &[0, 2, 5]), 2);
        assert_eq!(moment(2, Why::Yield, &[0, 2, 5]), 5);
        assert_eq!(moment(5, Why::Yield, &[0, 2, 5]), 0);
        assert_eq!(moment(3, Why::Gone, &[0, 2, 5]), 5);
        assert_eq!(moment(7, Why::Gone, &[0, 2, 5]), 0);
    }
}
