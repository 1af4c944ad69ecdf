//! `entresol sim replay --from-trace`: what a program that ran live would do on other machines.
//!
//! `entresol run --trace` has written the trace, `perfetto` reads it, and [`sim::workload::recorded`] says what of it is kept
//! in a replay and what a replay cannot know. The machine of the trace is simulated, too: what it does there, beside what it
//! did live, shows how far the other figures can be trusted.

mod page;
mod text;

use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use perfetto::Process;
use serde::Serialize;
use sim::report::Samples;
use sim::workload::recorded::{Policies, Prediction, Real, Recording, Waits};
use sim::{Hardware, export};

use super::args::ReplayArguments;
use super::{STATUS_BROKEN, plan};
use tool::{say, style};

/// A replay on several machines, ready to be shown.
#[derive(Debug, Serialize)]
struct Study {
    /// The trace.
    file: String,
    program: String,
    pid: i32,
    costs: String,
    policy: &'static str,
    seed: u64,
    /// All run times together.
    work_ms: f64,
    /// No number of CPUs makes it shorter.
    critical_path_ms: f64,
    #[serde(flatten)]
    waits: Ends,
    /// The first row is the live run.
    rows: Vec<Row>,
    threads: Vec<Thread>,
}

/// How many waits what ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Ends {
    waits_ended_by_threads: usize,
    waits_ended_by_time: usize,
    waits_ended_from_outside: usize,
}

/// One run.
#[derive(Debug, Serialize)]
struct Row {
    live: bool,
    cpus: usize,
    /// Its name, unless it is flat.
    machine: Option<String>,
    makespan_ms: f64,
    /// How many times as fast as the live run.
    speed: f64,
    utilisation_percent: f64,
    wake_ups: usize,
    wake_up_p50_us: f64,
    wake_up_p99_us: f64,
    wake_up_max_us: f64,
    switches: f64,
}

/// One thread of the program.
#[derive(Debug, Serialize)]
struct Thread {
    tid: i32,
    name: String,
    run_ms: f64,
    #[serde(flatten)]
    waits: Ends,
}

/// Replays it; answers the exit status.
pub(super) fn replay(request: &ReplayArguments, file: &Path) -> anyhow::Result<i32> {
    let process = choose(read(file)?, request.process).with_context(|| file.display().to_string())?;
    let recording = Recording::new(&process).map_err(|why| refused(file, &why.to_string()))?;
    let recording = Rc::new(recording);
    let asked = request.machine.as_deref().map(plan::machine).transpose()?.flatten();
    let machines = machines(request, recording.real.cpus, asked.as_ref())?;
    [&request.trace, &request.html].into_iter().flatten().try_for_each(|file| super::create(file))?;
    let policies = policies(request.policy.as_deref())?;
    let cost = plan::cost(request.costs.as_deref(), request.scale)?;
    let mut study = Study::new(file, &process, &recording, request, policies);
    let mut failures = Vec::new();
    for (cpus, hardware) in machines {
        let meant = if asked.is_some() { hardware.is_some() } else { request.cpus.contains(&(cpus as u32)) };
        let record = request.trace.is_some() && meant;
        let done = recording.run(request.seed, cpus, hardware, &cost, policies, record);
        failures.extend(done.report.failure.as_ref().map(|why| format!("{cpus} CPUs, seed {}: {why}", request.seed)));
        if let (true, Some(file)) = (record, &request.trace) {
            super::write(file, export::perfetto(&done.report.records))?;
        }
        let machine = request.machine.clone().filter(|_| hardware.is_some());
        study.rows.push(Row { machine, ..Row::simulated(cpus, &recording.real, &done) });
    }
    if let Some(file) = &request.html {
        super::write(file, page::render(&study))?;
    }
    if request.json {
        say!("{}", serde_json::to_string_pretty(&study)?)?;
    } else {
        tool::output::text(&text::render(&study))?;
    }
    failures.iter().for_each(|failure| style::complain(failure));
    Ok(if failures.is_empty() { 0 } else { STATUS_BROKEN })
}

