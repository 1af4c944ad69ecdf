//! rt-app's JSON files (github.com/scheduler-tools/rt-app, doc/tutorial.txt) as a workload.
//!
//! Understood are tasks with instances, policies, priorities, CPUs, delays, loops and phases, and the events run,
//! runtime, sleep, timer, lock, unlock, wait, signal, broad, sync, barrier, suspend, resume and yield. Everything else is
//! refused by its name: a workload that leaves something out is another workload. Times are microseconds of the
//! simulated CPUs, so rt-app's calibration has no meaning here.

mod json;
mod parse;
mod thread;

pub use json::Wrong;

use super::Options;
use crate::report::{Report, Samples, Table};
use crate::user::{Barrier, Cond, Mutex, Program, with};
use crate::world::Setup;
use ids::{CpuId, CpuMask, Nanos};
use sched::Attr;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The workload that a file describes.
#[derive(Clone, Debug)]
pub struct Workload {
    duration: Option<Nanos>,
    /// Mutexes inherit priorities.
    pi: bool,
    tasks: Vec<Task>,
    /// How many there are of each.
    mutexes: usize,
    conds: usize,
    barriers: usize,
    timers: usize,
}

/// One task, with one thread per instance.
#[derive(Clone, Debug)]
struct Task {
    name: String,
    instances: usize,
    attr: Attr,
    /// Allowed CPUs and the lines that name them; none: all.
    cpus: Vec<(u16, usize)>,
    delay: Nanos,
    /// `None`: until the end of the run.
    loops: Option<u32>,
    phases: Vec<Phase>,
}

#[derive(Clone, Debug)]
struct Phase {
    loops: u32,
    cpus: Vec<(u16, usize)>,
    /// The thread's attributes from here on, if they change.
    attr: Option<Attr>,
    events: Vec<Event>,
}

#[derive(Clone, Debug)]
enum Event {
    /// Computes for so long.
    Run(Nanos),
    /// Computes until this much time has passed.
    RunFor(Nanos),
    Sleep(Nanos),
    /// Waits for the next period. An absolute timer catches up after a delay, a relative one starts over.
    Timer {
        /// Its number.
        timer: usize,
        /// Each thread has its own.
        unique: bool,
        period: Nanos,
        absolute: bool,
    },
    Lock(usize),
    Unlock(usize),
    Wait(usize, usize),
    /// Under the mutex: wakes one that waits, and waits itself.
    Sync(usize, usize),
    Signal(usize),
    Broadcast(usize),
    Barrier(usize),
    /// By the name of its task, or another's.
    Suspend(Option<String>),
    /// All threads of the task of that name.
    Resume(String),
    Yield,
}

/// State shared by the threads of one run.
struct Shared {
    end: Option<Nanos>,
    pi: bool,
    mutexes: Vec<Mutex>,
    conds: Vec<Cond>,
    barriers: Vec<Barrier>,
    /// When each shared timer is due.
    timers: Vec<Cell<Option<Nanos>>>,
    /// By task: the word that its suspended threads wait on.
    suspended: Vec<(String, u64)>,
}

/// Measurements of one thread.
#[derive(Default)]
struct Seen {
    loops: u64,
    /// The time from the wake-up until the thread runs.
    wakeup: Samples,
    /// Periods that were over when it asked for the next.
    missed: u64,
    /// When its last loop was over.
    ended: Nanos,
    /// A change of policy or CPUs was refused: the negative error number.
    refused: Option<isize>,
}

impl Workload {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Workload, Wrong> {
        parse::workload(text)
    }

    /// Whether a machine with this many CPUs has everything that the file names.
    pub fn fits(&self, cpus: usize) -> Result<(), Wrong> {
        let named = self.tasks.iter().flat_map(|t| t.cpus.iter().chain(t.phases.iter().flat_map(|p| &p.cpus)));
        match named.clone().find(|(cpu, _)| usize::from(*cpu) >= cpus) {
            Some((cpu, line)) => Wrong::at(*line, format!("CPU {cpu}: expected one of 0 to {} (--cpus)", cpus - 1)),
            None => Ok(()),
        }
    }

