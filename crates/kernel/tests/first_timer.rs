//! What a process's first timer costs: a process that is restored makes timers with the ids that they had.

mod common;

use abi::nr;
use common::{World, word};
use ids::ThreadIdx;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;
const MONOTONIC: u64 = 1;

/// The system's allocator; it counts.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often memory is asked for while the call is made.
fn allocations(w: &mut World, nr: usize, args: [u64; 6]) -> usize {
    let before = ALLOCATIONS.load(Relaxed);
    assert_eq!(w.call(ThreadIdx(0), nr, args), Some(0));
    ALLOCATIONS.load(Relaxed) - before
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