fn refused(file: &Path, why: &str) -> anyhow::Error {
    let again = "record it again with `entresol run --trace FILE -- PROGRAM`";
    anyhow::anyhow!("{}: {why}: {again}", file.display())
}

fn read(file: &Path) -> anyhow::Result<Vec<Process>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    perfetto::read(&bytes).map_err(|why| refused(file, &why.to_string()))
}

/// The process that is meant: the only one, or the one that was named.
fn choose(mut processes: Vec<Process>, pid: Option<i32>) -> anyhow::Result<Process> {
    let list = || {
        let one = |p: &Process| format!("{} ({}, {} threads)", p.pid, p.name, p.threads.len());
        processes.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let at = match pid {
        Some(pid) => match processes.iter().position(|process| process.pid == pid) {
            Some(at) => at,
            None => bail!("there is no process {pid}: expected one of {}", list()),
        },
        None => {
            ensure!(processes.len() == 1, "a replay has one process, so say --process PID with one of {}", list());
            0
        }
    };
    Ok(processes.swap_remove(at))
}

/// The machines by number of CPUs: the live run's, which is flat, and what was asked for.
fn machines<'a>(
    request: &ReplayArguments,
    live: usize,
    hardware: Option<&'a Hardware>,
) -> anyhow::Result<Vec<(usize, Option<&'a Hardware>)>> {
    ensure!(
        request.trace.is_none() || request.cpus.len() == 1 || hardware.is_some(),
        "--trace is the trace of one simulated run: say one number of --cpus"
    );
    ensure!(request.trace.is_none() || request.trace != request.html, "--trace and --html name the same file");
    if let (Some(hardware), Some(name)) = (hardware, &request.machine) {
        request.cpus.iter().try_for_each(|&cpus| plan::agrees(Some(cpus), name, hardware))?;
        return Ok(vec![(live, None), (hardware.cpus(), Some(hardware))]);
    }
    let mut all: Vec<usize> = request.cpus.iter().map(|&cpus| cpus as usize).chain([live]).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all.into_iter().map(|cpus| (cpus, None)).collect())
}

