//! `entresol sim sweep`: many seeds, all invariants on.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use super::STATUS_BROKEN;
use super::args::SweepArguments;
use super::plan::Plan;
use super::replay::Replay;
use tool::style;

/// The first failures leave files and are reported; beyond this number they are only counted.
const TOLD_MOST: usize = 10;
/// One seed in this many is run twice.
const TWICE_EVERY: u64 = 100;

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

thread_local! {
    /// The seed that this worker runs.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs all seeds; answers the exit status.
pub(super) fn sweep(request: &SweepArguments) -> anyhow::Result<i32> {
    let plan = Plan::new(&request.scenario, &request.choice)?;
    ensure!(request.failures.is_dir(), "--failures {}: expected a folder that exists", request.failures.display());
    let jobs = request.jobs.map_or_else(tool::machine::host_cpus, |n| n as usize).max(1);
    say_the_seed_of_a_panic(plan.name().to_owned());
    let started = Instant::now();
    let bar = progress_bar(request.seeds.end - request.seeds.start);
    let found = Mutex::new(Found::default());
    let next = AtomicU64::new(request.seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(&plan, &next, request.seeds.end, &found, &bar));
        }
    });
    bar.finish_and_clear();
    let mut found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    found.failures.sort_by_key(|failure| failure.0);
    tell(&found, request)?;
    summarise(&found, &plan, request, jobs, started.elapsed());
    Ok(if found.failed == 0 { 0 } else { STATUS_BROKEN })
}

/// Takes seeds until there are none.
fn work(plan: &Plan, next: &AtomicU64, end: u64, found: &Mutex<Found>, bar: &ProgressBar) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        SEED.set(Some(seed));
        let mut report = plan.run(seed, false);
        let twice = report.failure.is_none() && seed.is_multiple_of(TWICE_EVERY);
        if twice && plan.run(seed, false).hash != report.hash {
            report.fail("the second run of this seed gave another trace".to_owned());
        }
        SEED.set(None);
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

/// Makes a panic of the kernel, which ends the sweep, name its seed.
fn say_the_seed_of_a_panic(scenario: String) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Some(seed) = SEED.get() {
            style::complain(&format!("panic in seed {seed}: entresol sim run {scenario} --seed {seed}"));
        }
        before(info);
    }));
}

/// One file and one line for each failure.
fn tell(found: &Found, request: &SweepArguments) -> anyhow::Result<()> {
    for (seed, replay) in &found.failures {
        let file = request.failures.join(format!("entresol-{}-{seed}.json", replay.short_name()));
        super::write(&file, serde_json::to_string_pretty(replay).context("a replay is plain data")? + "\n")?;
        style::complain(&format!("seed {seed}: {}", replay.failure.as_deref().unwrap_or_default()));
        eprintln!("  entresol sim replay {}", file.display());
    }
    let untold = found.failed.saturating_sub(found.failures.len() as u64);
    if untold > 0 {
        style::complain(&format!("{untold} more seeds failed"));
    }
    Ok(())
}

fn summarise(found: &Found, plan: &Plan, request: &SweepArguments, jobs: usize, took: Duration) {
    let seeds = request.seeds.end - request.seeds.start;
    let rate = found.events as f64 / took.as_secs_f64().max(1e-9);
    println!(
        "{}, seeds {}..{}: {} of {seeds} failed; {} run twice with equal traces; {} events, {:.3} s of virtual time, in \
         {:.1} s on {jobs} threads ({rate:.0} events a second)",
        plan.name(),
        request.seeds.start,
        request.seeds.end,
        found.failed,
        found.repeated,
        found.events,
        found.virtual_ns as f64 / 1e9,
        took.as_secs_f64(),
    );
}

fn progress_bar(length: u64) -> ProgressBar {
    let form = ProgressStyle::with_template("{bar:30} {pos}/{len} seeds, {per_sec}, {eta} left {msg}");
    let bar = ProgressBar::new(length).with_style(form.expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
