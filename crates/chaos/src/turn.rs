//! Turns: one thread runs until another one does. They are the timeline of a run.

use crate::strategy::Why;

/// How the thread of a turn gave way to the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// It could have continued.
    Stopped = 0,
    /// It yielded.
    Yielded = 1,
    /// It computed for long or waited in a loop ([`Why::Spins`]).
    Spun = 2,
    /// It waits.
    Waits = 3,
    /// It has ended.
    Ended = 4,
}

impl Left {
    /// How a thread gives way for this reason, which alone does not say whether a thread that is gone has `ended`.
    #[must_use]
    pub fn of(why: Why, ended: bool) -> Left {
        match why {
            Why::Point => Left::Stopped,
            Why::Yield => Left::Yielded,
            Why::Spins => Left::Spun,
            Why::Gone if ended => Left::Ended,
            Why::Gone => Left::Waits,
        }
    }
}

/// The time of one thread. It begins with a choice of another thread than before, or with a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The thread.
    pub thread: u32,
    /// The number of the choice with which the turn begins, counted from 1.
    pub from: u64,
    /// How the thread of the turn before left.
    pub before: Left,
    /// Whether that choice was a switch.
    pub is_switch: bool,
}

impl Turn {
    /// The thread in the lowest 16 bits, then 4 bits for how the one before left, 1 for a switch, 43 for the choice.
    pub(crate) fn word(&self) -> u64 {
        u64::from(self.thread & 0xffff) | (self.before as u64) << 16 | u64::from(self.is_switch) << 20 | self.from << 21
    }

    pub(crate) fn read(word: u64) -> Turn {
        let before = match word >> 16 & 0xf {
            0 => Left::Stopped,
            1 => Left::Yielded,
            2 => Left::Spun,
            3 => Left::Waits,
            _ => Left::Ended,
        };
        Turn { thread: word as u32 & 0xffff, from: word >> 21, before, is_switch: word >> 20 & 1 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_read_back() {
        for before in [Left::Stopped, Left::Yielded, Left::Spun, Left::Waits, Left::Ended] {
            for (thread, from, is_switch) in [(0, 1, false), (65_535, (1 << 43) - 1, true)] {
                let turn = Turn { thread, from, before, is_switch };
                assert_eq!(Turn::read(turn.word()), turn);
            }
        }
    }
}
