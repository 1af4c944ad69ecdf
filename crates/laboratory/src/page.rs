//! A page of the laboratory, as every subject fills it: texts, tables and plots in the order in which they are read.
//!
//! [`super::text`] shows one on a terminal, [`super::html`] in a browser, and its JSON is this structure itself.

use std::collections::BTreeMap;

use serde::Serialize;

use bench::table::number;

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    /// Its subject.
    pub title: &'static str,
    /// How to read it.
    pub notes: Vec<String>,
    pub parts: Vec<Part>,
    /// Violations of rules that must hold: the command then fails. Live latencies are not judged, because the host takes
    /// its part of them.
    pub faults: Vec<String>,
}

/// One thing on the page.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Part {
    Lines(Lines),
    Table(Table),
    Plot(Plot),
}

/// Lines as a program or a message has them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Lines {
    pub title: String,
    pub lines: Vec<String>,
    /// The command that repeats them; `None`: they are quoted.
    pub command: Option<String>,
    /// The program's own verdict.
    pub passed: Option<bool>,
    /// Further facts, for programs.
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, f64>,
}

/// Rows with labels on the left and figures on the right.
#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    pub title: String,
    /// Heads of the labels' columns.
    pub labels: Vec<String>,
    /// Heads of the cells' columns.
    pub heads: Vec<String>,
    pub rows: Vec<Row>,
    /// A note to the reader.
    pub notes: Vec<String>,
}

/// One row.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub labels: Vec<String>,
    pub cells: Vec<Cell>,
}

/// One place of a table.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Cell {
    /// The text shown.
    pub text: String,
    /// The unrounded values it was made of, each by a name that has its unit.
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, f64>,
    pub verdict: Verdict,
    /// The command that repeats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Whether a cell or point keeps the rule that the page states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// There is no rule.
    #[default]
    None,
    Good,
    Bad,
}

/// Curves, both axes logarithmic: designs differ in how they grow.
#[derive(Debug, Serialize)]
pub(super) struct Plot {
    pub title: String,
    /// The horizontal axis.
    pub across: &'static str,
    /// The vertical axis, with its unit.
    pub up: &'static str,
    pub unit: &'static str,
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Serialize)]
pub(super) struct Curve {
    pub name: String,
    /// Marks our own design, which has the same colour on every page.
    pub ours: bool,
    pub points: Vec<Point>,
}

/// One point of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    pub verdict: Verdict,
}

impl Cell {
    /// A figure, shown with about four digits.
    pub fn figure(name: &'static str, value: f64) -> Cell {
        Cell { text: number(value), figures: BTreeMap::from([(name, value)]), ..Cell::default() }
    }

    /// Words in place of a figure.
    pub fn words(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// This cell with another text.
    pub fn shown(self, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..self }
    }

    /// This cell with one figure more, which the text may or may not show.
    pub fn with(mut self, name: &'static str, value: f64) -> Cell {
        self.figures.insert(name, value);
        self
    }

    /// This cell, judged.
    pub fn judged(self, holds: bool) -> Cell {
        Cell { verdict: if holds { Verdict::Good } else { Verdict::Bad }, ..self }
    }

    /// This cell with the command that repeats it.
    pub fn repeated_by(self, command: impl Into<String>) -> Cell {
        Cell { command: Some(command.into()), ..self }
    }
}

impl Row {
    /// A row with one label.
    pub fn of(label: impl Into<String>, cells: Vec<Cell>) -> Row {
        Row { labels: vec![label.into()], cells }
    }
}

impl Table {
    /// The labels as people see them: the first of several is not said again in the rows that follow.
    pub fn shown_labels<'a>(&'a self) -> Vec<Vec<&'a str>> {
        let is_repeated = |at: usize| at > 0 && self.rows[at - 1].labels[0] == self.rows[at].labels[0];
        let shown = |(at, row): (usize, &'a Row)| {
            let mut labels: Vec<&str> = row.labels.iter().map(String::as_str).collect();
            if labels.len() > 1 && is_repeated(at) {
                labels[0] = "";
            }
            labels
        };
        self.rows.iter().enumerate().map(shown).collect()
    }
}

impl Plot {
    /// Largest and least of what the points answer, if they are above zero: logarithms know no others.
    pub fn range(&self, of: impl Fn(&Point) -> f64) -> Option<(f64, f64)> {
        let values = self.curves.iter().flat_map(|curve| &curve.points).map(of).filter(|value| *value > 0.0);
        values.fold(None, |range, value| {
            let (least, largest) = range.unwrap_or((value, value));
            Some((f64::min(least, value), f64::max(largest, value)))
        })
    }
}

/// A part that quotes a message.
pub(super) fn quoted(title: impl Into<String>, lines: &[&str]) -> Part {
    let lines = lines.iter().map(|&line| line.to_owned()).collect();
    Part::Lines(Lines { title: title.into(), lines, ..Lines::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_said_once() {
        let row = |labels: [&str; 2]| Row { labels: labels.map(str::to_owned).into(), cells: Vec::new() };
        let rows = vec![row(["a", "x"]), row(["a", "x"]), row(["b", "x"]), row(["a", "y"])];
        let table = Table { rows, ..Table::default() };
        assert_eq!(table.shown_labels(), [["a", "x"], ["", "x"], ["b", "x"], ["a", "y"]]);
    }
}
