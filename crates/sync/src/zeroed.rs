//! Large tables that cost memory only where they are used.

use crate::atomic::AtomicU32;
use alloc::boxed::Box;
use once_cell::race::OnceBox;

/// Types whose bytes may all be zero, which is then the same value as the default one.
///
/// # Safety
/// Both must be so.
pub unsafe trait Zeroed: Default {}

// SAFETY: zero.
unsafe impl Zeroed for u32 {}
// SAFETY: zero.
unsafe impl Zeroed for u64 {}
// SAFETY: as the integer, which is zero by default. A model's has more than its bytes, and `zeroed_slice` knows that.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: a pointer, null while there is nothing, and nothing else: it has no other bytes (the assertion below).
unsafe impl<T> Zeroed for OnceBox<T> {}
// SAFETY: as for each element.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] where [T; N]: Default {}
// SAFETY: a free lock is `false`, whose byte is zero, beside the value.
unsafe impl<T: Zeroed> Zeroed for crate::Lock<T> {}

const _: () = assert!(size_of::<OnceBox<[u8; 3]>>() == size_of::<*mut u8>());

/// `len` default values in memory that the allocator gives zeroed: a large table takes no pages from
/// the host until it writes to them. `None` if there is no memory.
#[cfg(not(any(loom, shuttle)))]
pub fn zeroed_slice<T: Zeroed>(len: usize) -> Option<Box<[T]>> {
    let layout = core::alloc::Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some(Box::new([]));
    }
    // SAFETY: the layout is that of the slice and not empty; zero bytes are valid values.
    unsafe {
        let start = alloc::alloc::alloc_zeroed(layout).cast::<T>();
        (!start.is_null()).then(|| Box::from_raw(core::ptr::slice_from_raw_parts_mut(start, len)))
    }
}

/// The same where the words are a model's, which are more than their bytes.
#[cfg(any(loom, shuttle))]
pub fn zeroed_slice<T: Zeroed>(len: usize) -> Option<Box<[T]>> {
    Some((0..len).map(|_| T::default()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lock;

    #[test]
    fn every_element_is_the_default() {
        let table = zeroed_slice::<Lock<[u32; 3]>>(1000).unwrap();
        assert_eq!(table.len(), 1000);
        for lock in &table {
            assert_eq!(*lock.try_lock().expect("free"), [0; 3]);
        }
    }

    #[test]
    fn boxes_that_are_set_once_begin_empty() {
        let table = zeroed_slice::<OnceBox<[u32; 3]>>(1000).unwrap();
        assert!(table.iter().all(|b| b.get().is_none()));
        assert!(table[7].set(Box::new([1, 2, 3])).is_ok() && table[7].set(Box::default()).is_err());
        assert_eq!(table.iter().filter_map(OnceBox::get).collect::<alloc::vec::Vec<_>>(), [&[1, 2, 3]]);
    }

    #[test]
    fn an_impossible_size_is_refused() {
        assert!(zeroed_slice::<u32>(usize::MAX / 2).is_none());
        assert_eq!(zeroed_slice::<u32>(0).unwrap().len(), 0);
    }
}
