//! `entresol bench servers`: servers with a thread for each connection, beside native ones and beside runtimes.
//!
//! `peers` builds the servers, `process` starts one and measures what it consumes, `load` makes the requests, `report`
//! shows the figures. Server and load share the machine's CPUs, as they do wherever a proxy stands in front of a
//! server. The sides are measured in turn.

mod load;
mod peers;
mod process;
mod report;

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::Command;

use load::{Exchange, Load, Pace};
use peers::{Peers, Program};
use process::Server;
use report::{Row, Sample};
use tool::{machine, say};

/// Connections that are busy while others are idle.
const ACTIVE: usize = 100;
/// Connections of memcached's clients.
const CACHE_CLIENTS: usize = 50;
/// Further descriptors of the load generator and of a server.
const OTHER_FILES: usize = 64;
/// `entresol bench servers`.
#[derive(Debug, Args)]
#[command(
    after_help = "The echo server is built with cc, its peers with go and cargo, as far as these are there; memcached is \
        measured if it is installed.\n\n\
        Examples:\n  entresol bench servers\n  entresol bench servers --connections 100 --sides native,auto --runs 3"
)]
pub struct ServersArguments {
    /// Connections of the echo server's clients
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,100,1000,10000")]
    connections: Vec<usize>,
    /// Idle connections beside 100 busy ones; 0: don't measure that
    #[arg(long, value_name = "N", default_value = "15000")]
    idle: usize,
    /// Requests a second, together, of 100 connections that pause after each answer; 0: don't measure that
    #[arg(long, value_name = "N", default_value = "10000")]
    paced: u32,
    /// The runs to compare: natively, under Entresol with `run --io`, and runtimes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "native,auto,epoll,threads,go,tokio")]
    sides: Vec<Side>,
    /// How often, for medians
    #[arg(long, value_name = "N", default_value = "5")]
    runs: usize,
    /// How long each load lasts
    #[arg(long, value_name = "SECONDS", default_value = "2")]
    seconds: f64,
    /// A control group to run the servers in; the load stays outside
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// Write the figures to a file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Side {
    /// Its threads are the host's
    Native,
    /// Under `entresol run --io=auto`
    Auto,
    /// Under `entresol run --io=epoll`
    Epoll,
    /// Under `entresol run --io=threads`
    Threads,
    /// The same server in Go
    Go,
    /// The same server on tokio
    Tokio,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Native => "native",
            Side::Auto => "auto",
            Side::Epoll => "epoll",
            Side::Threads => "threads",
            Side::Go => "go",
            Side::Tokio => "tokio",
        }
    }
}

/// One load, made of every side.
struct Scenario {
    name: String,
    program: Program,
    busy: usize,
    idle: usize,
    /// How long a busy one pauses after each answer, on average; `None`: it does not.
    pause: Option<Duration>,
}

