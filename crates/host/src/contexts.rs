//! Where threads' states are kept: contexts by slot, and buffers for extended state.

use crate::os;
use arch::Context;
use ids::{THREADS_MAX, ThreadIdx};
use sync::Lock;
use sync::atomic::{AtomicPtr, Ordering::*};

/// So many lie together.
pub(crate) const CHUNK: usize = 64;

/// Contexts by slot, in chunks that never move.
pub struct Contexts {
    chunks: *mut AtomicPtr<Context>,
}

// SAFETY: the table is written once per entry by compare-exchange; contexts have their own rule.
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
        let chunks = os::map(THREADS_MAX / CHUNK * size_of::<AtomicPtr<Context>>())?.cast();
        Some(Contexts { chunks })
    }

    /// Where the table of chunks lies: for debuggers.
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

    /// Makes the slot's chunk.
    pub fn reserve(&self, t: ThreadIdx) -> Option<()> {
        let slot = self.chunk(t);
        if !slot.load(Acquire).is_null() {
            return Some(());
        }
        let bytes = CHUNK * size_of::<Context>();
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

/// Buffers for extended state: a list through their first words. They are taken at
/// preemption and come back at the thread's next trap.
#[derive(Debug, Default)]
pub struct StateBuffers {
    free: Lock<usize>,
}

const GROW: usize = 64 * 1024;

impl StateBuffers {
    /// A buffer, 64-byte aligned, of [`arch::xstate::size`] bytes; null without memory.
    pub fn take(&self) -> *mut u8 {
        let mut free = self.free.lock();
        if *free == 0 {
            *free = grow();
        }
        let p = *free as *mut usize;
        if !p.is_null() {
            // SAFETY: a buffer on the list holds the next one's address in its first word.
            *free = unsafe { p.read() };
        }
        p.cast()
    }

    /// Takes a buffer back.
    pub fn give(&self, p: *mut u8) {
        let mut free = self.free.lock();
        // SAFETY: the caller has no use for it any more; it is at least a word and aligned.
        unsafe { p.cast::<usize>().write(*free) };
        *free = p as usize;
    }
}

/// Fresh buffers as a list.
fn grow() -> usize {
    let size = arch::xstate::size();
    let Some(p) = os::map(GROW) else { return 0 };
    let mut next = 0;
    for i in (0..GROW / size).rev() {
        // SAFETY: within the fresh mapping.
        unsafe {
            let buffer = p.add(i * size).cast::<usize>();
            buffer.write(next);
            next = buffer as usize;
        }
    }
    next
}
