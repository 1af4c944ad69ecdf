//! Where threads' states are kept: contexts by slot, and buffers for extended state.

use crate::base::os;
use arch::Context;
use arch::context::Trapped;
use ids::{THREADS_MAX, ThreadIdx};
use sync::Lock;
use sync::atomic::{AtomicPtr, Ordering::*};

/// Contexts per chunk. A process with few threads has all contexts on one page.
pub(crate) const CHUNK: usize = 16;

/// Contexts by slot, in chunks that never move.
pub struct Contexts {
    chunks: *mut AtomicPtr<Context>,
}

// SAFETY: the table is written once per entry by compare-exchange; access to a context is governed by its claim.
unsafe impl Sync for Contexts {}
// SAFETY: as above.
unsafe impl Send for Contexts {}

impl core::fmt::Debug for Contexts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Contexts")
    }
}

impl Contexts {
    /// An empty table; `None` without memory.
    pub fn new() -> Option<Contexts> {
        let chunks: *mut AtomicPtr<Context> = os::map(THREADS_MAX / CHUNK * size_of::<AtomicPtr<Context>>())?.cast();
        // The main thread's entry is read soon, and a read before the write would cause a second fault.
        // SAFETY: fresh memory of ours.
        unsafe { chunks.write_volatile(AtomicPtr::default()) };
        Some(Contexts { chunks })
    }

    /// The address of the table of chunks, for debuggers.
    pub(crate) fn table(&self) -> u64 {
        self.chunks as u64
    }

    fn chunk(&self, t: ThreadIdx) -> &AtomicPtr<Context> {
        // SAFETY: within the table, by the remainder; it is zeroed memory: null pointers.
        unsafe { &*self.chunks.add(t.index() / CHUNK % (THREADS_MAX / CHUNK)) }
    }

    /// The context of a slot that has been reserved.
    #[inline(always)]
    pub fn get(&self, t: ThreadIdx) -> *mut Context {
        let chunk = self.chunk(t).load(Acquire);
        debug_assert!(!chunk.is_null());
        // SAFETY: a chunk holds CHUNK contexts.
        unsafe { chunk.add(t.index() % CHUNK) }
    }

    /// The last fault of the thread in a slot. Faults lie behind the chunk's contexts, so that contexts stay small for
    /// switches; their memory is used only when a thread faults.
    pub fn trapped(&self, t: ThreadIdx) -> *mut Trapped {
        // SAFETY: behind a chunk's contexts is a record for each.
        unsafe { self.chunk(t).load(Acquire).add(CHUNK).cast::<Trapped>().add(t.index() % CHUNK) }
    }

    /// Records the thread's last fault. A new thread inherits its creator's.
    pub(crate) fn set_trapped(&self, t: ThreadIdx, trapped: Trapped) {
        let at = self.trapped(t);
        // SAFETY: contexts live for ever, and the caller has exclusive use of the thread.
        unsafe {
            if *at != trapped {
                *at = trapped;
            }
        }
    }

    /// Allocates the slot's chunk, and buffers for all its threads.
    pub fn reserve(&self, t: ThreadIdx, buffers: &StateBuffers) -> Option<()> {
        let slot = self.chunk(t);
        if !slot.load(Acquire).is_null() {
            return Some(());
        }
        buffers.reserve(CHUNK)?;
        let bytes = CHUNK * (size_of::<Context>() + size_of::<Trapped>());
        let chunk: *mut Context = os::map(bytes)?.cast();
        for i in 0..CHUNK {
            // SAFETY: fresh memory of that size, page-aligned.
            unsafe { chunk.add(i).write(Context::default()) };
        }
        if slot.compare_exchange(core::ptr::null_mut(), chunk, AcqRel, Acquire).is_err() {
            // SAFETY: nobody has seen this chunk.
            unsafe { os::unmap(chunk.cast(), bytes) };
        }
        Some(())
    }
}

/// Buffers for extended state, taken at preemption and returned at the thread's next trap.
///
/// A buffer is reserved for each thread ([`StateBuffers::reserve`]), and each carrier brings the one it holds, so
/// there is always one, even if memory runs out later. A buffer takes memory when it is first used.
#[derive(Debug, Default)]
pub struct StateBuffers {
    list: Lock<BufferList>,
}

/// The free buffers.
#[derive(Debug, Default)]
struct BufferList {
    /// Buffers that were used before: a list through their first words.
    free: usize,
    /// The address of the buffers that were never used. They are contiguous and taken from the end; until the first one
    /// is taken, its first two words hold the address and number of the next such range.
    fresh: usize,
    /// The number of buffers left there.
    left: usize,
    /// How many of them were mapped ahead of any thread's reservation.
    ahead: usize,
    /// How many were ever mapped.
    mapped: usize,
}

/// How many buffers are mapped if none is left in spite of the reservations.
const GROW: usize = 16;

/// The bytes of a buffer: the state, and room for the end marker that it has in a signal frame.
fn room() -> usize {
    const MARKER: usize = 64;
    arch::xstate::size() + MARKER
}

