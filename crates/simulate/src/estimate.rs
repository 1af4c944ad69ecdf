//! `entresol sim plan`: how many runs an experiment has, and how long they will take.

use std::time::{Duration, Instant};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::args::PlanArguments;
use super::experiment::{Configuration, Experiment};
use tool::say;

/// Counts and estimates; returns the exit status.
pub(super) fn plan(request: &PlanArguments) -> anyhow::Result<i32> {
    let experiment = Experiment::read(&request.file)?;
    let configurations = &experiment.configurations;
    say!("{}: {} runs of {} configurations", experiment.name, experiment.runs(), configurations.len())?;
    let sampled = sample(configurations.len(), request.sample as usize);
    if sampled.is_empty() {
        return Ok(0);
    }
    let timed: Vec<(usize, Duration)> = sampled.iter().map(|&at| (at, time(&configurations[at]))).collect();
    show(configurations, &timed)?;
    let whole = estimate(configurations, &timed);
    say!("\nAll runs together: {} of one CPU like this one's.", words(whole))?;
    if let Some(shards) = request.shards {
        say!("{shards} shards: {} each, on one CPU (--jobs 1).", words(whole.div_f64(shards as f64)))?;
    }
    say!(
        "Estimated from {} runs just timed here: the first seed of {} configurations, evenly chosen; those between take as \
         long as the one before. Which runs are timed depends on the file only; the times are this machine's, now.",
        timed.len(),
        timed.len()
    )?;
    Ok(0)
}

/// At most `most` of `count` places, the first among them, at equal distances.
fn sample(count: usize, most: usize) -> Vec<usize> {
    let taken = count.min(most);
    (0..taken).map(|i| i * count / taken).collect()
}

fn time(configuration: &Configuration) -> Duration {
    let started = Instant::now();
    let _report = configuration.plan.run(configuration.seeds.start, false);
    started.elapsed()
}

/// A configuration that was not timed takes as long as the last one before it that was.
fn estimate(configurations: &[Configuration], timed: &[(usize, Duration)]) -> Duration {
    let of = |at: usize| timed[timed.partition_point(|(sampled, _)| *sampled <= at) - 1].1;
    let each = configurations.iter().enumerate().map(|(at, c)| of(at).mul_f64(c.count() as f64));
    each.sum()
}

fn show(configurations: &[Configuration], timed: &[(usize, Duration)]) -> std::io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["scenario", "options", "seeds", "ms a run"]);
    for (at, took) in timed {
        let configuration = &configurations[*at];
        table.add_row([
            configuration.scenario.clone(),
            configuration.choice.words().join(" "),
            configuration.count().to_string(),
            format!("{:.1}", took.as_secs_f64() * 1e3),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    say!("{table}")
}

/// A long time in a unit that fits it.
fn words(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.1} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_evenly() {
        assert_eq!(sample(3, 32), [0, 1, 2]);
        assert_eq!(sample(10, 4), [0, 2, 5, 7]);
        assert!(sample(10, 0).is_empty());
    }

    #[test]
    fn what_was_not_timed_takes_as_long_as_what_was_before_it() {
        let text = "name = \"x\"\nseeds = \"0..10\"\n[[runs]]\nscenario = \"hackbench\"\ncpus = [1, 2, 3]\n";
        let experiment = Experiment::parse(text, std::path::Path::new("")).unwrap();
        let timed = [(0, Duration::from_secs(1)), (2, Duration::from_secs(5))];
        assert_eq!(estimate(&experiment.configurations, &timed), Duration::from_secs(70));
        assert_eq!(words(Duration::from_secs(9_000)), "2.5 hours");
    }
}
