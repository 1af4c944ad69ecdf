//! A lock and a reference count in one word (`lib/lockref.c`), so that taking a reference is one atomic operation
//! while the lock is free.
//!
//! | bits | meaning | writer |
//! |---|---|---|
//! | 0 | the lock | any thread that finds it 0; its holder releases it |
//! | 32–63 | the count, signed | any thread while the lock is free, by exchanging the whole word; otherwise the holder |
//!
//! Count: positive, the number of references; 0, none, but alive; [`DEAD`] (−128), for good: no reference is given
//! any more. Both halves change in one exchange, so no reference is taken between a holder's check of the count and
//! its marking the object dead.

use crate::atomic::{AtomicU64, Ordering::*, spin_hint};

/// The count of a dead object.
pub const DEAD: i32 = -128;
const LOCKED: u64 = 1;
const ONE: u64 = 1 << 32;
/// Exchanges that may fail before the lock is taken instead, as there.
const TRIES: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 100 };

/// The word.
#[derive(Debug)]
pub struct LockRef(AtomicU64);

impl Default for LockRef {
    fn default() -> LockRef {
        LockRef(AtomicU64::new(0))
    }
}

fn count(word: u64) -> i32 {
    (word >> 32) as i32
}

impl LockRef {
    /// How many references there are; negative if the object is dead.
    pub fn count(&self) -> i32 {
        count(self.0.load(Acquire))
    }

    /// One more reference. The caller has one.
    pub fn get(&self) {
        if self.change(1, |_| true).is_none() {
            let held = self.lock();
            held.set(held.count() + 1);
        }
    }

    /// Takes a reference, unless the object is dead (`lockref_get_not_dead`); the count may be 0 before.
    pub fn get_not_dead(&self) -> bool {
        self.get_if(|n| n >= 0)
    }

    /// One more reference, if there is one (`lockref_get_not_zero`).
    pub fn get_not_zero(&self) -> bool {
        self.get_if(|n| n > 0)
    }

    fn get_if(&self, may: impl Fn(i32) -> bool + Copy) -> bool {
        if let Some(done) = self.change(1, may) {
            return done;
        }
        let held = self.lock();
        let ok = may(held.count());
        if ok {
            held.set(held.count() + 1);
        }
        ok
    }

    /// One reference less, unless it is the last one: then the lock is taken instead, and the reference is
    /// still the caller's (`lockref_put_or_lock`).
    pub fn put_or_lock(&self) -> Option<Held<'_>> {
        if self.change(-1, |n| n > 1) == Some(true) {
            return None;
        }
        let held = self.lock();
        if held.count() > 1 {
            held.set(held.count() - 1);
            return None;
        }
        Some(held)
    }

    /// Drops a reference; the caller does not need to know whether it was the last.
    pub fn put(&self) {
        if let Some(held) = self.put_or_lock() {
            held.set(held.count() - 1);
        }
    }

    /// Adds to the count in one exchange if `may` allows it. `None` if the lock is held.
    fn change(&self, by: i32, may: impl Fn(i32) -> bool) -> Option<bool> {
        let mut word = self.0.load(Relaxed);
        for _ in 0..TRIES {
            if word & LOCKED != 0 {
                return None;
            }
            if !may(count(word)) {
                return Some(false);
            }
            let new = word.wrapping_add(ONE.wrapping_mul(by as i64 as u64));
            match self.0.compare_exchange_weak(word, new, AcqRel, Relaxed) {
                Ok(_) => return Some(true),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Takes the lock.
    pub fn lock(&self) -> Held<'_> {
        let mut round = 0;
        loop {
            let word = self.0.load(Relaxed);
            if word & LOCKED == 0 && self.0.compare_exchange_weak(word, word | LOCKED, Acquire, Relaxed).is_ok() {
                return Held(self);
            }
            spin_hint();
            round += 1;
            if round % 64 == 0 {
                crate::relax(round / 64);
            }
        }
    }
}

/// The lock of a [`LockRef`]; dropping it releases it.
#[derive(Debug)]
pub struct Held<'a>(&'a LockRef);

impl Held<'_> {
    /// The count, which cannot change while the lock is held.
    pub fn count(&self) -> i32 {
        count(self.0.0.load(Relaxed))
    }

    /// Sets the count. Only the holder writes the word while the lock bit is set.
    pub fn set(&self, n: i32) {
        self.0.0.store(LOCKED | (n as u32 as u64) << 32, Relaxed);
    }

    /// The object gives no references any more (`lockref_mark_dead`).
    pub fn mark_dead(&self) {
        self.set(DEAD);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let word = self.0.0.load(Relaxed);
        self.0.0.store(word & !LOCKED, Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn references_come_and_go() {
        let r = LockRef::default();
        assert!(!r.get_not_zero(), "there is none yet");
        assert!(r.get_not_dead());
        assert!(r.get_not_zero());
        r.get();
        assert_eq!(r.count(), 3);
        r.put();
        assert!(r.put_or_lock().is_none());
        let last = r.put_or_lock().expect("the last one takes the lock");
        assert_eq!(last.count(), 1);
        last.mark_dead();
        drop(last);
        assert!(!r.get_not_dead() && !r.get_not_zero());
        assert_eq!(r.count(), DEAD);
    }

    #[test]
    fn a_dead_objects_lock_can_still_be_taken() {
        let r = LockRef::default();
        r.lock().mark_dead();
        assert_eq!(r.lock().count(), DEAD);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn nobody_gets_a_reference_to_what_was_found_unused() {
        loom::model(|| {
            let r = Arc::new(LockRef::default());
            let other = r.clone();
            let taker = thread::spawn(move || {
                let got = other.get_not_dead();
                if got {
                    assert!(other.count() > 0, "dead under a reference");
                    other.put();
                }
            });
            let held = r.lock();
            if held.count() == 0 {
                held.mark_dead();
            }
            drop(held);
            taker.join().unwrap();
            assert!(matches!(r.count(), 0 | DEAD));
        });
    }

    #[test]
    fn no_reference_is_lost() {
        loom::model(|| {
            let r = Arc::new(LockRef::default());
            assert!(r.get_not_dead());
            let other = r.clone();
            let taker = thread::spawn(move || {
                other.get_not_zero().then(|| other.put());
            });
            r.get();
            r.put();
            taker.join().unwrap();
            assert_eq!(r.count(), 1);
        });
    }
}
