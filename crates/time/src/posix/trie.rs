//! From a key to a slot: a trie of 32-way nodes, one pair of cache lines each, as tall as the largest key needs.
//!
//! An entry is empty, a child node, or a slot. *A slot is stored as high as it is unique*, so sparse keys need no
//! nodes of their own (2,048 keys at a stride of 512 take 8 KiB, where Linux's xarray takes a megabyte), and dense
//! ones take 4.2 bytes each, with neighbours on one line. An insertion makes at most six nodes; nothing is ever
//! rehashed.
//!
//! 1. Writers hold the shard's lock; readers hold nothing.
//! 2. The path to a key that is present for the whole lookup is neither freed nor shortened, so the key is found.
//! 3. A reader of an absent key may enter a node that was freed and reused. It takes at most six steps and returns nothing or
//!    a slot, whose id the caller checks.

use crate::OutOfMemory;
use crate::posix::arena::Arena;
use sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

const BITS: u32 = 5;
const WAYS: usize = 1 << BITS;
/// Keys have 27 bits: six levels.
const LEVELS_MAX: u32 = 6;

/// An entry: 0 nothing; bit 31 a child node; else a slot's number plus one.
const NOTHING: u32 = 0;
const CHILD: u32 = 1 << 31;
/// In the root, a child's height stands in bits 28 to 30.
const HEIGHT_SHIFT: u32 = 28;
const NODE_MASK: u32 = (1 << HEIGHT_SHIFT) - 1;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Node([AtomicU32; WAYS]);

/// Free nodes, and how many were ever used: kept under the shard's lock.
#[derive(Debug, Default)]
pub(super) struct FreeNodes {
    /// A list through the nodes' first entries; 0 ends it, else the number plus one.
    head: u32,
    used: u32,
    free: u32,
}

impl FreeNodes {
    /// How many nodes are in use.
    pub fn in_use(&self) -> u32 {
        self.used - self.free
    }
}

/// The result of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Insert {
    Done,
    /// The key is there already.
    Taken,
}

/// The trie of one shard.
#[derive(Debug, Default)]
pub(super) struct Trie {
    root: AtomicU32,
    nodes: Arena<Node>,
}

#[inline(always)]
fn way(key: u32, level: u32) -> usize {
    (key >> (BITS * level)) as usize % WAYS
}

/// How many levels of nodes cover `key`; at least one.
fn height_for(key: u32) -> u32 {
    (u32::BITS - key.leading_zeros()).div_ceil(BITS).max(1)
}

impl Trie {
    /// The bytes of one node.
    pub const NODE_BYTES: usize = size_of::<Node>();

    /// A slot that may be the key's: the caller checks.
    #[inline]
    pub fn find(&self, key: u32) -> Option<u32> {
        let root = self.root.load(Acquire);
        if root & CHILD == 0 {
            return root.checked_sub(1);
        }
        let mut level = root >> HEIGHT_SHIFT & 7;
        if key >> (BITS * level) != 0 {
            return None;
        }
        let mut node = root & NODE_MASK;
        while level > 0 {
            level -= 1;
            let entry = self.nodes.get(node)?.0[way(key, level)].load(Acquire);
            if entry & CHILD == 0 {
                return entry.checked_sub(1);
            }
            node = entry & NODE_MASK;
        }
        None
    }

    /// Inserts `slot` under `key`; `key_of` tells the key of a slot that is in. On failure
    /// the trie holds what it held.
    pub fn insert(
        &self,
        key: u32,
        slot: u32,
        free: &mut FreeNodes,
        key_of: impl Fn(u32) -> u32,
    ) -> Result<Insert, OutOfMemory> {
        let root = self.root.load(Relaxed);
        if root == NOTHING {
            self.root.store(slot + 1, Release);
            return Ok(Insert::Done);
        }
        if root & CHILD == 0 && key_of(root - 1) == key {
            return Ok(Insert::Taken);
        }
        self.grow_to_cover(key, free, &key_of)?;
        let root = self.root.load(Relaxed);
        let (mut node, mut level) = (root & NODE_MASK, root >> HEIGHT_SHIFT & 7);
        loop {
            level -= 1;
            let entry = &self.node(node).0[way(key, level)];
            match entry.load(Relaxed) {
                NOTHING => {
                    entry.store(slot + 1, Release);
                    return Ok(Insert::Done);
                }
                child if child & CHILD != 0 => node = child & NODE_MASK,
                other => {
                    let others_key = key_of(other - 1);
                    if others_key == key {
                        return Ok(Insert::Taken);
                    }
                    // The other slot moves down, into a node that is complete before
                    // anyone can see it.
                    let below = self.allocate(free)?;
                    self.node(below).0[way(others_key, level - 1)].store(other, Relaxed);
                    entry.store(below | CHILD, Release);
                    node = below;
                }
            }
        }
    }

    /// Makes the root a node that covers `key` and what is in.
    fn grow_to_cover(&self, key: u32, free: &mut FreeNodes, key_of: &impl Fn(u32) -> u32) -> Result<(), OutOfMemory> {
        let root = self.root.load(Relaxed);
        if root & CHILD == 0 {
            let others_key = key_of(root - 1);
            let height = height_for(key).max(height_for(others_key));
            let node = self.allocate(free)?;
            self.node(node).0[way(others_key, height - 1)].store(root, Relaxed);
            self.root.store(node | CHILD | height << HEIGHT_SHIFT, Release);
            return Ok(());
        }
        let (mut node, mut height) = (root & NODE_MASK, root >> HEIGHT_SHIFT & 7);
        while key >> (BITS * height) != 0 {
            debug_assert!(height < LEVELS_MAX);
            let above = self.allocate(free)?;
            self.node(above).0[0].store(node | CHILD, Relaxed);
            height += 1;
            node = above;
            self.root.store(node | CHILD | height << HEIGHT_SHIFT, Release);
        }
        Ok(())
    }

