//! Many runs, until one fails.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::args::ChaosArguments;
use super::attempt::{End, Outcome, Plan, Room, wait_for};
use super::recording::{self, Recording};
use super::results::Results;
use super::{STATUS_FAILED, STATUS_NOTHING, report};
use simulate::Shard;
use tool::style;

/// The number of choices that the first run is taken to have.
const STEPS: u64 = 100;

/// What has been tried so far.
struct Tried {
    began: Instant,
    runs: u64,
    schedules: HashSet<u64>,
    steps: u64,
    shown: Instant,
}

/// Tries schedules.
pub fn explore(request: &ChaosArguments) -> anyhow::Result<i32> {
    recording::check(&request.command, &request.output)?;
    let results = Results::begin(request, &request.command)?;
    let mut rooms = (0..request.jobs).map(|_| Room::new()).collect::<anyhow::Result<Vec<_>>>()?;
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let now = Instant::now();
    let mut tried = Tried { began: now, runs: 0, schedules: HashSet::new(), steps: STEPS, shown: now };
    let limit = if request.time.is_some() && !given("--runs") { u64::MAX } else { request.runs };
    let mut seeds = vec![0; rooms.len()];
    let mut numbers = request.shard.unwrap_or(Shard::WHOLE).numbers(limit);
    loop {
        let in_time = request.time.is_none_or(|time| tried.began.elapsed() < Duration::from_secs(time));
        for (room, seed) in rooms.iter_mut().zip(&mut seeds) {
            if room.handle().is_none()
                && in_time
                && let Some(number) = numbers.next()
            {
                *seed = request.seed.wrapping_add(number);
                room.begin(&plan(request, *seed, tried.steps, epoch))?;
            }
        }
        let handles: Vec<i32> = rooms.iter().filter_map(Room::handle).collect();
        if handles.is_empty() {
            style::remark(&format!("no failure: {}", tried.sum()));
            results.write(tried.runs, tried.schedules.len(), None)?;
            return Ok(STATUS_NOTHING);
        }
        wait_for(&handles);
        for (room, &seed) in rooms.iter_mut().zip(&seeds) {
            let Some(outcome) = room.look()? else { continue };
            tried.add(&outcome);
            if outcome.end != End::Passed {
                drop(rooms);
                let status = failed(request, &plan(request, seed, tried.steps, epoch), &outcome, &tried)?;
                results.write(tried.runs, tried.schedules.len(), Some((seed, &outcome)))?;
                return Ok(status);
            }
        }
    }
}

/// Whether the option is on the command line: clap does not tell a default from the same value given.
fn given(option: &str) -> bool {
    let words = std::env::args_os().take_while(|word| word != "--");
    words.into_iter().any(|word| word.to_string_lossy().split('=').next() == Some(option))
}

fn plan<'a>(request: &'a ChaosArguments, seed: u64, steps: u64, epoch: u64) -> Plan<'a> {
    Plan {
        command: &request.command,
        strategy: Some(request.strategy),
        switches: &[],
        stop: 0,
        seed,
        steps,
        epoch,
        places: request.places,
        timeout: Duration::from_secs(request.timeout),
        fail_if: request.fail_if.as_deref(),
    }
}

fn failed(request: &ChaosArguments, plan: &Plan<'_>, outcome: &Outcome, tried: &Tried) -> anyhow::Result<i32> {
    report::tell(outcome);
    style::remark(&format!("after {}", tried.sum()));
    if !outcome.is_complete {
        style::complain("the run switched too often for its schedule to be kept");
        return Ok(STATUS_FAILED);
    }
    Recording::new(plan, outcome)?.write(&request.output)?;
    let file = request.output.display();
    style::remark(&format!(
        "its schedule is in {file}: entresol chaos --replay {file}, entresol chaos --bisect {file}"
    ));
    Ok(STATUS_FAILED)
}

impl Tried {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.schedules.insert(outcome.hash);
        // PCT spreads its changes over as many choices as runs have had so far.
        self.steps = self.steps.max(outcome.steps).max(2);
        if self.runs == 1 {
            self.steps = outcome.steps.max(2);
            report::doubts(outcome);
        }
        if self.shown.elapsed() > Duration::from_millis(500) {
            self.shown = Instant::now();
            style::progress(&self.sum());
        }
    }

    fn sum(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        format!(
            "{} runs in {seconds:.1} s ({:.0} a second), {} different schedules",
            self.runs,
            self.runs as f64 / seconds.max(0.001),
            self.schedules.len()
        )
    }
}
