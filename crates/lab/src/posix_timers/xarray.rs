//! The seed's other candidate: a radix tree of 64-way nodes per process (Linux's xarray).
//! Faster to look up than the hash, but a node of 576 bytes for every 64 ids that are not
//! all unused: 2,048 timers at a stride of 512, as a restored process may have them, take
//! more than a megabyte. And every creation takes the process's lock.

use crate::posix_timers::pool::Pool;
use crate::posix_timers::{ID_MASK, TimerIds};
use alloc::boxed::Box;
use ids::CpuId;
use once_cell::race::OnceBox;
use sync::Lock;
use sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

const BITS: u32 = 6;
const WAYS: usize = 1 << BITS;
const LEVELS: u32 = 6;
/// The size of a node in Linux: 64 pointers, the tree's own links, and marks.
const LINUX_NODE_BYTES: usize = 576;

/// A node: children above, timers (a pool number plus one) in the lowest level.
#[derive(Debug)]
struct Node {
    children: [OnceBox<Node>; WAYS],
    timers: [AtomicU32; WAYS],
}

impl Node {
    fn new() -> Node {
        Node { children: [const { OnceBox::new() }; WAYS], timers: core::array::from_fn(|_| AtomicU32::new(0)) }
    }
}

#[derive(Debug)]
struct Process {
    /// Trees of every height: ids below 64, below 4096, …; Linux grows one tree upwards.
    trees: [OnceBox<Node>; LEVELS as usize],
    lock: Lock<usize>,
    next_id: AtomicU32,
}

/// A radix tree per process.
#[derive(Debug)]
pub struct Xarray {
    processes: Box<[Process]>,
    nodes: Pool,
}

fn height(id: u32) -> u32 {
    (u32::BITS - id.leading_zeros()).div_ceil(BITS).max(1)
}

impl Process {
    /// The lowest node on the way to `id`, made if `make`.
    fn leaf(&self, id: u32, make: bool, made: &mut usize) -> Option<&Node> {
        let height = height(id);
        let mut node = child(&self.trees[height as usize - 1], make, made)?;
        for level in (1..height).rev() {
            let way = (id >> (BITS * level)) as usize % WAYS;
            node = child(&node.children[way], make, made)?;
        }
        Some(node)
    }

    fn insert(&self, id: u32, number: u32) -> bool {
        let mut nodes = self.lock.lock();
        let Some(leaf) = self.leaf(id, true, &mut nodes) else { return false };
        let timer = &leaf.timers[id as usize % WAYS];
        let is_free = timer.load(Relaxed) == 0;
        if is_free {
            timer.store(number + 1, Release);
        }
        is_free
    }
}

fn child<'a>(at: &'a OnceBox<Node>, make: bool, made: &mut usize) -> Option<&'a Node> {
    if at.get().is_none() && make {
        *made += 1;
        return Some(at.get_or_init(|| Box::new(Node::new())));
    }
    at.get()
}

impl Xarray {
    /// For this many processes and timers.
    pub fn new(processes: usize, timers: usize) -> Xarray {
        let process =
            || Process { trees: [const { OnceBox::new() }; 6], lock: Lock::new(0), next_id: AtomicU32::new(0) };
        Xarray { processes: (0..processes).map(|_| process()).collect(), nodes: Pool::new(timers) }
    }

    /// Inserts; `Some(false)` if the id is taken, `None` if there is no room.
    fn insert(&self, process: &Process, id: u32) -> Option<bool> {
        let number = self.nodes.take(id)?;
        self.nodes.node(number).id.store(id, Relaxed);
        let inserted = process.insert(id, number);
        if !inserted {
            self.nodes.give(number);
        }
        Some(inserted)
    }
}

impl TimerIds for Xarray {
    fn name(&self) -> &'static str {
        "xarray"
    }

    fn create(&self, process: usize, _: CpuId) -> Option<u32> {
        let process = &self.processes[process];
        loop {
            let id = process.next_id.fetch_add(1, Relaxed) & ID_MASK;
            if self.insert(process, id)? {
                return Some(id);
            }
        }
    }

    fn create_exact(&self, process: usize, id: u32) -> Option<u32> {
        let process = &self.processes[process];
        process.next_id.store(id.wrapping_add(1) & ID_MASK, Relaxed);
        self.insert(process, id)?.then_some(id)
    }

    fn look_up(&self, process: usize, id: u32) -> bool {
        let leaf = self.processes[process].leaf(id, false, &mut 0);
        let number = leaf.and_then(|leaf| leaf.timers[id as usize % WAYS].load(Acquire).checked_sub(1));
        number.is_some_and(|number| {
            let _overrun = self.nodes.node(number).overrun.lock();
            self.nodes.node(number).id.load(Relaxed) == id
        })
    }

    fn delete(&self, process: usize, id: u32) -> bool {
        let process = &self.processes[process];
        let _held = process.lock.lock();
        let leaf = process.leaf(id, false, &mut 0);
        let number = leaf.and_then(|leaf| leaf.timers[id as usize % WAYS].swap(0, Relaxed).checked_sub(1));
        number.map(|number| self.nodes.give(number)).is_some()
    }

    fn index_bytes(&self) -> usize {
        self.processes.iter().map(|process| *process.lock.lock() * LINUX_NODE_BYTES).sum()
    }
}
