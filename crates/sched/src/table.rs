//! The entities and the nodes of their trees, in chunks that are allocated when first needed and never move.

use crate::OutOfMemory;
use crate::entity::Entity;
use crate::field::FieldU64;
use crate::node::{NONE, Node};
use crate::planted::Fault;
use alloc::boxed::Box;
use ids::{CPUS_MAX, CpuId, CpuMask, THREADS_MAX, ThreadIdx};
use once_cell::race::OnceBox;
use sync::Lock;
use sync::{boxed_array, boxed_slice};

/// Entities per chunk: two pages, which even a process with a few threads must use. A model checker's atomics are
/// large, so it gets few.
const CHUNK: usize = if cfg!(any(loom, shuttle)) { 4 } else { 32 };
const CHUNKS: usize = if cfg!(any(loom, shuttle)) { 4 } else { THREADS_MAX / CHUNK };
type Chunk = [Entity; CHUNK];
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Chunk>() <= 2 * 4096);
type Wide = [Box<[FieldU64]>; 1];
/// Nodes per chunk. The trees need at most three nodes for eight of a chunk's entities (`tree.rs`); a power of two
/// saves the search for a free one a comparison.
const NODES: usize = if CHUNK < 8 { CHUNK } else { CHUNK / 2 };
type NodeChunk = [Node; NODES];
/// Additional nodes for each CPU (`tree.rs`): three trees, each with three nodes and a spare.
const CPU_NODES: usize = 3 * 4;
/// The number of chunks of nodes: first those for entities, then those for CPUs.
const NODE_CHUNKS: usize = (CHUNKS + (CPUS_MAX * CPU_NODES).div_ceil(NODES)).next_power_of_two();

/// All entities of a scheduler.
#[derive(Debug)]
pub(crate) struct Table {
    chunks: Box<[OnceBox<Chunk>; CHUNKS]>,
    nodes: Box<[OnceBox<NodeChunk>; NODE_CHUNKS]>,
    /// The first free node, for a tree whose spare node is used up.
    free: Lock<u32>,
    /// Mask words after the first, for machines of more than 64 CPUs.
    wide: Box<[OnceBox<Wide>]>,
    /// Mask words after the first.
    extra: usize,
    #[cfg(feature = "planted")]
    pub fault: Option<Fault>,
}

/// A table of chunks, all of which are missing.
fn empty<T>(chunks: usize) -> Result<Box<[OnceBox<T>]>, OutOfMemory> {
    sync::zeroed_slice(chunks).ok_or(OutOfMemory)
}

impl Table {
    pub(crate) fn new(cpus: usize) -> Result<Table, OutOfMemory> {
        let extra = cpus.div_ceil(64) - 1;
        let for_cpus = (cpus * CPU_NODES).div_ceil(NODES);
        let table = Table {
            chunks: empty(CHUNKS)?.try_into().map_err(|_| OutOfMemory)?,
            wide: empty(if extra == 0 { 0 } else { CHUNKS })?,
            extra,
            nodes: empty(NODE_CHUNKS)?.try_into().map_err(|_| OutOfMemory)?,
            free: Lock::new(NONE),
            #[cfg(feature = "planted")]
            fault: None,
        };
        (CHUNKS..CHUNKS + for_cpus).try_for_each(|i| table.make_nodes(i))?;
        Ok(table)
    }

    /// Makes sure that there is this chunk of nodes.
    fn reserve_nodes(&self, i: usize) -> Result<(), OutOfMemory> {
        if self.nodes[i].get().is_some() { Ok(()) } else { self.make_nodes(i) }
    }

    /// Makes a chunk of nodes. It does not look first: reading fresh memory before it is written causes a second fault.
    fn make_nodes(&self, i: usize) -> Result<(), OutOfMemory> {
        let chunk = boxed_array(|_| Node::new())?;
        let mut free = self.free.lock();
        if self.nodes[i].set(chunk).is_ok() {
            for n in (0..NODES).rev().map(|j| (i * NODES + j) as u32) {
                self.node(n).above.set(*free);
                *free = n;
            }
        }
        Ok(())
    }

    /// The node with this number.
    #[inline(always)]
    pub(crate) fn node(&self, n: u32) -> &Node {
        // The remainders save bounds checks.
        match self.nodes[n as usize / NODES % NODE_CHUNKS].get() {
            Some(c) => &c[n as usize % NODES],
            None => no_such_node(n),
        }
    }

