//! The image's own allocator, which never uses the program's.
//!
//! The algorithm is that of the library `talc`; the pages are the host's, a mebibyte at a time, the first of them
//! prefaulted. Larger blocks get pages of their own, which are zeroed and use memory only where they are written. In a
//! process that has grown large (a hundred thousand threads, a million timers), each mebibyte is prefaulted, because a
//! fault per page took a third of the time of creating a million timers. (Huge pages would cause fewer faults, but on
//! fragmented memory the host compacts it within the trap.)
//!
//! Zeroed tables, of which a process at first uses only the beginning, have two mebibytes of their own, which use
//! memory only where they are written. Without that they would be most of the memory that a start touches.
//!
//! One untouched mebibyte is kept in reserve. It uses no memory, and serves small allocations that cannot fail when the
//! host gives no more (RLIMIT_AS). Large requests (threads, timers) are refused first.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use host::borrower_memory as memory;
use host::os;
use sync::Lock;
use sync::atomic::{AtomicBool, Ordering::*};
use talc::{OomHandler, Span, Talc};

const CHUNK: usize = 1 << 20;
/// What a process uses from its start, including the first call of each kind.
const FROM_THE_START: usize = 104 << 10;
/// A heap of this size will probably keep growing, so its chunks are prefaulted.
const LARGE: usize = 16 << 20;

/// A zeroed block of at least this size is a table.
const TABLE: usize = 16 << 10;
/// All tables that a process makes at its start.
const TABLES: usize = 2 << 20;

/// The source of more memory.
struct Pages {
    /// Bytes so far.
    taken: usize,
    /// The address of a chunk in reserve, or 0.
    spare: usize,
    tables: Tables,
}

/// A chunk for tables, written to only through them.
struct Tables {
    /// The chunk's address; 0 before the first table.
    start: usize,
    /// How much of it has been given out.
    used: usize,
}

impl Tables {
    /// Zeroed memory; `None` if the chunk is full.
    fn take(&mut self, layout: Layout) -> Option<*mut u8> {
        if self.start == 0 {
            self.start = os::map(TABLES)? as usize;
        }
        let at = self.used.next_multiple_of(layout.align());
        self.used = at.checked_add(layout.size()).filter(|&end| end <= TABLES)?;
        let table = (self.start + at) as *mut u8;
        // Write first: the beginning is used soon, and a read before the write would cause a second fault. SAFETY:
        // fresh memory of ours.
        unsafe { table.write_volatile(0) };
        Some(table)
    }

    fn has(&self, block: *mut u8) -> bool {
        self.start != 0 && (self.start..self.start + TABLES).contains(&(block as usize))
    }
}

impl OomHandler for Pages {
    fn handle_oom(talc: &mut Talc<Pages>, layout: Layout) -> Result<(), ()> {
        let len = (layout.size() + layout.align() + 4096).next_multiple_of(CHUNK);
        let pages = &mut talc.oom_handler;
        let base = match os::map(len) {
            Some(base) => base,
            None if len == CHUNK && pages.spare != 0 => core::mem::take(&mut pages.spare) as *mut u8,
            None => {
                WAS_REFUSED.store(true, Relaxed);
                return Err(());
            }
        };
        if pages.spare == 0 {
            pages.spare = os::map(CHUNK).map_or(0, |spare| spare as usize);
        }
        let at_once = match pages.taken {
            0 => FROM_THE_START,
            LARGE.. => len,
            _ => 0,
        };
        pages.taken += len;
        // SAFETY: fresh pages of ours.
        unsafe { os::populate(base, at_once) };
        // SAFETY: fresh pages of ours, never given back.
        unsafe { talc.claim(Span::from_base_size(base, len)).map(|_| ()) }
    }
}

static HEAP: Lock<Talc<Pages>> =
    Lock::new(Talc::new(Pages { taken: 0, spare: 0, tables: Tables { start: 0, used: 0 } }));

/// Whether the host has refused a chunk, and there was none in reserve.
static WAS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether the host has refused memory, which then is the likely reason for a panic.
pub fn was_refused() -> bool {
    WAS_REFUSED.load(Relaxed)
}

/// Called in a forked child: its kernel has tables of its own. Its parent's are never freed there.
pub fn begin_child() {
    HEAP.lock().oom_handler.tables = Tables { start: 0, used: 0 };
}

/// Runs `f` while no thread is in the middle of an allocation: for fork. `f` must not allocate.
pub fn hold(f: &mut dyn FnMut()) {
    let _guard = HEAP.lock();
    f();
}

fn has_own_pages(layout: Layout) -> bool {
    layout.size() >= CHUNK && layout.align() <= 4096
}

/// The global allocator of the image.
pub struct Heap;

// SAFETY: the lock keeps the allocator's rules; talc keeps the layout's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if has_own_pages(layout) {
            return os::map(layout.size()).unwrap_or(core::ptr::null_mut());
        }
        if let Some(block) = memory::take(layout) {
            return block;
        }
        // SAFETY: the layout has a size, as the caller promises.
        unsafe { HEAP.lock().malloc(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= TABLE
            && !has_own_pages(layout)
            && let Some(table) = HEAP.lock().oom_handler.tables.take(layout)
        {
            return table;
        }
        // SAFETY: as the caller promises.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() && !has_own_pages(layout) {
            // SAFETY: the block has this length.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if has_own_pages(layout) {
            // SAFETY: mapped by `alloc` for this layout, and unused by now.
            return unsafe { os::unmap(block, layout.size()) };
        }
        let Some(block) = NonNull::new(block) else { return };
        if memory::has(block.as_ptr()) {
            return;
        }
        let mut heap = HEAP.lock();
        // Tables live as long as their process. If one were freed and reused for other blocks, those would look like
        // tables.
        if heap.oom_handler.tables.has(block.as_ptr()) {
            return;
        }
        // SAFETY: the block came from `alloc` with this layout, as the caller promises.
        unsafe { heap.free(block, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More tables than their chunk holds, repeatedly: each is zero and exclusive until it is freed.
    #[test]
    fn tables_come_zeroed_and_keep_to_themselves() {
        let mut room = TABLES;
        for round in 0..5 {
            // Later blocks would fit into freed ones.
            let layout = Layout::from_size_align(if round == 0 { 48 << 10 } else { 24 << 10 }, 64).unwrap();
            let mut all = [(); 80].map(|()| {
                // SAFETY: the layout has a size.
                let table = unsafe { Heap.alloc_zeroed(layout) };
                assert!(!table.is_null() && (table as usize).is_multiple_of(64));
                // SAFETY: so long is the block, and it is ours until it is given back.
                unsafe { core::slice::from_raw_parts_mut(table, layout.size()) }
            });
            let tables =
                all.iter().filter(|block| HEAP.lock().oom_handler.tables.has(block.as_ptr().cast_mut())).count();
            assert_eq!(tables, room / layout.size(), "no table is given out again");
            room -= tables * layout.size();
            for (i, block) in all.iter_mut().enumerate() {
                assert!(block.iter().all(|&byte| byte == 0), "block {i} of round {round}");
                block.fill(i as u8 + 1);
            }
            for (i, block) in all.into_iter().enumerate() {
                assert!(block.iter().all(|&byte| byte == i as u8 + 1), "block {i} of round {round}");
                // SAFETY: as above; each is given back once.
                unsafe { Heap.dealloc(block.as_mut_ptr(), layout) };
            }
        }
    }
}
