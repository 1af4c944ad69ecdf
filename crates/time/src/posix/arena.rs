//! An arena whose elements are found by number without a lock and never move: chunks of 64 are made on demand and kept
//! until the arena is dropped. An empty arena is one word.

use crate::OutOfMemory;
use once_cell::race::OnceBox;
use sync::boxed_array;

const CHUNK: usize = 64;
const MIDDLE: usize = 128;
const TOP: usize = 256;

type Middle<T> = [OnceBox<[T; CHUNK]>; MIDDLE];
type Top<T> = [OnceBox<Middle<T>>; TOP];

/// Up to 2 Mi things.
#[derive(Debug)]
pub(super) struct Arena<T> {
    top: OnceBox<Top<T>>,
}

impl<T> Default for Arena<T> {
    fn default() -> Arena<T> {
        Arena { top: OnceBox::new() }
    }
}

impl<T: Default> Arena<T> {
    /// How many things an arena can hold.
    #[cfg(test)]
    pub const MAX: u32 = (CHUNK * MIDDLE * TOP) as u32;

    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        let middle = self.top.get()?.get(index / (CHUNK * MIDDLE))?.get()?;
        Some(&middle[index / CHUNK % MIDDLE].get()?[index % CHUNK])
    }

    /// Makes sure that `index` exists. Called under a lock.
    pub fn ensure(&self, index: u32) -> Result<(), OutOfMemory> {
        let index = index as usize;
        let top = self.top.get_or_try_init(|| boxed_array(|_| OnceBox::new()))?;
        let middle = top.get(index / (CHUNK * MIDDLE)).ok_or(OutOfMemory)?;
        let middle = middle.get_or_try_init(|| boxed_array(|_| OnceBox::new()))?;
        middle[index / CHUNK % MIDDLE].get_or_try_init(|| boxed_array(|_| T::default()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn things_appear_by_chunks_and_stay() {
        let a: Arena<AtomicU32> = Arena::default();
        assert!(a.get(0).is_none());
        a.ensure(70).unwrap();
        assert!(a.get(63).is_none() && a.get(127).is_some() && a.get(128).is_none());
        a.get(70).unwrap().store(7, Relaxed);
        a.ensure(Arena::<AtomicU32>::MAX - 1).unwrap();
        assert_eq!(a.get(70).unwrap().load(Relaxed), 7);
        assert!(a.get(Arena::<AtomicU32>::MAX - 1).is_some());
        assert_eq!(a.ensure(Arena::<AtomicU32>::MAX), Err(OutOfMemory));
        assert!(a.get(u32::MAX).is_none());
    }
}
