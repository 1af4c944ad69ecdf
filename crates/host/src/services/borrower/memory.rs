//! Memory that a borrower uses during an exec: a piece behind its block.
//!
//! SIGKILL ends a borrower wherever it is; if it held the allocator's lock, that would be held for ever. Most borrowers
//! only execute a program, so exec takes none of our locks. What does not fit into the piece comes from the allocator
//! anyway.
//!
//! The piece is freed as a whole, when the borrower makes another exec or has left our memory. So its blocks are not
//! freed one by one, neither by the borrower nor by the thread that frees the borrower's state (`bury`).

use crate::carriers::carrier::{Carrier, PIECE};
use core::alloc::Layout;
use sync::atomic::{AtomicUsize, Ordering::*};

/// [`Carrier::taken`] outside an exec.
const CLOSED: usize = usize::MAX;

/// The address of the piece of the borrower that is being buried; 0: none.
static BURIED: AtomicUsize = AtomicUsize::new(0);

/// Memory for a caller that is a borrower in an exec; `None` for others, or if there is no room.
pub fn take(layout: Layout) -> Option<*mut u8> {
    let me = executing()?;
    let piece = piece_of(me);
    let at = (piece + me.taken.load(Relaxed)).next_multiple_of(layout.align());
    let end = at.checked_add(layout.size()).filter(|&end| end <= piece + PIECE)?;
    me.taken.store(end - piece, Relaxed);
    Some(at as *mut u8)
}

/// Whether a block that the caller frees lies in a piece.
pub fn has(block: *mut u8) -> bool {
    let within = |piece: usize| (piece..piece + PIECE).contains(&(block as usize));
    let buried = BURIED.load(Relaxed);
    buried != 0 && within(buried) || borrower().is_some_and(|me| within(piece_of(me)))
}

/// Runs an exec of the calling borrower, which uses memory of its piece. Nothing that it took before is in use.
pub(crate) fn within_piece<T>(me: &Carrier, exec: impl FnOnce() -> T) -> T {
    me.taken.store(0, Relaxed);
    let result = exec();
    me.taken.store(CLOSED, Relaxed);
    result
}

/// Frees what a borrower that has left our memory leaves behind. One caller at a time.
pub(super) fn bury(child: *mut Carrier, free: impl FnOnce()) {
    // SAFETY: a block that is not freed yet.
    BURIED.store(piece_of(unsafe { &*child }), Relaxed);
    free();
    BURIED.store(0, Relaxed);
}

fn piece_of(carrier: &Carrier) -> usize {
    Carrier::piece_of(core::ptr::from_ref(carrier).cast_mut()) as usize
}

fn borrower() -> Option<&'static Carrier> {
    (arch::base::has_gs() && Carrier::is_borrowers()).then(Carrier::me)
}

fn executing() -> Option<&'static Carrier> {
    borrower().filter(|me| me.taken.load(Relaxed) != CLOSED)
}
