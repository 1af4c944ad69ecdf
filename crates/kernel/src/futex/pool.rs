//! Additional nodes: a thread that waits for several words at once is in several queues.

use super::queue::{NONE, Node};
use ids::ThreadIdx;
use sync::atomic::{AtomicU32, Ordering::*};
use sync::{Arena, Lock, OutOfMemory};

const CHUNK: usize = 1024;
const CHUNKS: usize = 4096;

#[derive(Debug)]
struct PoolNode {
    node: Node,
    /// The thread that uses it.
    thread: AtomicU32,
    /// The next one of the same thread, or the next free one; [`NONE`] ends.
    sibling: AtomicU32,
}

/// Nodes by number, made in chunks that never move and are never freed. A program that
/// does not use `futex_waitv(2)` pays one pointer.
#[derive(Debug, Default)]
pub(super) struct NodePool {
    nodes: Arena<PoolNode, CHUNK, CHUNKS>,
    free: Lock<Free>,
}

#[derive(Debug)]
struct Free {
    first: u32,
    len: usize,
    chunks: usize,
}

impl Default for Free {
    fn default() -> Free {
        Free { first: NONE, len: 0, chunks: 0 }
    }
}

impl NodePool {
    fn get(&self, i: u32) -> &PoolNode {
        self.nodes.get(i as usize).expect("a node that was never made")
    }

    pub fn node(&self, i: u32) -> &Node {
        &self.get(i).node
    }

    pub fn thread(&self, i: u32) -> ThreadIdx {
        ThreadIdx(self.get(i).thread.load(Relaxed))
    }

    /// The numbers of a thread's nodes from `first` on.
    pub fn siblings(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = first;
        core::iter::from_fn(move || {
            let i = at;
            (i != NONE).then(|| {
                at = self.get(i).sibling.load(Relaxed);
                i
            })
        })
    }

    /// Takes `n` nodes for `t`; returns the number of the first.
    pub fn take(&self, n: usize, t: ThreadIdx) -> Result<u32, OutOfMemory> {
        loop {
            {
                let mut free = self.free.lock();
                if free.len >= n {
                    return Ok(self.cut(&mut free, n, t));
                }
            }
            self.grow()?;
        }
    }

    fn cut(&self, free: &mut Free, n: usize, t: ThreadIdx) -> u32 {
        let first = free.first;
        let mut last = first;
        for (k, i) in self.siblings(first).take(n).enumerate() {
            self.get(i).thread.store(t.0, Relaxed);
            last = if k + 1 == n { i } else { last };
        }
        free.first = self.get(last).sibling.swap(NONE, Relaxed);
        free.len -= n;
        first
    }

    /// Gives back the nodes from `first` on. None of them is in a queue.
    pub fn give_back(&self, first: u32) {
        let (mut last, mut n) = (first, 0);
        for i in self.siblings(first) {
            (last, n) = (i, n + 1);
        }
        let mut free = self.free.lock();
        self.get(last).sibling.store(free.first, Relaxed);
        free.first = first;
        free.len += n;
    }

    fn grow(&self) -> Result<(), OutOfMemory> {
        let mut free = self.free.lock();
        let base = free.chunks * CHUNK;
        let make = |i| {
            let next = if i + 1 == CHUNK { free.first } else { (base + i + 1) as u32 };
            PoolNode { node: Node::default(), thread: AtomicU32::new(NONE), sibling: AtomicU32::new(next) }
        };
        self.nodes.get_or_make(base, make)?;
        *free = Free { first: base as u32, len: free.len + CHUNK, chunks: free.chunks + 1 };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn nodes_go_out_and_come_back() {
        let pool = NodePool::default();
        let a = pool.take(3, ThreadIdx(7)).unwrap();
        let b = pool.take(CHUNK, ThreadIdx(8)).unwrap();
        let (mine, others): (Vec<_>, Vec<_>) = (pool.siblings(a).collect(), pool.siblings(b).collect());
        assert_eq!((mine.len(), others.len()), (3, CHUNK));
        assert!(mine.iter().all(|i| pool.thread(*i) == ThreadIdx(7) && !others.contains(i)));
        pool.give_back(a);
        pool.give_back(b);
        assert_eq!(pool.free.lock().len, 2 * CHUNK);
        let all = pool.take(2 * CHUNK, ThreadIdx(9)).unwrap();
        assert_eq!(pool.siblings(all).count(), 2 * CHUNK);
        assert_eq!(pool.free.lock().first, NONE);
    }
}
