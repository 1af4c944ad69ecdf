//! A page for a terminal.

use std::fmt::Write;

use anstyle::Style;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, LineStyle};

use super::page::{Lines, Page, Part, Plot, Table, Verdict};
use bench::table::number;
use tool::style::{BAD, GOOD};

const BOLD: Style = Style::new().bold();
const SOFT: Style = Style::new().dimmed();
/// Columns of the longest bar.
const BAR: f64 = 48.0;

/// Renders the whole page. Writing to a string cannot fail.
pub(super) fn render(page: &Page) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}\n\n", page.title);
    for note in &page.notes {
        let _ = writeln!(text, "{note}");
    }
    for part in &page.parts {
        match part {
            Part::Lines(part) => lines(part, &mut text),
            Part::Table(part) => table(part, &mut text),
            Part::Plot(part) => plot(part, &mut text),
        }
    }
    for fault in &page.faults {
        let _ = writeln!(text, "\n{BAD}{fault}{BAD:#}");
    }
    text
}

fn lines(part: &Lines, text: &mut String) {
    let _ = writeln!(text, "\n{BOLD}{}{BOLD:#}", part.title);
    for line in &part.lines {
        let _ = writeln!(text, "{line}");
    }
    match part.passed {
        Some(true) => drop(writeln!(text, "{GOOD}Passed!{GOOD:#}")),
        Some(false) => drop(writeln!(text, "{BAD}Failed!{BAD:#}")),
        None => {}
    }
    if let Some(command) = &part.command {
        let _ = writeln!(text, "{SOFT}  {command}{SOFT:#}");
    }
}

fn table(part: &Table, text: &mut String) {
    let mut table = comfy_table::Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(part.labels.iter().chain(&part.heads));
    for (row, labels) in part.rows.iter().zip(part.shown_labels()) {
        table.add_row(labels.into_iter().chain(row.cells.iter().map(|cell| cell.text.as_str())));
    }
    for column in table.column_iter_mut().skip(part.labels.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "\n{BOLD}{}{BOLD:#}\n{table}", part.title);
    for note in &part.notes {
        let _ = writeln!(text, "{note}");
    }
}

/// One bar a point, on a scale of powers: what a browser shows as curves.
fn plot(part: &Plot, text: &mut String) {
    let Some((least, largest)) = part.range(|point| point.y) else { return };
    let _ = writeln!(text, "\n{}, {}, on a scale of powers:", part.title, part.unit);
    let width = part.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
    // The least has a bar, too.
    let decades = (2.0 * largest / least).log10();
    for curve in &part.curves {
        for point in &curve.points {
            let columns = (2.0 * point.y / least).max(1.0).log10() / decades * BAR;
            let bar = "█".repeat(columns.ceil().max(1.0) as usize);
            let color = if point.verdict == Verdict::Bad { BAD } else { GOOD };
            let name = &curve.name;
            let label = format!("{name:width$} {:>9} {}", whole(point.x), part.across);
            let _ = writeln!(text, "  {label} {color}{bar}{color:#} {} {}", number(point.y), part.unit);
        }
    }
}

/// Formats a count with separators.
pub(super) fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Curve, Point};

    #[test]
    fn counts_have_commas() {
        assert_eq!([1.0, 999.0, 1_000.0, 1_234_567.0].map(whole), ["1", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn bars_grow_with_their_logarithms() {
        let at = |x, y| Point { x, y, verdict: Verdict::None };
        let curves =
            vec![Curve { name: "a".to_owned(), ours: true, points: vec![at(1.0, 1.0), at(2.0, 10.0), at(3.0, 100.0)] }];
        let part = Plot { title: "t".to_owned(), across: "CPUs", up: "time", unit: "ns", curves };
        let mut text = String::new();
        plot(&part, &mut text);
        let bars: Vec<usize> = text.lines().map(|line| line.matches('█').count()).filter(|n| *n > 0).collect();
        assert!(bars[2] == BAR as usize && bars[1] > bars[0] && bars[0] > 0, "{bars:?}");
        assert!(bars[2].abs_diff(bars[1]).abs_diff(bars[1] - bars[0]) <= 1, "{bars:?}");
    }
}
