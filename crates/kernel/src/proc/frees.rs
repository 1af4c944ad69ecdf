//! Which numbers the host has freed lately: whether one that it has just given out is the lowest still.
//!
//! Between the host's answer and the entry in the table of open files somebody may free a number. Only one below
//! matters, so the last few are kept with their numbers. Otherwise two threads that open and close at the same time would
//! find something freed each time, keep no number for the next file, and so go on freeing: a host call each time.

use sync::atomic::{AtomicU64, Ordering::*};

/// So many are kept.
const KEPT: usize = 8;

/// The last ones.
#[derive(Debug, Default)]
pub(super) struct Frees {
    /// How many there were, and one; 0 before anybody wants to know.
    count: AtomicU64,
    /// The number, and above it the lower half of its count: one that is not there yet is told from what it replaces.
    last: [AtomicU64; KEPT],
}

impl Frees {
    /// From now on they are counted.
    pub(super) fn begin(&self) {
        let _ = self.count.compare_exchange(0, 1, SeqCst, Relaxed);
    }

    /// Whether they are.
    #[inline]
    pub(super) fn are_counted(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// This moment, for [`Frees::below`]; `None` if nobody counts yet.
    pub(super) fn moment(&self) -> Option<u64> {
        Some(self.count.load(SeqCst)).filter(|&count| count != 0)
    }

    /// The host has freed a number.
    pub(super) fn add(&self, number: i32) {
        let at = self.count.fetch_add(1, SeqCst);
        self.last[at as usize % KEPT].store(at << 32 | u64::from(number as u32), Release);
    }

    /// Whether one below `fd` may have been freed since then.
    pub(super) fn below(&self, fd: i32, since: u64) -> bool {
        let now = self.count.load(SeqCst);
        let is_below = |at: u64| {
            let last = self.last[at as usize % KEPT].load(Acquire);
            last >> 32 != at & 0xffff_ffff || (last as i32) < fd
        };
        now - since > KEPT as u64 || (since..now).any(is_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_counts() {
        let frees = Frees::default();
        assert!(!frees.are_counted() && frees.moment().is_none());
        frees.begin();
        frees.begin();
        let before = frees.moment().unwrap();
        assert!(!frees.below(i32::MAX, before));
        frees.add(7);
        assert!(frees.below(8, before) && !frees.below(7, before) && !frees.below(3, before));
        let after = frees.moment().unwrap();
        assert!(!frees.below(8, after));
        for _ in 0..KEPT {
            frees.add(20);
        }
        assert!(!frees.below(9, after), "all of them are known");
        assert!(frees.below(9, before), "more than are kept");
    }

    #[test]
    fn one_that_is_not_there_yet_may_be_any() {
        let frees = Frees::default();
        frees.begin();
        let before = frees.moment().unwrap();
        // Somebody is between his two steps.
        frees.count.fetch_add(1, SeqCst);
        assert!(frees.below(0, before));
    }
}
