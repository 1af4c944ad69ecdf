//! `entresol lab`: historic designs beside ours, one page a subject.
//!
//! A subject is a module that takes figures and returns a `Page`; it does not know how pages look. `text` and `html`
//! show any page, `plot` draws its curves. Measurements on real CPUs come from `race`, programs on Linux and under
//! Entresol from `live`. The designs themselves are in crate `lab`, the simulated machine in crate `sim`.
//!
//! **May touch:** threads and timers of its own process, for races, and child processes. A page of figures touches nothing.
//!
//! **Start reading at** `page`, then `cputimer`, a short subject.

pub mod args;
mod cputimer;
mod fair;
mod html;
mod itimer;
mod itimer_cases;
mod itimer_hang;
mod live;
mod page;
mod plot;
mod posix_timers;
mod procfs;
mod race;
mod rt_live;
mod rt_migrate;
mod rt_scale;
mod text;

use anyhow::Context;

use args::{LabArguments, LabTask};
use tool::say;

/// Rows that documents can cite: the designs on the page of a seed (`docs/SEEDS.md`), by the words after `entresol lab`; those
/// of real-time balancing, the oldest page, by their names alone.
#[must_use]
pub fn rows() -> Vec<String> {
    let of = |subject: &'static str, rows: &'static [&str]| rows.iter().map(move |row| format!("{subject} {row}"));
    let policies = sim::Policy::of(sim::workload::Class::RealTime).map(|policy| policy.name().to_owned());
    policies
        .chain(of("cputimer", &cputimer::ROWS))
        .chain(of("itimer", &itimer_hang::NAMES))
        .chain(of("posix-timers", &posix_timers::ROWS))
        .chain(lab::procfs::Design::ALL.map(|design| format!("procfs {}", design.name())))
        .collect()
}

/// Makes the page that was asked for; returns the exit status.
pub fn laboratory(request: &LabArguments) -> anyhow::Result<i32> {
    let output = request.task.output();
    if let Some(file) = &output.html {
        // Before minutes are spent on figures that cannot be written.
        std::fs::write(file, b"").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let page = match &request.task {
        LabTask::RtMigrate(request) => rt_migrate::page(request)?,
        LabTask::Cputimer(request) => cputimer::page(request)?,
        LabTask::Itimer(request) => itimer::page(request)?,
        LabTask::PosixTimers(request) => posix_timers::page(request)?,
        LabTask::Procfs(request) => procfs::page(request),
        LabTask::Fair(request) => fair::page(request),
    };
    if let Some(file) = &output.html {
        std::fs::write(file, html::render(&page)?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if output.json {
        say!("{}", serde_json::to_string_pretty(&page)?)?;
    } else {
        tool::output::text(&text::render(&page))?;
    }
    Ok(i32::from(!page.faults.is_empty()))
}
