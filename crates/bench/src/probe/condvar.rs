//! Two threads wake each other by the C library's mutex and condition variable, on whatever CPUs they run.

use std::cell::UnsafeCell;
use std::thread;

use super::clock::{median_of, now_ns};
use super::{Measured, report};

const BATCHES: usize = 21;

/// The number of the thread whose turn it is, under the C library's own lock (Rust's uses futexes directly).
struct Turn {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    changed: UnsafeCell<libc::pthread_cond_t>,
    whose: UnsafeCell<u32>,
}

// SAFETY: `whose` is touched only under the mutex, and the other two are made for threads.
unsafe impl Sync for Turn {}

impl Turn {
    fn new() -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            changed: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            whose: UnsafeCell::new(0),
        }
    }

    /// Waits for its turn and passes it to the other thread.
    fn take_and_pass(&self, own: u32) {
        // SAFETY: both objects are initialised and do not move while `self` is borrowed; `whose` is read and
        // written between lock and unlock only.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            while *self.whose.get() != own {
                libc::pthread_cond_wait(self.changed.get(), self.mutex.get());
            }
            *self.whose.get() = 1 - own;
            libc::pthread_cond_signal(self.changed.get());
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }
}

/// Nanoseconds a hand-over: half a round trip.
pub(super) fn measure(quick: bool) -> Measured {
    let rounds = if quick { 2_000 } else { 5_000 };
    let turn = Turn::new();
    let value = thread::scope(|scope| {
        scope.spawn(|| (0..BATCHES * rounds).for_each(|_| turn.take_and_pass(1)));
        median_of(BATCHES, || {
            let start = now_ns();
            (0..rounds).for_each(|_| turn.take_and_pass(0));
            (now_ns() - start) as f64 / (2 * rounds) as f64
        })
    });
    report::figure("condvar_handover", "ns", value);
    Ok(())
}
