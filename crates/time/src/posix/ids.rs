//! The id that a new timer tries: a counter, as in Linux.
//!
//! A thread that creates timers alone gets consecutive ids, and so do threads that take turns on one CPU. When
//! threads on different CPUs keep alternating, the next one takes the rest of a block at once, so that CPUs that
//! create timers in a loop do not bounce the same cache lines. Each thread's ids still rise; ids it leaves unused are
//! a gap.

use ids::CpuId;
use once_cell::race::OnceBox;
use sync::CachePadded;
use sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use sync::boxed_array;

/// Ids are 31 bits, as in the system call.
pub(super) const ID_MASK: u32 = i32::MAX as u32;
pub(super) const BLOCK_BITS: u32 = 5;
const BLOCK: u32 = 1 << BLOCK_BITS;
/// Contention threshold: switch to per-thread id blocks. A change of CPU and thread adds [`CHANGE`], no change
/// subtracts one; of two threads that compete for a lock, one often comes several times in a row.
const CROWD: u64 = 64;
const CHANGE: u64 = 8;
/// Blocks that are taken in addition to the rest of the counter's own.
const MORE: u32 = 2;
/// Slots for owners of blocks: threads, modulo this. A thread with the same remainder drops the rest of the other's
/// block.
const OWNERS: usize = 64;

/// The counter, in one word: the next id (32 bits), who took the last (the thread's lower 16
/// bits, the CPU's lower 8), and how often both had changed (8 bits).
#[derive(Clone, Copy)]
struct Count(u64);

const THREAD_SHIFT: u32 = 32;
const CPU_SHIFT: u32 = 48;
const CHANGES_SHIFT: u32 = 56;

impl Count {
    fn next(self) -> u32 {
        self.0 as u32
    }
    /// After this thread has taken `len` ids.
    fn taken(self, len: u32, cpu: CpuId, maker: u32, changes: u64) -> Count {
        let (thread, cpu) = (u64::from(maker as u16), u64::from(cpu.0 as u8));
        let next = u64::from(self.next().wrapping_add(len));
        Count(changes << CHANGES_SHIFT | cpu << CPU_SHIFT | thread << THREAD_SHIFT | next)
    }
    /// The count of changes if this thread takes the next id.
    fn changes(self, cpu: CpuId, maker: u32) -> u64 {
        let same = (self.0 >> THREAD_SHIFT) as u16 == maker as u16 || (self.0 >> CPU_SHIFT) as u8 == cpu.0 as u8;
        let changes = self.0 >> CHANGES_SHIFT;
        if same { changes.saturating_sub(1) } else { changes + CHANGE }
    }
}

/// The rest of a block in one word: its owner (25 bits), the number left (7 bits, never 0), and the first id (32
/// bits). 0 is none.
#[derive(Clone, Copy)]
struct Rest(u64);

const LEFT_SHIFT: u32 = 32;
const MAKER_SHIFT: u32 = 39;

impl Rest {
    fn new(maker: u32, left: u32, first: u32) -> Rest {
        if left == 0 {
            return Rest(0);
        }
        Rest(u64::from(maker) << MAKER_SHIFT | u64::from(left) << LEFT_SHIFT | u64::from(first))
    }
    fn is_of(self, maker: u32) -> bool {
        self.0 >> MAKER_SHIFT == u64::from(maker) << MAKER_SHIFT >> MAKER_SHIFT
    }
    fn left(self) -> u32 {
        (self.0 >> LEFT_SHIFT) as u32 & 0x7f
    }
    /// The rest without its first id.
    fn less_one(self, maker: u32) -> Rest {
        Rest::new(maker, self.left() - 1, (self.0 as u32).wrapping_add(1))
    }
}

/// The counter, and the blocks that were taken from it.
#[derive(Debug)]
pub(super) struct IdCounter {
    count: CachePadded<AtomicU64>,
    /// Made at the first crowd.
    rests: OnceBox<[CachePadded<AtomicU64>; OWNERS]>,
    /// A block was taken since the counter was last set.
    blocks_taken: CachePadded<AtomicBool>,
}

impl IdCounter {
    pub const fn new() -> IdCounter {
        IdCounter {
            count: CachePadded(AtomicU64::new(0)),
            rests: OnceBox::new(),
            blocks_taken: CachePadded(AtomicBool::new(false)),
        }
    }

    /// The counter's value.
    pub fn get(&self) -> u32 {
        Count(self.count.load(Relaxed)).next() & ID_MASK
    }

    /// Sets it, and invalidates all blocks taken before.
    pub fn set(&self, id: u32) {
        if self.blocks_taken.load(Relaxed) {
            self.blocks_taken.store(false, Relaxed);
            self.rests.get().into_iter().flatten().for_each(|rest| rest.store(0, Relaxed));
        }
        self.count.store(u64::from(id & ID_MASK), Relaxed);
    }