    /// Removes `key`, which must be present, and frees nodes that become empty.
    pub fn remove(&self, key: u32, free: &mut FreeNodes) {
        let root = self.root.load(Relaxed);
        if root & CHILD == 0 {
            self.root.store(NOTHING, Release);
            return;
        }
        let height = root >> HEIGHT_SHIFT & 7;
        let mut path = [0u32; LEVELS_MAX as usize];
        let (mut level, mut entry) = (height, root);
        while entry & CHILD != 0 {
            level -= 1;
            path[level as usize] = entry & NODE_MASK;
            entry = self.node(entry & NODE_MASK).0[way(key, level)].load(Relaxed);
        }
        loop {
            let node = path[level as usize];
            self.node(node).0[way(key, level)].store(NOTHING, Release);
            if !self.is_empty(node, way(key, level)) {
                return;
            }
            self.release(node, free);
            level += 1;
            if level == height {
                self.root.store(NOTHING, Release);
                return;
            }
        }
    }

    /// Whether a node holds nothing, asked from `way` on: neighbours come first.
    fn is_empty(&self, node: u32, way: usize) -> bool {
        let entries = &self.node(node).0;
        (1..WAYS).all(|i| entries[(way + i) % WAYS].load(Relaxed) == NOTHING)
    }

    fn node(&self, node: u32) -> &Node {
        self.nodes.get(node).expect("a node in the trie exists")
    }

    fn allocate(&self, free: &mut FreeNodes) -> Result<u32, OutOfMemory> {
        if free.head != 0 {
            let node = free.head - 1;
            free.head = self.node(node).0[0].swap(NOTHING, Relaxed);
            free.free -= 1;
            return Ok(node);
        }
        self.nodes.ensure(free.used)?;
        free.used += 1;
        Ok(free.used - 1)
    }

    fn release(&self, node: u32, free: &mut FreeNodes) {
        self.node(node).0[0].store(free.head, Release);
        free.head = node + 1;
        free.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// Keys by slot number.
    struct World {
        trie: Trie,
        free: FreeNodes,
        keys: Vec<u32>,
    }

    impl World {
        fn new() -> World {
            World { trie: Trie::default(), free: FreeNodes::default(), keys: Vec::new() }
        }

        fn insert(&mut self, key: u32) -> Insert {
            self.keys.push(key);
            let slot = self.keys.len() as u32 - 1;
            self.trie.insert(key, slot, &mut self.free, |s| self.keys[s as usize]).unwrap()
        }

        fn find(&self, key: u32) -> Option<u32> {
            self.trie.find(key).filter(|s| self.keys[*s as usize] == key)
        }
    }

    #[test]
    fn one_key_needs_no_node() {
        let mut w = World::new();
        assert_eq!(w.insert(125_000), Insert::Done);
        assert_eq!((w.find(125_000), w.find(0), w.free.in_use()), (Some(0), None, 0));
        assert_eq!((w.insert(125_000), w.free.in_use()), (Insert::Taken, 0));
        w.trie.remove(125_000, &mut w.free);
        assert_eq!(w.find(125_000), None);
    }

    #[test]
    fn two_thousand_sparse_keys_take_little_memory() {
        let mut w = World::new();
        // Ids at a stride of 512 are keys at a stride of 32, all in one of 16 shards.
        (0..2048).for_each(|i| assert_eq!(w.insert(i * 32), Insert::Done));
        assert!((0..2048).all(|i| w.find(i * 32) == Some(i)));
        let bytes = w.free.in_use() as usize * Trie::NODE_BYTES;
        assert!(bytes <= 10_000, "{bytes}");
    }

    #[test]
    fn dense_keys_take_a_little_more_than_four_bytes() {
        let mut w = World::new();
        (0..32_768).for_each(|i| assert_eq!(w.insert(i), Insert::Done));
        assert!((0..32_768).all(|i| w.find(i) == Some(i)));
        let bytes = w.free.in_use() as usize * Trie::NODE_BYTES;
        assert!((32_768 * 4..=32_768 * 43 / 10).contains(&bytes), "{bytes}");
        (0..32_768).for_each(|i| w.trie.remove(i, &mut w.free));
        assert_eq!(w.free.in_use(), 0, "every node came back");
    }

    #[test]
    fn the_largest_key_and_the_smallest() {
        let mut w = World::new();
        let top = (1 << 27) - 1;
        assert_eq!([w.insert(0), w.insert(top), w.insert(1)], [Insert::Done; 3]);
        assert_eq!([w.find(0), w.find(top), w.find(1), w.find(2)], [Some(0), Some(1), Some(2), None]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec((any::<bool>(), 0u32..400, 0u32..24), 1..300)) {
            let mut w = World::new();
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (insert, low, shift) in ops {
                let key = (low << shift) % (1 << 27);
                if insert {
                    let slot = w.keys.len() as u32;
                    let want = if model.contains_key(&key) { Insert::Taken } else { Insert::Done };
                    prop_assert_eq!(w.insert(key), want);
                    if want == Insert::Done {
                        model.insert(key, slot);
                    }
                } else if model.remove(&key).is_some() {
                    w.trie.remove(key, &mut w.free);
                }
                for k in [key, key + 1, key ^ 32, low] {
                    prop_assert_eq!(w.find(k), model.get(&k).copied());
                }
            }
            for (key, slot) in &model {
                prop_assert_eq!(w.find(*key), Some(*slot));
            }
            for key in model.keys() {
                w.trie.remove(*key, &mut w.free);
            }
            prop_assert_eq!(w.free.in_use(), 0);
        }
    }
}
