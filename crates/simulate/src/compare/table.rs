//! The comparison as a table, and a sentence about each figure that is far off.

use std::fmt::Write;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use sim::Cost;
use sim::report::Samples;

use super::disturbance::Disturbance;
use super::found::Series;
use super::reason::Evidence;
use super::sides::{Request, Runs, Side};
use super::trials::Trials;

/// Medians within this part of each other agree.
const MEDIAN_OFF: f64 = 0.25;
/// 99th percentiles within this factor of each other agree.
const TAIL_OFF: f64 = 2.0;
/// Times that differ by less, in microseconds, agree: clocks and calls alone take about as long.
const TOO_SMALL_US: f64 = 5.0;
/// The heads of the columns that are words.
pub(super) const WORDS: [&str; 3] = ["thread", "policy", "quantity"];

/// A comparison, ready to be printed or stored.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// The file or scenario.
    pub subject: String,
    /// CPUs of each side.
    cpus: usize,
    /// How often each side ran.
    runs: usize,
    rows: Vec<Row>,
    counts: Vec<Counted>,
    /// Sides that failed, and why.
    pub failures: Vec<String>,
    /// Sentences about figures that differ, and about the runs.
    pub notes: Vec<String>,
    /// Costs of the simulated machine, in nanoseconds.
    pub costs: Cost,
    /// The origin of the costs.
    pub costs_are: String,
    /// Disturbances, by side.
    disturbances: [Disturbance; 3],
}

/// One quantity of one thread.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    thread: String,
    policy: String,
    quantity: String,
    pub simulated: Figures,
    pub entresol: Figures,
    pub native: Figures,
}

/// How often something happened on each side, in all runs.
#[derive(Debug, Serialize)]
struct Counted {
    what: String,
    simulated: Option<u64>,
    entresol: Option<u64>,
    native: Option<u64>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Figures {
    pub samples: usize,
    pub p50: f64,
    p99: f64,
    max: f64,
    /// Smaller differences are none.
    #[serde(skip)]
    least: f64,
}

impl Figures {
    /// Of these samples, which belong to such a series.
    pub fn of(samples: &Samples, like: &Series) -> Figures {
        let us = |ns: u64| ns as f64 / 1e3;
        let [p50, p99] = [500, 990].map(|permille| us(samples.permille(permille)));
        Figures {
            samples: samples.len(),
            p50,
            p99,
            max: us(samples.most()),
            least: if like.of_means { 0.0 } else { TOO_SMALL_US },
        }
    }

    /// In words, how these live figures differ from the simulated ones.
    pub fn differ_from(&self, simulated: &Figures) -> Option<String> {
        let [median, tail] = self.ratios(simulated);
        let median = median.map(|_| format!("median {:.1} µs live, {:.1} simulated", self.p50, simulated.p50));
        let tail = tail.map(|_| format!("p99 {:.1} µs live, {:.1} simulated", self.p99, simulated.p99));
        let off: Vec<String> = median.into_iter().chain(tail).collect();
        (!off.is_empty()).then(|| off.join(", "))
    }

    /// Whether the median or the 99th percentile differs, and is longer here.
    pub fn exceeds(&self, other: &Figures) -> bool {
        self.ratios(other).into_iter().flatten().any(|ratio| ratio > 1.0)
    }

    /// Whether the median differs.
    pub fn median_differs(&self, other: &Figures) -> bool {
        self.ratios(other)[0].is_some()
    }

    /// Of median and 99th percentile, as far as they differ.
    fn ratios(&self, other: &Figures) -> [Option<f64>; 2] {
        if self.samples == 0 || other.samples == 0 {
            return [None; 2];
        }
        let ratio = |ours: f64, theirs: f64, agree: std::ops::RangeInclusive<f64>| {
            let ratio = ours / theirs.max(0.1);
            ((ours - theirs).abs() >= self.least && !agree.contains(&ratio)).then_some(ratio)
        };
        [
            ratio(self.p50, other.p50, 1.0 - MEDIAN_OFF..=1.0 + MEDIAN_OFF),
            ratio(self.p99, other.p99, 1.0 / TAIL_OFF..=TAIL_OFF),
        ]
    }
}

impl Row {
    /// A row about this series, with the figures of the sides.
    pub fn new(series: &Series, [simulated, entresol, native]: [Figures; 3]) -> Row {
        let (thread, policy, quantity) = (series.thread.clone(), series.policy.clone(), series.quantity.clone());
        Row { thread, policy, quantity, simulated, entresol, native }
    }

