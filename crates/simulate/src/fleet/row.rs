//! One run as a row: what was run, and the result. It does not depend on where and when the run was made.

use anyhow::{Context, ensure};
use sim::Report;
use sim::report::QUANTITIES;

use super::table::{Cell, Table, Values};
use crate::experiment::{Configuration, Experiment, Verdict};
use crate::plan::FLAT;

/// What is true of the whole table.
pub(crate) const FACT_BUILD: &str = "entresol.build";
pub(crate) const FACT_EXPERIMENT: &str = "entresol.experiment";
pub(crate) const FACT_FAILED: &str = "entresol.failed";

/// A row in the order of its table's columns.
pub(crate) type Row = Vec<(String, Cell)>;

/// The row of a run.
pub(crate) fn row(number: u64, build: &str, of: &Configuration, report: &Report, verdict: &Verdict) -> Row {
    let text = |text: &str| Cell::Text(Some(text.to_owned()));
    let count = |n: Option<u64>| Cell::Count(n);
    let o = &of.plan.options;
    let chosen = of.has_machine();
    let is_swarm = !chosen;
    let broken = verdict.broken.as_ref();
    let mut row: Row = [
        ("run", count(Some(number))),
        ("build", text(build)),
        ("scenario", text(&of.scenario)),
        ("scenario_hash", text(&of.hash)),
        ("cpus", count(Some(report.cpus as u64))),
        ("machine", Cell::Text(of.choice.machine.clone().or_else(|| chosen.then(|| FLAT.to_owned())))),
        ("threads_asked", count(o.threads.map(|n| n as u64))),
        ("rounds", count(o.rounds.map(u64::from))),
        ("length", count(is_swarm.then_some(o.length))),
        ("costs", Cell::Text(chosen.then(|| of.choice.costs.clone().unwrap_or_else(|| "host".to_owned())))),
        ("scale", count(chosen.then(|| u64::from(of.choice.scale.unwrap_or(100))))),
        ("policy", text(o.policy.name())),
        ("plant", Cell::Text(of.choice.plant.clone())),
        ("check", Cell::Flag(Some(of.check))),
        ("seed", count(Some(report.seed))),
        ("failed", Cell::Flag(Some(verdict.failed))),
        ("cause", Cell::Text(broken.map(|(cause, _)| cause.name().to_owned()))),
        ("reason", Cell::Text(broken.map(|(_, why)| why.clone()))),
        ("trace", text(&report.hash)),
        ("time_ns", count(Some(report.time_ns))),
        ("events", count(Some(report.events))),
    ]
    .map(|(name, cell)| (name.to_owned(), cell))
    .into();
    row.extend(QUANTITIES.iter().map(|(name, unit)| (column_name(name, unit), Cell::Real(report.get(name)))));
    row
}

/// The name of a value's column: `wake-up p99` in µs is `wake_up_p99_us`.
pub(crate) fn column_name(name: &str, unit: &str) -> String {
    let unit = unit.replace('µ', "u");
    let letters = name.chars().filter(|c| *c != '\'').map(|c| if c.is_alphanumeric() { c } else { ' ' });
    let words: Vec<String> = letters.collect::<String>().split_whitespace().map(str::to_lowercase).collect();
    let words = words.iter().map(String::as_str).chain((!unit.is_empty()).then_some(unit.as_str()));
    words.collect::<Vec<_>>().join("_")
}

/// The table of these rows, with what is true of all of them.
pub(crate) fn table(rows: Vec<Row>, build: &str, experiment: &Experiment) -> Table {
    let failed = rows.iter().filter(|row| row.contains(&("failed".to_owned(), Cell::Flag(Some(true))))).count();
    let mut columns: Vec<(String, Values)> = Vec::new();
    for row in rows {
        if columns.is_empty() {
            columns = row.iter().map(|(name, cell)| (name.clone(), Values::like(cell))).collect();
        }
        columns.iter_mut().zip(row).for_each(|((_, column), (_, cell))| column.push(cell));
    }
    let facts = [(FACT_BUILD, build.to_owned()), (FACT_EXPERIMENT, experiment.hash.clone())];
    let facts = facts.into_iter().chain([(FACT_FAILED, failed.to_string())]);
    Table { columns, facts: facts.map(|(name, value)| (name.to_owned(), value)).collect() }
}

