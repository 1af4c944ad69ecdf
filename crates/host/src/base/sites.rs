//! Translates our code's addresses to the program's: signal frames show the program's own code, not our stubs and
//! entries.
//!
//! [`patch::Places`] has the correspondence for each piece of patched code; this is the list of them. The list only
//! grows and has no lock: a forked child must be able to use it.

use crate::base::points;
use alloc::boxed::Box;
use arch::entry;
use core::ptr::null_mut;
use patch::Places;
use sync::atomic::{AtomicPtr, Ordering::*};

/// Debuggers read the first two fields.
#[repr(C)]
struct Node {
    raw: [u64; 4],
    next: *const Node,
    places: Places,
}

static FIRST: AtomicPtr<Node> = AtomicPtr::new(null_mut());

/// Adds a piece of patched code and its stubs.
pub fn add(places: Places) {
    let node = Box::into_raw(Box::new(Node { raw: places.raw(), next: FIRST.load(Acquire), places }));
    // SAFETY: not yet seen by anybody else.
    while let Err(now) = FIRST.compare_exchange(unsafe { (*node).next }.cast_mut(), node, AcqRel, Acquire) {
        // SAFETY: as above.
        unsafe { (*node).next = now };
    }
}

/// The address of the list's head, for debuggers.
pub(crate) fn first() -> u64 {
    &raw const FIRST as u64
}

fn find<T>(look: impl Fn(&Places) -> Option<T>) -> Option<T> {
    let mut at = FIRST.load(Acquire).cast_const();
    // SAFETY: null or a complete node, which lives for ever.
    while let Some(node) = unsafe { at.as_ref() } {
        if let Some(found) = look(&node.places) {
            return Some(found);
        }
        at = node.next;
    }
    None
}

/// The program counter that the program would see. At one of our entries the thread is still about to make the call
/// that returns to `rcx`, from a stub or from a dispatched two-byte instruction. Both arguments may be read while
/// another host thread writes them; then the result is meaningless.
pub(crate) fn seen(rip: u64, rcx: u64) -> u64 {
    const INSTRUCTION_LEN: u64 = 2;
    let entries = [entry::entresol_entry_call as *const () as u64, entry::entresol_entry_vectors as *const () as u64];
    if entries.contains(&rip) {
        return find(|places| places.call_before(rcx)).unwrap_or(rcx.wrapping_sub(INSTRUCTION_LEN));
    }
    find(|places| places.seen(rip)).or_else(|| points::seen(rip)).unwrap_or(rip)
}

/// Whether a thread is in the middle of what the program sees as one instruction, which would be repeated if the thread
/// were sent to it.
pub(crate) fn is_within(rip: u64, rcx: u64) -> bool {
    real(seen(rip, rcx)) != rip
}

/// The real address at which a thread continues that is sent to the program's address `rip`.
pub(crate) fn real(rip: u64) -> u64 {
    find(|places| places.real(rip)).unwrap_or(rip)
}
