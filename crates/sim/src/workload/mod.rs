//! Workloads with names: what `entresol sim list` lists.

pub mod hackbench;
pub mod periodic;
pub mod recorded;
pub mod rt_migrate;
pub mod rt_storm;
pub mod rtapp;
pub mod schbench;
pub mod threads;

use crate::config::{Config, Plant};
use crate::cost::Cost;
use crate::hardware::Hardware;
use crate::history::{History, Programs};
use crate::report::Report;
use crate::swarm;
use crate::user::{Program, with};
use crate::world::{Outcome, Setup};
use sched::Attr;

/// A user's choices for a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The costs.
    pub cost: Cost,
    /// The model of the machine, which has as many CPUs as the run; `None`: it is flat.
    pub hardware: Option<Hardware>,
    /// How many threads; the scenario says what it takes otherwise.
    pub threads: Option<usize>,
    /// How many rounds; the scenario says what it takes otherwise.
    pub rounds: Option<u32>,
    /// How many times as long the programs of `swarm` are: 1 for some 1,500 events.
    pub length: u64,
    /// The scheduler.
    pub policy: Policy,
    /// A planted bug.
    pub plant: Option<Plant>,
    /// Whether the invariants are checked.
    pub check: bool,
    /// Whether the trace is kept.
    pub record: bool,
}

/// The scheduler.
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
    /// Linux's Completely Fair Scheduler.
    Cfs,
    /// Linux's present fair scheduler.
    Eevdf,
}

/// Threads of which a scheduler knows only these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Real-time threads.
    RealTime,
    /// Fair threads.
    Fair,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 7] =
        [Policy::Entresol, Policy::Passive, Policy::Active, Policy::Both, Policy::Roaming, Policy::Cfs, Policy::Eevdf];

    /// Those that know threads of this class, ours first.
    pub fn of(class: Class) -> impl DoubleEndedIterator<Item = Policy> + Clone {
        Policy::ALL.into_iter().filter(move |policy| policy.class().is_none_or(|known| known == class))
    }

    /// Its origin, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Policy::Entresol => "Entresol: its own kernel on simulated CPUs",
            Policy::Passive => "before the patch, rebuilt",
            Policy::Active => "the patch, rebuilt",
            Policy::Both => "the patch with the old balance left on, rebuilt",
            Policy::Roaming => "the patch, the pull turned round (RT_PUSH_IPI, 2015), rebuilt",
            Policy::Cfs => "as of Linux 6.5, rebuilt",
            Policy::Eevdf => "as of Linux 6.12, rebuilt",
        }
    }

    /// The threads that it knows; `None`: all.
    pub const fn class(self) -> Option<Class> {
        match self {
            Policy::Entresol => None,
            Policy::Passive | Policy::Active | Policy::Both | Policy::Roaming => Some(Class::RealTime),
            Policy::Cfs | Policy::Eevdf => Some(Class::Fair),
        }
    }

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Entresol => "entresol",
            Policy::Passive => "2007-passive",
            Policy::Active => "2007-push-pull",
            Policy::Both => "2007-both",
            Policy::Roaming => "2015-roaming-push",
            Policy::Cfs => "cfs-6.5",
            Policy::Eevdf => "eevdf-6.12",
        }
    }
}

/// Runs these threads under a policy.
pub(crate) fn run(setup: Setup, policy: Policy, threads: Programs) -> Outcome {
    match policy.design(setup.config()) {
        Some(design) => History::new(setup, design, threads).run(),
        None => setup.threads(threads.into_iter().map(ours).collect()).run(),
    }
}

/// A thread of our machine, which sets its policy itself unless it has the one that it starts with.
pub(crate) fn ours((attr, program): (Attr, Box<dyn Program>)) -> Box<dyn Program> {
    if attr == Attr::DEFAULT { program } else { with(attr, None, program) }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cost: Cost::host(),
            hardware: None,
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
        let (cost, hardware) = (self.cost.clone(), self.hardware.clone());
        Config { cost, hardware, check: self.check, record: self.record, plant: self.plant, ..new }
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
    /// The class of its threads, if all are of one: policies that know only those can run it.
    pub class: Option<Class>,
    /// Whether the number of CPUs and the costs can be chosen; else they are the seed's.
    pub machine: bool,
    /// Its threads, if they can run live as well.
    pub live: Option<threads::Make>,
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
            class: Some(Class::RealTime),
            machine: true,
            live: Some(rt_migrate::threads),
            run: rt_migrate::run,
        },
        Scenario {
            name: "rt-storm",
            about: "All CPUs wake for the same timer and wait again at the same moment, while threads of lower priority \
                    queue on a few of them: what pulling costs who has nothing to do with it",
            threads: Some("CPUs / 4 that queue"),
            rounds: Some("20 of 1 ms"),
            class: Some(Class::RealTime),
            machine: true,
            live: None,
            run: rt_storm::run,
        },
        Scenario {
            name: "periodic",
            about: "Periodic real-time threads with rate-monotonic priorities at 70 % load: response times and misses",
            threads: Some("3 × CPUs"),
            rounds: Some("20 periods of 10 ms"),
            class: None,
            machine: true,
            live: None,
            run: periodic::run,
        },
        Scenario {
            name: "schbench",
            about: "Message threads wake workers that compute: wake-up latency of fair threads",
            threads: Some("2 × CPUs workers for each of 2 messengers"),
            rounds: Some("50 messages a worker"),
            class: Some(Class::Fair),
            machine: true,
            live: Some(schbench::threads),
            run: schbench::run,
        },
        Scenario {
            name: "hackbench",
            about: "Groups of senders and receivers pass messages through full and empty queues: throughput of wake-ups",
            threads: Some("CPUs / 2 groups of 10"),
            rounds: Some("20 messages a pair"),
            class: Some(Class::Fair),
            machine: true,
            live: Some(hackbench::threads),
            run: hackbench::run,
        },
        Scenario {
            name: "swarm",
            about: "Random threads of all policies under random disturbances; CPUs and costs are the seed's",
            threads: None,
            rounds: None,
            class: None,
            machine: false,
            live: None,
            run: run_swarm,
        },
    ]
}

/// The scenario of that name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    scenarios().iter().find(|s| s.name == name)
}

fn run_swarm(seed: u64, _cpus: usize, options: &Options) -> Report {
    let Options { length, plant, hardware, .. } = options.clone();
    let mut world = swarm::Swarm { seed, length, plant, hardware }.world();
    world.record(options.record);
    world.set_checked(options.check);
    let cpus = world.cpus();
    let out = world.run();
    Report::new("swarm", seed, cpus, out)
}
