//! `entresol sim run`: one run, its report, its pictures.

use std::path::Path;

use anyhow::ensure;
use sim::{Report, export};

use super::args::RunArguments;
use super::plan::Plan;
use super::{STATUS_BROKEN, show};
use tool::say;

/// Runs it; returns the exit status.
pub(super) fn run(request: &RunArguments) -> anyhow::Result<i32> {
    let mut plan = Plan::new(&request.scenario, &request.choice)?;
    ensure!(
        !request.no_check || request.choice.plant.is_none(),
        "--plant contradicts --no-check: nobody would look for the bug"
    );
    plan.options.check = !request.no_check;
    let files = Files::new(request.trace.as_deref(), request.html.as_deref())?;
    plan.what.notes().iter().for_each(|note| tool::style::remark(&format!("{}: {note}", request.scenario)));
    let report = plan.run(request.seed, files.wanted());
    files.write(&report)?;
    if request.json {
        say!("{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        tool::output::text(&show::report(&report))?;
    }
    Ok(judge(&report))
}

/// Reports broken rules, if any, and returns the exit status.
pub(super) fn judge(report: &Report) -> i32 {
    let Some(failure) = &report.failure else { return 0 };
    tool::style::complain(&format!("{}, seed {}: {failure}", report.scenario, report.seed));
    if let Some(violation) = &report.violation {
        tool::style::detail(&show::scene(violation));
    }
    STATUS_BROKEN
}

/// Where pictures of a run go.
pub(super) struct Files<'a> {
    trace: Option<&'a Path>,
    html: Option<&'a Path>,
}

impl<'a> Files<'a> {
    /// Checks that both files can be written and differ.
    pub fn new(trace: Option<&'a Path>, html: Option<&'a Path>) -> anyhow::Result<Files<'a>> {
        ensure!(trace.is_none() || trace != html, "--trace and --html name the same file");
        [trace, html].into_iter().flatten().try_for_each(super::create)?;
        Ok(Files { trace, html })
    }

    /// Whether the run must be recorded.
    pub fn wanted(&self) -> bool {
        self.trace.is_some() || self.html.is_some()
    }

    /// Writes them.
    pub fn write(&self, report: &Report) -> anyhow::Result<()> {
        if let Some(file) = self.trace {
            super::write(file, export::perfetto(&report.records))?;
        }
        if let Some(file) = self.html {
            let title = format!("{}, {} CPUs, seed {}", report.scenario, report.cpus, report.seed);
            super::write(file, export::html(&report.records, report.cpus, &title))?;
        }
        Ok(())
    }
}
