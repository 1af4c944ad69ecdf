//! Scheduling points in the code of the program and its libraries, in a controlled run: their addresses, and those of
//! their stubs and copies ([`patch::point`]).
//!
//! As in [`sites`](crate::base::sites), the list only grows and has no lock: handlers read it, and a forked child must
//! be able to use it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::null_mut;
use patch::Operand;
use sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// One scheduling point.
#[derive(Debug)]
pub struct Point {
    /// Its address, as the program knows it.
    pub place: u64,
    /// The length of the instructions replaced there.
    pub len: u64,
    /// The address of its stub or copy.
    pub stub: u64,
    /// The length of the stub or copy.
    pub stub_len: u64,
    /// For a breakpoint, the byte that it replaces.
    pub byte: Option<u8>,
    /// For a breakpoint, what the instruction there accesses.
    pub operand: Option<Operand>,
    /// How often it was reached.
    pub times: AtomicU32,
    /// How often it may be reached until it stops being a scheduling point.
    pub times_max: u32,
    /// For a breakpoint, the number of the place ([`chaos::Sighting::place`]).
    pub number: u64,
}

struct Node {
    next: *const Node,
    /// In the order of their places.
    points: Vec<Point>,
}

static FIRST: AtomicPtr<Node> = AtomicPtr::new(null_mut());

/// Adds points.
pub fn add(mut points: Vec<Point>) {
    points.sort_unstable_by_key(|point| point.place);
    let node = Box::into_raw(Box::new(Node { next: FIRST.load(Acquire), points }));
    // SAFETY: not yet seen by anybody else.
    while let Err(now) = FIRST.compare_exchange(unsafe { (*node).next }.cast_mut(), node, AcqRel, Acquire) {
        // SAFETY: as above.
        unsafe { (*node).next = now };
    }
}

/// The first result of a search in the lists that were added.
fn find(search: impl Fn(&'static [Point]) -> Option<&'static Point>) -> Option<&'static Point> {
    let mut at = FIRST.load(Acquire).cast_const();
    // SAFETY: null or a complete node, which lives for ever.
    while let Some(node) = unsafe { at.as_ref() } {
        if let Some(point) = search(&node.points) {
            return Some(point);
        }
        at = node.next;
    }
    None
}

/// The breakpoint at this address.
pub(crate) fn breakpoint(at: u64) -> Option<&'static Point> {
    let of = |points: &'static [Point]| points.get(points.binary_search_by_key(&at, |point| point.place).ok()?);
    find(of).filter(|point| point.byte.is_some())
}

/// The program counter that the program would see instead of an address in a stub or a copy.
pub(crate) fn seen(rip: u64) -> Option<u64> {
    let point = find(|points| points.iter().find(|point| (point.stub..point.stub + point.stub_len).contains(&rip)))?;
    // A copied instruction is followed by the jump back, five bytes long.
    let behind = point.byte.is_some() && rip - point.stub >= point.stub_len - 5;
    Some(if behind { point.place + point.len } else { point.place })
}

impl Point {
    /// Counts that a thread has reached the breakpoint. True if that was the last time and it must be removed.
    pub(crate) fn come(&self) -> bool {
        self.times.fetch_add(1, Relaxed) + 1 == self.times_max
    }
}
