//! The page for a terminal.

use std::fmt::Write;

use anstyle::Style;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};

use super::live::Live;
use super::rt_migrate::{Cell, Page, Simulated};
use crate::bench::table::number;
use crate::style::{BAD, GOOD};

const BOLD: Style = Style::new().bold();
const SOFT: Style = Style::new().dimmed();
/// The plot: one column a third of a power of two, from 8 µs.
const PLOT_FROM_US: f64 = 8.0;
const PLOT_STEP: f64 = 3.0;

/// The whole page. Writing to a string cannot fail.
pub(super) fn render(page: &Page) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}\n\n", page.title);
    for note in &page.notes {
        let _ = writeln!(text, "{note}");
    }
    for rounds in &page.rounds {
        let _ = writeln!(text, "\n{BOLD}{}{BOLD:#}", rounds.title);
        for line in &rounds.lines {
            let _ = writeln!(text, "{line}");
        }
        if let Some(command) = &rounds.command {
            let _ = writeln!(text, "{SOFT}  {command}{SOFT:#}");
        }
    }
    for table in &page.tables {
        simulated(table, &mut text);
    }
    for one in &page.live {
        live(one, &mut text);
    }
    text
}

fn simulated(all: &Simulated, text: &mut String) {
    let _ = writeln!(
        text,
        "\n{BOLD}Simulated, {} threads, costs of {}: when the top threads began, mean and worst, µs (rounds failed){BOLD:#}",
        all.threads, all.costs
    );
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    let heads = all.sizes.iter().map(|n| format!("{n} CPUs"));
    table.set_header(["".to_owned(), "".to_owned()].into_iter().chain(heads));
    for row in &all.rows {
        let cells = row.cells.iter().map(cell);
        table.add_row([row.policy.to_owned(), row.about.to_owned()].into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}\nworst, on a scale of powers:");
    for row in &all.rows {
        for cell in &row.cells {
            let bar = "█".repeat(bar_length(cell.worst_us));
            let color = if cell.rounds_failed > 0 { BAD } else { GOOD };
            let worst = number(cell.worst_us);
            let _ = writeln!(text, "  {:16}{:>5} CPUs {color}{bar}{color:#} {worst} µs", row.policy, cell.cpus);
        }
    }
}

fn cell(cell: &Cell) -> String {
    let failed = if cell.rounds_failed == 0 { String::new() } else { format!(" ({})", cell.rounds_failed) };
    format!("{} / {}{failed}", number(cell.mean_us), number(cell.worst_us))
}

fn bar_length(us: f64) -> usize {
    ((us / PLOT_FROM_US).max(1.0).log2() * PLOT_STEP).ceil().max(1.0) as usize
}

fn live(live: &Live, text: &mut String) {
    let _ = writeln!(text, "\n{BOLD}Live: {}{BOLD:#}", live.title);
    for line in &live.lines {
        let _ = writeln!(text, "{line}");
    }
    if let (Some(mean), Some(worst)) = (live.mean_us, live.worst_us) {
        let _ =
            writeln!(text, "the top threads began after {} µs on average, {} at worst", number(mean), number(worst));
    }
    if let Some(stolen) = &live.stolen {
        let _ = writeln!(text, "the host took {stolen} meanwhile");
    }
    match live.passed {
        Some(true) => drop(writeln!(text, "{GOOD}Passed!{GOOD:#}")),
        Some(false) => drop(writeln!(text, "{BAD}Failed!{BAD:#}")),
        None => {}
    }
    if let Some(missing) = &live.missing {
        let _ = writeln!(text, "not measured: {missing}");
    }
    let _ = writeln!(text, "{SOFT}  {}{SOFT:#}", live.command);
}
