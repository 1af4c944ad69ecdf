//! Whether a thread's next call can be expected to wait.
//!
//! A call that may wait is tried in a form that cannot, and repeated if it would wait. The loop of a server that
//! answers faster than its clients ask waits nearly each time, and so makes every call twice. So a thread whose calls
//! of a kind wait more often than not makes them in the waiting form at once: a wait that was not needed costs less than
//! a try that was not.

use crate::Call;
use ids::Nanos;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// By how many the waits must exceed the other calls to make a habit.
const FIRM: u32 = 8;
/// More are not counted, so that a habit ends soon.
const MOST: u32 = 2 * FIRM;

/// A call that ends sooner did not wait: going to sleep and waking up takes longer.
const AT_ONCE: Nanos = Nanos::from_micros(3);

/// A thread's habit. Only the thread writes it.
#[derive(Debug, Default)]
pub struct Habit {
    /// Number and first argument of the call.
    of: AtomicU64,
    /// How many more calls have waited than have not: 0 to `MOST`.
    waits: AtomicU32,
}

impl Habit {
    /// Notes that the call would wait.
    pub fn would_wait(&self, call: &Call) {
        let same = self.of.swap(key(call), Relaxed) == key(call);
        let waits = if same { self.waits.load(Relaxed) } else { 0 };
        self.waits.store((waits + 1).min(MOST), Relaxed);
    }

    /// Notes that the call did not wait.
    pub fn did_not_wait(&self, call: &Call) {
        if self.of.load(Relaxed) == key(call) {
            self.waits.store(self.waits.load(Relaxed).saturating_sub(1), Relaxed);
        }
    }

    /// Whether the call can be expected to wait.
    #[must_use]
    pub fn expects(&self, call: &Call) -> bool {
        self.waits.load(Relaxed) >= FIRM && self.of.load(Relaxed) == key(call)
    }

    /// Notes that a wait is over; `waited` returns its length, if that matters: a call that is expected to wait is not
    /// counted when it begins.
    pub(crate) fn is_over(&self, waited: impl FnOnce() -> Nanos) {
        let waits = self.waits.load(Relaxed);
        if waits >= FIRM {
            self.waits.store(if waited() < AT_ONCE { waits - 1 } else { (waits + 1).min(MOST) }, Relaxed);
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
    fn waits_in_the_same_call_are_a_habit() {
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
    fn it_ends_when_calls_do_not_wait() {
        let habit = Habit::default();
        (0..FIRM).for_each(|_| habit.would_wait(&call(3)));
        habit.did_not_wait(&call(4));
        assert!(habit.expects(&call(3)));
        habit.is_over(|| Nanos::from_micros(1));
        assert!(!habit.expects(&call(3)));
        habit.is_over(|| panic!("nobody wants to know"));
        habit.would_wait(&call(3));
        assert!(habit.expects(&call(3)));
        habit.did_not_wait(&call(3));
        assert!(!habit.expects(&call(3)));
    }

    #[test]
    fn two_waits_of_three_keep_it_and_one_of_three_ends_it_soon() {
        let habit = Habit::default();
        (0..100).for_each(|_| habit.would_wait(&call(3)));
        for round in 0..100 {
            habit.is_over(|| if round % 3 == 0 { Nanos(0) } else { AT_ONCE });
            assert!(habit.expects(&call(3)), "{round}");
        }
        for _ in 0..=FIRM {
            habit.is_over(|| Nanos(0));
        }
        assert!(!habit.expects(&call(3)));
    }
}
