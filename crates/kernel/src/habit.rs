//! Whether a thread's next call can be expected to wait.
//!
//! A call that may wait is tried in a form that cannot, and repeated if it would wait. The loop of a server that
//! answers faster than its clients ask waits each time, and so makes every call twice. So a thread that has waited in
//! the same call several times makes it in the waiting form at once. It tries first again after a call that did not
//! wait.

use crate::Call;
use ids::Nanos;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of successive waits that make a habit.
const FIRM: u32 = 8;

/// A call that ends sooner did not wait: going to sleep and waking up takes longer.
const AT_ONCE: Nanos = Nanos::from_micros(3);

/// A thread's habit. Only the thread writes it.
#[derive(Debug, Default)]
pub struct Habit {
    /// Number and first argument of the call.
    of: AtomicU64,
    /// How many successive calls have waited.
    waits: AtomicU32,
}

impl Habit {
    /// Notes that the call would wait.
    pub fn would_wait(&self, call: &Call) {
        let same = self.of.swap(key(call), Relaxed) == key(call);
        self.waits.store(if same { self.waits.load(Relaxed).saturating_add(1) } else { 1 }, Relaxed);
    }

    /// Notes that the call did not wait.
    pub fn did_not_wait(&self, call: &Call) {
        if self.of.load(Relaxed) == key(call) {
            self.waits.store(0, Relaxed);
        }
    }

    /// Whether the call can be expected to wait.
    #[must_use]
    pub fn expects(&self, call: &Call) -> bool {
        self.waits.load(Relaxed) >= FIRM && self.of.load(Relaxed) == key(call)
    }

    /// Notes that a wait is over; `waited` returns its length, if that matters.
    pub(crate) fn is_over(&self, waited: impl FnOnce() -> Nanos) {
        if self.waits.load(Relaxed) >= FIRM && waited() < AT_ONCE {
            self.waits.store(0, Relaxed);
        }
    }
}

/// A hash is not needed: calls with different first arguments rarely have the same value here.
fn key(call: &Call) -> u64 {
    (call.nr as u64) << 48 ^ call.args[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(fd: u64) -> Call {
        Call { nr: abi::nr::EPOLL_WAIT, args: [fd, 0, 0, 0, 0, 0] }
    }

    #[test]
    fn several_waits_in_the_same_call_are_a_habit() {
        let habit = Habit::default();
        (0..FIRM).for_each(|_| {
            assert!(!habit.expects(&call(3)));
            habit.would_wait(&call(3));
        });
        assert!(habit.expects(&call(3)));
        assert!(!habit.expects(&call(4)));
        habit.would_wait(&call(4));
        assert!(!habit.expects(&call(3)) && !habit.expects(&call(4)));
    }

    #[test]
    fn it_ends_when_a_call_does_not_wait() {
        let habit = Habit::default();
        (0..FIRM).for_each(|_| habit.would_wait(&call(3)));
        habit.is_over(|| AT_ONCE);
        assert!(habit.expects(&call(3)));
        habit.is_over(|| Nanos::from_micros(1));
        assert!(!habit.expects(&call(3)));
        (0..FIRM).for_each(|_| habit.would_wait(&call(3)));
        habit.did_not_wait(&call(4));
        assert!(habit.expects(&call(3)));
        habit.did_not_wait(&call(3));
        assert!(!habit.expects(&call(3)));
        habit.is_over(|| panic!("nobody wants to know"));
    }
}
