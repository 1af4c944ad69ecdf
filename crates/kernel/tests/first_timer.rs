//! What a process's first timer costs: a process that is restored makes timers with the ids that they had.

use crate::common::{World, word};
use abi::nr;
use ids::ThreadIdx;

const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;
const MONOTONIC: u64 = 1;

/// How often memory is asked for while the call is made.
fn allocations(w: &mut World, nr: usize, args: [u64; 6]) -> u64 {
    let counted = allocation_counter::measure(|| assert_eq!(w.call(ThreadIdx(0), nr, args), Some(0)));
    counted.count_total
}

#[test]
fn the_first_timer_waits_for_no_memory_whatever_its_id() {
    for id in [0, 2_000_000, i32::MAX as u32] {
        let mut w = World::new(2);
        // The test's own lists have room for more after these.
        let prctl = [PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0, 0];
        (0..100).for_each(|_| _ = allocations(&mut w, nr::PRCTL, prctl));
        assert_eq!(allocations(&mut w, nr::PRCTL, prctl), 0, "the test itself asks for none");
        w.poke(word(20), id);
        assert_eq!(allocations(&mut w, nr::TIMER_CREATE, [MONOTONIC, 0, word(20), 0, 0, 0]), 0, "id {id}");
        assert_eq!(w.peek(word(20)), id);
    }
}
