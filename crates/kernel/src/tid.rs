//! Thread ids and their slots.
//!
//! Ids come in blocks that no other process of ours uses: equal ids in two processes would let both into one
//! process-shared recursive mutex. Within the blocks they are assigned in ascending order and wrap around, as in Linux
//! (`alloc_pid`), so that an id is reused late.

use alloc::boxed::Box;
use ids::{ThreadIdx, Tid};
use once_cell::race::OnceBox;
use sync::Lock;
use sync::atomic::{AtomicI32, AtomicU32, Ordering::*};

/// Ids per block.
pub const BLOCK: usize = 1 << 14;
const BLOCKS: usize = 128;

#[derive(Debug)]
struct Block {
    first: AtomicI32,
    /// Slot + 1, by the id's offset in the block.
    slots: Box<[AtomicU32]>,
}

#[derive(Debug, Default)]
struct Cursor {
    blocks: usize,
    next: usize,
    live: usize,
}

#[derive(Debug)]
pub struct TidMap {
    blocks: [OnceBox<Block>; BLOCKS],
    cursor: Lock<Cursor>,
    /// The main thread's id, from the host; its slot is `main_slot - 1`.
    main: AtomicI32,
    main_slot: AtomicU32,
}

impl TidMap {
    pub fn new() -> TidMap {
        TidMap {
            blocks: core::array::from_fn(|_| OnceBox::new()),
            cursor: Lock::new(Cursor::default()),
            main: AtomicI32::new(0),
            main_slot: AtomicU32::new(0),
        }
    }

    pub fn adopt(&self, tid: Tid, t: ThreadIdx) {
        self.main_slot.store(t.0 + 1, Relaxed);
        self.main.store(tid.0, Release);
    }

    pub fn is_main(&self, tid: Tid) -> bool {
        self.main.load(Acquire) == tid.0
    }

    /// Assigns the next free id. A new block is claimed while more than half of the ids are in use.
    pub fn assign(&self, t: ThreadIdx, claim_block: impl FnOnce() -> Option<i32>) -> Option<Tid> {
        let mut c = self.cursor.lock();
        if (c.live + 1) * 2 > c.blocks * BLOCK
            && c.blocks < BLOCKS
            && let Some(slots) = sync::zeroed_slice(BLOCK)
            && let Some(first) = claim_block()
        {
            let _ = self.blocks[c.blocks].set(Box::new(Block { first: AtomicI32::new(first), slots }));
            c.next = c.blocks * BLOCK;
            c.blocks += 1;
        }
        let total = c.blocks * BLOCK;
        for _ in 0..total {
            let i = if c.next >= total { 0 } else { c.next };
            c.next = i + 1;
            let block = self.blocks[i / BLOCK].get()?;
            let slot = &block.slots[i % BLOCK];
            if slot.load(Relaxed) == 0 {
                slot.store(t.0 + 1, Release);
                c.live += 1;
                return Some(Tid(block.first.load(Relaxed) + (i % BLOCK) as i32));
            }
        }
        None
    }

    pub fn release(&self, tid: Tid) {
        if let Some(slot) = self.slot(tid) {
            slot.store(0, Release);
            self.cursor.lock().live -= 1;
        } else if self.main.load(Relaxed) == tid.0 {
            self.main_slot.store(0, Release);
        }
    }

    fn slot(&self, tid: Tid) -> Option<&AtomicU32> {
        self.blocks.iter().map_while(|b| b.get()).find_map(|b| {
            let i = tid.0.checked_sub(b.first.load(Relaxed))?;
            b.slots.get(usize::try_from(i).ok()?)
        })
    }

    /// The lowest id in use above this one, except the main thread's, and its slot. Walks over unused ids, which are
    /// few: a block is added when half of the ids are in use.
    pub fn next(&self, after: Tid) -> Option<(Tid, ThreadIdx)> {
        let of_block = |block: &Block| {
            let first = block.first.load(Relaxed);
            let from = (i64::from(after.0) + 1 - i64::from(first)).max(0) as usize;
            let slots = block.slots.get(from..)?.iter().enumerate();
            let (at, slot) = slots.map(|(at, slot)| (at, slot.load(Acquire))).find(|(_, slot)| *slot != 0)?;
            Some((Tid(first + (from + at) as i32), ThreadIdx(slot - 1)))
        };
        self.blocks.iter().map_while(|b| b.get()).filter_map(of_block).min_by_key(|(tid, _)| tid.0)
    }

    pub fn find(&self, tid: Tid) -> Option<ThreadIdx> {
        let raw = match self.slot(tid) {
            Some(slot) => slot.load(Acquire),
            None if self.is_main(tid) => self.main_slot.load(Acquire),
            None => 0,
        };
        raw.checked_sub(1).map(ThreadIdx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_up_come_round_and_skip_the_living() {
        let map = TidMap::new();
        let mut claims = 0;
        let mut claim = || {
            claims += 1;
            Some(1_000_000 * claims)
        };
        let first = map.assign(ThreadIdx(7), &mut claim).unwrap();
        assert_eq!(first, Tid(1_000_000));
        for i in 1..BLOCK as i32 {
            let tid = map.assign(ThreadIdx(9), &mut claim).unwrap();
            assert_eq!(tid, Tid(1_000_000 + i));
            map.release(tid);
        }
        assert_eq!(map.assign(ThreadIdx(8), &mut claim), Some(Tid(1_000_001)));
        assert_eq!(map.find(first), Some(ThreadIdx(7)));
        assert_eq!(map.find(Tid(1_000_002)), None);
        assert_eq!(claims, 1);
    }

    #[test]
    fn a_refused_block_is_no_id() {
        assert_eq!(TidMap::new().assign(ThreadIdx(1), || None), None);
    }
}
