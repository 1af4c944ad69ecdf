//! `entresol sim sweep FILE.toml`: an experiment, or a part of it, as rows.
//!
//! Every process works alone: it reads the experiment, runs its shard and leaves one file in the folder of results, which
//! is all that the machines of a fleet share. `shard` says which runs those are, `row` what is kept of each, `table` how
//! that lies on disk, `folder` what the folder's files mean; `status` counts them and puts their rows together,
//! and `submit` writes the job that starts all shards.
//!
//! **Start reading at** [`sweep`].

pub(crate) mod folder;
pub(crate) mod row;
pub(crate) mod shard;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod table;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

use super::args::SweepArguments;
use super::experiment::{Experiment, short_hash};
use super::sweep::{TOLD_MOST, TWICE_EVERY, progress_bar};
use super::{STATUS_BROKEN, blame};
use folder::{Folder, State};
use row::Row;
use shard::Shard;
use tool::{say, style};

/// How often a shard looks whether another one has failed: the folder may be on another machine.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the workers of one shard share.
struct Work<'a> {
    experiment: &'a Experiment,
    build: &'a str,
    numbers: Vec<u64>,
    next: AtomicUsize,
    stop: AtomicBool,
    fail_fast: bool,
    /// By place in `numbers`.
    rows: Mutex<Vec<Option<Row>>>,
    /// Commands and reasons of failed runs, by number.
    failed: Mutex<Vec<(u64, String)>>,
    bar: ProgressBar,
}

/// Runs a shard; returns the exit status.
pub(super) fn sweep(request: &SweepArguments) -> anyhow::Result<i32> {
    request.refuse_those_of_scenarios()?;
    let file = Path::new(&request.scenario);
    let experiment = Experiment::read(file)?;
    let shard = Shard::chosen(request.shard, request.shards, |name| std::env::var(name).ok())?;
    let build = build_id()?;
    let folder = Folder::claim(&out(request.out.as_deref(), file), &experiment, &build, shard.of)?;
    if let State::Done { failed } = folder.state(shard)? {
        say!("{}, shard {shard}: done before, {failed} runs failed", experiment.name)?;
        return Ok(if failed == 0 { 0 } else { STATUS_BROKEN });
    }
    folder.forget_failure(shard);
    let jobs = request.jobs.map_or_else(tool::machine::host_cpus, |n| n as usize).max(1);
    let work = Work::new(&experiment, &build, shard, request.fail_fast);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work.run(&folder));
        }
    });
    work.bar.finish_and_clear();
    work.finish(&folder, shard)
}

/// The folder of results: the requested one, or one in the working directory, named after the file.
pub(super) fn out(said: Option<&Path>, file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    said.map_or_else(|| PathBuf::from(format!("{stem}.results")), Path::to_owned)
}

/// The version, and the hash of this command's own file: what results of the same experiment depend on.
pub(super) fn build_id() -> anyhow::Result<String> {
    let own = std::fs::read("/proc/self/exe").context("cannot read this command's own file")?;
    Ok(format!("{}-{}", env!("CARGO_PKG_VERSION"), &short_hash(&own)[..12]))
}

impl<'a> Work<'a> {
    fn new(experiment: &'a Experiment, build: &'a str, shard: Shard, fail_fast: bool) -> Work<'a> {
        let numbers: Vec<u64> = shard.numbers(experiment.runs()).collect();
        Work {
            experiment,
            build,
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            fail_fast,
            rows: Mutex::new(vec![None; numbers.len()]),
            failed: Mutex::default(),
            bar: progress_bar(numbers.len() as u64),
            numbers,
        }
    }

    /// Takes runs until there are none.
    fn run(&self, folder: &Folder) {
        let mut looked = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&number) = self.numbers.get(at) else { return };
            if self.fail_fast && looked.elapsed() > LOOK_EVERY {
                looked = Instant::now();
                if folder.first_failure().is_some() {
                    self.stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
            let row = self.one(number);
            if let Some(slot) = lock(&self.rows).get_mut(at) {
                *slot = Some(row);
            }
            self.bar.inc(1);
        }
    }

    fn one(&self, number: u64) -> Row {
        let (configuration, seed) = self.experiment.run(number);
        let report = blame::during(seed, configuration.command(seed), || configuration.plan.run(seed, false));
        // By number, so that it does not depend on the shard.
        let twice = number.is_multiple_of(TWICE_EVERY) && report.failure.is_none();
        let repeats = !twice || configuration.plan.run(seed, false).hash == report.hash;
        let verdict = self.experiment.rule.judge(&configuration.scenario, &report, repeats);
        let row = row::row(number, self.build, configuration, &report, &verdict);
        if verdict.failed {
            let why = verdict.broken.map(|(_, why)| why).unwrap_or_default();
            let mut failed = lock(&self.failed);
            failed.push((number, format!("run {number}: {why}\n  {}", configuration.command(seed))));
            self.bar.set_message(format!("{} failed", failed.len()));
            if self.fail_fast {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        row
    }

    /// Leaves the shard's file, and says what came of it.
    fn finish(self, folder: &Folder, shard: Shard) -> anyhow::Result<i32> {
        let mut failed = self.failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        failed.sort();
        failed.iter().take(TOLD_MOST).for_each(|(_, why)| style::complain(why));
        if failed.len() > TOLD_MOST {
            style::complain(&format!("{} more runs failed", failed.len() - TOLD_MOST));
        }
        if let (true, Some((_, why))) = (self.fail_fast, failed.first()) {
            folder.fail(shard, why)?;
            say!("{}, shard {shard}: ended early by a failure; no rows are kept", self.experiment.name)?;
            return Ok(STATUS_BROKEN);
        }
        let rows = self.rows.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(rows) = rows.into_iter().collect::<Option<Vec<Row>>>() else {
            let other = folder.first_failure().unwrap_or_default();
            style::complain(&format!("ended early, because another part failed: {other}"));
            return Ok(STATUS_BROKEN);
        };
        let runs = rows.len();
        ensure!(runs > 0, "shard {shard} has no run: the experiment has {} only", self.experiment.runs());
        let file = folder.finish(shard, &row::table(rows, self.build, self.experiment))?;
        let name = &self.experiment.name;
        say!("{name}, shard {shard}: {} of {runs} runs failed; {}", failed.len(), file.display())?;
        Ok(if failed.is_empty() { 0 } else { STATUS_BROKEN })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
