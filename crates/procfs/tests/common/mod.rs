//! A world of processes for the tests, in tables of atomics as a kernel would have them.
#![allow(dead_code)]

use entresol_procfs::{Caller, Mode, Node, Options, Owner, Policy, ThreadId, Threads, Tree, Walked, Want};
use sync::atomic::{AtomicI32, Ordering::*};

pub const SLOTS: usize = 64;

/// Threads by slot: id and leader's slot; 0 is nobody.
pub struct World {
    ids: [AtomicI32; SLOTS],
    leaders: [AtomicI32; SLOTS],
    pub owners: [Owner; SLOTS],
}

pub const ROOT_OWNER: Owner = Owner { uids: [0; 3], gids: [0; 3], dumpable: true };
pub const USER: Owner = Owner { uids: [1000; 3], gids: [100; 3], dumpable: true };

impl World {
    /// Process 100 with threads 101 and 5,000,000 of the user, and process 1 of root.
    pub fn new() -> World {
        let mut world = World {
            ids: std::array::from_fn(|_| AtomicI32::new(0)),
            leaders: std::array::from_fn(|_| AtomicI32::new(0)),
            owners: [USER; SLOTS],
        };
        world.owners[0] = ROOT_OWNER;
        for (slot, id, leader) in [(0, 1, 0), (1, 100, 1), (2, 101, 1), (3, 5_000_000, 1)] {
            world.be_born(slot, id, leader);
        }
        world
    }

    pub fn be_born(&self, slot: usize, id: i32, leader: usize) {
        self.leaders[slot].store(leader as i32, Relaxed);
        self.ids[slot].store(id, Release);
    }

    pub fn die(&self, slot: usize) {
        self.ids[slot].store(0, Release);
    }

    fn all(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let ids = self.ids.iter().enumerate();
        ids.map(|(slot, id)| ThreadId { slot: slot as u32, id: id.load(Acquire) }).filter(|t| t.id != 0)
    }
}

impl Threads for World {
    fn find(&self, id: i32) -> Option<ThreadId> {
        self.all().find(|thread| thread.id == id)
    }
    fn lives(&self, thread: ThreadId) -> bool {
        self.ids.get(thread.slot as usize).is_some_and(|id| id.load(Acquire) == thread.id)
    }
    fn leader(&self, thread: ThreadId) -> Option<ThreadId> {
        let slot = self.leaders.get(thread.slot as usize)?.load(Acquire) as u32;
        Some(ThreadId { slot, id: self.ids[slot as usize].load(Acquire) })
    }
    fn owner(&self, thread: ThreadId) -> Option<Owner> {
        self.owners.get(thread.slot as usize).copied()
    }
    fn next_process(&self, at_least: i32) -> Option<ThreadId> {
        self.all().filter(|t| t.id >= at_least && self.leader(*t) == Some(*t)).min_by_key(|t| t.id)
    }
    fn next_thread(&self, of: ThreadId, after: i32) -> Option<ThreadId> {
        self.all().filter(|t| t.id > after && self.leader(*t) == self.leader(of)).min_by_key(|t| t.id)
    }
    fn count(&self, of: ThreadId) -> u32 {
        self.all().filter(|t| self.leader(*t) == self.leader(of)).count() as u32
    }
}

/// Thread 101 of process 100.
pub const ME: Caller<'static> =
    Caller { process: 100, thread: 101, fsuid: 1000, fsgid: 100, groups: &[], traces: false, overrides: false };
/// Root, in process 1.
pub const SUPER: Caller<'static> =
    Caller { process: 1, thread: 1, fsuid: 0, fsgid: 0, groups: &[], traces: true, overrides: true };
/// Another user.
pub const OTHER: Caller<'static> = Caller { process: 999, thread: 999, fsuid: 2000, fsgid: 200, ..ME };

pub fn tree(policy: Policy) -> Tree {
    Tree::new(2, 256, Options::default(), policy)
}

pub fn walk(tree: &Tree, world: &World, caller: &Caller<'_>, path: &str) -> Result<Walked, abi::Errno> {
    tree.walk(0, world, caller, path.as_bytes(), Want::default())
}

/// The node, found after the cache has been warmed.
pub fn node(tree: &Tree, world: &World, path: &str) -> Node {
    walk(tree, world, &ME, path).unwrap_or_else(|e| panic!("{path}: {e:?}")).node
}

/// Whether a second walk of the same path stays in RCU mode.
pub fn stays(tree: &Tree, world: &World, path: &str) -> bool {
    let _ = walk(tree, world, &ME, path);
    walk(tree, world, &ME, path).is_ok_and(|walked| walked.mode == Mode::Rcu)
}
