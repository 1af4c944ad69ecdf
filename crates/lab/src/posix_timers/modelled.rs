//! The seed's fourth and fifth test in the cost model: 63 threads, or 63 processes of one
//! thread, create 20,000 timers each and then ask for each one's overrun.
//!
//! Two numbers are read off the seed's own table and explain nearly all of it: a chain's
//! node that is not in the cache costs 107 ns (2,645 ms / 20,000 look-ups / 1,230 nodes on
//! average), and one that was walked a moment ago 25 ns. The second is why walking twice
//! helped: the walk under the lock was the cheap one.

use crate::cost::Step::{Add, Lock, LockOneOf, Work};
use crate::cost::{Machine, Step, tick};
use alloc::vec::Vec;

/// The seed's machine, roughly: 64 CPUs.
pub const CPUS: usize = 64;
const TIMERS_EACH: u64 = 20_000;
const OWNERS: u64 = 63;
const COLD_NODE: u64 = 107;
const WARM_NODE: u64 = 25;
/// A system call's own work beside finding the timer: entry, allocation, copying.
const CREATE: u64 = 1_500;
/// The part of a creation under the process's signal lock.
const UNDER_SIGLOCK: u64 = 150;

const SIGLOCK: usize = 0;
const HASH_LOCK: usize = 1;
const TREE_LOCK: usize = 2;
const NEXT_ID: usize = 3;
const SHARDS: usize = 4;

/// The designs of the seed's table, and ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// One hash table, one lock.
    Global,
    /// A walk without the lock, and one with it.
    DoubleWalk,
    /// Buckets by CPUs, a lock in each.
    Scaled,
    /// A tree per process.
    Xarray,
    /// Ours: no signal lock at creation, sixteen shards.
    Ours,
}

impl Design {
    /// All five, in the order of the seed's columns.
    pub const ALL: [Design; 5] = [Design::Global, Design::DoubleWalk, Design::Scaled, Design::Xarray, Design::Ours];

    /// How many nodes of a chain are walked on average, over a test in which the table
    /// fills (`full`: while it is full, and half a chain per look-up).
    fn nodes(self) -> u64 {
        let buckets = match self {
            Design::Scaled => 512 * CPUS as u64,
            _ => 512,
        };
        OWNERS * TIMERS_EACH / buckets / 2
    }

    /// One creation, with all owners in one process or each in its own.
    pub fn create(self, one_process: bool) -> Vec<Step> {
        let mut steps = alloc::vec![Work(CREATE)];
        if one_process && self != Design::Ours {
            steps.push(Lock(SIGLOCK, UNDER_SIGLOCK));
        }
        match self {
            Design::Global => steps.push(Lock(HASH_LOCK, self.nodes() * COLD_NODE)),
            Design::DoubleWalk => {
                steps.extend([Work(self.nodes() * COLD_NODE), Lock(HASH_LOCK, self.nodes() * WARM_NODE)]);
            }
            // Bucket locks are hardly ever held by two.
            Design::Scaled => steps.push(Work(self.nodes() * COLD_NODE)),
            Design::Xarray if one_process => steps.push(Lock(TREE_LOCK, 60)),
            Design::Xarray => steps.push(Work(60)),
            Design::Ours if one_process => {
                steps.extend([Add(NEXT_ID), LockOneOf { first: SHARDS, lines: 16, ns: 20 }]);
            }
            Design::Ours => steps.push(Work(30)),
        }
        steps
    }

    /// One look-up.
    pub fn look_up(self) -> Vec<Step> {
        let tree = 2 * COLD_NODE + 30;
        alloc::vec![match self {
            Design::Global | Design::DoubleWalk | Design::Scaled => Work(self.nodes() * COLD_NODE),
            Design::Xarray | Design::Ours => Work(tree),
        }]
    }
}

/// What the test takes per owner, in milliseconds.
pub fn milliseconds(machine: &Machine, one: &[Step]) -> f64 {
    const ROUNDS: usize = 40;
    let steps: Vec<Step> = one.iter().copied().cycle().take(one.len() * ROUNDS).collect();
    tick(machine, &steps) / ROUNDS as f64 * TIMERS_EACH as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creates(one_process: bool, memory: u64) -> [f64; 5] {
        let machine = Machine::of_cpus(CPUS).with_memory(memory);
        Design::ALL.map(|d| milliseconds(&machine, &d.create(one_process)))
    }

    fn within_a_factor_of_two(got: f64, seed: f64) -> bool {
        got < 2.0 * seed && got > seed / 2.0
    }

    #[test]
    fn the_seeds_threads_are_met_within_a_factor_of_two() {
        let got = creates(true, 100);
        for (got, seed) in got.iter().zip([180_239.0, 38_599.0, 579.0, 813.0]) {
            assert!(within_a_factor_of_two(*got, seed), "{got} for {seed}");
        }
        assert!(got[4] < got[2] / 3.0, "ours takes no lock of the process: {got:?}");
    }

    #[test]
    fn the_seeds_processes_are_met_within_a_factor_of_two() {
        let got = creates(false, 100);
        for (got, seed) in got.iter().zip([157_253.0, 40_008.0, 83.0, 60.0]) {
            assert!(within_a_factor_of_two(*got, seed), "{got} for {seed}");
        }
    }

    #[test]
    fn the_seeds_look_ups_are_met_within_a_factor_of_two() {
        let machine = Machine::of_cpus(CPUS);
        let got = Design::ALL.map(|d| milliseconds(&machine, &d.look_up()));
        for (got, seed) in got.iter().zip([2_645.0, 2_642.0, 32.0, 7.0]) {
            assert!(within_a_factor_of_two(*got, seed), "{got} for {seed}");
        }
    }

    #[test]
    fn the_order_holds_with_memory_twice_as_fast_or_slow() {
        for memory in [50, 100, 200] {
            let [global, double, scaled, xarray, ours] = creates(true, memory);
            assert!(global > double && double > xarray && xarray > scaled && scaled > ours, "{memory}");
        }
    }
}
