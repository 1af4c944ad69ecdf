//! The subject that all sides run: an rt-app file, or a scenario that has a live form.

use std::time::Duration;

use anyhow::{bail, ensure};
use ids::Nanos;
use sim::workload::rtapp::Workload;
use sim::workload::threads::Make;
use sim::{Cost, Options, Scenario};

use super::found::{Found, Observed};
use super::{live, scenarios};
use crate::plan::What;

pub(super) enum Subject {
    File { path: String, workload: Workload },
    Scenario { scenario: &'static Scenario, make: Make, threads: Option<u32>, rounds: Option<u32> },
}

impl Subject {
    /// The file or scenario of that name.
    pub fn find(name: &str, threads: Option<u32>, rounds: Option<u32>) -> anyhow::Result<Subject> {
        match What::find(name)? {
            What::File { workload, .. } => {
                let said = [("--threads", threads), ("--rounds", rounds)];
                if let Some((option, _)) = said.iter().find(|(_, value)| value.is_some()) {
                    bail!("{option} contradicts {name}: the file says it");
                }
                Ok(Subject::File { path: name.to_owned(), workload })
            }
            What::Named(scenario) => {
                let Some(make) = scenario.live else {
                    let names: Vec<&str> =
                        sim::scenarios().iter().filter(|s| s.live.is_some()).map(|s| s.name).collect();
                    bail!(
                        "{name} is a scenario of the simulator without a live form: expected one of {}, or an rt-app \
                         file *.json",
                        names.join(", ")
                    );
                };
                Ok(Subject::Scenario { scenario, make, threads, rounds })
            }
        }
    }

    /// Refuses a machine that lacks CPUs that a file names.
    pub fn fits(&self, cpus: usize) -> anyhow::Result<()> {
        match self {
            Subject::File { path, workload } => workload.fits(cpus).map_err(|wrong| anyhow::anyhow!("{path}: {wrong}")),
            Subject::Scenario { .. } => Ok(()),
        }
    }

    /// Notes about the things in a file that have no effect.
    pub fn notes(&self) -> &[String] {
        match self {
            Subject::File { workload, .. } => workload.notes(),
            Subject::Scenario { .. } => &[],
        }
    }

    /// Its name, with the options that belong to it.
    pub fn name(&self) -> String {
        self.arguments().join(" ")
    }

    /// The words of a command line that name it.
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Subject::File { path, .. } => vec![path.clone()],
            Subject::Scenario { scenario, threads, rounds, .. } => {
                let options = [("--threads", threads), ("--rounds", rounds)];
                let said =
                    options.into_iter().filter_map(|(option, n)| Some([option.to_owned(), n.as_ref()?.to_string()]));
                [scenario.name.to_owned()].into_iter().chain(said.flatten()).collect()
            }
        }
    }

    /// How long it runs, if that is known before.
    pub fn duration(&self) -> Option<Duration> {
        match self {
            Subject::File { workload, .. } => workload.duration().map(|Nanos(span)| Duration::from_nanos(span)),
            Subject::Scenario { .. } => None,
        }
    }

    /// Runs it simulated; returns the virtual time that it took, too.
    pub fn simulate(&self, seed: u64, cpus: usize, cost: &Cost) -> anyhow::Result<(Found, Duration)> {
        let options = Options { cost: cost.clone(), ..self.options() };
        let (report, found) = match self {
            Subject::File { path, workload } => {
                let (report, measured) = workload.measure(path, seed, cpus, &options);
                let threads: Vec<Observed> = measured.iter().map(Observed::from).collect();
                (report, Found::of_file(workload, &threads))
            }
            Subject::Scenario { scenario, .. } => {
                let Some((report, results)) = scenario.measure(seed, cpus, &options) else {
                    bail!("{} has no live form", scenario.name);
                };
                (report, Found::from(results))
            }
        };
        ensure!(report.failure.is_none(), "seed {seed}: {}", report.failure.unwrap_or_default());
        Ok((found, Duration::from_nanos(report.time_ns)))
    }

    /// Runs it here and now.
    pub fn run_live(&self, seed: u64, cpus: usize) -> anyhow::Result<Found> {
        match self {
            Subject::File { workload, .. } => Ok(Found::of_file(workload, &live::run(workload, cpus)?)),
            Subject::Scenario { make, .. } => scenarios::run(*make, cpus, seed, &self.options()),
        }
    }

    fn options(&self) -> Options {
        match self {
            Subject::File { .. } => Options::default(),
            Subject::Scenario { threads, rounds, .. } => {
                Options { threads: threads.map(|n| n as usize), rounds: *rounds, ..Options::default() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_named_with_its_options_and_measured_in_virtual_time() {
        let subject = Subject::find("hackbench", Some(2), Some(3)).unwrap();
        assert_eq!(subject.name(), "hackbench --threads 2 --rounds 3");
        let (found, time) = subject.simulate(1, 2, &Cost::host()).unwrap();
        assert!(time > Duration::ZERO);
        assert_eq!(found.count("messages"), Some(2 * 25 * 3));
    }

    #[test]
    fn live_threads_do_as_many_rounds_as_simulated_ones() {
        for name in ["schbench", "hackbench", "rt-migrate"] {
            let subject = Subject::find(name, Some(2), Some(3)).unwrap();
            let (simulated, _) = subject.simulate(1, 1, &Cost::host()).unwrap();
            let live = subject.run_live(1, 1).unwrap();
            assert!(!simulated.series.is_empty(), "{name}");
            for series in &simulated.series {
                assert_eq!(live.samples(series).len(), series.samples.len(), "{name}, {}", series.quantity);
            }
        }
    }
}
