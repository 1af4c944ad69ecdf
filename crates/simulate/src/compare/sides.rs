//! The runs of each side.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::child;
use serde::{Deserialize, Serialize};
use sim::report::Samples;
use sim::workload::rtapp::Workload;
use sim::workload::rtapp::script::Measured;
use sim::{Cost, Options};

/// How much longer than its duration a live run may take; one without a duration has this long in all.
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
    pub path: &'a str,
    pub workload: &'a Workload,
    pub cpus: usize,
    pub seed: u64,
    pub cost: Cost,
}

/// Measurements of a thread in one run, or in several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Observed {
    pub loops: u64,
    pub missed: u64,
    /// The number of the error with which a change of policy or CPUs was refused.
    pub refused: Option<i32>,
    /// The number of the error with which a fork was refused.
    pub no_thread: Option<i32>,
    /// In nanoseconds, as the next.
    pub wakeup: Samples,
    pub response: Samples,
}

impl From<&Measured> for Observed {
    fn from(measured: &Measured) -> Observed {
        Observed {
            loops: measured.loops,
            missed: measured.missed,
            refused: measured.refused.map(|negative| -negative as i32),
            no_thread: measured.no_thread.map(|negative| -negative as i32),
            wakeup: measured.wakeup.clone(),
            response: measured.response.clone(),
        }
    }
}

impl Observed {
    pub fn add(&mut self, other: &Observed) {
        self.loops += other.loops;
        self.missed += other.missed;
        self.refused = self.refused.or(other.refused);
        self.no_thread = self.no_thread.or(other.no_thread);
        self.wakeup.add_all(&other.wakeup);
        self.response.add_all(&other.response);
    }
}

/// All runs of a side.
pub(super) struct Runs {
    pub side: Side,
    /// By thread; all runs together.
    pub threads: Vec<Observed>,
    /// Why a run failed.
    pub failure: Option<String>,
    /// CPU time that the host's hypervisor gave to others during the runs.
    pub stolen: Duration,
}

/// Runs each side `runs` times, alternating between them.
pub(super) fn take_turns(request: &Request<'_>, runs: u32) -> anyhow::Result<Vec<Runs>> {
    let none = vec![Observed::default(); request.workload.rows().len()];
    let begin = |side| Runs { side, threads: none.clone(), failure: None, stolen: Duration::ZERO };
    let mut all: Vec<Runs> = Side::ALL.map(begin).into();
    for round in 0..runs {
        for runs in &mut all {
            let before = stolen();
            let outcome = match runs.side {
                Side::Simulated => simulated(request, u64::from(round)),
                side => live(request, side),
            };
            runs.stolen += stolen().saturating_sub(before);
            match outcome {
                Ok(observed) => runs.threads.iter_mut().zip(&observed).for_each(|(sum, one)| sum.add(one)),
                Err(why) => drop(runs.failure.get_or_insert(format!("{why:#}"))),
            }
        }
    }
    Ok(all)
}

fn simulated(request: &Request<'_>, round: u64) -> anyhow::Result<Vec<Observed>> {
    let options = Options { cost: request.cost.clone(), ..Options::default() };
    let seed = request.seed.wrapping_add(round);
    let (report, measured) = request.workload.measure(request.path, seed, request.cpus, &options);
    match report.failure {
        Some(why) => bail!("seed {seed}: {why}"),
        None => Ok(measured.iter().map(Observed::from).collect()),
    }
}

fn live(request: &Request<'_>, side: Side) -> anyhow::Result<Vec<Observed>> {
    let own = bench::own_path()?;
    let cpus = request.cpus.to_string();
    let mut command = match side {
        Side::Entresol => child::Side::Entresol { cpus: Some(request.cpus as u32) }.command(&own, &own),
        _ => child::Side::Native.command(&own, &own),
    };
    command.args(["compare", "--live", "--cpus", &cpus, request.path]);
    let duration = request.workload.duration().map_or(Duration::ZERO, |span| Duration::from_nanos(span.0));
    let output = output_within(command, duration + LIMIT)?;
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

/// The steal time of all CPUs since the machine was started (`/proc/stat`, `proc_stat(5)`); nothing where it cannot be read.
fn stolen() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    // USER_HZ is 100 on x86-64.
    Duration::from_millis(ticks.unwrap_or(0) * 10)
}
