//! The comparison as a table, and a sentence about each figure that is far off.

use std::fmt::Write;
use std::time::Duration;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use sim::report::Samples;
use sim::workload::rtapp::policy_in_words;

use super::sides::{Observed, Request, Runs, Side};

/// Medians within this part of each other agree.
const MEDIAN_OFF: f64 = 0.25;
/// 99th percentiles within this factor of each other agree.
const TAIL_OFF: f64 = 2.0;
/// Times that differ by less, in microseconds, agree: clocks and calls alone take about as long.
const TOO_SMALL_US: f64 = 5.0;

/// A comparison, ready to be printed or stored.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// The file.
    file: String,
    /// CPUs of each side.
    cpus: usize,
    rows: Vec<Row>,
    /// Sides that failed, and why.
    pub failures: Vec<String>,
    /// Sentences about figures that differ, and about the runs.
    notes: Vec<String>,
}

/// One quantity of one thread.
#[derive(Debug, Serialize)]
struct Row {
    thread: String,
    policy: String,
    quantity: &'static str,
    simulated: Figures,
    entresol: Figures,
    native: Figures,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Figures {
    samples: usize,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Figures {
    fn of(samples: &Samples) -> Figures {
        let us = |ns: u64| ns as f64 / 1e3;
        let [p50, p99] = [500, 990].map(|permille| us(samples.permille(permille)));
        Figures { samples: samples.len(), p50, p99, max: us(samples.most()) }
    }

    /// In words, how these live figures differ from the simulated ones.
    fn differ_from(&self, simulated: &Figures) -> Option<String> {
        if self.samples == 0 || simulated.samples == 0 {
            return None;
        }
        let far = |ours: f64, theirs: f64| (ours - theirs).abs() >= TOO_SMALL_US;
        let (off, p50) = (self.p50 / simulated.p50.max(0.1), [simulated.p50, self.p50]);
        if far(self.p50, simulated.p50) && !(1.0 - MEDIAN_OFF..=1.0 + MEDIAN_OFF).contains(&off) {
            return Some(format!("median {:.1} µs live, {:.1} simulated", p50[1], p50[0]));
        }
        let off = self.p99 / simulated.p99.max(0.1);
        let agree = (1.0 / TAIL_OFF..=TAIL_OFF).contains(&off) || !far(self.p99, simulated.p99);
        (!agree).then(|| format!("p99 {:.1} µs live, {:.1} simulated", self.p99, simulated.p99))
    }
}

impl Comparison {
    pub fn new(request: &Request<'_>, runs: Vec<Runs>) -> Comparison {
        let of = |side| runs.iter().find(|runs| runs.side == side);
        let mut rows = Vec::new();
        for (i, (thread, attr)) in request.workload.rows().into_iter().enumerate() {
            for (quantity, values) in QUANTITIES {
                let figures = |side| of(side).map_or(Figures::default(), |runs| Figures::of(values(&runs.threads[i])));
                let [simulated, entresol, native] = Side::ALL.map(figures);
                if [simulated, entresol, native].iter().any(|figures| figures.samples > 0) {
                    let (thread, policy) = (thread.clone(), policy_in_words(&attr));
                    rows.push(Row { thread, policy, quantity, simulated, entresol, native });
                }
            }
        }
        let failed = |runs: &Runs| runs.failure.as_ref().map(|why| format!("{}: {why}", runs.side.name()));
        let mut notes: Vec<String> = rows.iter().filter_map(|row| row.note(of(Side::Entresol))).collect();
        notes.extend(runs.iter().filter_map(refusal));
        notes.extend(runs.iter().filter_map(missing_thread));
        let failures = runs.iter().filter_map(failed).collect();
        Comparison { file: request.path.to_owned(), cpus: request.cpus, rows, failures, notes }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("{}, {} CPUs; microseconds\n", self.file, self.cpus);
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        let sides = Side::ALL.map(Side::name);
        let heads = ["p50", "p99"].into_iter().flat_map(|p| sides.map(|side| format!("{p} {side}")));
        table.set_header(["thread", "policy", "quantity"].map(String::from).into_iter().chain(heads));
        for row in &self.rows {
            let all = [row.simulated, row.entresol, row.native];
            let cell = |figures: Figures, value: f64| match figures.samples {
                0 => "-".to_owned(),
                _ => format!("{value:.1}"),
            };
            let p50 = all.map(|figures| cell(figures, figures.p50));
            let p99 = all.map(|figures| cell(figures, figures.p99));
            let names = [row.thread.clone(), row.policy.clone(), row.quantity.to_owned()];
            table.add_row(names.into_iter().chain(p50).chain(p99));
        }
        for column in table.column_iter_mut().skip(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{table}");
        for line in self.failures.iter().chain(&self.notes) {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

type Values = fn(&Observed) -> &Samples;
const QUANTITIES: [(&str, Values); 2] = [("wake-up", |o| &o.wakeup), ("response", |o| &o.response)];

impl Row {
    /// What differs, and the likeliest reason.
    fn note(&self, live: Option<&Runs>) -> Option<String> {
        let differs = self.entresol.differ_from(&self.simulated)?;
        let stolen = live.map_or(Duration::ZERO, |runs| runs.stolen);
        let reason = if self.native.samples > 0 && self.entresol.differ_from(&self.native).is_none() {
            "the host does the same, so the simulation's costs do not fit this machine (`entresol sim calibrate`), or the \
             threads began in another order there"
                .to_owned()
        } else if stolen > Duration::ZERO {
            format!("meanwhile the hypervisor took {} ms of CPU time (steal in /proc/stat)", stolen.as_millis())
        } else {
            "the host differs from both, so something else took its CPUs meanwhile".to_owned()
        };
        Some(format!("{}, {}: {differs}; {reason}", self.thread, self.quantity))
    }
}

/// A live side that did not get the policy that the file wants.
fn refusal(runs: &Runs) -> Option<String> {
    let errno = runs.threads.iter().find_map(|thread| thread.refused)?;
    let why = std::io::Error::from_raw_os_error(errno);
    Some(format!(
        "{}: a policy or affinity of the file was refused ({why}); its threads ran with what they had",
        runs.side.name()
    ))
}

/// A live side that has fewer threads than the file wants.
fn missing_thread(runs: &Runs) -> Option<String> {
    let errno = runs.threads.iter().find_map(|thread| thread.no_thread)?;
    let why = std::io::Error::from_raw_os_error(errno);
    Some(format!("{}: a thread could not be forked ({why}); the others ran without it", runs.side.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(p50: f64, p99: f64) -> Figures {
        Figures { samples: 100, p50, p99, max: p99 }
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut samples = Samples::default();
        (1..=1000).for_each(|n| samples.add(n * 1000));
        let f = Figures::of(&samples);
        assert_eq!((f.samples, f.p50, f.p99, f.max), (1000, 500.0, 990.0, 1000.0));
        assert_eq!(Figures::of(&Samples::default()).samples, 0);
    }

    #[test]
    fn small_times_and_near_ones_agree() {
        assert_eq!(figures(4.0, 9.0).differ_from(&figures(1.0, 5.0)), None);
        assert_eq!(figures(120.0, 199.0).differ_from(&figures(100.0, 100.0)), None);
        assert!(figures(130.0, 130.0).differ_from(&figures(100.0, 130.0)).is_some_and(|w| w.starts_with("median")));
        assert!(figures(100.0, 300.0).differ_from(&figures(100.0, 100.0)).is_some_and(|w| w.starts_with("p99")));
        assert_eq!(Figures::default().differ_from(&figures(1.0, 1.0)), None);
    }
}
