use alloc::boxed::Box;
use alloc::vec::Vec;

/// The end of a chain.
pub const NIL: u32 = u32::MAX;

/// Nodes allocated at a time.
const CHUNK: usize = 64;

/// A value and the node that follows it in its chain (or in the free chain).
#[derive(Default)]
pub struct Node<T> {
    pub value: T,
    pub next: u32,
}

/// Nodes in chunks that never move, named by their number, with a chain of free ones.
/// Memory is kept at its high-water mark.
pub struct Slab<T> {
    chunks: Vec<Box<[Node<T>]>>,
    free: u32,
    free_len: usize,
}

/// There was no memory for more nodes.
#[derive(Debug)]
pub struct NoMemory;

impl<T: Default> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), free: NIL, free_len: 0 }
    }

    /// How many nodes are free.
    #[cfg(test)]
    pub fn free_len(&self) -> usize {
        self.free_len
    }

    pub fn node(&self, at: u32) -> &Node<T> {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    pub fn node_mut(&mut self, at: u32) -> &mut Node<T> {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    /// Makes at least `n` nodes free.
    pub fn reserve(&mut self, n: usize) -> Result<(), NoMemory> {
        while self.free_len < n {
            self.grow()?;
        }
        Ok(())
    }

    fn grow(&mut self) -> Result<(), NoMemory> {
        let first = self.chunks.len() * CHUNK;
        if first + CHUNK >= NIL as usize {
            return Err(NoMemory);
        }
        self.chunks.try_reserve(1).map_err(|_| NoMemory)?;
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK).map_err(|_| NoMemory)?;
        for i in 0..CHUNK {
            let next = if i + 1 < CHUNK { (first + i + 1) as u32 } else { self.free };
            chunk.push(Node { value: T::default(), next });
        }
        self.chunks.push(chunk.into_boxed_slice());
        self.free = first as u32;
        self.free_len += CHUNK;
        Ok(())
    }

    /// Takes a free node; it ends its own chain.
    pub fn take(&mut self, value: T) -> Option<u32> {
        if self.free == NIL {
            return None;
        }
        let at = self.free;
        let node = self.node_mut(at);
        node.value = value;
        let next = core::mem::replace(&mut node.next, NIL);
        self.free = next;
        self.free_len -= 1;
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
    fn nodes_come_back() {
        let mut s: Slab<u32> = Slab::new();
        assert!(s.take(1).is_none());
        s.reserve(CHUNK).unwrap();
        assert_eq!(s.free_len(), CHUNK);
        s.reserve(CHUNK + 1).unwrap();
        assert_eq!(s.free_len(), 2 * CHUNK);
        let (a, b) = (s.take(1).unwrap(), s.take(2).unwrap());
        assert_eq!((s.node(a).value, s.node(b).value), (1, 2));
        s.node_mut(a).next = b;
        s.give_chain(a, b, 2);
        assert_eq!(s.free_len(), 2 * CHUNK);
        let mut seen = 0;
        while s.take(0).is_some() {
            seen += 1;
        }
        assert_eq!(seen, 2 * CHUNK);
    }
}
