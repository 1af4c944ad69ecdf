//! Many runs, until one fails.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::args::ChaosArguments;
use super::attempt::{End, Outcome, Plan, Room, wait_for};
use super::recording::{self, Recording};
use super::results::Results;
use super::schedules::{Schedule, Schedules};
use super::{STATUS_FAILED, STATUS_NOTHING, report};
use tool::style;

/// What has been tried so far.
struct Tried {
    began: Instant,
    runs: u64,
    schedules: HashSet<u64>,
    shown: Instant,
}

/// Tries schedules.
pub fn explore(request: &ChaosArguments) -> anyhow::Result<i32> {
    recording::check(&request.command, &request.output)?;
    let limit = if request.time.is_some() && !given("--runs") { u64::MAX } else { request.runs };
    let mut schedules = Schedules::new(request, limit)?;
    let results = Results::begin(request, &request.command)?;
    let mut rooms = (0..request.jobs)
        .map(|_| Ok((Room::new()?, None)))
        .collect::<anyhow::Result<Vec<(Room, Option<Schedule>)>>>()?;
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let now = Instant::now();
    let mut tried = Tried { began: now, runs: 0, schedules: HashSet::new(), shown: now };
    loop {
        let in_time = request.time.is_none_or(|time| tried.began.elapsed() < Duration::from_secs(time));
        for (room, running) in rooms.iter_mut().filter(|(_, running)| in_time && running.is_none()) {
            let Some(schedule) = schedules.take_one() else { break };
            room.begin(&plan(request, &schedule, epoch))?;
            *running = Some(schedule);
        }
        let handles: Vec<i32> = rooms.iter().filter_map(|(room, _)| room.handle()).collect();
        if handles.is_empty() {
            let proof = schedules.proof().map_or(String::new(), |proof| format!(": {proof}"));
            style::remark(&format!("no failure: {}{proof}", tried.sum()));
            results.write(tried.runs, tried.schedules.len(), None)?;
            return Ok(STATUS_NOTHING);
        }
        wait_for(&handles);
        for (room, running) in &mut rooms {
            let Some(outcome) = room.look()? else { continue };
            let schedule = running.take().expect("a room runs what it was given");
            tried.add(&outcome);
            if outcome.end != End::Passed {
                drop(rooms);
                let status = failed(request, &plan(request, &schedule, epoch), &outcome, &tried)?;
                results.write(tried.runs, tried.schedules.len(), Some((schedule.seed, &outcome)))?;
                return Ok(status);
            }
            schedules.tried(schedule, outcome);
        }
    }
}

/// Whether the option is on the command line: clap does not tell a default from the same value given.
fn given(option: &str) -> bool {
    let words = std::env::args_os().take_while(|word| word != "--");
    words.into_iter().any(|word| word.to_string_lossy().split('=').next() == Some(option))
}

fn plan<'a>(request: &'a ChaosArguments, schedule: &'a Schedule, epoch: u64) -> Plan<'a> {
    Plan {
        command: &request.command,
        strategy: schedule.strategy,
        switches: &schedule.switches,
        patience: 0,
        asks: schedule.asks,
        stop: 0,
        seed: schedule.seed,
        expected: schedule.expected.clone(),
        epoch,
        places: request.places,
        timeout: Duration::from_secs(request.timeout),
        fail_if: request.fail_if.as_deref(),
    }
}

fn failed(request: &ChaosArguments, plan: &Plan<'_>, outcome: &Outcome, tried: &Tried) -> anyhow::Result<i32> {
    let told = report::tell(outcome);
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
    // Only now, because the schedule must not be lost.
    told?;
    Ok(STATUS_FAILED)
}

impl Tried {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.schedules.insert(outcome.hash);
        if self.runs == 1 {
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
