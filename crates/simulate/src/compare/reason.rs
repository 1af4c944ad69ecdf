//! The likeliest reason why a live figure is far from the simulated one, as far as it can be measured.

use super::found::Series;
use super::sides::{Costs, Runs};
use super::table::Row;
use super::trials::Trials;

/// The evidence about the runs of a row.
pub(super) struct Evidence<'a> {
    pub simulated: &'a Runs,
    pub entresol: &'a Runs,
    pub native: &'a Runs,
    pub costs: &'a Costs,
    pub trials: &'a Trials,
}

impl Evidence<'_> {
    /// In words, why the row's figures differ.
    pub fn reason(&self, row: &Row, series: &Series) -> String {
        let mut all = Vec::new();
        if row.entresol.exceeds(&row.simulated) {
            all.extend(self.entresol.disturbance.in_words());
        }
        if row.medians_differ() {
            all.extend(self.spread(series));
            all.extend(self.groups(row, series));
            all.extend(self.trials.explain(series, &row.entresol));
        }
        all.extend(self.native(row));
        if all.is_empty() {
            return "nothing that was measured explains it".to_owned();
        }
        all.join("; ")
    }

    /// Runs differ among themselves, because threads begin in another order or at other moments. Sides of which a run can be
    /// as slow as one of the other's agree as well as they can.
    fn spread(&self, series: &Series) -> Option<String> {
        let [simulated, live] = [self.simulated, self.entresol].map(|runs| medians(runs, series));
        let ((low, high), (least, most)) = (simulated?, live?);
        let differ = high > low || most > least;
        (differ && low <= most && least <= high).then(|| {
            format!(
                "single runs of a side differ as much from each other: medians of {low:.1} to {high:.1} µs simulated, \
                 {least:.1} to {most:.1} live"
            )
        })
    }

    /// If some of a thread's times are short and others long, the median may be one of either group.
    fn groups(&self, row: &Row, series: &Series) -> Option<String> {
        let quarters = |runs: &Runs| {
            let samples = runs.found.samples(series);
            [250, 750].map(|permille| samples.permille(permille) as f64 / 1e3)
        };
        let [simulated, live] = [self.simulated, self.entresol].map(quarters);
        let within = |[low, high]: [f64; 2], median: f64| (low..=high).contains(&median);
        let overlap = within(simulated, row.entresol.p50) || within(live, row.simulated.p50);
        overlap.then(|| {
            format!(
                "the times are of several kinds, and the medians of different ones: the middle half is {:.1} to {:.1} µs \
                 simulated, {:.1} to {:.1} live",
                simulated[0], simulated[1], live[0], live[1]
            )
        })
    }

    /// The host's behaviour without Entresol.
    fn native(&self, row: &Row) -> Option<String> {
        if self.native.found.refused.is_some() || row.native.samples == 0 {
            return None;
        }
        let more = row.more();
        Some(if row.entresol.differ_from(&row.native).is_none() {
            match &self.costs.named {
                Some(name) => format!(
                    "the same natively: the costs '{name}' may not be this machine's, which are measured without --costs"
                ),
                None if more > 0.0 => {
                    format!("the same natively: {more:.1} µs more than this machine's measured costs add up to")
                }
                None => format!("the same natively: {:.1} µs less than this machine's measured costs add up to", -more),
            }
        } else if row.native.differ_from(&row.simulated).is_none() {
            match (row.entresol.exceeds(&row.simulated), row.is_real_time()) {
                (true, true) => {
                    "natively as simulated: real-time threads go before other programs there, CPUs of Entresol do not"
                }
                (true, false) => "natively as simulated: it is Entresol that takes longer",
                (false, _) => "natively as simulated: it is Entresol that is faster",
            }
            .to_owned()
        } else {
            "natively it is different again".to_owned()
        })
    }
}

/// The least and the greatest median of single runs, in microseconds.
fn medians(runs: &Runs, series: &Series) -> Option<(f64, f64)> {
    let all = runs.each.iter().map(|run| run.samples(series)).filter(|samples| !samples.is_empty());
    let all = all.map(|samples| samples.permille(500) as f64 / 1e3);
    all.fold(None, |range, median| {
        let (least, most) = range.unwrap_or((median, median));
        Some((f64::min(least, median), f64::max(most, median)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::disturbance::Disturbance;
    use crate::compare::found::Found;
    use crate::compare::sides::Side;
    use crate::compare::table::Figures;
    use sim::Cost;
    use sim::report::Samples;
    use std::time::Duration;

    fn series(us: &[u64]) -> Series {
        let mut samples = Samples::default();
        us.iter().for_each(|us| samples.add(us * 1000));
        Series {
            thread: "a".to_owned(),
            policy: "Fifo 2".to_owned(),
            quantity: "wake-up".to_owned(),
            samples,
            of_means: false,
        }
    }

    /// Each side's runs, a sample a run.
    fn runs(side: Side, us: &[u64]) -> Runs {
        let one = |us: &u64| Found { series: vec![series(&[*us])], ..Found::default() };
        let mut runs = Runs { each: us.iter().map(one).collect(), ..Runs::none(side) };
        runs.each.iter().for_each(|run| runs.found.add(run.clone()));
        runs
    }

    fn reason(simulated: &[u64], entresol: &[u64], native: &[u64], named: Option<&str>, others: u64) -> String {
        let [simulated, mut entresol, native] =
            [(Side::Simulated, simulated), (Side::Entresol, entresol), (Side::Native, native)]
                .map(|(s, us)| runs(s, us));
        let ms = Duration::from_millis;
        entresol.disturbance = Disturbance { others: ms(others), all: ms(1_000), ..Disturbance::default() };
        let like = series(&[]);
        let figures = |runs: &Runs| Figures::of(&runs.found.samples(&like), &like);
        let row = Row::new(&like, [&simulated, &entresol, &native].map(figures));
        let costs = Costs { cost: Cost::host(), named: named.map(str::to_owned) };
        Evidence {
            simulated: &simulated,
            entresol: &entresol,
            native: &native,
            costs: &costs,
            trials: &Trials::default(),
        }
        .reason(&row, &like)
    }

    #[test]
    fn each_reason_has_its_evidence() {
        for (simulated, entresol, native, named, others, words) in [
            (&[10][..], &[60][..], &[55][..], Some("host"), 0, "the costs 'host' may not be this machine's"),
            (&[10], &[60], &[55], None, 0, "50.0 µs more than this machine's measured costs"),
            (&[60], &[10], &[11], None, 0, "50.0 µs less than"),
            (&[10], &[60], &[11], None, 0, "real-time threads go before other programs"),
            (&[60], &[10], &[61], None, 500, "it is Entresol that is faster"),
            (&[10], &[60], &[900], None, 0, "natively it is different again"),
            (&[10], &[60], &[900], None, 300, "other programs had 300 ms (30 %)"),
            (&[10, 10, 50, 50], &[9, 9, 40, 40, 41], &[900], None, 0, "the middle half is 10.0 to 50.0"),
            (&[10, 10, 90], &[80, 80, 20], &[900], None, 0, "medians of 10.0 to 90.0 µs simulated, 20.0 to 80.0 live"),
        ] {
            let reason = reason(simulated, entresol, native, named, others);
            assert!(reason.contains(words), "{words}: {reason}");
        }
        // What makes it slower cannot be why it is faster.
        assert!(!reason(&[60], &[10], &[61], None, 500).contains("other programs"));
    }
}
