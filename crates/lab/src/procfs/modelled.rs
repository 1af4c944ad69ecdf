//! The seed's test in the cost model: as many `ps -fe` as there are CPUs, each reading all processes.
//!
//! Two numbers come from the seed: system time was 85 % after the patch and 97 % before it. With [`USER`] as a
//! program's own work per file, the first gives [`KERNEL`], the kernel's work that the patch left unchanged,
//! contention elsewhere included. The additional cost of the shared directory comes from the model alone.

use super::Design;
use crate::cost::Step::{Add, Lock, LockOneOf, Work};
use crate::cost::{Machine, Step, tick};
use alloc::vec::Vec;

/// The seed's machine.
pub const CPUS: usize = 128;
/// The work of `ps` itself for one file that it opens, reads and closes, in nanoseconds.
pub const USER: u64 = 1_000;
/// The kernel's work for it besides the walk.
pub const KERNEL: u64 = 5_600;
/// A dentry's spin lock while a count is changed under it.
const UNDER_LOCK: u64 = 15;
/// Waking a sleeper and being woken.
const WAKE: u64 = 2_000;
/// Processes: where the scans meet by chance.
const PROCESSES: usize = 500;

const PROC: usize = 0;
const MOUNT: usize = 1;
const FIRST_PROCESS: usize = 2;

impl Design {
    /// One file of one process, looked up, opened, read and closed.
    pub fn steps(self) -> Vec<Step> {
        let own = LockOneOf { first: FIRST_PROCESS, lines: PROCESSES, ns: UNDER_LOCK };
        let mut steps = alloc::vec![Work(USER + KERNEL)];
        match self {
            // A sleeping waiter does not fetch the line: taking and releasing the mutex is one transfer each. Waking
            // the next one is work, but not under the mutex.
            Design::Sleeping => steps.extend([Add(PROC), Add(PROC), Work(WAKE), own, own]),
            // Get and put on the directories that all pass; the count is changed under the lock once exchanges keep
            // failing.
            Design::References => {
                steps.extend([Add(MOUNT), Lock(PROC, UNDER_LOCK), Add(MOUNT), Lock(PROC, UNDER_LOCK), own, own]);
            }
            Design::Before => steps.extend([Add(PROC), Add(PROC), own, own]),
            Design::Patched => steps.extend([own, own]),
            Design::Ours => {}
        }
        steps
    }

    /// Nanoseconds per file and CPU in the seed's test on this machine.
    pub fn nanoseconds(self, machine: &Machine) -> f64 {
        const ROUNDS: usize = 40;
        let one = self.steps();
        let steps: Vec<Step> = one.iter().copied().cycle().take(one.len() * ROUNDS).collect();
        tick(machine, &steps) / ROUNDS as f64
    }

    /// The share of system time in it. Sleeping waiters use none.
    pub fn system_share(self, machine: &Machine) -> f64 {
        let all = self.nanoseconds(machine);
        let system = if self.sleeps() { (KERNEL + WAKE) as f64 } else { all - USER as f64 };
        system / all
    }

    /// Scans per second, against one alone on one CPU.
    pub fn scans(self, machine: &Machine) -> f64 {
        machine.cpus() as f64 * (USER + KERNEL) as f64 / self.nanoseconds(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_gain_is_met_within_a_factor_of_two() {
        let machine = Machine::of_cpus(CPUS);
        let gain = Design::Before.nanoseconds(&machine) / Design::Patched.nanoseconds(&machine);
        assert!((1.5..8.0).contains(&gain), "{gain} for 3 to 4");
        assert!((2.0..6.0).contains(&gain), "{gain}: nearer than that, as the costs are");
    }

    #[test]
    fn the_seeds_shares_of_system_time_are_met() {
        let machine = Machine::of_cpus(CPUS);
        let share = |design: Design| design.system_share(&machine);
        assert!((share(Design::Before) - 0.97).abs() < 0.03, "{} for 97 %", share(Design::Before));
        assert!((share(Design::Patched) - 0.85).abs() < 0.03, "{} for 85 %", share(Design::Patched));
    }

    /// "Lots of processes sleeping into lots of processes spinning": no loss of speed, a loss of idle time.
    #[test]
    fn the_sleeping_lock_is_no_slower_and_uses_no_time() {
        let machine = Machine::of_cpus(CPUS);
        let ratio = Design::Sleeping.nanoseconds(&machine) / Design::Before.nanoseconds(&machine);
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
        assert!(Design::Sleeping.system_share(&machine) < 0.5);
    }

    #[test]
    fn the_order_holds_at_every_size_and_with_memory_twice_as_fast_or_slow() {
        for cpus in [8, 16, 32, 64, 128] {
            for memory in [50, 100, 200] {
                let machine = Machine::of_cpus(cpus).with_memory(memory);
                let [_, references, before, patched, ours] = Design::ALL.map(|d| d.nanoseconds(&machine));
                assert!(references >= before && before > patched && patched > ours, "{cpus} CPUs, {memory} %");
            }
        }
    }

    #[test]
    fn ours_grows_with_the_machine() {
        for cpus in [2, 16, 128] {
            let scans = Design::Ours.scans(&Machine::of_cpus(cpus));
            assert!((scans / cpus as f64 - 1.0).abs() < 0.01, "{scans} on {cpus}");
        }
    }
}