/// One table of several with the same columns, with its rows in canonical order and no run twice.
pub(crate) fn union(tables: &[Table]) -> anyhow::Result<Table> {
    let first = tables.iter().find(|table| table.rows() > 0).context("there is no run")?;
    let mut order = Vec::new();
    for (of, table) in tables.iter().enumerate().filter(|(_, table)| table.rows() > 0) {
        ensure!(
            table.columns.iter().map(|(name, _)| name).eq(first.columns.iter().map(|(name, _)| name)),
            "the tables have different columns: expected those of one build"
        );
        let Some(Values::Count(numbers)) = table.column("run") else { anyhow::bail!("there is no column 'run'") };
        order.extend(numbers.iter().enumerate().map(|(row, number)| (number.unwrap_or_default(), of, row)));
    }
    order.sort_unstable();
    if let Some(twice) = order.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        anyhow::bail!("run {} is there twice", twice[0].0);
    }
    let column = |(at, (name, like)): (usize, &(String, Values))| {
        let mut values = Values::like(&like.cell(0));
        order.iter().for_each(|(_, of, row)| values.push(tables[*of].columns[at].1.cell(*row)));
        (name.clone(), values)
    };
    let columns = first.columns.iter().enumerate().map(column).collect();
    let failed: u64 = tables.iter().filter_map(|table| table.fact(FACT_FAILED)?.parse::<u64>().ok()).sum();
    let mut facts = first.facts.clone();
    facts.iter_mut().filter(|(name, _)| name == FACT_FAILED).for_each(|(_, value)| *value = failed.to_string());
    Ok(Table { columns, facts })
}

/// The command that repeats a row's run, from the folder in which the experiment lies.
pub(crate) fn command(table: &Table, row: usize) -> String {
    let cell = |name: &str| table.column(name).map(|values| values.cell(row));
    let text = |name: &str| match cell(name) {
        Some(Cell::Text(text)) => text,
        _ => None,
    };
    let count = |name: &str| match cell(name) {
        Some(Cell::Count(n)) => n,
        _ => None,
    };
    let mut words = vec!["entresol sim run".to_owned(), text("scenario").unwrap_or_default()];
    let chosen = text("costs").is_some();
    let numbers = [
        ("--cpus", count("cpus").filter(|_| chosen)),
        ("--threads", count("threads_asked")),
        ("--rounds", count("rounds")),
        ("--length", count("length").filter(|n| *n != 1)),
        ("--scale", count("scale").filter(|n| *n != 100)),
    ];
    words.extend(numbers.into_iter().filter_map(|(option, n)| Some(format!("{option} {}", n?))));
    let names = [
        ("--machine", text("machine").filter(|name| name != FLAT)),
        ("--costs", text("costs").filter(|name| name != "host")),
        ("--policy", text("policy").filter(|name| name != "entresol")),
        ("--plant", text("plant")),
    ];
    words.extend(names.into_iter().filter_map(|(option, name)| Some(format!("{option} {}", name?))));
    words.extend((cell("check") == Some(Cell::Flag(Some(false)))).then(|| "--no-check".to_owned()));
    words.push(format!("--seed {}", count("seed").unwrap_or_default()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_quantity_has_a_column_of_its_own() {
        assert_eq!(column_name("wake-up p99", "µs"), "wake_up_p99_us");
        assert_eq!(column_name("top threads' start max", "µs"), "top_threads_start_max_us");
        assert_eq!(column_name("worst response, in periods", ""), "worst_response_in_periods");
        let names: BTreeSet<String> = QUANTITIES.iter().map(|(name, unit)| column_name(name, unit)).collect();
        assert_eq!(names.len(), QUANTITIES.len());
    }

    #[test]
    fn a_row_has_its_machine_and_the_command_says_it() {
        let text = "name = \"x\"\nseeds = \"3..4\"\n[[runs]]\nscenario = \"hackbench\"\nrounds = 2\n\
                    machine = [\"flat\", \"1x2x2\"]\n[[runs]]\nscenario = \"swarm\"\nmachine = \"2x1\"";
        let experiment = Experiment::parse(text, std::path::Path::new("")).unwrap();
        let rows = experiment.configurations.iter().enumerate().map(|(number, of)| {
            let report = of.plan.run(3, false);
            let verdict = experiment.rule.judge(&of.scenario, &report, true);
            row(number as u64, "b", of, &report, &verdict)
        });
        let table = table(rows.collect(), "b", &experiment);
        let commands = [0, 1, 2].map(|at| command(&table, at).replace("entresol sim run ", ""));
        assert_eq!(commands[0], "hackbench --cpus 4 --rounds 2 --seed 3");
        assert_eq!(commands[1], "hackbench --cpus 4 --rounds 2 --machine 1x2x2 --seed 3");
        assert_eq!(commands[2], "swarm --machine 2x1 --seed 3");
        let siblings = table.column("migrations_to_a_sibling").unwrap();
        assert_eq!(siblings.cell(0), Cell::Real(None), "a flat machine has no siblings");
        assert!(matches!(siblings.cell(1), Cell::Real(Some(n)) if n > 0.0));
    }
}
