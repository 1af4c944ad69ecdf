//! A lock of one word: 0 free, 1 held.
//!
//! Taking it is one atomic exchange, releasing it one plain store, which is why a waiter
//! is never woken: it checks again. A waiter spins for about 2 µs (a critical section of
//! ours lasts well under one) and then asks the host to run another thread between checks,
//! because by then the holder has most likely been descheduled.

use crate::atomic::{AtomicBool, spin_hint};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
// Not the facade's: the hook is set once and is no part of what models check.
use core::sync::atomic::{AtomicPtr, Ordering};

/// How often a taker looks before it asks the host for help: about 2 µs.
const SPINS_MAX: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 60 };

/// Yields the processor for a moment; the argument counts the calls of
/// this waiter so far, so that the pauses can grow.
pub type Relax = fn(u32);

static RELAX: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets how every lock of this program waits for a holder that does not run.
/// Without it they spin, which is right where one thread simulates everything.
pub fn set_relax(relax: Relax) {
    RELAX.store(relax as *mut (), Ordering::Release);
}

/// Waits a moment as `set_relax` says.
pub fn relax(round: u32) {
    let p = RELAX.load(Ordering::Acquire);
    if p.is_null() {
        spin_hint();
    } else {
        // SAFETY: a non-null pointer was made from a `Relax` in `set_relax`.
        let f: Relax = unsafe { core::mem::transmute(p) };
        f(round);
    }
}

/// Mutual exclusion around a `T`. Not fair, not recursive; never held across a host call.
#[derive(Debug, Default)]
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `held` lets one holder at a time reach the value.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Lock<T> {
        Lock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// A free lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Lock<T> {
        Lock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        if self.held.swap(true, Ordering::Acquire) {
            self.lock_slow();
        }
        Guard { lock: self }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        // Build the guard only if the lock was taken: dropping one releases the lock, even the holder's.
        (!self.held.swap(true, Ordering::Acquire)).then(|| Guard { lock: self })
    }

    /// The value, for an exclusive owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self) {
        let mut round = 0;
        loop {
            for _ in 0..SPINS_MAX {
                if !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire) {
                    return;
                }
                spin_hint();
            }
            relax(round);
            round += 1;
        }
    }
}

/// The right to use the value of a [`Lock`]; dropping it releases the lock.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a guard exists only while its lock is held by its owner.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn counts_exactly_under_contention() {
        let n = Arc::new(Lock::new(0u64));
        let hands: std::vec::Vec<_> = (0..4)
            .map(|_| {
                let n = n.clone();
                std::thread::spawn(move || (0..20_000).for_each(|_| *n.lock() += 1))
            })
            .collect();
        hands.into_iter().for_each(|h| h.join().unwrap());
        assert_eq!(*n.lock(), 80_000);
    }

    #[test]
    fn a_held_lock_is_refused() {
        let l = Lock::new(());
        let g = l.lock();
        // Repeated: a failed attempt leaves the lock unchanged.
        assert!((0..3).all(|_| l.try_lock().is_none()));
        drop(g);
        assert!(l.try_lock().is_some());
    }
}
