//! Whether a thread's next call can be expected to wait.
//!
//! A call that may wait is tried in a form that cannot, and made once more if it would wait. The loop of a server that answers
//! faster than its clients ask waits each time, and makes every call twice. So a thread that has waited in the same call
//! several times makes it at once in the form that waits. One call that does not wait halves what is known, so a server whose
//! clients are sometimes faster keeps the habit, and one whose clients often are loses it.

use crate::Call;
use ids::Nanos;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// So many waits are a habit.
const FIRM: u32 = 8;
/// More are not counted.
const MOST: u32 = 2 * FIRM - 1;

/// A call that is over sooner has not waited: going to sleep and waking up takes longer.
const AT_ONCE: Nanos = Nanos::from_micros(3);

/// A thread's habit. It is the only one that writes it.
#[derive(Debug, Default)]
pub struct Habit {
    /// Number and first argument of the call.
    of: AtomicU64,
    /// How often it has waited, at most [`MOST`]; half of it whenever it has not.
    waits: AtomicU32,
}

impl Habit {
    /// The call would wait.
    pub fn would_wait(&self, call: &Call) {
        let same = self.of.swap(key(call), Relaxed) == key(call);
        self.waits.store(if same { self.one_more() } else { 1 }, Relaxed);
    }

    /// The call did not wait.
    pub fn did_not_wait(&self, call: &Call) {
        if self.of.load(Relaxed) == key(call) {
            self.waits.store(self.waits.load(Relaxed) / 2, Relaxed);
        }
    }

    fn one_more(&self) -> u32 {
        (self.waits.load(Relaxed) + 1).min(MOST)
    }

    /// Whether the call can be expected to wait.
    #[must_use]
    pub fn expects(&self, call: &Call) -> bool {
        self.waits.load(Relaxed) >= FIRM && self.of.load(Relaxed) == key(call)
    }

    /// A wait is over; `waited` says how long it was, if anybody wants to know.
    pub(crate) fn is_over(&self, waited: impl FnOnce() -> Nanos) {
        let waits = self.waits.load(Relaxed);
        if waits >= FIRM {
            self.waits.store(if waited() < AT_ONCE { waits / 2 } else { self.one_more() }, Relaxed);
        }
    }
}

/// Descriptors and addresses of one process that differ here are the same in their lower bits rarely enough.
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
        habit.did_not_wait(&call(4));
        assert!(habit.expects(&call(3)));
        habit.did_not_wait(&call(3));
        assert!(!habit.expects(&call(3)));
        habit.is_over(|| panic!("nobody wants to know"));
    }

    #[test]
    fn one_call_that_does_not_wait_is_made_up_for_by_the_next_that_does() {
        let habit = Habit::default();
        (0..FIRM).for_each(|_| habit.would_wait(&call(3)));
        (FIRM..MOST + 5).for_each(|_| habit.is_over(|| AT_ONCE));
        habit.is_over(|| Nanos::from_micros(1));
        assert!(!habit.expects(&call(3)));
        habit.would_wait(&call(3));
        assert!(habit.expects(&call(3)));
        // Every second one does not wait.
        for _ in 0..4 {
            habit.did_not_wait(&call(3));
            habit.would_wait(&call(3));
        }
        assert!(!habit.expects(&call(3)));
    }
}