/// Measures; returns the exit status.
pub fn bench(request: &ServersArguments) -> anyhow::Result<i32> {
    ensure!(machine::inside().is_none(), "bench compares with native programs, so it cannot run inside Entresol");
    ensure!(request.runs > 0 && request.seconds > 0.0, "at least one run of some length");
    machine::check()?;
    let files = process::raise_file_limit();
    let folder = tempfile::tempdir().context("no folder for temporary files")?;
    let peers = Peers::build(folder.path(), &request.sides)?;
    let mut remarks: Vec<String> = peers.remarks().to_vec();
    let scenarios = scenarios(request, files, peers.has_cache(), &mut remarks);
    let bar = ProgressBar::new((scenarios.len() * request.runs) as u64);
    let (mut rows, mut failed) = (Vec::new(), false);
    for scenario in &scenarios {
        let sides: Vec<Side> =
            request.sides.iter().copied().filter(|&side| peers.has(scenario.program, side)).collect();
        let mut samples: Vec<Vec<Sample>> = sides.iter().map(|_| Vec::new()).collect();
        let mut complaints: Vec<Option<String>> = sides.iter().map(|_| None).collect();
        for _ in 0..request.runs {
            for (at, &side) in sides.iter().enumerate().filter(|&(at, _)| complaints[at].is_none()).collect::<Vec<_>>()
            {
                let measured = peers.command(scenario.program, side).and_then(|command| {
                    let command = match &request.cgroup {
                        Some(group) => process::in_group(&command, group),
                        None => command,
                    };
                    measure(scenario, command, Duration::from_secs_f64(request.seconds))
                });
                match measured {
                    Ok(sample) => samples[at].push(sample),
                    Err(why) => complaints[at] = Some(format!("{}, {}: {why:#}", scenario.name, side.name())),
                }
            }
            bar.inc(1);
        }
        failed |= complaints.iter().any(Option::is_some);
        remarks.extend(complaints.into_iter().flatten());
        let of_side = |(side, samples): (Side, Vec<Sample>)| Row::of(&scenario.name, side.name(), samples);
        rows.extend(sides.into_iter().zip(samples).filter_map(of_side));
    }
    bar.finish_and_clear();
    report::set_ratios(&mut rows);
    if let Some(file) = &request.json {
        let text = serde_json::to_string_pretty(&rows)?;
        std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    say!("{}", report::render(&rows))?;
    remarks.iter().try_for_each(|remark| say!("{remark}"))?;
    Ok(i32::from(failed))
}

/// All that there are descriptors for.
fn scenarios(request: &ServersArguments, files: usize, cache: bool, remarks: &mut Vec<String>) -> Vec<Scenario> {
    let echo = |busy, idle, name| Scenario { name, program: Program::Echo, busy, idle, pause: None };
    let mut all: Vec<_> = request.connections.iter().map(|&n| echo(n, 0, format!("echo {n}"))).collect();
    if request.idle > 0 {
        all.push(echo(ACTIVE, request.idle, format!("echo {ACTIVE}, {} idle", request.idle)));
    }
    if request.paced > 0 {
        let pause = Some(Duration::from_secs(ACTIVE as u64) / request.paced);
        all.push(Scenario { pause, ..echo(ACTIVE, 0, format!("echo {ACTIVE}, {} a second", request.paced)) });
    }
    all.retain(|scenario| {
        let fits = scenario.busy + scenario.idle + OTHER_FILES <= files;
        if !fits {
            remarks.push(format!("{}: a process may have {files} files open (ulimit -n) and no more", scenario.name));
        }
        fits
    });
    if cache {
        let name = format!("memcached {CACHE_CLIENTS}");
        all.push(Scenario { name, program: Program::Cache, busy: CACHE_CLIENTS, idle: 0, pause: None });
    }
    all
}

/// One server, one load.
fn measure(scenario: &Scenario, command: Command, span: Duration) -> anyhow::Result<Sample> {
    let mut server = Server::start(command, scenario.program == Program::Cache)?;
    let empty = server.consumed()?;
    let exchanges = match scenario.program {
        Program::Echo => vec![Exchange::echo()],
        Program::Cache => Exchange::cache(),
    };
    // Before the busy ones, so that they are not the server's last.
    let idle = load::connect(server.port, scenario.idle)?;
    let mut load = Load::new(load::connect(server.port, scenario.busy)?, exchanges, scenario.pause.map(Pace::new))?;
    load.run(span.min(Duration::from_millis(300)))?;
    let before = server.consumed()?;
    let outcome = load.run(span)?;
    let after = server.consumed()?;
    let idle_cpu = match scenario.idle {
        0 => None,
        _ => {
            load.finish()?;
            let before = server.consumed()?;
            std::thread::sleep(span);
            Some(100.0 * (server.consumed()?.cpu - before.cpu).as_secs_f64() / span.as_secs_f64())
        }
    };
    let connections = (scenario.busy + scenario.idle) as f64;
    drop(idle);
    server.end()?;
    Ok(Sample {
        rate: outcome.requests as f64 / outcome.took.as_secs_f64(),
        p50_us: outcome.percentile_us(50),
        p99_us: outcome.percentile_us(99),
        host_threads: after.host_threads as f64,
        resident_kib: (after.resident as f64 - empty.resident as f64) / 1024.0 / connections,
        cpu_us: (after.cpu - before.cpu).as_secs_f64() * 1e6 / outcome.requests.max(1) as f64,
        idle_cpu_percent: idle_cpu,
    })
}
