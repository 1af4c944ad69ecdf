//! `entresol compare`: a workload simulated, live under Entresol and live on the host, side by side.
//!
//! Each side runs the same programs on the same number of CPUs: the threads of an rt-app file
//! ([`sim::workload::rtapp::script`]), or those of a scenario ([`sim::workload::threads`]); the simulator in virtual time, the
//! other two in a child process with real threads (`live`, `scenarios`). The sides alternate, so that a disturbance of the
//! host affects both live sides. The costs of the simulated machine are measured first: those of another machine explain
//! nothing here.

mod disturbance;
mod found;
mod live;
mod objects;
mod page;
mod reason;
mod scenarios;
mod sides;
mod subject;
mod table;
mod trials;

use std::path::PathBuf;
use std::thread;

use anyhow::{Context, ensure};
use clap::Args;
use sim::Cost;
use tool::{machine, say};

use super::plan::named_cost;
use super::{STATUS_BROKEN, calibrate, create};
use sides::{Costs, Request};
use subject::Subject;
use table::Comparison;

/// The default number of CPUs of each side, if the machine has as many.
const CPUS: usize = 2;

/// How often the costs are measured.
const MEASUREMENTS: usize = 4;

/// `entresol compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Wake-up: from when a sleep or timer was over until the thread ran. Response: from then until it \
    waited for the next.\n\
    In the queue: from when a message was put into it until it was taken out. Start: from the beginning of a round.\n\n\
    Exit status: 0; 1 if a side failed or the simulation broke an invariant; 2 if what was asked for makes no sense.\n\n\
    Examples:\n  \
        entresol compare app.json --cpus 2 --runs 5\n  \
        entresol compare schbench --threads 4 --rounds 100 --html schbench.html"
)]
pub struct CompareArguments {
    /// A workload of rt-app (FILE.json), or schbench, hackbench or rt-migrate
    #[arg(value_name = "WORKLOAD")]
    pub subject: String,
    /// CPUs of each side [default: 2, or 1 on a machine of one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ids::CPUS_MAX as i64))]
    pub cpus: Option<u32>,
    /// Runs of each side, by turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Of a scenario: how many threads; `sim list` says what they are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub threads: Option<u32>,
    /// Of a scenario: how many rounds; `sim list` says what they are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: Option<u32>,
    /// Seed of the first run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The simulation's costs: a profile of the committed cost file, FILE, or FILE:PROFILE [default: measured
    /// here, as by `sim calibrate --quick`: the least of four]
    #[arg(long, value_name = "COSTS")]
    pub costs: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the comparison as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Also write the comparison as a page to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Run it live, here and now, and print what is measured
    #[arg(long, hide = true)]
    pub live: bool,
}

/// Does what was asked for; returns the exit status.
pub fn compare(arguments: &CompareArguments) -> anyhow::Result<i32> {
    let subject = Subject::find(&arguments.subject, arguments.threads, arguments.rounds)?;
    let available = bench::probe::pthread::cpus().len();
    let cpus = arguments.cpus.map_or(CPUS.min(available), |n| n as usize);
    ensure!(cpus <= available, "this process may use {available} CPUs: expected --cpus {available} at most");
    subject.fits(cpus)?;
    if arguments.live {
        say!("{}", serde_json::to_string(&subject.run_live(arguments.seed, cpus)?)?)?;
        return Ok(0);
    }
    ensure!(machine::inside().is_none(), "compare runs a side natively, so it cannot itself run inside Entresol");
    subject.notes().iter().for_each(|note| tool::style::remark(&format!("{}: {note}", subject.name())));
    let (write, html) = (arguments.write.as_deref(), arguments.html.as_deref());
    ensure!(write.is_none() || write != html, "--write and --html name the same file");
    [write, html].into_iter().flatten().try_for_each(create)?;
    let costs = costs(arguments.costs.as_deref())?;
    let request = Request { subject: &subject, cpus, seed: arguments.seed, costs };
    let comparison = Comparison::new(&request, sides::take_turns(&request, arguments.runs));
    let json = serde_json::to_string_pretty(&comparison)?;
    if let Some(file) = write {
        super::write(file, &json)?;
    }
    if let Some(file) = html {
        super::write(file, page::render(&comparison))?;
    }
    if arguments.json {
        say!("{json}")?;
    } else {
        tool::output::text(&comparison.text())?;
    }
    Ok(if comparison.failures.is_empty() { 0 } else { STATUS_BROKEN })
}

/// The named costs, or this machine's.
fn costs(named: Option<&str>) -> anyhow::Result<Costs> {
    let cost = match named {
        Some(name) => named_cost(name)?,
        None => measured()?,
    };
    Ok(Costs { cost, named: named.map(str::to_owned) })
}

/// This machine's costs. Others can only make a measurement longer, so the least of several is taken.
fn measured() -> anyhow::Result<Cost> {
    // On a thread of its own: measuring pins the thread, and children would inherit that.
    let once = || thread::spawn(|| calibrate::measured(true, &mut Vec::new())).join();
    let mut least: Option<Cost> = None;
    for _ in 0..MEASUREMENTS {
        let cost = once().map_err(|_| anyhow::anyhow!("the thread that measures this machine panicked"))??;
        least = Some(least.map_or_else(|| cost.clone(), |least| least.least(&cost)));
    }
    least.context("no measurement was asked for")
}
