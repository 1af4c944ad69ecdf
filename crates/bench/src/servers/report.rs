//! The figures as a table and as JSON.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::figures::Spread;
use crate::table::number;

/// The result of one load.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) rate: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) host_threads: f64,
    pub(super) resident_kib: f64,
    pub(super) cpu_us: f64,
    pub(super) idle_cpu_percent: Option<f64>,
}

/// One side's figures of one load.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// The server, and how many connections it has.
    load: String,
    /// Where it ran.
    side: &'static str,
    runs: usize,
    /// Requests in a second.
    rate: Spread,
    /// The rate's median divided by the native one.
    ratio: Option<f64>,
    /// Microseconds from a request until its answer.
    p50_us: Spread,
    p99_us: Spread,
    /// Threads that the host saw.
    host_threads: Spread,
    /// Resident memory for each connection.
    resident_kib: Spread,
    /// CPU time for each request, in microseconds.
    cpu_us: Spread,
    /// CPU time while all connections are idle, in percent of one CPU.
    idle_cpu_percent: Option<Spread>,
}

impl Row {
    /// `None` without samples.
    pub(super) fn of(load: &str, side: &'static str, samples: Vec<Sample>) -> Option<Row> {
        let spread = |of: fn(&Sample) -> f64| Spread::of(samples.iter().map(of).collect());
        Some(Row {
            load: load.to_owned(),
            side,
            runs: samples.len(),
            rate: spread(|s| s.rate)?,
            ratio: None,
            p50_us: spread(|s| s.p50_us)?,
            p99_us: spread(|s| s.p99_us)?,
            host_threads: spread(|s| s.host_threads)?,
            resident_kib: spread(|s| s.resident_kib)?,
            cpu_us: spread(|s| s.cpu_us)?,
            idle_cpu_percent: Spread::of(samples.iter().filter_map(|s| s.idle_cpu_percent).collect()),
        })
    }
}

/// Compares each row with the native one of its load.
pub(super) fn set_ratios(rows: &mut [Row]) {
    let native: Vec<(String, f64)> =
        rows.iter().filter(|row| row.side == "native").map(|row| (row.load.clone(), row.rate.median)).collect();
    for row in rows {
        row.ratio = native.iter().find(|(load, _)| *load == row.load).map(|(_, rate)| row.rate.median / rate);
    }
}

/// The whole table.
pub(super) fn render(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    let columns = ["p50 µs", "p99 µs", "host threads", "KiB/conn", "CPU µs/req", "idle CPU %"];
    table.set_header(["connections", "side", "requests/s", "min … max", "ratio"].into_iter().chain(columns));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        let median = |spread: &Spread| number(spread.median);
        table.add_row([
            row.load.clone(),
            row.side.to_owned(),
            median(&row.rate),
            format!("{} … {}", number(row.rate.min), number(row.rate.max)),
            row.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
            median(&row.p50_us),
            median(&row.p99_us),
            format!("{:.0}", row.host_threads.median),
            median(&row.resident_kib),
            median(&row.cpu_us),
            row.idle_cpu_percent.as_ref().map_or(String::new(), median),
        ]);
    }
    table
}
