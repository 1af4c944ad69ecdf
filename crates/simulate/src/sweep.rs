//! `entresol sim sweep`: many seeds, all invariants on.

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::SweepArguments;
use super::plan::Plan;
use super::replay::Replay;
use super::{STATUS_BROKEN, blame};
use tool::{say, style};

/// The first failures leave files and are reported; beyond this number they are only counted.
pub(super) const TOLD_MOST: usize = 10;
/// One seed in this many is run twice.
pub(super) const TWICE_EVERY: u64 = 100;

/// The workers' findings.
#[derive(Default)]
struct Found {
    events: u64,
    virtual_ns: u64,
    /// Seeds that were run twice and gave the same trace.
    repeated: u64,
    failed: u64,
    failures: Vec<(u64, Replay)>,
}

/// Runs all seeds; returns the exit status.
pub(super) fn sweep(request: &SweepArguments) -> anyhow::Result<i32> {
    request.refuse_those_of_experiments()?;
    let seeds = request.seeds.clone().context("--seeds is missing: expected --seeds A..B, like 0..300")?;
    let plan = Plan::new(&request.scenario, &request.choice)?;
    let failures = request.failures.as_deref().unwrap_or(Path::new("."));
    ensure!(failures.is_dir(), "--failures {}: expected a folder that exists", failures.display());
    let jobs = request.jobs.map_or_else(tool::machine::host_cpus, |n| n as usize).max(1);
    let started = Instant::now();
    let bar = progress_bar(seeds.end - seeds.start);
    let found = Mutex::new(Found::default());
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(&plan, &next, seeds.end, &found, &bar));
        }
    });
    bar.finish_and_clear();
    let mut found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    found.failures.sort_by_key(|failure| failure.0);
    tell(&found, failures)?;
    summarise(&found, &plan, &seeds, jobs, started.elapsed())?;
    Ok(if found.failed == 0 { 0 } else { STATUS_BROKEN })
}

/// Takes seeds until there are none.
fn work(plan: &Plan, next: &AtomicU64, end: u64, found: &Mutex<Found>, bar: &ProgressBar) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let command = format!("entresol sim run {} --seed {seed}", plan.name());
        let mut report = blame::during(seed, command, || plan.run(seed, false));
        let twice = report.failure.is_none() && seed.is_multiple_of(TWICE_EVERY);
        if twice && plan.run(seed, false).hash != report.hash {
            report.fail("the second run of this seed gave another trace".to_owned());
        }
        let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        found.events += report.events;
        found.virtual_ns += report.time_ns;
        found.repeated += u64::from(twice && report.failure.is_none());
        if report.failure.is_some() {
            found.failed += 1;
            bar.set_message(format!("{} failed", found.failed));
            if found.failures.len() < TOLD_MOST {
                found.failures.push((seed, Replay::new(plan, &report)));
            }
        }
        bar.inc(1);
    }
}

/// One file and one line for each failure.
fn tell(found: &Found, folder: &Path) -> anyhow::Result<()> {
    for (seed, replay) in &found.failures {
        let file = folder.join(format!("entresol-{}-{seed}.json", replay.short_name()));
        super::write(&file, serde_json::to_string_pretty(replay).context("a replay is plain data")? + "\n")?;
        style::complain(&format!("seed {seed}: {}", replay.failure.as_deref().unwrap_or_default()));
        style::remark(&format!("entresol sim replay {}", file.display()));
    }
    let untold = found.failed.saturating_sub(found.failures.len() as u64);
    if untold > 0 {
        style::complain(&format!("{untold} more seeds failed"));
    }
    Ok(())
}

fn summarise(found: &Found, plan: &Plan, seeds: &Range<u64>, jobs: usize, took: Duration) -> std::io::Result<()> {
    let count = seeds.end - seeds.start;
    let rate = found.events as f64 / took.as_secs_f64().max(1e-9);
    say!(
        "{}, seeds {}..{}: {} of {count} failed; {} run twice with equal traces; {} events, {:.3} s of virtual time, in \
         {:.1} s on {jobs} threads ({rate:.0} events a second)",
        plan.name(),
        seeds.start,
        seeds.end,
        found.failed,
        found.repeated,
        found.events,
        found.virtual_ns as f64 / 1e9,
        took.as_secs_f64(),
    )
}

pub(super) fn progress_bar(length: u64) -> ProgressBar {
    let form = ProgressStyle::with_template("{bar:30} {pos}/{len}, {per_sec}, {eta} left {msg}");
    let bar = ProgressBar::new(length).with_style(form.expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