    /// Runs it. A run with a duration ends then, even if threads still wait; one without must end by itself.
    pub fn run(&self, name: &str, seed: u64, cpus: usize, options: &Options) -> Report {
        let mut config = options.config(seed, cpus);
        if let Some(duration) = self.duration {
            config.limit = duration + Nanos::from_millis(100);
            config.must_end = false;
        }
        let mut setup = Setup::new(config);
        let shared = Rc::new(self.share(&mut setup));
        let mut programs: Vec<Box<dyn Program>> = Vec::new();
        let mut seen = Vec::new();
        for task in &self.tasks {
            let mask = (!task.cpus.is_empty()).then(|| mask(&task.cpus));
            for instance in 0..task.instances {
                let mine = Rc::new(RefCell::new(Seen::default()));
                let thread = thread::Thread::new(task, shared.clone(), mine.clone(), cpus);
                programs.push(with(task.attr, mask.clone(), Box::new(thread)));
                seen.push((format!("{}-{instance}", task.name), task.attr, mine));
            }
        }
        let out = setup.threads(programs).run();
        let mut report = Report::new(name, seed, cpus, out);
        for (thread, _, seen) in &seen {
            if let Some(error) = seen.borrow().refused {
                report.fail(format!("{thread}: its policy or its CPUs were refused with error {}", -error));
            }
        }
        tell(&seen, &mut report);
        report
    }

    fn share(&self, setup: &mut Setup) -> Shared {
        let parties = |b: usize| {
            let meets =
                |t: &&Task| t.phases.iter().flat_map(|p| &p.events).any(|e| matches!(e, Event::Barrier(n) if *n == b));
            self.tasks.iter().filter(meets).map(|t| t.instances as u32).sum()
        };
        Shared {
            end: self.duration,
            pi: self.pi,
            mutexes: (0..self.mutexes).map(|_| setup.mutex()).collect(),
            conds: (0..self.conds).map(|_| setup.cond()).collect(),
            barriers: (0..self.barriers).map(|b| setup.barrier(parties(b))).collect(),
            timers: (0..self.timers).map(|_| Cell::new(None)).collect(),
            suspended: self.tasks.iter().map(|t| (t.name.clone(), setup.words(1))).collect(),
        }
    }
}

fn mask(cpus: &[(u16, usize)]) -> CpuMask {
    let mut mask = CpuMask::empty();
    cpus.iter().for_each(|(cpu, _)| mask.insert(CpuId(*cpu)));
    mask
}

fn tell(seen: &[(String, Attr, Rc<RefCell<Seen>>)], report: &mut Report) {
    let us = |n: u64| format!("{:.1}", n as f64 / 1e3);
    let row = |(name, attr, seen): &(String, Attr, Rc<RefCell<Seen>>)| {
        let seen = seen.borrow();
        let how = match attr.policy {
            ids::Policy::Fifo | ids::Policy::RoundRobin => format!("{:?} {}", attr.policy, attr.rt.0),
            ids::Policy::Deadline => "Deadline".to_owned(),
            other => format!("{other:?}, nice {}", attr.nice.0),
        };
        let waits = [seen.wakeup.permille(500), seen.wakeup.permille(990), seen.wakeup.most()].map(us);
        [
            vec![name.clone(), how, seen.loops.to_string()],
            waits.to_vec(),
            vec![seen.missed.to_string(), us(seen.ended.0 / 1000)],
        ]
        .concat()
    };
    report.value("loops", seen.iter().map(|s| s.2.borrow().loops as f64).sum(), "");
    report.value("periods missed", seen.iter().map(|s| s.2.borrow().missed as f64).sum(), "");
    let mut wakeup = Samples::default();
    seen.iter().for_each(|s| wakeup.add_all(&s.2.borrow().wakeup));
    wakeup.report("wake-up", report);
    report.tables.push(Table {
        title: "Threads; µs from when a sleep or timer was over until the thread ran".to_string(),
        columns: ["thread", "policy", "loops", "wake-up p50", "p99", "max", "missed", "last loop ends, ms"]
            .map(String::from)
            .to_vec(),
        rows: seen.iter().map(row).collect(),
    });
}

#[cfg(test)]
mod tests;
