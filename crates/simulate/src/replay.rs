//! `entresol sim replay`: what a sweep found, again, bit for bit.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use sim::{Bug, Cost, Hardware, Options, Plant, Report};

use super::args::ReplayArguments;
use super::once::{Files, judge};
use super::plan::{self, Plan, What};
use super::{from_trace, show};
use tool::{say, style};

/// The form of the file.
const FORM: u32 = 1;

/// Everything that a run depends on, and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replay {
    /// [`FORM`].
    entresol_replay: u32,
    /// The version of the command that wrote it.
    version: String,
    scenario: String,
    /// The text of an rt-app file; `scenario` is its name then.
    workload: Option<String>,
    seed: u64,
    cpus: usize,
    /// The machine, unless it is flat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<Hardware>,
    threads: Option<usize>,
    rounds: Option<u32>,
    length: u64,
    policy: String,
    plant: Option<String>,
    costs: Cost,
    /// The trace that the run had.
    hash: String,
    pub failure: Option<String>,
}

impl Replay {
    /// How this run is repeated.
    pub fn new(plan: &Plan, report: &Report) -> Replay {
        let options = &plan.options;
        Replay {
            entresol_replay: FORM,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: plan.name().to_owned(),
            workload: match &plan.what {
                What::Named(_) => None,
                What::File { text, .. } => Some(text.clone()),
            },
            seed: report.seed,
            cpus: plan.cpus,
            machine: options.hardware.clone(),
            threads: options.threads,
            rounds: options.rounds,
            length: options.length,
            policy: options.policy.name().to_owned(),
            plant: options.plant.map(|plant| plant.bug.name().to_owned()),
            costs: options.cost.clone(),
            hash: report.hash.clone(),
            failure: report.failure.clone(),
        }
    }

    /// For the name of a file.
    pub fn short_name(&self) -> &str {
        Path::new(&self.scenario).file_stem().and_then(|stem| stem.to_str()).unwrap_or("run")
    }

    fn read(file: &Path) -> anyhow::Result<Replay> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        // The message has line, column and what was expected.
        let replay: Replay = serde_json::from_str(&text)
            .with_context(|| format!("{}: not a file of `entresol sim sweep`", file.display()))?;
        ensure!(
            replay.entresol_replay == FORM,
            "{}: form {} of the file, expected {FORM}",
            file.display(),
            replay.entresol_replay
        );
        ensure!(
            (1..=ids::CPUS_MAX).contains(&replay.cpus),
            "{}: {} CPUs, expected 1 to {}",
            file.display(),
            replay.cpus,
            ids::CPUS_MAX
        );
        if let Some(machine) = &replay.machine {
            let fault = machine.fault().or_else(|| {
                let cpus = machine.cpus();
                (cpus != replay.cpus).then(|| format!("the machine has {cpus} CPUs: expected {}", replay.cpus))
            });
            ensure!(fault.is_none(), "{}: machine: {}", file.display(), fault.unwrap_or_default());
        }
        Ok(replay)
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let plant = self.plant.as_deref().map(|name| {
            let bug = Bug::ALL.into_iter().find(|bug| bug.name() == name);
            bug.map(|bug| Plant { bug, after: 0 }).with_context(|| format!("there is no bug '{name}'"))
        });
        let options = Options {
            cost: self.costs.clone(),
            hardware: self.machine.clone(),
            threads: self.threads,
            rounds: self.rounds,
            length: self.length,
            policy: plan::policy(Some(&self.policy))?,
            plant: plant.transpose()?,
            ..Options::default()
        };
        let what = match &self.workload {
            Some(text) => What::file(&self.scenario, text.clone())?,
            None => What::find(&self.scenario)?,
        };
        Plan { what, cpus: self.cpus, options }.fit()
    }
}

/// Runs it again and returns the exit status: 1 if it fails again.
pub(super) fn replay(request: &ReplayArguments) -> anyhow::Result<i32> {
    if let Some(trace) = &request.from_trace {
        return from_trace::replay(request, trace);
    }
    let file = request.file.as_ref().context("expected a file that `entresol sim sweep` left")?;
    let replay = Replay::read(file)?;
    let plan = replay.plan().with_context(|| file.display().to_string())?;
    let files = Files::new(request.trace.as_deref(), request.html.as_deref())?;
    let report = plan.run(replay.seed, files.wanted());
    files.write(&report)?;
    tool::output::text(&show::report(&report))?;
    if report.hash == replay.hash {
        say!("the same trace as in {}", file.display())?;
    } else {
        let (then, now) = (&replay.version, env!("CARGO_PKG_VERSION"));
        style::remark(&format!(
            "another trace than the file's ({}): it was written by version {then}, this is {now}, or its sources differ",
            replay.hash
        ));
    }
    Ok(judge(&report))
}
