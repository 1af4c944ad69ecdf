//! The image's own allocator: it never touches the program's.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::raw;

const CHUNK: usize = 1 << 20;

/// Hands out memory from chunks of fresh pages.
pub struct Heap {
    locked: AtomicBool,
    /// First free byte and end of the current chunk.
    free: UnsafeCell<(usize, usize)>,
}

// SAFETY: `free` is touched only between the acquiring and the releasing of `locked`.
unsafe impl Sync for Heap {}

impl Heap {
    /// An empty heap.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "only ever a static")]
    pub const fn new() -> Self {
        Self { locked: AtomicBool::new(false), free: UnsafeCell::new((0, 0)) }
    }

    fn bump(free: &mut (usize, usize), layout: Layout) -> *mut u8 {
        let at = free.0.next_multiple_of(layout.align());
        match at.checked_add(layout.size()) {
            Some(end) if end <= free.1 => {
                free.0 = end;
                at as *mut u8
            }
            _ => core::ptr::null_mut(),
        }
    }
}

// SAFETY: a block is handed out once, from pages of our own, at the alignment asked for.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        while self.locked.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        // SAFETY: the lock is held.
        let free = unsafe { &mut *self.free.get() };
        let mut block = Self::bump(free, layout);
        if block.is_null() {
            let size = (layout.size() + layout.align()).next_multiple_of(CHUNK);
            let chunk = raw::map_pages(size);
            if !chunk.is_null() {
                *free = (chunk as usize, chunk as usize + size);
                block = Self::bump(free, layout);
            }
        }
        self.locked.store(false, Ordering::Release);
        block
    }

    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {}
}