    /// Whether any side has measured it.
    fn has_samples(&self) -> bool {
        [self.simulated, self.entresol, self.native].iter().any(|figures| figures.samples > 0)
    }

    pub fn is_real_time(&self) -> bool {
        ["Fifo", "RoundRobin", "Deadline"].iter().any(|policy| self.policy.starts_with(policy))
    }

    pub fn medians_differ(&self) -> bool {
        self.entresol.median_differs(&self.simulated)
    }

    /// How many microseconds longer what differs is live: the median, or else the 99th percentile.
    pub fn more(&self) -> f64 {
        if self.medians_differ() {
            self.entresol.p50 - self.simulated.p50
        } else {
            self.entresol.p99 - self.simulated.p99
        }
    }

    /// The difference, and its likeliest reason.
    fn note(&self, evidence: &Evidence<'_>, series: &Series) -> Option<String> {
        let differs = self.entresol.differ_from(&self.simulated)?;
        Some(format!("{}, {}: {differs}; {}", self.thread, self.quantity, evidence.reason(self, series)))
    }

    /// Thread, policy, quantity, then the medians and the 99th percentiles of the sides.
    fn cells(&self) -> Vec<String> {
        let all = [self.simulated, self.entresol, self.native];
        let cell = |figures: Figures, value: f64| match figures.samples {
            0 => "-".to_owned(),
            _ => format!("{value:.1}"),
        };
        let p50 = all.map(|figures| cell(figures, figures.p50));
        let p99 = all.map(|figures| cell(figures, figures.p99));
        [self.thread.clone(), self.policy.clone(), self.quantity.clone()].into_iter().chain(p50).chain(p99).collect()
    }
}

impl Counted {
    fn in_words(&self) -> String {
        let sides = Side::ALL.map(Side::name).into_iter().zip([self.simulated, self.entresol, self.native]);
        let each: Vec<String> = sides.filter_map(|(side, n)| Some(format!("{side} {}", n?))).collect();
        format!("{}: {}", self.what, each.join(", "))
    }
}

impl Comparison {
    pub fn new(request: &Request<'_>, all: [Runs; 3]) -> Comparison {
        let [simulated, entresol, native] = &all;
        // A side that failed has no series.
        let complete = all.iter().map(|runs| &runs.found).max_by_key(|found| found.series.len());
        let row = |series| {
            let figures = |runs: &Runs| Figures::of(&runs.found.samples(series), series);
            (series, Row::new(series, [simulated, entresol, native].map(figures)))
        };
        let rows = complete.iter().flat_map(|found| &found.series).map(row);
        let rows: Vec<(&Series, Row)> = rows.filter(|(_, row)| row.has_samples()).collect();
        let longer = rows.iter().any(|(_, row)| row.medians_differ() && row.more() > 0.0);
        let trials = if longer { Trials::run(request) } else { Trials::default() };
        let evidence = Evidence { simulated, entresol, native, costs: &request.costs, trials: &trials };
        let mut notes: Vec<String> = rows.iter().filter_map(|(series, row)| row.note(&evidence, series)).collect();
        let count = |what: &String| {
            let [simulated, entresol, native] = [simulated, entresol, native].map(|runs| runs.found.count(what));
            Counted { what: what.clone(), simulated, entresol, native }
        };
        let counts = complete.iter().flat_map(|found| &found.counts).map(|one| count(&one.what)).collect();
        notes.extend(all.iter().filter_map(refusal));
        notes.extend(all.iter().filter_map(missing_thread));
        let failed = |runs: &Runs| runs.failure.as_ref().map(|why| format!("{}: {why}", runs.side.name()));
        let costs_are = match &request.costs.named {
            None => "measured on this machine before the runs".to_owned(),
            Some(name) => format!("those of '{name}'"),
        };
        Comparison {
            subject: request.subject.name(),
            cpus: request.cpus,
            runs: all.iter().map(|runs| runs.each.len()).max().unwrap_or(0),
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            counts,
            failures: all.iter().filter_map(failed).collect(),
            notes,
            costs: request.costs.cost.clone(),
            costs_are,
            disturbances: all.each_ref().map(|runs| runs.disturbance),
        }
    }

