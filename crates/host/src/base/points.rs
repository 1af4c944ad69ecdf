//! Scheduling points in the program's and its libraries' code, in a controlled run: where they are, and where their stubs and
//! copies lie ([`patch::point`]).
//!
//! As in [`sites`](crate::base::sites), the list only grows and has no lock: handlers read it, and a forked child must find
//! it usable.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::null_mut;
use sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// After so many times an access is no scheduling point any more: in a loop, each costs a signal.
const TIMES_MAX: u32 = 1000;

/// One scheduling point.
#[derive(Debug)]
pub struct Point {
    /// Where the program believes to be.
    pub place: u64,
    /// The length of what was replaced there.
    pub len: u64,
    /// Its stub, or its copy.
    pub stub: u64,
    /// The length of that.
    pub stub_len: u64,
    /// For a breakpoint, the byte that it replaces.
    pub byte: Option<u8>,
    /// How often it was come to.
    pub times: AtomicU32,
}

struct Node {
    next: *const Node,
    points: Vec<Point>,
}

static FIRST: AtomicPtr<Node> = AtomicPtr::new(null_mut());

/// More points.
pub fn add(points: Vec<Point>) {
    let node = Box::into_raw(Box::new(Node { next: FIRST.load(Acquire), points }));
    // SAFETY: not yet seen by anybody else.
    while let Err(now) = FIRST.compare_exchange(unsafe { (*node).next }.cast_mut(), node, AcqRel, Acquire) {
        // SAFETY: as above.
        unsafe { (*node).next = now };
    }
}

fn find(is: impl Fn(&Point) -> bool) -> Option<&'static Point> {
    let mut at = FIRST.load(Acquire).cast_const();
    // SAFETY: null or a complete node, which lives for ever.
    while let Some(node) = unsafe { at.as_ref() } {
        if let Some(point) = node.points.iter().find(|point| is(point)) {
            return Some(point);
        }
        at = node.next;
    }
    None
}

/// The breakpoint at this address.
pub(crate) fn breakpoint(at: u64) -> Option<&'static Point> {
    find(|point| point.place == at && point.byte.is_some())
}

/// The program counter that the program would see in place of an address in a stub or a copy.
pub(crate) fn seen(rip: u64) -> Option<u64> {
    let point = find(|point| (point.stub..point.stub + point.stub_len).contains(&rip))?;
    // Behind a copied instruction comes the jump back, of five bytes.
    let behind = point.byte.is_some() && rip - point.stub >= point.stub_len - 5;
    Some(if behind { point.place + point.len } else { point.place })
}

impl Point {
    /// A thread comes to the breakpoint. Says whether it is to be taken out, because this was often enough.
    pub(crate) fn come(&self) -> bool {
        self.times.fetch_add(1, Relaxed) + 1 == TIMES_MAX
    }
}
