//! Writes what was found for other programs: a JUnit report, which CI systems show, or JSON.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use super::args::ChaosArguments;
use super::attempt::Outcome;
use super::races::{Found, Seen};
use super::recording::write_end;
use super::report;

/// The files that were asked for.
#[derive(Debug)]
pub struct Results<'a> {
    request: &'a ChaosArguments,
    /// The program and its arguments.
    command: String,
    began: Instant,
}

/// A failing run: its seed and what it did.
pub type Failure<'a> = (u64, &'a Outcome);

impl<'a> Results<'a> {
    /// Before anything runs: whether the files can be written is known then.
    pub fn begin(request: &'a ChaosArguments, command: &[OsString]) -> anyhow::Result<Self> {
        for file in [&request.junit, &request.json].into_iter().flatten() {
            write(file, "")?;
        }
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        Ok(Results { request, command: words.join(" "), began: Instant::now() })
    }

    /// Writes the files after `runs` runs with `schedules` different schedules.
    pub fn write(
        &self,
        runs: u64,
        schedules: usize,
        failure: Option<Failure<'_>>,
        races: &[Found],
    ) -> anyhow::Result<()> {
        if let Some(file) = &self.request.junit {
            write(file, self.junit(runs, schedules, failure, races)?)?;
        }
        if let Some(file) = &self.request.json {
            write(file, format!("{:#}\n", self.json(runs, schedules, failure, races)))?;
        }
        Ok(())
    }

    /// One test case, with the command's name.
    fn junit(
        &self,
        runs: u64,
        schedules: usize,
        failure: Option<Failure<'_>>,
        races: &[Found],
    ) -> anyhow::Result<String> {
        let status = match failure {
            None if !races.is_empty() => raced(races),
            None => TestCaseStatus::success(),
            Some((seed, outcome)) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                let all = outcome.races.iter().flat_map(Seen::lines);
                let threads = report::threads(outcome).into_iter().chain(all).collect::<Vec<_>>().join("\n");
                status.set_type(write_end(&outcome.end)).set_message(report::name(&outcome.end));
                status.set_description(format!("seed {seed}, {} switches\n{threads}", outcome.switches.len()));
                status
            }
        };
        let mut case = TestCase::new(self.command.as_str(), status);
        case.set_classname("entresol.chaos").set_time(self.began.elapsed());
        if let Some((_, outcome)) = failure {
            case.set_system_out(String::from_utf8_lossy(&outcome.output));
        }
        let mut suite = TestSuite::new("entresol chaos");
        for (name, count) in [("runs", runs), ("schedules", schedules as u64)] {
            suite.add_property((name, count.to_string().as_str()));
        }
        suite.add_test_case(case);
        let mut report = Report::new("entresol chaos");
        report.add_test_suite(suite);
        report.to_string().context("no JUnit report can be made")
    }

    fn json(&self, runs: u64, schedules: usize, failure: Option<Failure<'_>>, races: &[Found]) -> serde_json::Value {
        json!({
            "command": self.command,
            "failed": failure.is_some() || !races.is_empty(),
            "races": races.iter().map(Found::json).collect::<Vec<_>>(),
            "runs": runs,
            "schedules": schedules,
            "seconds": self.began.elapsed().as_secs_f64(),
            "shard": self.request.shard.map(|shard| shard.to_string()),
            "failure": failure.map(|(seed, outcome)| json!({
                "end": write_end(&outcome.end),
                "says": report::name(&outcome.end),
                "seed": seed,
                "switches": outcome.switches.len(),
                "threads": report::threads(outcome),
                "output": String::from_utf8_lossy(&outcome.output),
            })),
        })
    }
}

/// The test case if no run failed, but these races were found.
fn raced(races: &[Found]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    let lines = races.iter().flat_map(|found| [vec![format!("seed {}", found.seed)], found.seen.lines()].concat());
    status.set_type("race").set_message(format!("{} data races", races.len()));
    status.set_description(lines.collect::<Vec<_>>().join("\n"));
    status
}

/// Writes a file, or says which it was.
pub fn write(file: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(file, content).with_context(|| format!("cannot write {}", file.display()))
}
