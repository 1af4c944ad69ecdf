//! A replay's figures for a terminal.

use std::fmt::Write;

use bench::table::number;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};

use super::{HEADS, Study, UNKNOWN};

/// The text. Writing to a string cannot fail.
pub(super) fn render(study: &Study) -> String {
    let mut text = format!("{}\n{}\n", head(study), bounds(study));
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header([""].into_iter().chain(HEADS));
    for row in &study.rows {
        table.add_row([row.name()].into_iter().chain(row.cells()));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}");
    for line in UNKNOWN {
        let _ = writeln!(text, "- {line}");
    }
    text
}

/// What was replayed, and how.
pub(super) fn head(study: &Study) -> String {
    let Study { program, pid, threads, costs, policy, seed, .. } = study;
    let threads = threads.len();
    format!("{program} ({pid}): {threads} threads; costs {costs}, policies {policy}, seed {seed}")
}

/// What the trace alone says.
pub(super) fn bounds(study: &Study) -> String {
    let waits = &study.waits;
    format!(
        "All run times together are {} ms; the longest chain of what depends on each other is {} ms. \
         Of its waits {} were ended by threads, {} by time, {} from outside.",
        number(study.work_ms),
        number(study.critical_path_ms),
        waits.waits_ended_by_threads,
        waits.waits_ended_by_time,
        waits.waits_ended_from_outside
    )
}
