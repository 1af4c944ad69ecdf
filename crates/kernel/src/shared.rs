//! Memory that other processes may see.
//!
//! A futex without FUTEX_PRIVATE_FLAG is ours unless it lies in a shared mapping: then it belongs to the host's queues.
//! The personality, which maps memory, maintains the list.

use alloc::vec::Vec;
use sync::Lock;
use sync::atomic::{AtomicBool, Ordering::*};

/// The shared mappings of the process.
#[derive(Debug, Default)]
pub struct Shared {
    ranges: Lock<Vec<(u64, u64)>>,
    is_any: AtomicBool,
}

impl Shared {
    /// Whether another process may see this word.
    #[inline]
    pub fn contains(&self, addr: u64) -> bool {
        self.is_any.load(Relaxed) && self.ranges.lock().iter().any(|&(from, to)| (from..to).contains(&addr))
    }

    /// Whether there may be any such word.
    pub fn any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// Records a shared mapping.
    pub fn add(&self, from: u64, to: u64) {
        self.ranges.lock().push((from, to));
        self.is_any.store(true, Relaxed);
    }

    /// Unmaps a range: shared mappings in it are gone.
    pub fn remove(&self, from: u64, to: u64) {
        if !self.is_any.load(Relaxed) {
            return;
        }
        let mut list = self.ranges.lock();
        let old = core::mem::take(&mut *list);
        for (a, b) in old {
            let before = (a, b.min(from));
            let after = (a.max(to), b);
            list.extend([before, after].into_iter().filter(|(a, b)| a < b));
        }
    }

    /// The shared ranges, for a child that inherits them.
    pub fn all(&self) -> Vec<(u64, u64)> {
        self.ranges.lock().clone()
    }

    /// Takes over a parent's shared ranges.
    pub fn inherit(&self, ranges: &[(u64, u64)]) {
        ranges.iter().for_each(|&(from, to)| self.add(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_in_a_shared_range_is_not_shared() {
        let m = Shared::default();
        m.add(0x1000, 0x9000);
        m.remove(0x3000, 0x5000);
        assert!(m.contains(0x2fff) && !m.contains(0x3000) && !m.contains(0x4fff) && m.contains(0x5000));
        m.remove(0, u64::MAX);
        assert!(!m.contains(0x8fff));
    }
}
