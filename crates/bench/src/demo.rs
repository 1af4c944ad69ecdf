//! `entresol demo`: half a minute that shows the uses of Entresol, each figure beside the same program run natively.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::ensure;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::DemoArguments;
use crate::child::{Outcome, Side, run_probe};
use crate::probe::Probe;
use crate::table::number;
use tool::{machine, say, style};

/// One program that is run on both sides.
struct Act {
    probe: Probe,
    about: &'static str,
    /// The figures it prints: name, description, unit.
    figures: &'static [(&'static str, &'static str, &'static str)],
}

const ACTS: &[Act] = &[
    Act {
        probe: Probe::Talk,
        about: "100,000 threads of Rust's standard library talk to each other",
        figures: &[
            ("talk_create", "100,000 threads: create, each", "µs"),
            ("talk_resident", "  resident memory, each", "KiB"),
            ("talk_message", "  all hear from all others, a message", "ns"),
            ("talk_join", "  join, each", "µs"),
        ],
    },
    Act {
        probe: Probe::RtWakeup,
        about: "a real-time thread is woken while every CPU spins",
        figures: &[
            ("rt_wakeup_p50", "real-time wake-up, every CPU spinning: median", "µs"),
            ("rt_wakeup_p99", "  99 of 100 within", "µs"),
            ("rt_wakeup_max", "  worst", "µs"),
        ],
    },
    Act {
        probe: Probe::Futex,
        about: "two threads on one CPU wake each other by a futex",
        figures: &[("futex_handover_same_cpu", "hand-over by futex, one CPU", "ns")],
    },
    Act {
        probe: Probe::Condvar,
        about: "two threads wake each other by a condition variable",
        figures: &[("condvar_handover", "  by mutex and condition variable", "ns")],
    },
    Act {
        probe: Probe::Yield,
        about: "two threads on one CPU yield to each other",
        figures: &[("yield_same_cpu", "  by sched_yield, one CPU", "ns")],
    },
    Act {
        probe: Probe::Create,
        about: "threads are created and joined",
        figures: &[("create_join", "pthread_create and pthread_join", "µs")],
    },
];

/// Runs every act on both sides and prints the table; returns the exit status.
pub fn demo(request: &DemoArguments) -> anyhow::Result<i32> {
    ensure!(
        machine::inside().is_none(),
        "the demo compares with native programs, so it cannot itself run inside Entresol"
    );
    machine::check()?;
    let started = Instant::now();
    let cpus = request.cpus.map_or_else(|| machine::default_cpus().0, |cpus| cpus as usize);
    let stage = Stage::new();
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "unit", &format!("Entresol, {cpus} {}", if cpus == 1 { "CPU" } else { "CPUs" }), "native"]);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut remarks = Vec::new();
    let mut failed = false;
    for act in ACTS {
        let ours = stage.play(act, Side::Entresol { cpus: request.cpus }, "Entresol")?;
        let native = stage.play(act, Side::Native, "native")?;
        for &(name, words, unit) in act.figures {
            table.add_row([words, unit, &cell(&ours, name, "failed"), &cell(&native, name, "refused")]);
        }
        if let Outcome::Figures(values) = &ours {
            remarks.extend(stolen(act, values));
        }
        failed |= !matches!(ours, Outcome::Figures(_));
        remarks.extend(complaint(act, &ours, "under Entresol"));
        remarks.extend(complaint(act, &native, "natively"));
    }
    stage.clear();
    say!("{table}")?;
    for remark in remarks {
        say!("{remark}")?;
    }
    say!(
        "{:.0} s. The same programs on both sides, by turns; `entresol bench` measures more.",
        started.elapsed().as_secs_f64()
    )?;
    if failed {
        style::complain("a program did not do under Entresol what it should: see above");
    }
    Ok(i32::from(failed))
}

fn cell(outcome: &Outcome, name: &str, otherwise: &str) -> String {
    match outcome {
        Outcome::Figures(values) => values.get(name).map_or_else(|| otherwise.to_owned(), |&value| number(value)),
        Outcome::Refused(_) | Outcome::Failed(_) => otherwise.to_owned(),
    }
}

/// The time that the host took while latencies were measured, to be shown next to them: they hold within the process
/// only.
fn stolen(act: &Act, values: &BTreeMap<String, f64>) -> Option<String> {
    let stolen = values.get("stolen").filter(|_| act.probe == Probe::RtWakeup)?;
    Some(format!("While {}, the host's other programs took {stolen:.1} ms from the carriers.", act.about))
}

fn complaint(act: &Act, outcome: &Outcome, side: &str) -> Option<String> {
    match outcome {
        Outcome::Figures(_) => None,
        Outcome::Refused(why) | Outcome::Failed(why) => Some(format!("{}, {side}: {why}", capitalised(act.about))),
    }
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Where progress is shown: a bar on a terminal, a line an act elsewhere.
struct Stage {
    bar: ProgressBar,
    terminal: bool,
}

impl Stage {
    fn new() -> Self {
        let bar = ProgressBar::new(1);
        let form = ProgressStyle::with_template("{spinner} {prefix:8} {msg} {wide_bar} {pos}/{len}");
        bar.set_style(form.expect("the template is right"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, terminal: std::io::stderr().is_terminal() }
    }

    fn play(&self, act: &Act, side: Side, name: &'static str) -> anyhow::Result<Outcome> {
        if !self.terminal {
            style::detail(&format!("{name}: {}\n", act.about));
        }
        self.bar.set_prefix(name);
        self.bar.set_message(act.about);
        self.bar.set_length(1);
        self.bar.set_position(0);
        run_probe(side, act.probe, &[], true, &mut |done, total, what| {
            self.bar.set_length(total);
            self.bar.set_position(done);
            self.bar.set_message(what.to_owned());
        })
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
