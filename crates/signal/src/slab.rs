use alloc::vec::Vec;
use sync::OutOfMemory;

/// The end of a chain.
pub const NIL: u32 = u32::MAX;

/// Nodes of the first chunk; each chunk has twice as many as the one before.
const FIRST: usize = 64;

/// A value and the node that follows it in its chain (or in the free chain).
#[derive(Default)]
pub struct Node<T> {
    pub value: T,
    pub next: u32,
}

/// Nodes in chunks that never move, named by their number, with a chain of free ones.
/// Memory is kept at its high-water mark, and **touched when a node is first taken**: what is reserved for timers
/// that never expire costs addresses and no pages.
pub struct Slab<T> {
    /// Each is allocated in full, and only the last of them is not filled.
    chunks: Vec<Vec<Node<T>>>,
    /// Nodes that were taken at least once.
    used: usize,
    /// How many of those are free.
    free: u32,
    /// How many nodes are free, those that were never taken among them.
    free_len: usize,
}

/// Where a node is: its chunk, and its place there.
#[inline]
fn place(at: usize) -> (usize, usize) {
    let chunk = ((at + FIRST) / FIRST).ilog2();
    (chunk as usize, at + FIRST - (FIRST << chunk))
}

impl<T: Default> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), used: 0, free: NIL, free_len: 0 }
    }

    /// How many nodes are free.
    #[cfg(test)]
    pub fn free_len(&self) -> usize {
        self.free_len
    }

    pub fn node(&self, at: u32) -> &Node<T> {
        let (chunk, place) = place(at as usize);
        &self.chunks[chunk][place]
    }

    pub fn node_mut(&mut self, at: u32) -> &mut Node<T> {
        let (chunk, place) = place(at as usize);
        &mut self.chunks[chunk][place]
    }

    /// Makes at least `n` nodes free.
    pub fn reserve(&mut self, n: usize) -> Result<(), OutOfMemory> {
        while self.free_len < n {
            self.grow()?;
        }
        Ok(())
    }

    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let len = FIRST << self.chunks.len();
        // All before this one have `len - FIRST` nodes together.
        if 2 * len > NIL as usize {
            return Err(OutOfMemory);
        }
        self.chunks.try_reserve(1)?;
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(len)?;
        self.chunks.push(chunk);
        self.free_len += len;
        Ok(())
    }

    /// Takes a free node; it ends its own chain.
    pub fn take(&mut self, value: T) -> Option<u32> {
        self.free_len = self.free_len.checked_sub(1)?;
        if self.free == NIL {
            let at = self.used;
            self.chunks[place(at).0].push(Node { value, next: NIL });
            self.used += 1;
            return Some(at as u32);
        }
        let at = self.free;
        let node = self.node_mut(at);
        node.value = value;
        self.free = core::mem::replace(&mut node.next, NIL);
        Some(at)
    }

    /// Gives back the `n` nodes of the chain from `head` to `tail`.
    pub fn give_chain(&mut self, head: u32, tail: u32, n: usize) {
        self.node_mut(tail).next = self.free;
        self.free = head;
        self.free_len += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_own_place() {
        let mut want = (0..6).flat_map(|chunk| (0..FIRST << chunk).map(move |place| (chunk, place)));
        assert!((0..FIRST * 63).all(|at| Some(place(at)) == want.next()));
        assert_eq!(want.next(), None);
    }

    #[test]
    fn what_is_reserved_is_not_touched() {
        let mut s: Slab<u32> = Slab::new();
        s.reserve(10_000).unwrap();
        assert!(s.chunks.iter().all(Vec::is_empty));
        let taken = [s.take(7).unwrap(), s.take(8).unwrap()];
        s.give_chain(taken[0], taken[0], 1);
        assert_eq!((s.take(9), s.used), (Some(taken[0]), 2), "what was used before comes first");
    }

    #[test]
    fn nodes_come_back() {
        let mut s: Slab<u32> = Slab::new();
        assert!(s.take(1).is_none());
        s.reserve(FIRST).unwrap();
        assert_eq!(s.free_len(), FIRST);
        s.reserve(FIRST + 1).unwrap();
        assert_eq!(s.free_len(), 3 * FIRST);
        let (a, b) = (s.take(1).unwrap(), s.take(2).unwrap());
        assert_eq!((s.node(a).value, s.node(b).value), (1, 2));
        s.node_mut(a).next = b;
        s.give_chain(a, b, 2);
        assert_eq!(s.free_len(), 3 * FIRST);
        let mut seen = 0;
        while s.take(0).is_some() {
            seen += 1;
        }
        assert_eq!(seen, 3 * FIRST);
    }
}
