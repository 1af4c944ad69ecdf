//! The threads of a scenario, for simulated CPUs and for real ones.
//!
//! A scenario whose programs take only the steps that a C program can take as well is written once: as [`Threads`], on
//! memory that its [`Maker`] hands out. A scenario runs them in virtual time, `entresol compare` also with real threads.

use super::{Options, Scenario};
use crate::report::{Report, Samples, Table};
use crate::user::{Barrier, Cond, Mutex, Program};
use crate::world::Setup;
use ids::Nanos;
use sched::Attr;
use std::sync::{Arc, MutexGuard, PoisonError};

/// Makes the objects that threads share, before any of them runs.
pub trait Maker {
    /// A zeroed word on a cache line of its own; its address.
    fn word(&mut self) -> u64;
    /// A free mutex.
    fn mutex(&mut self) -> Mutex;
    /// A condition variable.
    fn cond(&mut self) -> Cond;
    /// A barrier.
    fn barrier(&mut self, parties: u32) -> Barrier;
}

impl Maker for Setup {
    fn word(&mut self) -> u64 {
        self.words(1)
    }

    fn mutex(&mut self) -> Mutex {
        Setup::mutex(self)
    }

    fn cond(&mut self) -> Cond {
        Setup::cond(self)
    }

    fn barrier(&mut self, parties: u32) -> Barrier {
        Setup::barrier(self, parties)
    }
}

/// A thread's code, which may run anywhere.
pub type Code = Box<dyn Program + Send>;

/// All threads of a scenario, and what they measure.
pub struct Threads {
    /// In the order in which they are started; each sets its policy first.
    pub threads: Vec<(Attr, Code)>,
    /// Their measurements, once all have ended.
    pub results: Box<dyn FnOnce() -> Results>,
}

/// The measurements of a scenario's threads.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Times, in nanoseconds.
    pub quantities: Vec<Quantity>,
    /// Counts, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// Why the scenario's own rule is broken, if it is.
    pub broken: Option<String>,
    /// For the report.
    pub tables: Vec<Table>,
}

/// One measured quantity of threads that do the same.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// The threads.
    pub threads: &'static str,
    /// Their policy; the most urgent one's if they differ.
    pub attr: Attr,
    /// The quantity, in the field's words.
    pub name: &'static str,
    /// Its samples.
    pub samples: Samples,
    /// Each sample is a mean of many, so that small differences count.
    pub of_means: bool,
}

impl Results {
    /// The samples of this quantity.
    pub fn samples(&self, name: &str) -> Samples {
        self.quantities.iter().find(|q| q.name == name).map(|q| q.samples.clone()).unwrap_or_default()
    }
}

/// The threads on `cpus` CPUs.
pub type Make = fn(maker: &mut dyn Maker, cpus: usize, options: &Options) -> Threads;

impl Scenario {
    /// Runs it, simulated; also what was measured, if it can run live.
    pub fn measure(&self, seed: u64, cpus: usize, options: &Options) -> Option<(Report, Results)> {
        self.live.map(|make| simulate(self.name, make, seed, cpus, options))
    }
}

/// Runs them on simulated CPUs.
pub(super) fn simulate(name: &str, make: Make, seed: u64, cpus: usize, options: &Options) -> (Report, Results) {
    let mut setup = Setup::new(options.config(seed, cpus));
    let Threads { threads, results } = make(&mut setup, cpus, options);
    let programs = threads.into_iter().map(|(attr, code)| (attr, code as Box<dyn Program>)).collect();
    let out = super::run(setup, options.policy, programs);
    (Report::new(name, seed, cpus, out), results())
}

/// Something that threads measure, and that is read when they have ended.
pub(super) struct Shared<T>(Arc<std::sync::Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T: Default> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared(Arc::default())
    }
}

impl<T> Shared<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All samples of these.
pub(super) fn together(all: &[Shared<Samples>]) -> Samples {
    let mut sum = Samples::default();
    all.iter().for_each(|one| sum.add_all(&one.lock()));
    sum
}

/// The time from the first to the last of some moments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent(Option<(Nanos, Nanos)>);

impl Extent {
    pub fn add(&mut self, at: Nanos) {
        let (first, last) = self.0.unwrap_or((at, at));
        self.0 = Some((first.min(at), last.max(at)));
    }

    pub fn join(&mut self, other: Extent) {
        other.0.into_iter().flat_map(|(first, last)| [first, last]).for_each(|at| self.add(at));
    }

    pub fn span(self) -> Nanos {
        self.0.map_or(Nanos::ZERO, |(first, last)| last.since(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::scenario;

    #[test]
    fn an_extent_reaches_from_the_first_to_the_last() {
        let (mut a, mut b) = (Extent::default(), Extent::default());
        assert_eq!(a.span(), Nanos::ZERO);
        [7, 5, 9].into_iter().for_each(|at| a.add(Nanos(at)));
        b.add(Nanos(12));
        a.join(b);
        a.join(Extent::default());
        assert_eq!(a.span(), Nanos(7));
    }

    #[test]
    fn what_is_measured_is_what_is_reported() {
        for (name, quantity, samples) in [
            ("schbench", "wake-up", 2 * 4 * 5),
            ("hackbench", "in the queue", 25 * 5),
            ("rt-migrate", "top threads' start", 2 * 5),
        ] {
            let options = Options { rounds: Some(5), ..Options::default() };
            let (report, results) = scenario(name).unwrap().measure(1, 2, &options).unwrap();
            assert_eq!((report.failure, results.broken.as_ref()), (None, None), "{name}");
            assert_eq!(results.samples(quantity).len(), samples, "{name}");
        }
        assert!(scenario("swarm").unwrap().measure(1, 2, &Options::default()).is_none(), "it cannot run live");
    }
}
