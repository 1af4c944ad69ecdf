//! Reports for a terminal.

use std::fmt::Write;

use comfy_table::presets::{NOTHING, UTF8_HORIZONTAL_ONLY};
use comfy_table::{CellAlignment, Table};
use sim::workload::Class;
use sim::{Cost, Hardware, Report, Violation};

use bench::table::number;
use tool::say;

/// Lists the workloads; returns the exit status.
pub(super) fn list() -> anyhow::Result<i32> {
    for s in sim::scenarios() {
        say!("{}\n    {}.", s.name, s.about.trim_end_matches('.'))?;
        let drawn = "--machine; the seed draws the costs, and the CPUs without it";
        let machine = if s.machine { "--cpus, --machine, --costs, --scale" } else { drawn };
        say!("    Options of the machine: {machine}.")?;
        let takes = [("--threads", s.threads), ("--rounds", s.rounds)];
        for (option, default) in takes.iter().filter_map(|(option, default)| default.map(|d| (option, d))) {
            say!("    {option} [default: {default}]")?;
        }
    }
    let policies = |class| sim::Policy::of(class).skip(1).map(sim::Policy::name).collect::<Vec<_>>().join(", ");
    say!("\nPolicies (--policy): {}, for all;", sim::Policy::Entresol.name())?;
    say!("    {}, for rt-migrate and rt-storm;", policies(Class::RealTime))?;
    say!("    {}, for schbench, hackbench and rt-app files without real-time threads.", policies(Class::Fair))?;
    say!("Cost profiles (--costs): {}. Every scenario takes --seed.", Cost::profiles().join(", "))?;
    say!("\nMachines (--machine): flat, SOCKETSxCORES or SOCKETSxCORESxSIBLINGS (like 2x8, 1x4x2), or")?;
    for (name, hardware) in Hardware::profiles() {
        say!("    {name}: {} CPUs: {}", hardware.cpus(), hardware.about)?;
    }
    Ok(0)
}

/// The report as text.
pub(super) fn report(report: &Report) -> String {
    let mut text = format!(
        "{}: {} CPUs, seed {}: {} events, {:.3} ms of virtual time, trace {}\n",
        report.scenario,
        report.cpus,
        report.seed,
        report.events,
        report.time_ns as f64 / 1e6,
        report.hash
    );
    let mut values = Table::new();
    values.load_style(NOTHING);
    for value in &report.values {
        let shown = if value.unit.is_empty() { format!("{:.0}", value.value) } else { number(value.value) };
        values.add_row([value.name.clone(), shown, value.unit.to_owned()]);
    }
    if let Some(column) = values.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{values}");
    for table in &report.tables {
        let mut shown = Table::new();
        shown.load_style(UTF8_HORIZONTAL_ONLY);
        shown.set_header(&table.columns);
        for row in &table.rows {
            shown.add_row(row);
        }
        for column in shown.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(text, "\n{}\n{shown}", table.title);
    }
    text
}

/// The state of all CPUs when an invariant broke, and the events before.
pub(super) fn scene(violation: &Violation) -> String {
    let mut text = String::new();
    if !violation.scene.is_empty() {
        let _ = writeln!(text, "who is where:\n{}", violation.scene);
    }
    let _ = writeln!(text, "what happened last:");
    for r in &violation.tail {
        let _ = writeln!(text, "  {:?} {:?} {:?} {}", r.at, r.cpu, r.what, r.who);
    }
    text
}
