use alloc::vec::Vec;
use ids::{CpuMask, Nanos};

/// How a scheduler is built.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of CPUs, 1 to `ids::CPUS_MAX`.
    pub cpus: usize,
    /// How many CPUs the host can run at the same time, if fewer; zero: all. While this many have real-time or deadline
    /// threads, no other CPU begins to run one, because the two would share a host CPU in slices that ignore
    /// priorities.
    pub at_once: usize,
    /// Sets of CPUs that become root domains, each without the CPUs of earlier sets; the rest is one, too. A thread's
    /// mask should lie within one, because urgent threads are pushed and pulled only within a domain.
    pub domains: Vec<CpuMask>,
    /// Whether the fair server keeps real-time threads from starving fair ones.
    pub rt_throttle: bool,
    /// The run time that the fair server guarantees to fair threads in each period.
    pub server_runtime: Nanos,
    /// The fair server's period.
    pub server_period: Nanos,
    /// Base slice of fair threads; zero asks for 0.7 ms × (1 + log2 min(cpus, 8)).
    pub slice: Nanos,
    /// The time between regular ticks, if there are any: a fair slice ends at a tick if at most a sixteenth of this
    /// time is left. Zero: slices end at the first tick after their end.
    pub tick: Nanos,
    /// Slice of SCHED_RR.
    pub rr_slice: Nanos,
    /// How long a fair thread must have waited before an idle CPU takes it: shorter waits
    /// are hand-overs that end by themselves.
    pub pull_after: Nanos,
    /// The least time between two periodic balances of one CPU.
    pub balance_every: Nanos,
    /// Per mille of a CPU's time that deadline threads may reserve; above 1000: no admission control.
    pub deadline_permille: u32,
    /// The fault to plant.
    #[cfg(feature = "planted")]
    pub fault: Option<crate::Fault>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            cpus: 1,
            at_once: 0,
            domains: Vec::new(),
            rt_throttle: true,
            server_runtime: Nanos::from_millis(50),
            server_period: Nanos::from_secs(1),
            slice: Nanos::ZERO,
            tick: Nanos::ZERO,
            rr_slice: Nanos::from_millis(100),
            pull_after: Nanos::from_micros(3),
            balance_every: Nanos::from_millis(4),
            deadline_permille: 950,
            #[cfg(feature = "planted")]
            fault: None,
        }
    }
}

impl Config {
    /// A slice counts as used up when less than this is left: another tick would cost more.
    pub(crate) fn slice_grace(&self) -> u64 {
        self.tick.0 / 16
    }

    /// The base slice in nanoseconds (`sched_base_slice` and its logarithmic scaling).
    pub(crate) fn base_slice(&self) -> u64 {
        if self.slice.0 != 0 {
            return self.slice.0;
        }
        700_000 * (1 + u64::from(self.cpus.clamp(1, 8).ilog2()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.7 ms × (1 + log2 of the CPUs, of which eight count).
    #[test]
    fn the_base_slice_grows_with_the_logarithm_of_the_cpus() {
        let slice = |cpus, slice| Config { cpus, slice: Nanos(slice), ..Config::default() }.base_slice();
        for (cpus, micros) in [(0, 700), (1, 700), (2, 1400), (3, 1400), (4, 2100), (7, 2100), (8, 2800), (512, 2800)] {
            assert_eq!(slice(cpus, 0), micros * 1000, "{cpus} CPUs");
        }
        assert_eq!((slice(8, 1), slice(1, 5_000)), (1, 5_000));
    }
}
