//! Probes on Linux here and under Entresol, alternating: both sides meet about the same disturbances.

use std::collections::BTreeMap;

use bench::child::{self, Outcome, Side};
use bench::figures::Spread;
use bench::probe::Probe;
use tool::{machine, style};

use super::page::Cell;

/// Linux first, as on the pages.
pub(super) const SIDES: [Side; 2] = [Side::Native, Side::Entresol { cpus: None }];

/// Why nothing can be run live; `None`: it can.
pub(super) fn obstacle() -> Option<String> {
    if machine::inside().is_some() {
        return Some("this command itself runs inside Entresol".to_owned());
    }
    machine::check().err().map(|lack| lack.to_string())
}

/// A side's name on the pages.
pub(super) fn name(side: Side) -> String {
    let cpus = machine::host_cpus();
    match side {
        Side::Native => format!("Linux here, {cpus} CPUs"),
        Side::Entresol { .. } => format!("Entresol here, {cpus} CPUs"),
    }
}

/// The beginning of a command that repeats a live figure.
pub(super) fn prefix(side: Side) -> &'static str {
    match side {
        Side::Native => "",
        Side::Entresol { .. } => "entresol run --pending-signals=unlimited -- ",
    }
}

/// Medians of this many runs of a probe on each side, by figure; an error text if a side could not run. Each side has
/// its own parameters.
pub(super) fn probe(probe: Probe, parameters: &[Vec<String>; 2], runs: usize) -> anyhow::Result<[Outcome; 2]> {
    let mut all: [BTreeMap<String, Vec<f64>>; 2] = Default::default();
    let mut failures = [None, None];
    for _ in 0..runs {
        for (at, side) in SIDES.into_iter().enumerate().filter(|(at, _)| failures[*at].is_none()).collect::<Vec<_>>() {
            style::progress(&format!("{}: {} {}", name(side), probe.name(), parameters[at].join(" ")));
            match child::run_probe(side, probe, &parameters[at], true, &mut |_, _, _| {})? {
                Outcome::Figures(figures) => {
                    figures.into_iter().for_each(|(name, value)| all[at].entry(name).or_default().push(value));
                }
                other => failures[at] = Some(other),
            }
        }
    }
    style::progress("");
    let medians = all.map(|figures| {
        let median = |(name, values)| Some((name, Spread::of(values)?.median));
        Outcome::Figures(figures.into_iter().filter_map(median).collect())
    });
    let [linux, ours] = medians;
    let [no_linux, no_ours] = failures;
    Ok([no_linux.unwrap_or(linux), no_ours.unwrap_or(ours)])
}

/// One figure of a probe, or why there is none.
pub(super) fn cell(outcome: &Outcome, name: &'static str, side: Side, probe: Probe, parameters: &[String]) -> Cell {
    let words = [probe.name()].into_iter().chain(parameters.iter().cloned()).collect::<Vec<_>>().join(" ");
    let command = format!("{}entresol probe --quick {words}", prefix(side));
    match outcome {
        Outcome::Figures(figures) => match figures.get(name) {
            Some(value) => Cell::figure(name, *value).repeated_by(command),
            None => Cell::words("not told"),
        },
        Outcome::Refused(why) => Cell::words(format!("cannot: {why}")).repeated_by(command),
        Outcome::Failed(why) => Cell::words(format!("failed: {why}")).repeated_by(command),
    }
}