    /// A node for a tree: there are always enough.
    pub(crate) fn take_node(&self) -> u32 {
        let mut free = self.free.lock();
        let n = *free;
        *free = self.node(n).above.get();
        n
    }

    /// Frees a node that no tree uses.
    pub(crate) fn give_node(&self, n: u32) {
        let mut free = self.free.lock();
        self.node(n).above.set(*free);
        *free = n;
    }

    /// How many nodes are in trees.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn nodes_used(&self) -> usize {
        let all = self.nodes.iter().filter(|c| c.get().is_some()).count() * NODES;
        let mut n = *self.free.lock();
        let mut free = 0;
        while n != NONE {
            free += 1;
            n = self.node(n).above.get();
        }
        all - free
    }

    /// Whether this fault is planted: see `planted.rs`. It is here because all code has access to the table.
    #[inline(always)]
    #[cfg_attr(not(feature = "planted"), allow(unused_variables, reason = "nothing is planted then"))]
    pub(crate) fn plants(&self, fault: Fault) -> bool {
        #[cfg(feature = "planted")]
        return self.fault == Some(fault);
        #[cfg(not(feature = "planted"))]
        false
    }

    /// Makes sure that `t` has an entity.
    pub(crate) fn reserve(&self, t: ThreadIdx) -> Result<(), OutOfMemory> {
        let i = t.index() / CHUNK;
        if self.chunks[i].get().is_none() {
            // Before the entities can be found.
            self.reserve_nodes(i)?;
            // If another thread installed the chunk first, use that one.
            let _ = self.chunks[i].set(boxed_array(|_| Entity::new())?);
        }
        if self.extra > 0 && self.wide[i].get().is_none() {
            let words = boxed_slice(CHUNK * self.extra, |_| FieldU64::from(0))?;
            let mut words = Some(words);
            let _ = self.wide[i].set(boxed_array(|_| words.take().unwrap_or_default())?);
        }
        Ok(())
    }

    /// The entity of `t`, which must have been attached.
    #[inline(always)]
    pub(crate) fn get(&self, t: ThreadIdx) -> &Entity {
        // The remainder saves a bounds check; ids are below THREADS_MAX.
        match self.chunks[t.index() / CHUNK % CHUNKS].get() {
            Some(c) => &c[t.index() % CHUNK],
            None => never_attached(t),
        }
    }

    /// Prefetches what a switch to `t` needs: the first two lines of its entity.
    #[inline(always)]
    pub(crate) fn prefetch(&self, t: ThreadIdx) {
        sync::prefetch(self.get(t), 2);
    }

    /// The entity of `t` if its slot was ever attached.
    pub(crate) fn find(&self, t: ThreadIdx) -> Option<&Entity> {
        self.chunks.get(t.index() / CHUNK)?.get().map(|c| &c[t.index() % CHUNK])
    }

    fn extra_words(&self, t: ThreadIdx) -> &[FieldU64] {
        match self.wide.get(t.index() / CHUNK).and_then(|w| w.get()) {
            Some(w) => &w[0][t.index() % CHUNK * self.extra..][..self.extra],
            None => &[],
        }
    }

    /// Word `i` of the affinity mask of `t`.
    #[inline]
    pub(crate) fn mask_word(&self, t: ThreadIdx, e: &Entity, i: usize) -> u64 {
        if i == 0 { e.mask.get() } else { self.extra_words(t).get(i - 1).map_or(0, |w| w.get()) }
    }

    /// Whether `t` may run on `cpu`.
    #[inline]
    pub(crate) fn allows(&self, t: ThreadIdx, e: &Entity, cpu: CpuId) -> bool {
        self.mask_word(t, e, cpu.index() / 64) >> (cpu.index() % 64) & 1 != 0
    }

    /// The affinity mask folded into one word: bit `c % 64` for every CPU `c` in it. Exact up to 64 CPUs.
    #[inline]
    pub(crate) fn fold(&self, t: ThreadIdx, e: &Entity) -> u64 {
        let first = e.mask.get();
        if self.extra == 0 { first } else { self.extra_words(t).iter().fold(first, |m, w| m | w.get()) }
    }

    /// All words of the affinity mask of `t`.
    pub(crate) fn mask_words(&self, t: ThreadIdx) -> impl Iterator<Item = u64> + '_ {
        let first = self.get(t).mask.get();
        core::iter::once(first).chain(self.extra_words(t).iter().map(|w| w.get()))
    }

    /// The affinity mask of `t`.
    pub(crate) fn mask(&self, t: ThreadIdx) -> CpuMask {
        CpuMask::of_words(self.mask_words(t))
    }

    /// Replaces the affinity mask; the caller owns the entity, and it is in no queue.
    pub(crate) fn set_mask(&self, t: ThreadIdx, mask: &CpuMask) {
        let e = self.get(t);
        let word = |i: usize| mask.words().get(i).copied().unwrap_or(0);
        e.mask.set(word(0));
        self.extra_words(t).iter().enumerate().for_each(|(i, w)| w.set(word(i + 1)));
        e.movable.set(u8::from(mask.count() > 1));
    }
}

