//! The generations as steps of the cost model: what each touches at a tick while a
//! process timer is armed and every CPU runs a thread of the process.

use crate::cost::Step::{Add, Lock, ReadOthers, Work};
use crate::cost::{Machine, Step, share};
use alloc::vec;
use alloc::vec::Vec;

/// The designs that the cost model knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// Generation 0 with this many threads.
    Walk(u64),
    /// Generation 1.
    PerCpu,
    /// Generation 2.
    Spinlock,
    /// Generation 3, and today's.
    Atomics,
    /// Ours.
    Ours,
}

/// The machine on which the bug was found: four CPUs.
pub const OF_2008: Machine = Machine::of_cpus(4);
/// Its tick, in nanoseconds: a thousand a second.
pub const TICK_OF_2008: u64 = 1_000_000;
/// The time to visit one thread in a walk on that machine. Derived from the message: with 4,000 threads the program
/// took 70 seconds for what takes 5.8, so it got eight percent of each tick, after four CPUs had walked one after the
/// other.
const VISIT_OF_2008: u64 = 31;

/// A tick of generation 0 on the machine of 2008, with this many threads: three walks under a lock.
pub fn walk_of_2008(threads: u64) -> Vec<Step> {
    vec![Lock(0, 3 * threads * VISIT_OF_2008)]
}

/// The share of all time that the program gets when a tick does this on the machine of 2008.
pub fn left_in_2008(steps: &[Step]) -> f64 {
    1.0 - share(&OF_2008, steps, TICK_OF_2008)
}

impl Design {
    /// All five, with generation 0 for this many threads.
    pub const fn all(threads: u64) -> [Design; 5] {
        [Design::Walk(threads), Design::PerCpu, Design::Spinlock, Design::Atomics, Design::Ours]
    }

    /// The name in tables, as [`super::Accounting::name`] has it.
    pub const fn name(self) -> &'static str {
        match self {
            Design::Walk(_) => "walk",
            Design::PerCpu => "per-cpu",
            Design::Spinlock => "spinlock",
            Design::Atomics => "atomics",
            Design::Ours => "ours",
        }
    }

    /// The steps of one tick on a machine of `cpus` CPUs.
    pub fn tick(self, cpus: usize) -> Vec<Step> {
        match self {
            // A walk of three passes at 7.3 ns a thread, under a lock.
            Design::Walk(threads) => vec![Lock(0, 3 * threads * 73 / 10)],
            // Two additions to the CPU's slot, then the sum over all slots.
            Design::PerCpu => vec![Work(4), ReadOthers(cpus - 1)],
            // User time, run time, and the copy that the check compares.
            Design::Spinlock => vec![Lock(0, 8), Lock(0, 8), Lock(0, 8)],
            // Two additions to the one line, and reading it, which then is at hand.
            Design::Atomics => vec![Add(0), Add(0), Work(2)],
            // The CPU's slot; flag and hint are read-mostly lines that every CPU has.
            Design::Ours => vec![Work(4), Work(4)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Constant;

    const TICK: u64 = 4_000_000;

    fn shares(m: &Machine) -> [f64; 4] {
        [Design::Spinlock, Design::PerCpu, Design::Atomics, Design::Ours].map(|d| share(m, &d.tick(m.cpus()), TICK))
    }

    /// The 2015 patch: more than 30 % of all time on 16 sockets, then less than 1 %.
    #[test]
    fn thirty_percent_become_less_than_one_within_a_factor_of_two() {
        let [spinlock, _, atomics, ours] = shares(&Machine::SIXTEEN_SOCKETS);
        assert!((0.15..0.6).contains(&spinlock), "spinlock {spinlock}");
        assert!(atomics < 0.02 && atomics > 0.001, "atomics {atomics}");
        assert!(ours < 0.0001, "ours {ours}");
    }

    #[test]
    fn the_order_holds_with_memory_twice_as_fast_or_slow() {
        for percent in [50, 100, 200] {
            let [spinlock, per_cpu, atomics, ours] = shares(&Machine::SIXTEEN_SOCKETS.with_memory(percent));
            assert!(spinlock > 8.0 * atomics && atomics > 4.0 * ours, "{percent}");
            assert!(spinlock > 8.0 * per_cpu && per_cpu > 20.0 * ours, "{percent}");
        }
    }

    #[test]
    fn the_order_holds_with_each_constant_halved_and_doubled() {
        for constant in Constant::ALL {
            for percent in [50, 200] {
                let machine = Machine::SIXTEEN_SOCKETS.with(constant, percent);
                let [spinlock, per_cpu, atomics, ours] = shares(&machine);
                assert!(spinlock > 8.0 * atomics && atomics > 4.0 * ours, "{constant:?} {percent}");
                assert!(spinlock > 8.0 * per_cpu && per_cpu > 20.0 * ours, "{constant:?} {percent}");
            }
        }
    }

    #[test]
    fn ours_is_flat_from_4_to_1024_cpus_and_the_lock_is_not() {
        let of = |cpus: usize, d: Design| share(&Machine::of_cpus(cpus), &d.tick(cpus), TICK);
        assert_eq!(of(4, Design::Ours), of(1024, Design::Ours));
        assert!(of(1024, Design::Spinlock) > 100.0 * of(4, Design::Spinlock));
    }

    /// The 2008 patch: 70 seconds become 5.8 with 4,000 threads, "the most an unmodified kernel can handle".
    #[test]
    fn the_program_of_2008_stands_still_beyond_4000_threads() {
        let left = |threads| left_in_2008(&walk_of_2008(threads));
        assert!(left(8) > 0.99);
        assert!((0.04..0.16).contains(&left(4_000)), "{}", left(4_000));
        assert_eq!(left(5_000), 0.0);
        for after in [Design::PerCpu, Design::Atomics, Design::Ours] {
            assert!(left_in_2008(&after.tick(OF_2008.cpus())) > 0.99, "{after:?}");
        }
    }

    #[test]
    fn the_walk_fills_the_tick_from_some_number_of_threads_on() {
        let m = Machine::of_cpus(2);
        let of = |threads| share(&m, &Design::Walk(threads).tick(2), TICK);
        assert!(of(1_000) < 0.02);
        assert_eq!(of(1_000_000), 1.0);
    }
}
