//! The image's own allocator: it never touches the program's.
//!
//! The algorithm is the library `talc`'s; the pages are the host's, a mebibyte at a time.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use host::os;
use sync::Lock;
use talc::{OomHandler, Span, Talc};

const CHUNK: usize = 1 << 20;

/// Where more memory comes from.
struct Pages;

impl OomHandler for Pages {
    fn handle_oom(talc: &mut Talc<Pages>, layout: Layout) -> Result<(), ()> {
        let len = (layout.size() + layout.align() + 4096).next_multiple_of(CHUNK);
        let base = os::map(len).ok_or(())?;
        // SAFETY: fresh pages of ours, never given back.
        unsafe { talc.claim(Span::from_base_size(base, len)).map(|_| ()) }
    }
}

static HEAP: Lock<Talc<Pages>> = Lock::new(Talc::new(Pages));

/// Runs `f` while nobody can be in the middle of an allocation: for fork. `f` must not allocate.
pub fn hold(f: &mut dyn FnMut()) {
    let _guard = HEAP.lock();
    f();
}

/// The global allocator of the image.
pub struct Heap;

// SAFETY: the lock keeps the allocator's rules; talc keeps the layout's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout has a size, as the caller promises.
        unsafe { HEAP.lock().malloc(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(block) = NonNull::new(block) {
            // SAFETY: the block came from `alloc` with this layout, as the caller promises.
            unsafe { HEAP.lock().free(block, layout) };
        }
    }
}
