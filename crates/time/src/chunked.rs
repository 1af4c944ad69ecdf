//! An array that grows without moving its elements. Memory comes in chunks, so growing copies nothing and an access
//! costs the same at any size.

use crate::OutOfMemory;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// How many elements a chunk has, as a power of two.
const CHUNK_BITS: usize = 6;
const CHUNK: usize = 1 << CHUNK_BITS;

/// An array of `T` in chunks of 64.
#[derive(Debug)]
pub struct Chunked<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Chunked<T> {
        Chunked::new()
    }
}

impl<T> Chunked<T> {
    /// An empty array.
    pub const fn new() -> Chunked<T> {
        Chunked { chunks: Vec::new() }
    }

    /// How many elements there are: a multiple of the chunk.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.chunks.len() << CHUNK_BITS
    }

    /// The element at `index`, if there is one.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        Some(&self.chunks.get(index >> CHUNK_BITS)?[index % CHUNK])
    }
}

impl<T: Default + Clone> Chunked<T> {
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

impl<T> Index<usize> for Chunked<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index >> CHUNK_BITS][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunked<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index >> CHUNK_BITS][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_in_chunks_and_keeps_what_is_there() {
        let mut a: Chunked<u32> = Chunked::new();
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
        let mut a: Chunked<u8> = Chunked::new();
        a.grow(1).unwrap();
        a[CHUNK] = 1;
    }
}