#[cold]
#[inline(never)]
fn no_such_node(n: u32) -> ! {
    panic!("the trees of the scheduler have no node {n}")
}

#[cold]
#[inline(never)]
fn never_attached(t: ThreadIdx) -> ! {
    panic!("{t:?} was never attached to the scheduler")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(cpus: &[u16]) -> CpuMask {
        let mut m = CpuMask::empty();
        cpus.iter().for_each(|&c| m.insert(CpuId(c)));
        m
    }

    /// Threads on both sides of the ends of chunks, each with a mask of its own.
    #[test]
    fn each_thread_has_its_own_mask_on_machines_of_any_size() {
        for (cpus, sets) in [
            (64, [&[0, 5, 63][..], &[63], &[1, 2], &[0], &[7, 8]]),
            (65, [&[0, 64], &[64], &[63], &[1, 64], &[0]]),
            (200, [&[0, 64, 199], &[128], &[64, 128], &[63, 127, 191], &[5]]),
        ] {
            let table = Table::new(cpus).unwrap();
            let threads = [0, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK - 1].map(|t| ThreadIdx(t as u32));
            for (t, set) in threads.into_iter().zip(sets) {
                table.reserve(t).unwrap();
                table.set_mask(t, &mask(set));
            }
            for (t, set) in threads.into_iter().zip(sets) {
                let e = table.get(t);
                assert_eq!(table.mask(t), mask(set), "{t:?} of {cpus}");
                assert!((0..cpus as u16).all(|c| table.allows(t, e, CpuId(c)) == set.contains(&c)));
                assert_eq!(table.fold(t, e), set.iter().fold(0, |m, c| m | 1u64 << (c % 64)));
                assert_eq!(e.movable.get() != 0, set.len() > 1);
                let word =
                    |i: usize| set.iter().filter(|&&c| c as usize / 64 == i).fold(0, |m, &c| m | 1u64 << (c % 64));
                assert!((0..6).all(|i| table.mask_word(t, e, i) == word(i)), "{t:?} of {cpus}");
            }
        }
    }

    #[test]
    fn a_smaller_mask_leaves_nothing_of_the_larger() {
        let table = Table::new(200).unwrap();
        let t = ThreadIdx(300);
        table.reserve(t).unwrap();
        table.set_mask(t, &mask(&[1, 70, 140, 199]));
        table.set_mask(t, &mask(&[2]));
        assert_eq!((table.mask(t), table.get(t).movable.get()), (mask(&[2]), 0));
    }

    #[test]
    fn entities_come_in_chunks_and_stay() {
        let table = Table::new(1).unwrap();
        let [before, first, inside, last, after] =
            [CHUNK - 1, CHUNK, CHUNK + 9, 2 * CHUNK - 1, 2 * CHUNK].map(|t| ThreadIdx(t as u32));
        assert!(table.find(first).is_none());
        table.reserve(first).unwrap();
        assert!(table.find(before).is_none() && table.find(last).is_some());
        assert!(table.find(after).is_none());
        assert!(table.find(ThreadIdx(THREADS_MAX as u32)).is_none(), "beyond all chunks");
        table.get(first).lag.set(1);
        table.get(last).lag.set(2);
        table.reserve(inside).unwrap();
        let lags = [first, inside, last].map(|t| table.get(t).lag.get());
        assert_eq!((lags, table.find(last).map(|e| e.lag.get())), ([1, 0, 2], Some(2)));
    }
}
