//! Periodic real-time threads: each computes for a part of its period and sleeps until the
//! next. Shorter periods have higher priorities (Liu and Layland 1973); fair threads compute
//! in the remaining time.

use super::Options;
use crate::report::{Report, Samples, Table};
use crate::rng::Rng;
use crate::user::{Program, Step, View, with};
use crate::world::Setup;
use ids::Nanos;
use sched::Attr;
use std::cell::RefCell;
use std::rc::Rc;

/// The part of all CPUs that the real-time threads ask for, per mille.
const LOAD: u64 = 700;

/// A periodic thread.
#[derive(Clone, Copy, Debug)]
struct Task {
    period: u64,
    cost: u64,
    priority: u8,
}

#[derive(Default)]
struct Seen {
    response: Samples,
    missed: u64,
}

/// Runs it; `options.threads` threads (3 a CPU), `options.rounds` periods of 10 ms (20).
pub fn run(seed: u64, cpus: usize, options: &Options) -> Report {
    let n = options.threads.unwrap_or(3 * cpus);
    let span = Nanos(u64::from(options.rounds.unwrap_or(20)) * 10_000_000);
    let tasks = draw(seed, cpus, n);
    let setup = Setup::new(options.config(seed, cpus));
    let seen: Rc<RefCell<Vec<Seen>>> = Rc::new(RefCell::new(tasks.iter().map(|_| Seen::default()).collect()));
    let mut programs: Vec<Box<dyn Program>> = Vec::new();
    for (i, &task) in tasks.iter().enumerate() {
        programs.push(with(Attr::fifo(task.priority), None, periodic(seen.clone(), i, task, span)));
    }
    for _ in 0..cpus {
        programs.push(Box::new(
            move |v: &mut View<'_>| {
                if v.now() < span { Step::Compute(Nanos::from_micros(700)) } else { Step::Exit }
            },
        ));
    }
    let out = setup.threads(programs).run();
    let mut report = Report::new("periodic", seed, cpus, out);
    tell(&seen.borrow(), &tasks, &mut report);
    report
}

/// Tasks that together ask for [`LOAD`], periods between 1 and 20 ms.
fn draw(seed: u64, cpus: usize, n: usize) -> Vec<Task> {
    let mut r = Rng::new(seed).fork(91);
    let weights: Vec<u64> = (0..n).map(|_| r.between(1, 10)).collect();
    let total: u64 = weights.iter().sum::<u64>().max(1);
    let mut tasks: Vec<Task> = weights
        .iter()
        .map(|w| {
            let period = r.between(10, 200) * 100_000;
            let share = (LOAD * cpus as u64 * w / total).min(900);
            Task { period, cost: period * share / 1000, priority: 0 }
        })
        .collect();
    tasks.sort_by_key(|t| t.period);
    let n = tasks.len();
    for (i, t) in tasks.iter_mut().enumerate() {
        t.priority = (98 - (i * 97 / n.max(1))) as u8;
    }
    tasks
}

fn periodic(seen: Rc<RefCell<Vec<Seen>>>, me: usize, task: Task, span: Nanos) -> Box<dyn Program> {
    let mut release = None;
    let mut computing = false;
    Box::new(move |v: &mut View<'_>| {
        let due = *release.get_or_insert(v.now());
        if !std::mem::replace(&mut computing, true) {
            return Step::Compute(Nanos(task.cost));
        }
        computing = false;
        let response = v.now().since(due).0;
        let seen = &mut seen.borrow_mut()[me];
        seen.response.add(response);
        seen.missed += u64::from(response > task.period);
        let next = due + Nanos(task.period);
        release = Some(next);
        if next > span { Step::Exit } else { Step::SleepUntil(next) }
    })
}

fn tell(seen: &[Seen], tasks: &[Task], report: &mut Report) {
    let missed: u64 = seen.iter().map(|s| s.missed).sum();
    let jobs: usize = seen.iter().map(|s| s.response.len()).sum();
    report.value("jobs", jobs as f64, "");
    report.value("deadlines missed", missed as f64, "");
    let stretch = seen.iter().zip(tasks).map(|(s, t)| s.response.most() as f64 / t.period as f64);
    let mut response = Samples::default();
    seen.iter().for_each(|s| response.add_all(&s.response));
    response.report("response", report);
    report.value("worst response, in periods", stretch.fold(0.0, f64::max), "");
    let row = |(s, t): (&Seen, &Task)| {
        let us = |n: u64| format!("{:.1}", n as f64 / 1e3);
        vec![
            t.priority.to_string(),
            us(t.period),
            us(t.cost),
            s.response.len().to_string(),
            us(s.response.permille(500)),
            us(s.response.most()),
            s.missed.to_string(),
        ]
    };
    report.tables.push(Table {
        title: "Periodic threads, µs".to_string(),
        columns: ["priority", "period", "cost", "jobs", "response p50", "max", "missed"].map(String::from).to_vec(),
        rows: seen.iter().zip(tasks).map(row).collect(),
    });
}