    /// The next id for the thread `maker`, which runs on `cpu`.
    #[inline]
    pub fn take(&self, cpu: CpuId, maker: u32) -> u32 {
        if let Some(rests) = self.rests.get()
            && let Some(id) = take_rest(&rests[maker as usize % OWNERS], maker)
        {
            return id;
        }
        let mut count = Count(self.count.load(Relaxed));
        loop {
            let changes = count.changes(cpu, maker);
            if changes >= CROWD
                && let Some(id) = self.take_block(cpu, maker)
            {
                return id;
            }
            let then = count.taken(1, cpu, maker, changes.min(CROWD));
            match self.count.compare_exchange(count.0, then.0, Relaxed, Relaxed) {
                Ok(_) => return count.next() & ID_MASK,
                Err(now) => count = Count(now),
            }
        }
    }

    /// `None` without memory.
    #[cold]
    fn take_block(&self, cpu: CpuId, maker: u32) -> Option<u32> {
        let rests = self.rests.get_or_try_init(|| boxed_array(|_| CachePadded::<AtomicU64>::default())).ok()?;
        self.blocks_taken.store(true, Relaxed);
        let mut count = Count(self.count.load(Relaxed));
        loop {
            let len = BLOCK - count.next() % BLOCK + MORE * BLOCK;
            // Contention persists: the next thread from another CPU takes a block, too.
            let then = count.taken(len, cpu, maker, CROWD - CHANGE);
            match self.count.compare_exchange(count.0, then.0, Relaxed, Relaxed) {
                Ok(_) => {
                    let rest = Rest::new(maker, len - 1, count.next().wrapping_add(1));
                    rests[maker as usize % OWNERS].store(rest.0, Relaxed);
                    return Some(count.next() & ID_MASK);
                }
                Err(now) => count = Count(now),
            }
        }
    }
}

/// The next of a thread's own; the rest of another is dropped.
#[inline]
fn take_rest(rest: &AtomicU64, maker: u32) -> Option<u32> {
    let now = Rest(rest.load(Relaxed));
    if now.0 == 0 {
        return None;
    }
    let goes_on = now.is_of(maker);
    let then = if goes_on { now.less_one(maker) } else { Rest(0) };
    let taken = rest.compare_exchange(now.0, then.0, Relaxed, Relaxed).is_ok();
    (taken && goes_on).then_some(now.0 as u32 & ID_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CpuId = CpuId(0);
    const B: CpuId = CpuId(1);

    #[test]
    fn a_thread_alone_counts_on_wherever_it_runs() {
        let ids = IdCounter::new();
        let got: std::vec::Vec<u32> = (0..100).map(|i| ids.take(if i % 3 == 0 { A } else { B }, 7)).collect();
        assert_eq!(got, (0..100).collect::<std::vec::Vec<u32>>());
    }

    #[test]
    fn threads_on_two_cpus_are_a_crowd_after_eight_changes() {
        let ids = IdCounter::new();
        let take = |i: u32| ids.take(CpuId((i % 2) as u16), 7 + i % 2);
        assert_eq!((0..8).find(|i| take(*i) != *i), None);
        assert_eq!((take(8), take(9)), (8, 96), "each has its own from here on");
        assert_eq!((take(10), take(11), take(12)), (9, 97, 10));
        // On one CPU, or as one thread, they never are.
        let ids = IdCounter::new();
        assert_eq!((0..100).find(|i| ids.take(A, i % 2) != *i), None);
        assert_eq!((100..200).find(|i| ids.take(CpuId((i % 2) as u16), 7) != *i), None);
        assert_eq!(ids.get(), 200, "and take no blocks");
    }

    #[test]
    fn a_crowd_takes_ids_to_the_end_of_a_block() {
        let ids = IdCounter::new();
        ids.set(5);
        assert_eq!(ids.take_block(A, 7), Some(5));
        assert_eq!(ids.get(), 96);
        assert_eq!((6..96).find(|id| ids.take(if id % 3 == 0 { A } else { B }, 7) != *id), None);
        assert_eq!((ids.take(A, 7), ids.get()), (96, 97), "the block is used up");
    }

    #[test]
    fn a_thread_s_ids_rise_even_if_another_drops_its_rest() {
        let ids = IdCounter::new();
        assert_eq!(ids.take_block(A, 7), Some(0));
        assert_eq!((ids.take(B, 8), ids.take(A, 7)), (96, 1), "another has another place");
        let same_place = 7 + OWNERS as u32;
        let (other, first, second) = (ids.take(A, same_place), ids.take(A, 7), ids.take(B, 7));
        assert!(96 < other && other < first && first < second, "{other} {first} {second}");
    }

    #[test]
    fn setting_the_counter_ends_all_blocks() {
        let ids = IdCounter::new();
        assert_eq!(ids.take_block(A, 7), Some(0));
        ids.set(100);
        assert_eq!(ids.take(A, 7), 100);
    }

    #[test]
    fn the_counter_wraps_after_the_largest_id() {
        let ids = IdCounter::new();
        ids.set(ID_MASK);
        assert_eq!([ids.take(A, 7), ids.take(A, 7)], [ID_MASK, 0]);
        ids.set(ID_MASK - 9);
        assert_eq!(ids.take_block(A, 1 << 24), Some(ID_MASK - 9));
        assert_eq!((0..10).map(|_| ids.take(A, 1 << 24)).last(), Some(0));
    }
}
