//! A scenario's report, ready to be printed or stored.

use crate::hardware::Figures;
use crate::trace::Record;
use crate::world::{Outcome, Violation};
use serde::{Deserialize, Serialize};

/// Every value that a report may have, with its unit: the columns of tables of results, which must not depend on what
/// happened to be run.
pub const QUANTITIES: [(&str, &str); 41] = [
    ("threads", ""),
    ("switches", ""),
    ("preemptions", ""),
    ("migrations", ""),
    ("wake-ups", ""),
    ("ticks", ""),
    ("kicks", ""),
    ("wake-up mean", "µs"),
    ("wake-up p50", "µs"),
    ("wake-up p99", "µs"),
    ("wake-up max", "µs"),
    ("response mean", "µs"),
    ("response p50", "µs"),
    ("response p99", "µs"),
    ("response max", "µs"),
    ("highest thread's start mean", "µs"),
    ("highest thread's start p50", "µs"),
    ("highest thread's start p99", "µs"),
    ("highest thread's start max", "µs"),
    ("top threads' start mean", "µs"),
    ("top threads' start p50", "µs"),
    ("top threads' start p99", "µs"),
    ("top threads' start max", "µs"),
    ("rounds failed", ""),
    ("first failed round", ""),
    ("jobs", ""),
    ("deadlines missed", ""),
    ("worst response, in periods", ""),
    ("loops", ""),
    ("periods missed", ""),
    ("messages", ""),
    ("time a message", "µs"),
    ("waiting for locks, a wake-up", "µs"),
    ("work of low priority", "ms"),
    ("migrations to a sibling", ""),
    ("migrations within a cache", ""),
    ("migrations within a socket", ""),
    ("migrations across sockets", ""),
    ("work on small CPUs", "%"),
    ("time lost to low speed", "ms"),
    ("stolen time", "ms"),
];

/// The result of one run of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Its name.
    pub scenario: String,
    /// The seed that repeats it.
    pub seed: u64,
    /// Simulated CPUs.
    pub cpus: usize,
    /// Virtual time, nanoseconds.
    pub time_ns: u64,
    /// Simulated events.
    pub events: u64,
    /// Equal for equal runs; 16 hexadecimal digits.
    pub hash: String,
    /// Why it failed, if it did: an invariant, or the scenario's own rule.
    pub failure: Option<String>,
    /// Measured values.
    pub values: Vec<Value>,
    /// The trace, if it was requested: for [`crate::export`].
    #[serde(skip)]
    pub records: Vec<Record>,
    /// The broken invariant with the scene around it, if one was broken.
    #[serde(skip)]
    pub violation: Option<Violation>,
    /// Tables, in the order in which they should be shown.
    pub tables: Vec<Table>,
}

/// One measured value.
#[derive(Clone, Debug, Serialize)]
pub struct Value {
    /// The quantity, in the field's words.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit; empty for a count.
    pub unit: &'static str,
}

/// A table of text.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The subject.
    pub title: String,
    /// Column heads.
    pub columns: Vec<String>,
    /// Rows, each as wide as `columns`.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// The report of a finished run.
    pub fn new(scenario: &str, seed: u64, cpus: usize, out: Outcome) -> Report {
        let failure = out.violation.as_ref().map(|v| format!("at {:?}: {}", v.at, v.what));
        let mut report = Report {
            scenario: scenario.to_string(),
            seed,
            cpus,
            time_ns: out.time.0,
            events: out.events,
            hash: format!("{:016x}", out.hash),
            failure,
            values: Vec::new(),
            records: out.records,
            violation: out.violation,
            tables: Vec::new(),
        };
        let s = &out.stats;
        for (name, n) in [
            ("threads", s.threads_started),
            ("switches", s.switches),
            ("preemptions", s.preemptions),
            ("migrations", s.migrations),
            ("wake-ups", s.wakeups),
            ("ticks", s.ticks),
            ("kicks", s.kicks),
        ] {
            report.value(name, n as f64, "");
        }
        if let Some(figures) = out.hardware {
            report.machine(&figures);
        }
        report
    }

    /// The figures of the machine's model.
    fn machine(&mut self, figures: &Figures) {
        let names = ["to a sibling", "within a cache", "within a socket", "across sockets"];
        for (name, n) in names.into_iter().zip(figures.migrations) {
            self.value(&format!("migrations {name}"), n as f64, "");
        }
        self.value("work on small CPUs", 100.0 * figures.small as f64 / figures.work.max(1) as f64, "%");
        self.value("time lost to low speed", figures.slow as f64 / 1e6, "ms");
        self.value("stolen time", figures.stolen as f64 / 1e6, "ms");
    }

    /// Adds a value.
    pub fn value(&mut self, name: &str, value: f64, unit: &'static str) {
        self.values.push(Value { name: name.to_string(), value, unit });
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|v| v.name == name).map(|v| v.value)
    }

    /// Says that the scenario's own rule was broken, unless something worse is known.
    pub fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }
}

/// Samples of one quantity.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Adds one.
    pub fn add(&mut self, n: u64) {
        self.0.push(n);
    }

    /// Adds all of another's.
    pub fn add_all(&mut self, other: &Samples) {
        self.0.extend_from_slice(&other.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A quantile in thousandths; 0 without samples.
    pub fn permille(&self, p: usize) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let i = (sorted.len() * p).div_ceil(1000).max(1) - 1;
        sorted.get(i.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// The greatest; 0 without samples.
    pub fn most(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The mean; 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.iter().sum::<u64>() as f64 / self.0.len() as f64 }
    }

    /// Adds mean, p50, p99 and most of these nanoseconds to a report, in microseconds.
    pub fn report(&self, name: &str, to: &mut Report) {
        to.value(&format!("{name} mean"), self.mean() / 1e3, "µs");
        to.value(&format!("{name} p50"), self.permille(500) as f64 / 1e3, "µs");
        to.value(&format!("{name} p99"), self.permille(990) as f64 / 1e3, "µs");
        to.value(&format!("{name} max"), self.most() as f64 / 1e3, "µs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;
    use crate::workload::{Options, Policy, scenarios};

    #[test]
    fn every_scenario_reports_known_quantities_only() {
        for scenario in scenarios() {
            for policy in [Policy::Entresol, Policy::Passive, Policy::Eevdf] {
                if policy.class().is_none_or(|class| scenario.class == Some(class)) {
                    let hardware = (policy == Policy::Entresol).then(|| Hardware::sockets(2, 1, 1));
                    let options = Options { rounds: Some(5), policy, hardware, ..Options::default() };
                    let report = (scenario.run)(1, 2, &options);
                    let is_unknown = |v: &&Value| !QUANTITIES.contains(&(v.name.as_str(), v.unit));
                    let unknown: Vec<&Value> = report.values.iter().filter(is_unknown).collect();
                    assert!(unknown.is_empty(), "{}: {unknown:?}", scenario.name);
                }
            }
        }
    }

    #[test]
    fn percentiles_are_samples() {
        let mut s = Samples::default();
        assert_eq!((s.permille(990), s.most()), (0, 0));
        (1..=100).for_each(|n| s.add(n));
        assert_eq!((s.permille(500), s.permille(990), s.permille(1000), s.most()), (50, 99, 100, 100));
    }
}
