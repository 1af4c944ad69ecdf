//! How long a thread's calls of a kind wait for a disk.
//!
//! Most calls on files find what they want in memory, and a thread keeps its CPU in them. Where they wait, as in a
//! database that does not fit into memory, the CPU would be idle beside threads that could run. So a thread whose calls
//! of a kind have waited longer, on average, than it costs to leave a CPU and to come back leaves it before the next
//! one. A thread that leaves for calls that have become quick finds that out in the same way.

use ids::Nanos;
use sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// The cost of leaving a CPU: another host thread is woken, and the thread becomes runnable again afterwards.
const WORTH_LEAVING: Nanos = Nanos::from_micros(15);
/// A longer wait counts like this one, so that a few quick calls outweigh it.
const MOST: Nanos = Nanos::from_micros(200);
/// The share of the latest call in the average is one part in `1 << SHARE`.
const SHARE: u32 = 4;

/// A kind of call that waits for a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Reading a file.
    Read = 1,
    /// Writing one.
    Write = 2,
    /// Waiting until a file is on the disk. Such a call is expected to wait until it is known not to.
    Sync = 3,
}

/// The averages of a thread. Only the thread writes them.
#[derive(Debug)]
pub struct Lasting {
    /// How long calls of each kind have waited on average, in nanoseconds.
    averages: [AtomicU32; 3],
    /// The kind of the call that the thread is in; 0: another one.
    current: AtomicU8,
}

impl Default for Lasting {
    fn default() -> Lasting {
        let averages = [Nanos::ZERO, Nanos::ZERO, MOST].map(|average| AtomicU32::new(average.0 as u32));
        Lasting { averages, current: AtomicU8::new(0) }
    }
}

impl Lasting {
    /// A call of this kind begins; returns whether its thread had better leave the CPU.
    #[must_use]
    pub fn begin(&self, kind: Kind) -> bool {
        self.current.store(kind as u8, Relaxed);
        self.averages[kind as usize - 1].load(Relaxed) >= WORTH_LEAVING.0 as u32
    }

    /// A call is over; `waited` returns how long it has waited, and is asked only if it was of such a kind.
    #[inline]
    pub(crate) fn is_over(&self, waited: impl FnOnce() -> Nanos) {
        let Some(kind) = self.current.load(Relaxed).checked_sub(1) else { return };
        self.current.store(0, Relaxed);
        let average = &self.averages[usize::from(kind)];
        let before = average.load(Relaxed);
        average.store(before - (before >> SHARE) + (waited().min(MOST).0 as u32 >> SHARE), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Nanos = Nanos::from_micros(100);

    fn call(lasting: &Lasting, kind: Kind, waited: Nanos) -> bool {
        let leaves = lasting.begin(kind);
        lasting.is_over(|| waited);
        leaves
    }

    #[test]
    fn a_thread_leaves_its_cpu_for_calls_that_wait_and_stays_for_those_that_do_not() {
        let lasting = Lasting::default();
        assert_eq!((0..5).take_while(|_| !call(&lasting, Kind::Read, SLOW)).count(), 3);
        assert!(!lasting.begin(Kind::Write), "another kind");
        let after = (0..100).take_while(|_| call(&lasting, Kind::Read, Nanos::ZERO)).count();
        assert!((1..20).contains(&after), "{after}");
    }

    #[test]
    fn one_wait_in_ten_calls_keeps_the_cpu() {
        let lasting = Lasting::default();
        let left = (0..1000).filter(|i| call(&lasting, Kind::Read, if i % 10 == 0 { SLOW } else { Nanos::ZERO }));
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn syncing_waits_until_it_is_known_not_to() {
        let lasting = Lasting::default();
        assert!(lasting.begin(Kind::Sync));
        let after = (0..100).take_while(|_| call(&lasting, Kind::Sync, Nanos::from_micros(2))).count();
        assert!((10..60).contains(&after), "{after}");
    }

    #[test]
    fn other_calls_do_not_count() {
        let lasting = Lasting::default();
        lasting.is_over(|| panic!("nobody wants to know"));
    }
}
