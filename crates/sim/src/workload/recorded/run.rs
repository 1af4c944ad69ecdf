//! A recording on a simulated machine.

use super::Recording;
use super::program::{Replayed, Shared};
use crate::config::Config;
use crate::cost::Cost;
use crate::hardware::Hardware;
use crate::report::{Report, Samples};
use crate::user::{Program, Step, Who, after};
use crate::world::Setup;
use ids::{Nanos, Policy};
use sched::Attr;
use std::rc::Rc;

/// The policies of the threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policies {
    /// As recorded.
    #[default]
    Recorded,
    /// SCHED_OTHER, nice 0.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_FIFO, priority 1.
    Fifo,
    /// SCHED_RR, priority 1.
    RoundRobin,
}

impl Policies {
    /// All of them.
    pub const ALL: [Policies; 5] =
        [Policies::Recorded, Policies::Other, Policies::Batch, Policies::Fifo, Policies::RoundRobin];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Policies::Recorded => "recorded",
            Policies::Other => "other",
            Policies::Batch => "batch",
            Policies::Fifo => "fifo",
            Policies::RoundRobin => "rr",
        }
    }

    fn attr(self) -> Option<Attr> {
        match self {
            Policies::Recorded => None,
            Policies::Other => Some(Attr::DEFAULT),
            Policies::Batch => Some(Attr::fair(Policy::Batch, 0)),
            Policies::Fifo => Some(Attr::fifo(1)),
            Policies::RoundRobin => Some(Attr::round_robin(1)),
        }
    }
}

/// What a recording does on a simulated machine.
#[derive(Debug)]
pub struct Prediction {
    /// From the start to the end of the last thread.
    pub makespan: Nanos,
    /// The part of the CPUs' time that threads ran, from 0 to 1.
    pub utilisation: f64,
    /// How long woken and new threads waited for a CPU, in nanoseconds.
    pub latency: Samples,
    /// How long each thread ran.
    pub runs: Vec<Nanos>,
    /// The kernel's counters, and the trace if it was to be kept.
    pub report: Report,
}

/// The costs that count in a replay. What the recorded times contain does not count again: calls, switches and locks are
/// in the run times, late timers in the delays.
fn without_recorded(cost: &Cost) -> Cost {
    Cost { atomic: 1, line: 0, call: 0, switch: 0, lock: 0, timer: [0, 0], ..cost.clone() }
}

impl Recording {
    /// Runs it on this many CPUs, those of a machine if one is given, with these costs; `record`: the trace is kept.
    #[must_use]
    pub fn run(
        self: &Rc<Recording>,
        seed: u64,
        cpus: usize,
        hardware: Option<&Hardware>,
        cost: &Cost,
        policies: Policies,
        record: bool,
    ) -> Prediction {
        let new = Config::new(seed, cpus);
        // Nothing may end it but its end.
        let limit = Nanos(u64::MAX / 2);
        let (cost, hardware) = (without_recorded(cost), hardware.cloned());
        let mut setup = Setup::new(Config { cost, hardware, check: false, limit, record, ..new });
        let words = self.threads.iter().map(|_| setup.words(1)).collect();
        let shared = Shared::new(self.clone(), words, policies == Policies::Recorded);
        let first: Box<dyn Program> = Replayed::new(0, None, shared.clone());
        let first = match policies.attr() {
            Some(attr) => after([Step::SetPolicy(Who::Me, attr)], first),
            None => first,
        };
        let outcome = setup.main(first).run();
        let (makespan, latency) = (outcome.time, shared.latency.take());
        let utilisation = self.utilisation(cpus, makespan);
        let report = Report::new(&self.name, seed, cpus, outcome);
        Prediction { makespan, utilisation, latency, runs: shared.runs(), report }
    }
}
