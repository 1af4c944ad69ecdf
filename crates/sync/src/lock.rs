//! A lock of one word.
//!
//! | value | meaning | who sets it |
//! |---|---|---|
//! | 0 `FREE` | nobody holds it | the holder, on release |
//! | 1 `HELD` | held, nobody sleeps | the taker, from `FREE` |
//! | 2 `CONTENDED` | held, somebody may sleep in the waiter's hook | a taker that has spun too long |
//!
//! Proof sketch (Drepper, "Futexes are tricky", mutex 2): a taker sleeps only after it
//! swapped in `CONTENDED` and saw "not free", and only while the word is still
//! `CONTENDED`. A release swaps in `FREE` and, if it found `CONTENDED`, wakes one
//! sleeper, who takes the lock as `CONTENDED` again, because it cannot know whether others sleep.

use crate::atomic::{AtomicPtr, AtomicU32, Ordering, spin_hint};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// How often a taker looks before it sleeps: about 2 µs.
const SPINS_MAX: u32 = 60;

/// How to sleep on a word and wake a sleeper: the host's futex, or nothing in a simulator.
#[derive(Debug)]
pub struct Waiter {
    /// Sleeps while the word holds the value; may return early.
    pub wait: fn(&AtomicU32, u32),
    /// Wakes one sleeper of the word.
    pub wake: fn(&AtomicU32),
}

static WAITER: AtomicPtr<Waiter> = AtomicPtr::new(core::ptr::null_mut());

/// Sets how all locks of this program sleep. Without it they only spin.
pub fn set_waiter(waiter: &'static Waiter) {
    WAITER.store(core::ptr::from_ref(waiter).cast_mut(), Ordering::Release);
}

fn waiter() -> Option<&'static Waiter> {
    let p = WAITER.load(Ordering::Acquire);
    // SAFETY: the pointer is null or came from a `&'static Waiter` in `set_waiter`.
    unsafe { p.as_ref() }
}

/// Mutual exclusion around a `T`. Not fair, not recursive; never held across a host call.
#[derive(Debug, Default)]
pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the word lets one holder at a time reach the value.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Lock<T> {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slow();
        }
        Guard { lock: self }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).ok().map(|_| Guard { lock: self })
    }

    /// The value, for whoever has the lock to themselves.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self) {
        loop {
            for _ in 0..SPINS_MAX {
                if self.word.load(Ordering::Relaxed) == FREE
                    && self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    return;
                }
                spin_hint();
            }
            let Some(waiter) = waiter() else { continue };
            while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
                (waiter.wait)(&self.word, CONTENDED);
            }
            return;
        }
    }

    #[inline(always)]
    fn unlock(&self) {
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            self.wake_sleeper();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleeper(&self) {
        if let Some(waiter) = waiter() {
            (waiter.wake)(&self.word);
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
        self.lock.unlock();
    }
}

#[cfg(test)]
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
        assert!(l.try_lock().is_none());
        drop(g);
        assert!(l.try_lock().is_some());
    }
}
