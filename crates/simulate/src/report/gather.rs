//! Rows by what they are compared with.

use std::collections::BTreeMap;

use anyhow::Context;
use sim::report::QUANTITIES;

use crate::fleet::row::{column_name, command};
use crate::fleet::table::{Cell, Table, Values};
use crate::plan::FLAT;

/// The number of a side's failed runs that are kept with their commands.
const FAILED_MOST: usize = 10;

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub runs: usize,
    pub failed: usize,
    /// By what the sides have in common, in words.
    pub groups: BTreeMap<String, BTreeMap<Side, Rows>>,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Side {
    pub policy: String,
    pub build: String,
}

/// The rows of one side.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub runs: usize,
    pub failed: usize,
    /// Reasons and commands of the failed runs with the smallest numbers.
    pub failures: BTreeMap<u64, (String, String)>,
    /// By place in `QUANTITIES`.
    pub values: BTreeMap<usize, Vec<f64>>,
    /// By place in `QUANTITIES`: the greatest value, and the command that shows it.
    pub worst: BTreeMap<usize, (f64, String)>,
}

impl Gathered {
    /// Adds all rows of a table.
    pub fn add(&mut self, table: &Table) -> anyhow::Result<()> {
        let quantities: Vec<(usize, &Values)> = QUANTITIES
            .iter()
            .enumerate()
            .filter_map(|(at, (name, unit))| Some((at, table.column(&column_name(name, unit))?)))
            .collect();
        for row in 0..table.rows() {
            let group = self.groups.entry(group(table, row)).or_default();
            let rows = group.entry(side(table, row)?).or_default();
            (self.runs, rows.runs) = (self.runs + 1, rows.runs + 1);
            if table.column("failed").map(|values| values.cell(row)) == Some(Cell::Flag(Some(true))) {
                (self.failed, rows.failed) = (self.failed + 1, rows.failed + 1);
                rows.keep_failure(table, row);
            }
            for (at, values) in &quantities {
                let Cell::Real(Some(value)) = values.cell(row) else { continue };
                rows.values.entry(*at).or_default().push(value);
                if rows.worst.get(at).is_none_or(|(worst, _)| value > *worst) {
                    rows.worst.insert(*at, (value, command(table, row)));
                }
            }
        }
        Ok(())
    }
}

impl Rows {
    fn keep_failure(&mut self, table: &Table, row: usize) {
        let Some(Cell::Count(Some(number))) = table.column("run").map(|values| values.cell(row)) else { return };
        let why = text(table, "reason", row).unwrap_or_default();
        self.failures.insert(number, (why, command(table, row)));
        if self.failures.len() > FAILED_MOST {
            self.failures.pop_last();
        }
    }
}

fn text(table: &Table, name: &str, row: usize) -> Option<String> {
    match table.column(name)?.cell(row) {
        Cell::Text(text) => text,
        _ => None,
    }
}

fn side(table: &Table, row: usize) -> anyhow::Result<Side> {
    let text = |name| text(table, name, row).with_context(|| format!("a row has no '{name}'"));
    Ok(Side { policy: text("policy")?, build: text("build")? })
}

/// What the sides of a group have in common, in words. The machine of a scenario that draws it is no part of it.
fn group(table: &Table, row: usize) -> String {
    let count = |name: &str| match table.column(name).map(|values| values.cell(row)) {
        Some(Cell::Count(Some(n))) => Some(format!("{n} {}", name.trim_end_matches("_asked"))),
        _ => None,
    };
    let costs = text(table, "costs", row);
    let words = [
        text(table, "scenario", row),
        costs.is_some().then(|| count("cpus")).flatten(),
        text(table, "machine", row).filter(|name| name != FLAT).map(|name| format!("machine {name}")),
        count("threads_asked"),
        count("rounds"),
        count("length").filter(|words| !words.starts_with("1 ")),
        count("scale")
            .filter(|words| !words.starts_with("100 "))
            .map(|words| words.replace(" scale", " % of the costs")),
        costs.map(|costs| format!("costs {costs}")),
        text(table, "plant", row).map(|bug| format!("bug {bug}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
