//! What a trace says of a thread's waits: how it left its CPU, and what ended the wait.

use crate::{Nanos, Tid};

/// How a thread left a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Left {
    /// It waits.
    Waiting = 0,
    /// It could have gone on: it was preempted, or has yielded.
    Runnable = 1,
    /// It is gone.
    Ended = 2,
}

impl Left {
    /// The one with this number.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Left> {
        match raw {
            0 => Some(Left::Waiting),
            1 => Some(Left::Runnable),
            2 => Some(Left::Ended),
            _ => None,
        }
    }
}

/// What made a thread runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// A thread of its process.
    Thread(Tid),
    /// The thread that made it.
    Creator(Tid),
    /// Time that had passed since the wait began: a sleep, a time limit, a device that has written.
    Time,
    /// Something outside of the process, or nobody knows what: a descriptor, a child, a signal, a timer.
    Outside,
}

/// The end of a wait, or a birth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// When.
    pub at: Nanos,
    /// By what.
    pub by: Waker,
}

impl Waker {
    /// As a word: the kind in the upper half, a thread's id in the lower one.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        let (kind, tid) = match self {
            Waker::Thread(tid) => (1, tid.0),
            Waker::Creator(tid) => (2, tid.0),
            Waker::Time => (3, 0),
            Waker::Outside => (4, 0),
        };
        kind << 32 | tid as u32 as u64
    }

    /// What [`Waker::to_word`] made; `None` for any other word.
    #[must_use]
    pub const fn from_word(word: u64) -> Option<Waker> {
        let tid = Tid(word as u32 as i32);
        match word >> 32 {
            1 => Some(Waker::Thread(tid)),
            2 => Some(Waker::Creator(tid)),
            3 => Some(Waker::Time),
            4 => Some(Waker::Outside),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_come_back() {
        for by in [Waker::Thread(Tid(7)), Waker::Creator(Tid(i32::MAX)), Waker::Time, Waker::Outside] {
            assert_eq!(Waker::from_word(by.to_word()), Some(by));
        }
        assert_eq!((Waker::from_word(0), Waker::from_word(u64::MAX)), (None, None));
        for left in [Left::Waiting, Left::Runnable, Left::Ended] {
            assert_eq!(Left::from_raw(left as u8), Some(left));
        }
        assert_eq!(Left::from_raw(3), None);
    }
}
