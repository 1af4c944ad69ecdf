//! Urgency across all classes as one number, to compare and publish.

use crate::deadline;
use crate::domain::HIGHER;
use crate::entity::{Class, Entity};

/// Smaller is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Rank(pub u64);

/// The limit of deadline ranks: after 73 years of uptime all deadlines are equal.
const RT_BASE: u64 = 1 << 61;

impl Rank {
    pub(crate) const STOP: Rank = Rank(0);
    pub(crate) const FAIR: Rank = Rank(RT_BASE + 100);
    pub(crate) const IDLE: Rank = Rank(RT_BASE + 101);

    /// An absolute deadline in nanoseconds.
    #[inline]
    pub(crate) const fn deadline(nanos: u64) -> Rank {
        Rank(if nanos < RT_BASE - 2 { nanos + 1 } else { RT_BASE - 1 })
    }

    /// A real-time level, 1 (priority 99) to 99 (priority 1).
    #[inline]
    pub(crate) const fn rt(level: u8) -> Rank {
        Rank(RT_BASE + level as u64)
    }

    /// The rank of a thread.
    #[inline]
    pub(crate) fn of(e: &Entity) -> Rank {
        match e.class() {
            Class::Stop => Rank::STOP,
            Class::Deadline => Rank::deadline(deadline::deadline_of(e)),
            Class::Rt => Rank::rt(e.level.get()),
            Class::Fair => Rank::FAIR,
        }
    }

    /// The priority vector for a CPU whose most urgent thread has this rank.
    pub(crate) fn vector(self) -> u8 {
        if self >= Rank::FAIR {
            0
        } else if self.0 < RT_BASE {
            HIGHER
        } else {
            100 - (self.0 - RT_BASE) as u8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ordered_and_ranks_know_their_vectors() {
        let order = [Rank::STOP, Rank::deadline(0), Rank::deadline(u64::MAX), Rank::rt(1), Rank::rt(99)];
        assert!(order.is_sorted() && Rank::rt(99) < Rank::FAIR && Rank::FAIR < Rank::IDLE);
        let vectors: [u8; 5] = order.map(Rank::vector);
        assert_eq!(vectors, [HIGHER, HIGHER, HIGHER, 99, 1]);
        assert_eq!(Rank::FAIR.vector(), 0);
    }

    /// The last deadline that is told from later ones is one before the last rank below priority 99.
    #[test]
    fn deadlines_without_end_are_one() {
        let last = RT_BASE - 1;
        for (nanos, rank) in [(0, 1), (1, 2), (last - 2, last - 1), (last - 1, last), (last, last), (u64::MAX, last)] {
            assert_eq!(Rank::deadline(nanos), Rank(rank), "{nanos}");
        }
        assert_eq!((Rank::rt(1).0, Rank::rt(99).0), (RT_BASE + 1, RT_BASE + 99));
        assert_eq!((Rank::IDLE.vector(), Rank::STOP.vector()), (0, HIGHER));
        assert!((1..=99).all(|level| Rank::rt(level).vector() == 100 - level));
    }
}
