//! User and system time as `getrusage(2)`, `times(2)` and `/proc` show them: all of the
//! precise time, split in the sampled ratio.

use crate::cpu::Cputime;
use core::ops::{Add, AddAssign};
use ids::Nanos;

/// User and system time that together are all the time consumed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Time in user mode.
    pub utime: Nanos,
    /// Time in the kernel.
    pub stime: Nanos,
}

impl Usage {
    /// Both in clock ticks of `times(2)`, rounded down. A tick of that call is a
    /// hundredth of a second, whatever the scheduler's tick is.
    pub fn in_clock_ticks(self) -> (u64, u64) {
        const NS_PER_CLOCK_TICK: u64 = 1_000_000_000 / 100;
        (self.utime.0 / NS_PER_CLOCK_TICK, self.stime.0 / NS_PER_CLOCK_TICK)
    }
}

impl Add for Usage {
    type Output = Usage;
    fn add(self, o: Usage) -> Usage {
        Usage { utime: self.utime + o.utime, stime: self.stime + o.stime }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, o: Usage) {
        *self = *self + o;
    }
}

/// The values shown last. They keep both parts monotonic when the sampled ratio shifts. One per thread and one per
/// process, each under its lock.
#[derive(Clone, Copy, Default, Debug)]
pub struct Adjuster {
    shown: Usage,
}

impl Adjuster {
    /// Nothing was shown yet.
    pub const fn new() -> Adjuster {
        Adjuster { shown: Usage { utime: Nanos::ZERO, stime: Nanos::ZERO } }
    }

    /// Splits `t.exec` (`cputime_adjust`): all user time if no system time was sampled,
    /// all system time if no user time was, else in their ratio; neither part ever shrinks.
    pub fn adjust(&mut self, t: Cputime) -> Usage {
        let total = t.exec;
        if total <= self.shown.utime + self.shown.stime {
            return self.shown;
        }
        let stime = if t.stime == Nanos::ZERO {
            Nanos::ZERO
        } else if t.utime == Nanos::ZERO {
            total
        } else {
            let sampled = t.utime.0 as u128 + t.stime.0 as u128;
            Nanos((t.stime.0 as u128 * total.0 as u128 / sampled) as u64)
        };
        let stime = stime.max(self.shown.stime);
        let utime = (total - stime).max(self.shown.utime);
        // If user time had to be kept, system time gives way; it stays above what was
        // shown because the total has grown.
        self.shown = Usage { utime, stime: total - utime };
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(utime: u64, stime: u64, exec: u64) -> Cputime {
        Cputime { utime: Nanos(utime), stime: Nanos(stime), exec: Nanos(exec) }
    }

    fn usage(utime: u64, stime: u64) -> Usage {
        Usage { utime: Nanos(utime), stime: Nanos(stime) }
    }

    #[test]
    fn never_sampled_in_the_kernel_is_all_user_time_and_the_reverse() {
        assert_eq!(Adjuster::new().adjust(at(0, 0, 90)), usage(90, 0));
        assert_eq!(Adjuster::new().adjust(at(5, 0, 90)), usage(90, 0));
        assert_eq!(Adjuster::new().adjust(at(0, 5, 90)), usage(0, 90));
    }

    #[test]
    fn splits_in_the_sampled_ratio_without_overflow() {
        assert_eq!(Adjuster::new().adjust(at(30, 10, 100)), usage(75, 25));
        let year = 31_557_600_000_000_000;
        assert_eq!(Adjuster::new().adjust(at(100 * year, 100 * year, 200 * year)), usage(100 * year, 100 * year));
    }

    #[test]
    fn a_total_that_did_not_grow_shows_the_same() {
        let mut a = Adjuster::new();
        let first = a.adjust(at(10, 10, 100));
        assert_eq!(a.adjust(at(90, 10, 100)), first);
        assert_eq!(a.adjust(at(10, 10, 90)), first, "nor does one that was too large");
        assert_eq!(a.adjust(at(0, 0, 0)), first);
    }

    #[test]
    fn neither_part_goes_back_when_the_ratio_shifts() {
        let mut a = Adjuster::new();
        assert_eq!(a.adjust(at(10, 10, 100)), usage(50, 50));
        assert_eq!(a.adjust(at(1000, 10, 110)), usage(60, 50), "stime is kept");
        let mut a = Adjuster::new();
        assert_eq!(a.adjust(at(10, 10, 100)), usage(50, 50));
        assert_eq!(a.adjust(at(10, 1000, 110)), usage(50, 60), "utime is kept");
    }

    #[test]
    fn times_add_up_part_by_part() {
        let mut sum = usage(1, 20) + usage(300, 4_000);
        assert_eq!(sum, usage(301, 4_020));
        sum += usage(9, 80);
        assert_eq!(sum, usage(310, 4_100));
    }

    #[test]
    fn clock_ticks_are_hundredths() {
        assert_eq!(usage(19_999_999, 20_000_000).in_clock_ticks(), (1, 2));
    }

    proptest! {
        #[test]
        fn monotonic_and_complete(steps in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 20), 1..60)) {
            let (mut a, mut t, mut last) = (Adjuster::new(), Cputime::ZERO, Usage::default());
            for (u, s, rest) in steps {
                t += at(u, s, u + s + rest);
                let shown = a.adjust(t);
                prop_assert_eq!(shown.utime + shown.stime, t.exec);
                prop_assert!(shown.utime >= last.utime && shown.stime >= last.stime);
                last = shown;
            }
        }
    }
}
