//! An array that grows without moving its elements. Memory comes in chunks, so growing copies nothing and an access
//! costs the same at any size.

use crate::OutOfMemory;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// An array of `T` in chunks of `CHUNK` elements, a power of two.
#[derive(Debug)]
pub struct Chunked<T, const CHUNK: usize> {
    chunks: Vec<Box<[T; CHUNK]>>,
}

impl<T, const CHUNK: usize> Default for Chunked<T, CHUNK> {
    fn default() -> Chunked<T, CHUNK> {
        Chunked::new()
    }
}

impl<T, const CHUNK: usize> Chunked<T, CHUNK> {
    /// An empty array.
    pub const fn new() -> Chunked<T, CHUNK> {
        Chunked { chunks: Vec::new() }
    }

    /// How many elements there are: a multiple of the chunk.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// The element at `index`, if there is one.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        Some(&self.chunks.get(index / CHUNK)?[index % CHUNK])
    }
}

impl<T: Default + Clone, const CHUNK: usize> Chunked<T, CHUNK> {
    /// Grows the array to at least `len` elements; new ones are default. If memory runs out, chunks already allocated
    /// stay.
    pub fn grow(&mut self, len: usize) -> Result<(), OutOfMemory> {
        while self.len() < len {
            self.chunks.try_reserve(1)?;
            self.chunks.push(sync::boxed_array(|_| T::default())?);
        }
        Ok(())
    }
}

impl<T, const CHUNK: usize> Index<usize> for Chunked<T, CHUNK> {
    type Output = T;
    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T, const CHUNK: usize> IndexMut<usize> for Chunked<T, CHUNK> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 64;

    #[test]
    fn grows_in_chunks_and_keeps_what_is_there() {
        let mut a: Chunked<u32, CHUNK> = Chunked::new();
        assert!(a.len() == 0 && a.get(0).is_none());
        a.grow(1).unwrap();
        assert_eq!(a.len(), CHUNK);
        a[CHUNK - 1] = 7;
        let before: *const u32 = &a[CHUNK - 1];
        a.grow(1000).unwrap();
        assert_eq!((a.len(), a[CHUNK - 1], a[999]), (1024, 7, 0));
        assert_eq!(before, &a[CHUNK - 1] as *const u32, "nothing moves");
        for len in [10, 1024] {
            a.grow(len).unwrap();
            assert_eq!(a.len(), 1024, "room for {len} is there");
        }
    }

    #[test]
    #[should_panic]
    fn beyond_the_end_is_a_bug_of_the_caller() {
        let mut a: Chunked<u8, CHUNK> = Chunked::new();
        a.grow(1).unwrap();
        a[CHUNK] = 1;
    }
}