    /// The subject.
    pub fn title(&self) -> String {
        let plural = |n: usize, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
        format!("{}, {}, {} of each side", self.subject, plural(self.cpus, "CPU"), plural(self.runs, "run"))
    }

    /// The heads of the columns that are numbers.
    pub fn heads() -> Vec<String> {
        let sides = Side::ALL.map(Side::name);
        ["p50", "p99"].into_iter().flat_map(|p| sides.map(|side| format!("{p} {side}"))).collect()
    }

    /// The cells of all rows, under [`WORDS`] and [`Comparison::heads`].
    pub fn cells(&self) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(Row::cells)
    }

    /// Counts, in words.
    pub fn counted(&self) -> impl Iterator<Item = String> {
        self.counts.iter().map(Counted::in_words)
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("{}; microseconds\n", self.title());
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header(WORDS.map(String::from).into_iter().chain(Comparison::heads()));
        for cells in self.cells() {
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(WORDS.len()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{table}");
        for line in self.counted().chain(self.failures.iter().chain(&self.notes).cloned()) {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// A live side that did not get the policy that was asked for.
fn refusal(runs: &Runs) -> Option<String> {
    let errno = runs.found.refused?;
    let why = std::io::Error::from_raw_os_error(errno);
    Some(format!("{}: a policy or affinity was refused ({why}); its threads ran with what they had", runs.side.name()))
}

/// A live side that has fewer threads than the file wants.
fn missing_thread(runs: &Runs) -> Option<String> {
    let errno = runs.found.no_thread?;
    let why = std::io::Error::from_raw_os_error(errno);
    Some(format!("{}: a thread could not be forked ({why}); the others ran without it", runs.side.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(p50: f64, p99: f64) -> Figures {
        Figures { samples: 100, p50, p99, max: p99, least: TOO_SMALL_US }
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut samples = Samples::default();
        (1..=1000).for_each(|n| samples.add(n * 1000));
        let like = Series {
            thread: String::new(),
            policy: String::new(),
            quantity: String::new(),
            samples: Samples::default(),
            of_means: false,
        };
        let f = Figures::of(&samples, &like);
        assert_eq!((f.samples, f.p50, f.p99, f.max), (1000, 500.0, 990.0, 1000.0));
        assert_eq!(Figures::of(&Samples::default(), &like).samples, 0);
    }

    #[test]
    fn small_times_and_near_ones_agree() {
        assert_eq!(figures(4.0, 9.0).differ_from(&figures(1.0, 5.0)), None);
        assert_eq!(figures(120.0, 199.0).differ_from(&figures(100.0, 100.0)), None);
        assert!(figures(130.0, 130.0).differ_from(&figures(100.0, 130.0)).is_some_and(|w| w.starts_with("median")));
        assert!(figures(100.0, 300.0).differ_from(&figures(100.0, 100.0)).is_some_and(|w| w.starts_with("p99")));
        let both = figures(200.0, 300.0).differ_from(&figures(100.0, 100.0));
        assert!(both.is_some_and(|words| words.contains("median") && words.contains("p99")));
        assert_eq!(Figures::default().differ_from(&figures(1.0, 1.0)), None);
        let mean = Figures { least: 0.0, ..figures(2.0, 2.0) };
        assert!(mean.differ_from(&figures(1.0, 1.0)).is_some(), "a mean of many is known better");
    }

    #[test]
    fn what_exceeds_is_what_differs() {
        assert!(figures(200.0, 200.0).exceeds(&figures(100.0, 900.0)));
        assert!(figures(50.0, 900.0).exceeds(&figures(100.0, 200.0)));
        assert!(figures(100.0, 900.0).exceeds(&figures(101.0, 200.0)));
        assert!(!figures(110.0, 300.0).exceeds(&figures(100.0, 200.0)), "that is no difference");
    }

    #[test]
    fn counts_leave_sides_out_that_have_none() {
        let counted = Counted { what: "rounds failed".to_owned(), simulated: Some(0), entresol: None, native: Some(3) };
        assert_eq!(counted.in_words(), "rounds failed: simulated 0, native 3");
    }
}
