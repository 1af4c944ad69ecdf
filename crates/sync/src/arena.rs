//! Memory that may not be there: boxed arrays that are made or not, and an arena that grows by chunks.

use crate::zeroed_slice;
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::fmt;
use once_cell::race::OnceBox;

/// There was no memory for a structure that must be there before it is needed. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for OutOfMemory {}

impl From<TryReserveError> for OutOfMemory {
    fn from(_: TryReserveError) -> Self {
        OutOfMemory
    }
}

/// A boxed slice of `len` elements, or an error where `Box::new` would end the process.
pub fn boxed_slice<T>(len: usize, make: impl FnMut(usize) -> T) -> Result<Box<[T]>, OutOfMemory> {
    let mut all = Vec::new();
    all.try_reserve_exact(len)?;
    all.extend((0..len).map(make));
    Ok(all.into_boxed_slice())
}

/// A boxed array, likewise. It is made in place, however large it is.
pub fn boxed_array<T, const N: usize>(make: impl FnMut(usize) -> T) -> Result<Box<[T; N]>, OutOfMemory> {
    boxed_slice(N, make)?.try_into().map_err(|_| OutOfMemory)
}

type Table<T, const CHUNK: usize, const CHUNKS: usize> = [OnceBox<[T; CHUNK]>; CHUNKS];

/// Elements that are found by number without a lock. Chunks are made on demand, never move, and live as long as the arena.
/// An arena of nothing is one word.
#[derive(Debug)]
pub struct Arena<T, const CHUNK: usize, const CHUNKS: usize> {
    table: OnceBox<Table<T, CHUNK, CHUNKS>>,
}

impl<T, const CHUNK: usize, const CHUNKS: usize> Default for Arena<T, CHUNK, CHUNKS> {
    fn default() -> Self {
        Arena { table: OnceBox::new() }
    }
}

impl<T, const CHUNK: usize, const CHUNKS: usize> Arena<T, CHUNK, CHUNKS> {
    /// Whether any chunk has been wanted.
    #[inline(always)]
    pub fn is_made(&self) -> bool {
        self.table.get().is_some()
    }

    /// The element of that number, if its chunk has been made.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        Some(&self.table.get()?.get(index / CHUNK)?.get()?[index % CHUNK])
    }

    /// The element of that number; its chunk is made if need be. If several make it at once, one of them is kept.
    pub fn get_or_make(&self, index: usize, make: impl FnMut(usize) -> T) -> Result<&T, OutOfMemory> {
        let made =
            self.table.get_or_try_init(|| zeroed_slice(CHUNKS).and_then(|t| t.try_into().ok()).ok_or(OutOfMemory));
        let place = made?.get(index / CHUNK).ok_or(OutOfMemory)?;
        Ok(&place.get_or_try_init(|| boxed_array(make))?[index % CHUNK])
    }

    /// The numbers of all elements in chunks that have been made.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        let chunks = self.table.get().into_iter().flatten().enumerate();
        chunks.filter(|(_, chunk)| chunk.get().is_some()).flat_map(|(i, _)| i * CHUNK..(i + 1) * CHUNK)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn elements_appear_by_chunks_and_stay() {
        let arena: Arena<AtomicU32, 4, 8> = Arena::default();
        let get = |i| arena.get(i).map(|e| e.load(Relaxed));
        assert!(get(0).is_none() && arena.numbers().next().is_none());
        arena.get_or_make(9, |i| AtomicU32::new(i as u32)).unwrap().store(7, Relaxed);
        assert_eq!((get(7), get(8), get(9), get(12)), (None, Some(0), Some(7), None));
        assert!(arena.get_or_make(31, |_| AtomicU32::new(0)).is_ok());
        assert_eq!(arena.get_or_make(32, |_| AtomicU32::new(0)).err(), Some(OutOfMemory));
        assert!(arena.get(usize::MAX).is_none());
        assert!(arena.numbers().eq((8..12).chain(28..32)));
        assert_eq!(get(9), Some(7));
    }
}