impl StateBuffers {
    /// Reserves `count` more buffers. If memory allows, as many as there are already are mapped at once, because each
    /// mapping uses a page of memory for the link to the next range.
    pub fn reserve(&self, count: usize) -> Option<()> {
        let wanted = {
            let mut list = self.list.lock();
            if let Some(ahead) = list.ahead.checked_sub(count) {
                list.ahead = ahead;
                return Some(());
            }
            count.max(list.mapped)
        };
        self.map(wanted, wanted - count).or_else(|| self.map(count, 0))
    }

    /// Maps `count` buffers, `ahead` of which are not reserved yet.
    fn map(&self, count: usize, ahead: usize) -> Option<()> {
        let p: *mut usize = os::map(count * room())?.cast();
        let mut list = self.list.lock();
        // The first range links to none, as fresh memory says already: its pages stay untouched.
        if list.left > 0 {
            // SAFETY: fresh memory, larger than two words.
            unsafe {
                p.write(list.fresh);
                p.add(1).write(list.left);
            }
        }
        (list.fresh, list.left) = (p as usize, count);
        list.ahead += ahead;
        list.mapped += count;
        Some(())
    }

    /// A buffer, 64-byte aligned, of [`arch::xstate::size`] bytes and four more; null without memory.
    pub fn take(&self) -> *mut u8 {
        let taken = self.list.lock().take();
        if taken.is_null() && self.map(GROW, 0).is_some() { self.list.lock().take() } else { taken }
    }

    /// Takes a buffer back.
    pub fn give(&self, p: *mut u8) {
        let mut list = self.list.lock();
        // SAFETY: the caller has no use for it any more; it is at least a word and aligned.
        unsafe { p.cast::<usize>().write(list.free) };
        list.free = p as usize;
    }
}

impl BufferList {
    fn take(&mut self) -> *mut u8 {
        let p = self.free as *mut usize;
        if !p.is_null() {
            // SAFETY: a buffer on the list holds the next one's address in its first word.
            self.free = unsafe { p.read() };
            return p.cast();
        }
        let first = self.fresh as *mut usize;
        let Some(others) = self.left.checked_sub(1) else { return core::ptr::null_mut() };
        // SAFETY: `left` buffers lie there; the first one still has what `map` wrote.
        unsafe {
            if others == 0 {
                (self.fresh, self.left) = (first.read(), first.add(1).read());
                return first.cast();
            }
            self.left = others;
            first.cast::<u8>().add(others * room())
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    impl StateBuffers {
        /// How many are mapped, and how many of them nobody has reserved.
        fn known(&self) -> (usize, usize) {
            let list = self.list.lock();
            (list.mapped, list.ahead)
        }
    }

    #[test]
    fn what_was_reserved_can_be_taken_each_once_and_again_when_it_is_back() {
        let buffers = StateBuffers::default();
        [3, 1, 64].into_iter().for_each(|count| buffers.reserve(count).unwrap());
        let size = room();
        assert_eq!(buffers.known(), (70, 2), "three more when there were three");
        buffers.reserve(2).unwrap();
        assert_eq!(buffers.known(), (70, 0), "what is there is reserved first");
        let left = || buffers.list.lock().left;
        let taken: Vec<usize> = (0..70).map(|_| buffers.take() as usize).collect();
        assert_eq!((left(), buffers.list.lock().fresh), (0, 0), "none is left, and none was made beside them");
        let places: BTreeSet<usize> = taken.iter().copied().collect();
        assert!(places.len() == 70 && places.iter().all(|&p| p != 0 && p % 64 == 0));
        assert!(places.iter().zip(places.iter().skip(1)).all(|(a, b)| b - a >= size), "none lies in another");
        // SAFETY: each has that size and is ours.
        taken.iter().for_each(|&p| unsafe { core::ptr::write_bytes(p as *mut u8, 0xff, size) });
        taken.iter().for_each(|&p| buffers.give(p as *mut u8));
        assert_eq!((0..70).map(|_| buffers.take() as usize).collect::<BTreeSet<_>>(), places);
        assert!(!buffers.take().is_null(), "there is more while there is memory");
        assert_eq!(left(), GROW - 1);
    }

    #[test]
    fn room_for_threads_is_room_for_their_buffers() {
        let (contexts, buffers) = (Contexts::new().unwrap(), StateBuffers::default());
        for t in [0, 63, 64, 65] {
            contexts.reserve(ThreadIdx(t), &buffers).unwrap();
        }
        assert_eq!(buffers.known(), (4 * CHUNK, CHUNK), "three chunks' buffers, and as many ahead as there were twice");
        (0..3 * CHUNK).for_each(|_| assert!(!buffers.take().is_null()));
        contexts.reserve(ThreadIdx(5 * CHUNK as u32), &buffers).unwrap();
        (0..CHUNK).for_each(|_| assert!(!buffers.take().is_null()));
        assert_eq!(buffers.known(), (4 * CHUNK, 0));
    }
}
