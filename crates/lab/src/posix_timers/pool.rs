//! The timers themselves, the same for all older designs: 128 bytes each, from sixteen free lists so that the lists
//! are no bottleneck.

use alloc::boxed::Box;
use alloc::vec::Vec;
use sync::atomic::AtomicU32;
use sync::{CachePadded, Lock};

const LISTS: usize = 16;

/// A timer, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub owner: AtomicU32,
    pub id: AtomicU32,
    /// The next in a chain.
    pub next: AtomicU32,
    /// The field a look-up reads under the timer's own lock.
    pub overrun: Lock<u32>,
}

#[derive(Debug)]
pub(super) struct Pool {
    nodes: Box<[CachePadded<Node>]>,
    free: [CachePadded<Lock<Vec<u32>>>; LISTS],
}

impl Pool {
    pub fn new(timers: usize) -> Pool {
        let list = |n: usize| (n as u32..timers as u32).step_by(LISTS).rev().collect();
        Pool {
            nodes: (0..timers).map(|_| CachePadded::default()).collect(),
            free: core::array::from_fn(|n| CachePadded(Lock::new(list(n)))),
        }
    }

    pub fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    /// A node for this id.
    pub fn take(&self, id: u32) -> Option<u32> {
        let lists = (0..LISTS).map(|n| &self.free[(id as usize + n) % LISTS]);
        lists.into_iter().find_map(|list| list.lock().pop())
    }

    pub fn give(&self, number: u32) {
        self.free[number as usize % LISTS].lock().push(number);
    }
}