fn policies(name: Option<&str>) -> anyhow::Result<Policies> {
    let Some(name) = name else { return Ok(Policies::Recorded) };
    let found = Policies::ALL.into_iter().find(|policies| policies.name() == name);
    found.with_context(|| format!("there is no policy '{name}'"))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Ends {
    fn of(waits: Waits) -> Ends {
        let Waits { by_threads, by_time, by_outside } = waits;
        Ends { waits_ended_by_threads: by_threads, waits_ended_by_time: by_time, waits_ended_from_outside: by_outside }
    }

    fn add(&mut self, other: Ends) {
        self.waits_ended_by_threads += other.waits_ended_by_threads;
        self.waits_ended_by_time += other.waits_ended_by_time;
        self.waits_ended_from_outside += other.waits_ended_from_outside;
    }
}

impl Study {
    fn new(
        file: &Path,
        process: &Process,
        recording: &Recording,
        request: &ReplayArguments,
        policies: Policies,
    ) -> Study {
        let thread = |thread: &sim::workload::recorded::Thread| Thread {
            tid: thread.tid,
            name: thread.name.clone(),
            run_ms: ms(thread.run.0),
            waits: Ends::of(thread.waits()),
        };
        let mut threads: Vec<Thread> = recording.threads.iter().map(thread).collect();
        threads.sort_by(|a, b| b.run_ms.total_cmp(&a.run_ms));
        let mut waits = Ends::default();
        threads.iter().for_each(|thread| waits.add(thread.waits));
        let scale = request.scale.map(|percent| format!(" at {percent} %")).unwrap_or_default();
        Study {
            file: file.display().to_string(),
            program: process.name.clone(),
            pid: process.pid,
            costs: format!("{}{scale}", request.costs.as_deref().unwrap_or("host")),
            policy: policies.name(),
            seed: request.seed,
            work_ms: ms(recording.work().0),
            critical_path_ms: ms(recording.critical_path.0),
            waits,
            rows: vec![Row::live(recording)],
            threads,
        }
    }
}

impl Row {
    fn live(recording: &Recording) -> Row {
        let Real { cpus, makespan, latency, switches } = &recording.real;
        let utilisation = recording.utilisation(*cpus, *makespan);
        Row { live: true, speed: 1.0, switches: *switches as f64, ..Row::of(*cpus, makespan.0, utilisation, latency) }
    }

    fn simulated(cpus: usize, real: &Real, done: &Prediction) -> Row {
        let speed = real.makespan.0 as f64 / done.makespan.0.max(1) as f64;
        let switches = done.report.get("switches").unwrap_or_default();
        Row { speed, switches, ..Row::of(cpus, done.makespan.0, done.utilisation, &done.latency) }
    }

    fn of(cpus: usize, makespan: u64, utilisation: f64, latency: &Samples) -> Row {
        let us = |ns: u64| ns as f64 / 1e3;
        Row {
            live: false,
            cpus,
            machine: None,
            makespan_ms: ms(makespan),
            speed: 0.0,
            utilisation_percent: 100.0 * utilisation,
            wake_ups: latency.len(),
            wake_up_p50_us: us(latency.permille(500)),
            wake_up_p99_us: us(latency.permille(990)),
            wake_up_max_us: us(latency.most()),
            switches: 0.0,
        }
    }

    /// Its name in a table.
    fn name(&self) -> String {
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let machine = self.machine.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
        format!("{}, {cpus}{machine}", if self.live { "live" } else { "simulated" })
    }

    /// Its figures, with the heads of [`HEADS`].
    fn cells(&self) -> [String; 8] {
        use bench::table::number;
        [
            number(self.makespan_ms),
            format!("{:.2}", self.speed),
            format!("{:.1}", self.utilisation_percent),
            self.wake_ups.to_string(),
            number(self.wake_up_p50_us),
            number(self.wake_up_p99_us),
            number(self.wake_up_max_us),
            format!("{:.0}", self.switches),
        ]
    }
}

/// The heads of a row's figures.
const HEADS: [&str; 8] = [
    "make-span, ms",
    "times as fast",
    "utilisation, %",
    "wake-ups",
    "wake-up p50, µs",
    "p99, µs",
    "max, µs",
    "switches",
];

/// What a replay does not know, for the reader of its figures.
const UNKNOWN: [&str; 4] = [
    "Run times are those of the live run, with what the host took from its CPUs meanwhile. Caches, memory bandwidth and \
     frequency on the other machine are not known, except what --machine says of them.",
    "The order of events is that of the live run: a lock that was free is free, a queue's work stays with the threads that did \
     it, and there are as many threads.",
    "What came from outside (descriptors, pipes between its own threads, too, children, signals, timers) comes at the same time \
     after the start; sleeps, time limits and devices take as long.",
    "CPU masks are not known, and SCHED_DEADLINE and SCHED_RR are replayed as SCHED_FIFO. A wake-up's latency reaches from the \
     wake-up, or birth, to the CPU.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_chosen_if_there_are_several() {
        let process = |pid: i32| Process {
            pid,
            name: format!("p{pid}"),
            threads: [(pid, String::new())].into(),
            cpus: 0..1,
            spans: Vec::new(),
            lost: false,
        };
        let all = vec![process(3), process(5)];
        assert_eq!(choose(vec![process(3)], None).unwrap().pid, 3);
        assert_eq!(choose(all.clone(), Some(5)).unwrap().pid, 5);
        let error = choose(all.clone(), None).unwrap_err().to_string();
        assert!(error.contains("--process PID with one of 3 (p3, 1 threads), 5 (p5, 1 threads)"), "{error}");
        assert!(choose(all, Some(4)).unwrap_err().to_string().contains("no process 4"));
    }
}
