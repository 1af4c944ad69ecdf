//! Runs one measuring process on one side and reads what it prints.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::probe::Probe;
use crate::probe::report::Line;

/// No probe is silent for nearly as long; one that is hangs, and a bench that hangs says nothing. A machine that is emulated may
/// well take longer for all of a probe.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Under `entresol run`.
    Entresol {
        /// The number of CPUs; all of the host's if `None`.
        cpus: Option<u32>,
    },
    /// Directly.
    Native,
}

impl Side {
    /// A command that runs the program on this side.
    #[must_use]
    pub fn command(self, entresol: &Path, program: &Path) -> Command {
        let Self::Entresol { cpus } = self else { return Command::new(program) };
        let mut command = Command::new(entresol);
        // For a million timers; nothing else comes near the host's limit.
        command.args(["run", "--pending-signals=unlimited"]);
        if let Some(cpus) = cpus {
            command.args(["--cpus", &cpus.to_string()]);
        }
        command.arg("--").arg(program);
        command
    }
}

/// The outcome of a measuring process.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Figures by name.
    Figures(BTreeMap<String, f64>),
    /// The host refused what it needs, in words.
    Refused(String),
    /// It ended in another way, in words.
    Failed(String),
}

/// Runs a probe and calls `progress` for each step that it reports.
pub fn run_probe(
    side: Side,
    probe: Probe,
    parameters: &[String],
    quick: bool,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> anyhow::Result<Outcome> {
    let own = super::own_path()?;
    let mut command = side.command(&own, &own);
    command.arg("probe").arg(probe.name());
    if quick {
        command.arg("--quick");
    }
    command.args(parameters).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("a measuring process could not be started")?;
    read(child, progress)
}

/// Follows the child to its end.
fn read(mut child: Child, progress: &mut dyn FnMut(u64, u64, &str)) -> anyhow::Result<Outcome> {
    let lines = lines_of(child.stdout.take().context("standard output is a pipe")?);
    let mut errors = child.stderr.take().context("standard error is a pipe")?;
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut figures = BTreeMap::new();
    let mut refusal = None;
    let mut step = None;
    let on_time = loop {
        match lines.recv_timeout(LIMIT) {
            Ok(Line::Figure { name, value, .. }) => drop(figures.insert(name, value)),
            Ok(Line::Refused(sentence)) => refusal = Some(sentence),
            Ok(Line::Progress { done, total, what }) => {
                progress(done, total, &what);
                step = Some((done, what));
            }
            Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) => break false,
        }
    };
    if !on_time {
        child.kill().context("a measuring process that hangs could not be ended")?;
    }
    let status = child.wait()?;
    let errors = errors.join().unwrap_or_default();
    Ok(match refusal {
        _ if !on_time => Outcome::Failed(format!("no word within {} s{}", LIMIT.as_secs(), how_far(step))),
        _ if !status.success() => {
            Outcome::Failed(format!("{}{}{}", ending(status), how_far(step), last_words(&errors)))
        }
        Some(sentence) => Outcome::Refused(sentence),
        None => Outcome::Figures(figures),
    })
}

/// Sends the lines that can be parsed, from a separate thread, so that the reader can stop waiting.
fn lines_of(output: impl Read + Send + 'static) -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(line) = Line::parse(&line) {
                let _ = sender.send(line);
            }
        }
    });
    receiver
}

fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("it was ended by signal {signal}"),
        (None, code) => format!("it ended with status {}", code.unwrap_or(-1)),
    }
}

fn how_far(step: Option<(u64, String)>) -> String {
    step.map_or_else(String::new, |(done, what)| format!(" after {done} {what}"))
}

fn last_words(errors: &str) -> String {
    let lines: Vec<&str> =
        errors.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("note: ")).collect();
    match lines.last() {
        Some(line) => format!(": {}", line.trim()),
        None => String::new(),
    }
}
