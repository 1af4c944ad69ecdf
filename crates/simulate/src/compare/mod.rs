//! `entresol compare`: an rt-app file simulated, live under Entresol and live on the host, side by side.
//!
//! Each side runs the same scripts ([`sim::workload::rtapp::script`]) on the same number of CPUs: the simulator in
//! virtual time, the other two in a child process with real threads (`live`). The sides alternate, so that a
//! disturbance of the host affects both live sides.

mod live;
mod objects;
mod sides;
mod table;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Args;
use tool::{machine, say};

use super::plan::{What, named_cost};
use super::{STATUS_BROKEN, create};
use sides::Request;
use table::Comparison;

/// The default number of CPUs of each side, if the machine has as many.
const CPUS: usize = 2;

/// `entresol compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Wake-up: from when a sleep or timer was over until the thread ran. Response: from then until it \
    waited for the next.\n\n\
    Exit status: 0; 1 if a side failed or the simulation broke an invariant; 2 if what was asked for makes no sense.\n\n\
    Example:\n  entresol compare app.json --cpus 2 --runs 5"
)]
pub struct CompareArguments {
    /// A workload of rt-app: FILE.json
    pub file: PathBuf,
    /// CPUs of each side [default: 2, or 1 on a machine of one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ids::CPUS_MAX as i64))]
    pub cpus: Option<u32>,
    /// Runs of each side, by turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Seed of the first simulated run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The simulation's costs: a profile of the committed cost file, FILE, or FILE:PROFILE [default: host]
    #[arg(long, value_name = "COSTS")]
    pub costs: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the comparison as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Run it live, here and now, and print what is measured
    #[arg(long, hide = true)]
    pub live: bool,
}

/// Does what was asked for; returns the exit status.
pub fn compare(arguments: &CompareArguments) -> anyhow::Result<i32> {
    let path = arguments.file.to_str().context("the file's name is not UTF-8")?;
    let What::File { workload, .. } = What::find(path)? else {
        bail!("{path} is a scenario of the simulator: expected an rt-app file *.json, which can be run live as well");
    };
    let available = bench::probe::pthread::cpus().len();
    let cpus = arguments.cpus.map_or(CPUS.min(available), |n| n as usize);
    ensure!(cpus <= available, "this process may use {available} CPUs: expected --cpus {available} at most");
    workload.fits(cpus).map_err(|wrong| anyhow::anyhow!("{path}: {wrong}"))?;
    if arguments.live {
        say!("{}", serde_json::to_string(&live::run(&workload, cpus)?)?)?;
        return Ok(0);
    }
    ensure!(machine::inside().is_none(), "compare runs a side natively, so it cannot itself run inside Entresol");
    workload.notes().iter().for_each(|note| tool::style::remark(&format!("{path}: {note}")));
    if let Some(file) = &arguments.write {
        create(file)?;
    }
    let cost = arguments.costs.as_deref().map_or_else(|| Ok(sim::Cost::host()), named_cost)?;
    let request = Request { path, workload: &workload, cpus, seed: arguments.seed, cost };
    let comparison = Comparison::new(&request, sides::take_turns(&request, arguments.runs)?);
    let json = serde_json::to_string_pretty(&comparison)?;
    if let Some(file) = &arguments.write {
        super::write(file, &json)?;
    }
    if arguments.json {
        say!("{json}")?;
    } else {
        tool::output::text(&comparison.text())?;
    }
    Ok(if comparison.failures.is_empty() { 0 } else { STATUS_BROKEN })
}
