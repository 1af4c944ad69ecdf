//! `entresol bench`: measures each cost under Entresol and natively, alternating in one run.
//!
//! They alternate because machines are shared: a figure means something only next to one taken at the same time.
//! [`groups`] lists the measurements, [`child`] runs one measuring process, [`figures`] takes the medians.
//!
//! The measuring programs are in [`probe`]. The command runs itself for them, `entresol probe NAME`, so that only one
//! file needs to be installed; this crate finds it as the executable of its own process. [`demo`] shows the most
//! telling of them in half a minute.
//!
//! **May touch:** child processes, and whatever a probe measures. It links to nothing of the kernel: a probe is an ordinary
//! program.
//!
//! **Start reading at** [`groups`], then [`probe`].

pub mod args;
mod cargo_build;
pub mod child;
pub mod demo;
pub mod figures;
pub mod groups;
pub mod probe;
mod processes;
pub mod servers;
pub mod table;
mod watched;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use args::{BenchArguments, BenchTask};
use child::{Outcome, Side};
use figures::{Figure, Spread};
use groups::{GROUPS, Group, Task};
use tool::{machine, say};

pub use groups::names as group_names;

/// One figure's values so far: of the runs under Entresol and of the native ones.
#[derive(Default)]
struct Samples {
    entresol: Vec<f64>,
    native: Vec<f64>,
    stolen_ms: Vec<f64>,
    entresol_failure: Option<String>,
    native_refusal: Option<String>,
}

/// Measures what was requested; returns the exit status.
pub fn bench(request: &BenchArguments) -> anyhow::Result<i32> {
    if let Some(BenchTask::Servers(servers)) = &request.of {
        return servers::bench(servers);
    }
    ensure!(
        machine::inside().is_none(),
        "bench compares with native programs, so it cannot itself run inside Entresol"
    );
    machine::check()?;
    let wanted: Vec<&'static Group> = GROUPS
        .iter()
        .filter(|group| match &request.groups[..] {
            [] => !group.long,
            named => named.iter().any(|name| name == group.name),
        })
        .collect();
    let machine_before = HostTimes::read();
    let started = Instant::now();

    let runs = if request.quick { 3 } else { 9 };
    let figures = measure(&wanted, runs, request.quick)?;
    if let Some(file) = &request.json {
        let text = serde_json::to_string_pretty(&figures)?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    say!("{}", table::render(&figures))?;
    for complaint in figures.iter().flat_map(|figure| &figure.complaints) {
        say!("{complaint}")?;
    }
    say!("{}", describe_machine(started.elapsed(), &machine_before))?;
    // A figure that is missing on our side alone is a failure; on the native side it is a fact.
    Ok(i32::from(figures.iter().any(|figure| figure.entresol.is_none() && !figure.refused)))
}

/// Runs every task of the groups this many times on each side.
fn measure(groups: &[&'static Group], runs: usize, quick: bool) -> anyhow::Result<Vec<Figure>> {
    let workspace = tempfile::tempdir().context("no folder for temporary files")?;
    let of_group = |group: &&'static Group| group.tasks.iter().map(|task| (task, group.runs(runs))).collect::<Vec<_>>();
    let tasks: Vec<(&Task, usize)> = groups.iter().flat_map(of_group).filter(|(task, _)| task.is_possible()).collect();
    let bar = progress_bar(tasks.iter().map(|(_, runs)| *runs as u64).sum());
    let mut figures = Vec::new();
    for (task, runs) in tasks {
        let prepared = task.prepare(workspace.path(), quick)?;
        let mut samples: BTreeMap<&str, Samples> = BTreeMap::new();
        // A side that refused or failed once is not run again: it has no figure, and another try may take long.
        let mut sides = vec![Side::Entresol { cpus: None }, Side::Native];
        for _ in 0..runs {
            bar.set_message(task.about);
            let mut useful = Vec::new();
            for side in sides {
                let outcome = prepared.run(side)?;
                collect(task, side, &outcome, &mut samples)?;
                if matches!(outcome, Outcome::Figures(_)) {
                    useful.push(side);
                }
            }
            sides = useful;
            bar.inc(1);
        }
        for name in task.figures {
            figures.push(summarise(name, task.unit_of(name), samples.remove(name).unwrap_or_default()));
        }
    }
    bar.finish_and_clear();
    Ok(figures)
}

/// Sorts one process's answer into the samples.
fn collect(
    task: &'static Task,
    side: Side,
    outcome: &Outcome,
    samples: &mut BTreeMap<&'static str, Samples>,
) -> anyhow::Result<()> {
    for &name in task.figures {
        let sample = samples.entry(name).or_default();
        let (values, failure) = match side {
            Side::Entresol { .. } => (&mut sample.entresol, &mut sample.entresol_failure),
            Side::Native => (&mut sample.native, &mut sample.native_refusal),
        };
        match outcome {
            Outcome::Figures(printed) => {
                values.push(*printed.get(name).with_context(|| format!("{name}: no figure was printed"))?);
                if side != Side::Native {
                    sample.stolen_ms.extend(printed.get("stolen"));
                }
            }
            Outcome::Refused(why) | Outcome::Failed(why) => *failure = Some(why.clone()),
        }
    }
    Ok(())
}

/// A side that was refused once has no figure: what its earlier runs measured was not the same thing.
fn summarise(name: &str, unit: &str, samples: Samples) -> Figure {
    let spread = |values, failure: &Option<String>| if failure.is_some() { None } else { Spread::of(values) };
    let runs = samples.entresol.len();
    let entresol = spread(samples.entresol, &samples.entresol_failure);
    let native = spread(samples.native, &samples.native_refusal);
    let complaint = |side: &str, failure: Option<String>| failure.map(|why| format!("{name}, {side}: {why}"));
    Figure {
        name: name.to_owned(),
        unit: unit.to_owned(),
        runs,
        ratio: entresol.as_ref().zip(native.as_ref()).map(|(entresol, native)| entresol.median / native.median),
        entresol,
        native,
        stolen_ms: Spread::of(samples.stolen_ms).map(|spread| spread.median),
        refused: samples.entresol_failure.is_some() && samples.entresol_failure == samples.native_refusal,
        complaints: complaint("under Entresol", samples.entresol_failure)
            .into_iter()
            .chain(complaint("natively", samples.native_refusal))
            .collect(),
    }
}

fn progress_bar(length: u64) -> ProgressBar {
    let form = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}").expect("the template is right");
    let bar = ProgressBar::new(length).with_style(form);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Jiffies since boot, of the first line of /proc/stat.
struct HostTimes {
    all: u64,
    stolen: u64,
}

impl HostTimes {
    fn read() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let times: Vec<u64> = line.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; what follows is counted in user and nice already.
        Self { all: times.iter().take(8).sum(), stolen: times.get(7).copied().unwrap_or(0) }
    }
}

fn describe_machine(took: Duration, before: &HostTimes) -> String {
    let now = HostTimes::read();
    let all = now.all.saturating_sub(before.all).max(1);
    let stolen = 100.0 * now.stolen.saturating_sub(before.stolen) as f64 / all as f64;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{:.0} s on {} CPUs, Linux {}; the hypervisor stole {stolen:.1} % of the machine meanwhile. Host-stolen: time \
         that the host's other programs took from the carriers.",
        took.as_secs_f64(),
        machine::host_cpus(),
        release.trim()
    )
}

/// This very binary, which is also every probe.
pub fn own_path() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this command does not find its own file")
}

/// The program of that name, if there is one.
fn on_path(name: &str) -> Option<PathBuf> {
    tool::resolve::resolve(Path::new(name).as_os_str()).ok()
}
