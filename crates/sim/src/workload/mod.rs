//! Workloads with names: what `entresol sim list` lists.

pub mod hackbench;
pub mod periodic;
pub mod recorded;
pub mod rt_migrate;
pub mod rt_storm;
pub mod rtapp;
pub mod schbench;

use crate::config::{Config, Plant};
use crate::cost::Cost;
use crate::report::Report;
use crate::swarm;

/// A user's choices for a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The costs.
    pub cost: Cost,
    /// How many threads; the scenario says what it takes otherwise.
    pub threads: Option<usize>,
    /// How many rounds; the scenario says what it takes otherwise.
    pub rounds: Option<u32>,
    /// How many times as long the programs of `swarm` are: 1 for some 1,500 events.
    pub length: u64,
    /// The balancer of real-time threads.
    pub policy: Policy,
    /// A planted bug.
    pub plant: Option<Plant>,
    /// Whether the invariants are checked.
    pub check: bool,
    /// Whether the trace is kept.
    pub record: bool,
}

/// The balancer of real-time threads between CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The product's kernel and scheduler.
    Entresol,
    /// As before the patch of 2007: queues are evened out now and then.
    Passive,
    /// The patch: push and pull.
    Active,
    /// The patch with the old balance left on.
    Both,
    /// The patch with a push that goes around instead of the pull, as from 2015 (RT_PUSH_IPI).
    Roaming,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] = [Policy::Entresol, Policy::Passive, Policy::Active, Policy::Both, Policy::Roaming];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Entresol => "entresol",
            Policy::Passive => "2007-passive",
            Policy::Active => "2007-push-pull",
            Policy::Both => "2007-both",
            Policy::Roaming => "2015-roaming-push",
        }
    }

    /// The historic design; `None`: ours.
    pub(crate) fn historic(self) -> Option<Box<dyn lab::rt_balance::RtBalance>> {
        match self {
            Policy::Entresol => None,
            Policy::Passive => Some(Box::new(lab::rt_balance::Passive)),
            Policy::Active => Some(Box::new(lab::rt_balance::Active)),
            Policy::Both => Some(Box::new(lab::rt_balance::Both)),
            Policy::Roaming => Some(Box::new(lab::rt_balance::Roaming::default())),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cost: Cost::host(),
            threads: None,
            rounds: None,
            length: 1,
            policy: Policy::Entresol,
            plant: None,
            check: true,
            record: false,
        }
    }
}

impl Options {
    pub(crate) fn config(&self, seed: u64, cpus: usize) -> Config {
        let new = Config::new(seed, cpus);
        Config { cost: self.cost.clone(), check: self.check, record: self.record, plant: self.plant, ..new }
    }
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// The default number of threads, in words; `None`: it cannot be chosen.
    pub threads: Option<&'static str>,
    /// The default number of rounds, in words; `None`: it cannot be chosen.
    pub rounds: Option<&'static str>,
    /// Whether historic policies can run it.
    pub historic: bool,
    /// Whether the number of CPUs and the costs can be chosen; else they are the seed's.
    pub machine: bool,
    /// Runs it on this many CPUs.
    pub run: fn(seed: u64, cpus: usize, options: &Options) -> Report,
}

/// All of them.
pub fn scenarios() -> &'static [Scenario] {
    &[
        Scenario {
            name: "rt-migrate",
            about: "rt-migrate-test: CPUs + 1 FIFO threads start together and compute for 20 ms, 50 times; the highest \
                    is pinned to another CPU each time",
            threads: Some("CPUs + 1"),
            rounds: Some("50"),
            historic: true,
            machine: true,
            run: rt_migrate::run,
        },
        Scenario {
            name: "rt-storm",
            about: "All CPUs wake for the same timer and wait again at the same moment, while threads of lower priority \
                    queue on a few of them: what pulling costs who has nothing to do with it",
            threads: Some("CPUs / 4 that queue"),
            rounds: Some("20 of 1 ms"),
            historic: true,
            machine: true,
            run: rt_storm::run,
        },
        Scenario {
            name: "periodic",
            about: "Periodic real-time threads with rate-monotonic priorities at 70 % load: response times and misses",
            threads: Some("3 × CPUs"),
            rounds: Some("20 periods of 10 ms"),
            historic: false,
            machine: true,
            run: periodic::run,
        },
        Scenario {
            name: "schbench",
            about: "Message threads wake workers that compute: wake-up latency of fair threads",
            threads: Some("2 × CPUs workers for each of 2 messengers"),
            rounds: Some("50 messages a worker"),
            historic: false,
            machine: true,
            run: schbench::run,
        },
        Scenario {
            name: "hackbench",
            about: "Groups of senders and receivers pass messages through full and empty queues: throughput of wake-ups",
            threads: Some("CPUs / 2 groups of 10"),
            rounds: Some("20 messages a pair"),
            historic: false,
            machine: true,
            run: hackbench::run,
        },
        Scenario {
            name: "swarm",
            about: "Random threads of all policies under random disturbances; CPUs and costs are the seed's",
            threads: None,
            rounds: None,
            historic: false,
            machine: false,
            run: run_swarm,
        },
    ]
}

/// The scenario of that name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    scenarios().iter().find(|s| s.name == name)
}

fn run_swarm(seed: u64, _cpus: usize, options: &Options) -> Report {
    let mut world = swarm::Swarm { seed, length: options.length, plant: options.plant }.world();
    world.record(options.record);
    world.set_checked(options.check);
    let cpus = world.cpus();
    let out = world.run();
    Report::new("swarm", seed, cpus, out)
}
