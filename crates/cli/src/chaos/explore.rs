//! Many runs, until one fails.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chaos::Spec;
use chaos::races::Pair;

use super::args::ChaosArguments;
use super::attempt::{End, Outcome, Plan, Races, Room, wait_for};
use super::races::{self, Found, Seen};
use super::recording::{self, Recording};
use super::results::Results;
use super::schedules::{Schedule, Schedules};
use super::{STATUS_FAILED, STATUS_NOTHING, report};
use tool::{say, style};

/// What has been tried so far.
struct Tried {
    began: Instant,
    runs: u64,
    schedules: HashSet<u64>,
    shown: Instant,
    /// Races of different lines.
    races: Vec<Found>,
    /// The places of all races, also of the same lines, and of what seemed to be one.
    pairs: Vec<Pair>,
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
    let mut tried = Tried { began: now, runs: 0, schedules: HashSet::new(), shown: now, races: vec![], pairs: vec![] };
    loop {
        let in_time = request.time.is_none_or(|time| tried.began.elapsed() < Duration::from_secs(time));
        for (room, running) in rooms.iter_mut().filter(|(_, running)| in_time && running.is_none()) {
            let Some(schedule) = schedules.take_one() else { break };
            room.begin(&plan(request, &schedule, epoch, &tried.pairs))?;
            *running = Some(schedule);
        }
        let handles: Vec<i32> = rooms.iter().filter_map(|(room, _)| room.handle()).collect();
        if handles.is_empty() {
            let proof = schedules.proof().map_or(String::new(), |proof| format!(": {proof}"));
            style::remark(&format!("{}: {}{proof}", tried.verdict(), tried.sum()));
            results.write(tried.runs, tried.schedules.len(), None, &tried.races)?;
            return Ok(if tried.races.is_empty() { STATUS_NOTHING } else { STATUS_FAILED });
        }
        wait_for(&handles);
        let mut described = Duration::ZERO;
        for (room, running) in &mut rooms {
            let began = Instant::now();
            let found = room.look()?;
            described += began.elapsed();
            let Some(outcome) = found else { continue };
            let schedule = running.take().expect("a room runs what it was given");
            tried.add(&outcome, request.only.as_deref());
            let plan = plan(request, &schedule, epoch, &[]);
            for pair in &outcome.pairs {
                if !tried.pairs.contains(pair) {
                    tried.pairs.push(*pair);
                }
            }
            outcome.races.iter().try_for_each(|seen| tried.race(request, &plan, &outcome, seen))?;
            if outcome.end != End::Passed {
                drop(rooms);
                let status = failed(request, &plan, &outcome, &tried)?;
                let failure = Some((schedule.seed, &outcome));
                results.write(tried.runs, tried.schedules.len(), failure, &tried.races)?;
                return Ok(status);
            }
            schedules.tried(schedule, outcome);
        }
        // Reading the stacks of one run is no time of the others.
        rooms.iter_mut().for_each(|(room, _)| room.prolong(described));
    }
}

/// Whether the option is on the command line: clap does not tell a default from the same value given.
fn given(option: &str) -> bool {
    let words = std::env::args_os().take_while(|word| word != "--");
    words.into_iter().any(|word| word.to_string_lossy().split('=').next() == Some(option))
}

fn plan<'a>(request: &'a ChaosArguments, schedule: &'a Schedule, epoch: u64, known: &[Pair]) -> Plan<'a> {
    Plan {
        command: &request.command,
        strategy: schedule.strategy,
        switches: &schedule.switches,
        patience: 0,
        asks: schedule.asks,
        stops: &[],
        seed: schedule.seed,
        expected: schedule.expected.clone(),
        epoch,
        places: schedule.places,
        chosen: &schedule.chosen,
        races: if request.races { Races::All(known.to_vec()) } else { Races::Off },
        pauses: schedule.strategy.is_some_and(|spec| spec != Spec::Plain),
        timeout: Duration::from_secs(request.timeout),
        fail_if: request.fail_if.as_deref(),
        only: request.only.as_deref(),
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
    fn add(&mut self, outcome: &Outcome, only: Option<&str>) {
        self.runs += 1;
        self.schedules.insert(outcome.hash);
        if self.runs == 1 {
            report::doubts(outcome, only);
        }
        if self.shown.elapsed() > Duration::from_millis(500) {
            self.shown = Instant::now();
            style::progress(&self.sum());
        }
    }

    /// A run has shown this race: it is told and kept, unless it is known.
    fn race(
        &mut self,
        request: &ChaosArguments,
        plan: &Plan<'_>,
        outcome: &Outcome,
        seen: &Seen,
    ) -> anyhow::Result<()> {
        if seen.is_known(&self.races) {
            return Ok(());
        }
        let file = races::file(&request.output, self.races.len() + 1);
        let recording = Recording::up_to(plan, outcome, seen)?;
        if let Some(recording) = &recording {
            recording.write(&file)?;
        }
        seen.lines().iter().try_for_each(|line| say!("{line}"))?;
        match &recording {
            Some(_) => say!("  seed {}, schedule in {}\n", plan.seed, file.display())?,
            None => say!("  seed {}; the run switched too often for its schedule to be kept\n", plan.seed)?,
        }
        self.races.push(Found { seen: seen.clone(), seed: plan.seed, file: recording.map(|_| file) });
        Ok(())
    }

    fn verdict(&self) -> String {
        match self.races.len() {
            0 => "no failure".to_owned(),
            1 => "1 data race".to_owned(),
            n => format!("{n} data races"),
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
