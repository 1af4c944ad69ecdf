//! Torn updates: a plain `add` to memory loads, computes and stores. On a machine with several processors another thread may store
//! in between, and that is lost. On one processor nothing comes between.
//!
//! So a thread that is stopped before such an instruction sometimes has loaded already: when it goes on, the bytes are
//! set back to what they were, and the instruction does the rest. Instructions that the processor makes in one step are never torn.

use crate::Rng;
use crate::races::Access;

/// One in this many of the updates at which a thread is stopped is torn.
const TORN_ONE_IN: u64 = 2;

/// Which updates of a run are torn.
#[derive(Clone, Copy, Debug)]
pub struct Torn(u64);

impl Torn {
    /// Those of a run with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Torn {
        Torn(Rng::new(seed ^ 0x70a4).next_u64())
    }

    /// Whether a thread that is stopped before this access after its `nth` choice has loaded. That follows from no other choice, so
    /// a schedule with a switch less tears the same updates.
    #[must_use]
    pub fn tears(&self, thread: u32, nth: u32, access: &Access) -> bool {
        let moment = u64::from(thread) << 32 | u64::from(nth);
        let is_update = access.reads && access.writes && !access.atomic;
        is_update && Rng::new(self.0 ^ moment.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(TORN_ONE_IN) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_plain_updates_are_torn() {
        let torn = Torn::new(3);
        let update = Access { reads: true, writes: true, ..Access::default() };
        let count = |access: &Access| (0..1000).filter(|&nth| torn.tears(1, nth, access)).count();
        assert!((400..600).contains(&count(&update)));
        assert_eq!(count(&Access { atomic: true, ..update }), 0);
        assert_eq!(count(&Access { reads: false, ..update }) + count(&Access { writes: false, ..update }), 0);
    }
}
