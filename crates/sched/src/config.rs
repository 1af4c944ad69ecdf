use ids::Nanos;

/// How a scheduler is built.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of CPUs, 1 to `ids::CPUS_MAX`.
    pub cpus: usize,
    /// Whether the fair server keeps real-time threads from starving fair ones.
    pub rt_throttle: bool,
    /// What the fair server gives fair threads in each period.
    pub server_runtime: Nanos,
    /// The fair server's period.
    pub server_period: Nanos,
    /// Base slice of fair threads; zero asks for 0.7 ms × (1 + log2 min(cpus, 8)).
    pub slice: Nanos,
    /// The time between two ticks, if there is one: a fair slice ends at the tick nearest to its end. Zero: at the first
    /// behind it.
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
    /// The base slice in nanoseconds (`sched_base_slice` and its logarithmic scaling).
    pub(crate) fn base_slice(&self) -> u64 {
        if self.slice.0 != 0 {
            return self.slice.0;
        }
        700_000 * (1 + u64::from(self.cpus.clamp(1, 8).ilog2()))
    }
}

/// There was no memory for the structure asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;
