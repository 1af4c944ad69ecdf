//! The runs of each side.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::child;
use sim::Cost;

use super::disturbance::{Disturbance, Watch};
use super::found::Found;
use super::subject::Subject;

/// How much longer than three times its duration a live run may take: the host may have other things to do.
const LIMIT: Duration = Duration::from_secs(60);

/// A side of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Simulated,
    Entresol,
    Native,
}

impl Side {
    pub const ALL: [Side; 3] = [Side::Simulated, Side::Entresol, Side::Native];

    pub const fn name(self) -> &'static str {
        match self {
            Side::Simulated => "simulated",
            Side::Entresol => "Entresol",
            Side::Native => "native",
        }
    }
}

/// The comparison that was asked for.
pub(super) struct Request<'a> {
    pub subject: &'a Subject,
    pub cpus: usize,
    pub seed: u64,
    pub costs: Costs,
}

/// The simulation's costs.
pub(super) struct Costs {
    pub cost: Cost,
    /// How `--costs` named them; `None`: they were measured here.
    pub named: Option<String>,
}

/// All runs of a side.
pub(super) struct Runs {
    pub side: Side,
    /// All runs together.
    pub found: Found,
    /// Each run by itself.
    pub each: Vec<Found>,
    /// Why a run failed.
    pub failure: Option<String>,
    pub disturbance: Disturbance,
}

impl Runs {
    pub fn none(side: Side) -> Runs {
        Runs { side, found: Found::default(), each: Vec::new(), failure: None, disturbance: Disturbance::default() }
    }
}

/// Runs each side `runs` times, alternating between them.
pub(super) fn take_turns(request: &Request<'_>, runs: u32) -> [Runs; 3] {
    let mut all = Side::ALL.map(Runs::none);
    let mut span = request.subject.duration().unwrap_or_default();
    for round in 0..runs {
        let seed = request.seed.wrapping_add(u64::from(round));
        for runs in &mut all {
            let watch = Watch::begin();
            let outcome = match runs.side {
                Side::Simulated => {
                    let simulated = request.subject.simulate(seed, request.cpus, &request.costs.cost);
                    simulated.map(|(found, time)| {
                        span = span.max(time);
                        found
                    })
                }
                side => live(request, side, seed, span),
            };
            runs.disturbance += watch.end();
            match outcome {
                Ok(found) => {
                    runs.found.add(found.clone());
                    runs.each.push(found);
                }
                Err(why) => drop(runs.failure.get_or_insert(format!("{why:#}"))),
            }
        }
    }
    all
}

/// Runs it live in a child process; `span` is about how long that takes.
fn live(request: &Request<'_>, side: Side, seed: u64, span: Duration) -> anyhow::Result<Found> {
    let own = bench::own_path()?;
    let mut command = match side {
        Side::Entresol => child::Side::Entresol { cpus: Some(request.cpus as u32) }.command(&own, &own),
        _ => child::Side::Native.command(&own, &own),
    };
    command.args(["compare", "--live", "--cpus", &request.cpus.to_string(), "--seed", &seed.to_string()]);
    command.args(request.subject.arguments());
    let output = output_within(command, 3 * span + LIMIT)?;
    serde_json::from_str(&output).context("the live run has printed something else")
}

/// The output of a command, which must succeed within the limit.
fn output_within(mut command: Command, limit: Duration) -> anyhow::Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("the live run cannot be started")?;
    let (mut output, mut errors) = (
        child.stdout.take().context("standard output is a pipe")?,
        child.stderr.take().context("standard error is a pipe")?,
    );
    let text = |stream: &mut dyn Read| {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let output = thread::spawn(move || text(&mut output));
    let errors = thread::spawn(move || text(&mut errors));
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                child.kill().context("a live run that hangs cannot be ended")?;
                child.wait()?;
                bail!("the live run was not over after {} s", limit.as_secs());
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    if !status.success() {
        bail!("the live run ended with {status}: {}", errors.trim());
    }
    Ok(output)
}
