//! `entresol sim`: the same kernel on simulated CPUs, in virtual time.
//!
//! `plan` turns the options into one consistent plan, or says why there is none, before anything runs. `once` runs it
//! once, `sweep` with many seeds, `replay` as a file says; `from_trace` runs a
//! live program's trace; `calibrate` measures the costs. Many plans at once are an
//! `experiment`, which `estimate` counts, `fleet` runs in parts and `report` sums up. The simulated machine is in crate `sim`; this crate is
//! its command line. [`compare`](mod@compare) runs a workload simulated and live, side by side.
//!
//! **May touch:** the files it is told to read or write; `calibrate` and `compare` also the host's clock, threads and child
//! processes of its own.
//!
//! **Start reading at** [`args`], then `plan`.

pub mod args;
mod blame;
mod calibrate;
pub mod compare;
mod estimate;
mod experiment;
mod fleet;
mod from_trace;
mod measure;
mod once;
mod page;
mod plan;
mod replay;
mod report;
mod show;
mod sweep;

use anyhow::Context;
use std::path::Path;

use args::{SimArguments, SimTask};
pub use fleet::shard::Shard;

/// Exit status when an invariant or a scenario's own rule was broken.
pub const STATUS_BROKEN: i32 = 1;
/// Exit status when what was asked for makes no sense.
pub const STATUS_WRONG: i32 = 2;

/// Does what was asked for; returns the exit status.
pub fn simulate(request: &SimArguments) -> i32 {
    let done = match &request.task {
        SimTask::List => show::list(),
        SimTask::Run(request) => once::run(request),
        SimTask::Plan(request) => estimate::plan(request),
        SimTask::Sweep(request) if request.is_experiment() => fleet::sweep(request),
        SimTask::Sweep(request) => sweep::sweep(request),
        SimTask::Submit(request) => fleet::submit::submit(request),
        SimTask::Report(request) => report::report(request),
        SimTask::Status(request) => fleet::status::status(request),
        SimTask::Rows(request) => fleet::status::rows(request),
        SimTask::Replay(request) => replay::replay(request),
        SimTask::Calibrate(request) => calibrate::calibrate(request),
    };
    done.unwrap_or_else(|error| {
        tool::style::complain(&format!("{error:#}"));
        STATUS_WRONG
    })
}

/// Creates a file, empty, so that one that cannot be written is known before anything runs.
fn create(file: &Path) -> anyhow::Result<()> {
    std::fs::write(file, b"").with_context(|| format!("cannot write {}", file.display()))
}

/// Writes what was asked for.
fn write(file: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    std::fs::write(file, content).with_context(|| format!("cannot write {}", file.display()))
}
