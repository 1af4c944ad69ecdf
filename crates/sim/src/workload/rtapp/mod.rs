//! rt-app's JSON files (github.com/scheduler-tools/rt-app, doc/tutorial.txt) as a workload.
//!
//! Understood are tasks with instances, policies, priorities, CPUs, delays, loops and phases, and the events run,
//! runtime, sleep, timer, mem, iorun, lock, unlock, wait, signal, broad, sync, barrier, suspend, resume, sem_wait,
//! sem_post, fork and yield. Everything else is refused by its name: a workload that leaves something out is another
//! workload. What is understood and has no effect here is told by [`Workload::notes`]. Times are microseconds of the
//! simulated CPUs, so rt-app's calibration has no meaning here.
//!
//! A [`script::Script`] says what a thread does next. It knows nothing of how that is done: `thread` does it in the
//! simulator, and `entresol compare` with real threads.

mod json;
mod parse;
pub mod script;
mod thread;

pub use json::Wrong;

use super::Options;
use crate::cost::Cost;
use crate::report::{Report, Samples, Table};
use crate::user::{Barrier, Cond, Mutex, Semaphore};
use crate::world::Setup;
use ids::{CpuId, CpuMask, Nanos};
use sched::Attr;
use script::{Common, Measured, Script, Timers};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The workload that a file describes.
#[derive(Clone, Debug)]
pub struct Workload {
    duration: Option<Nanos>,
    /// Mutexes inherit priorities.
    pi: bool,
    /// The size of the buffer that a thread writes, in bytes.
    buffer: u64,
    tasks: Arc<[Task]>,
    /// How many there are of each.
    mutexes: usize,
    conds: usize,
    barriers: usize,
    semaphores: usize,
    gates: usize,
    /// By timer: whether it is absolute.
    timers: Arc<[bool]>,
    /// A sentence for each thing that has no effect.
    notes: Vec<String>,
}

/// How many objects of each kind the threads of a workload share.
#[derive(Clone, Copy, Debug)]
pub struct Objects {
    /// Mutexes.
    pub mutexes: usize,
    /// Whether they inherit priorities.
    pub pi: bool,
    /// Condition variables.
    pub conds: usize,
    /// Barriers.
    pub barriers: usize,
    /// Semaphores, of value zero at the beginning.
    pub semaphores: usize,
    /// Gates, at which threads suspend until they are resumed.
    pub gates: usize,
}

/// A thread of a workload before it begins.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its row among [`Workload::rows`].
    pub row: usize,
    /// Its policy and priority.
    pub attr: Attr,
    /// The CPUs that it may use; `None`: those of the thread that starts it.
    pub cpus: Option<CpuMask>,
    /// The size of the buffer that it writes, in bytes.
    pub buffer: usize,
    /// Its actions.
    pub script: Script,
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
    /// `None`: until the end of the run.
    loops: Option<u32>,
    cpus: Vec<(u16, usize)>,
    /// The thread's attributes from here on, if they change.
    attr: Option<Attr>,
    events: Vec<Event>,
}

#[derive(Clone, Debug)]
enum Event {
    /// Computes for this long.
    Run(Nanos),
    /// Computes until this much time has passed.
    RunFor(Nanos),
    Sleep(Nanos),
    /// Waits for the next period. A period of zero is over at once.
    Timer {
        /// Its number.
        timer: usize,
        /// Each thread has its own timer.
        unique: bool,
        period: Nanos,
    },
    Lock(usize),
    Unlock(usize),
    Wait(usize, usize),
    /// Under the mutex: wakes one that waits, and waits itself.
    Sync(usize, usize),
    Signal(usize),
    Broadcast(usize),
    Barrier(usize),
    SemaphoreWait(usize),
    SemaphorePost(usize),
    /// At a gate.
    Suspend(usize),
    /// All threads at a gate.
    Resume(usize),
    /// Writes so many bytes of memory.
    Memory(u64),
    /// Writes so many bytes to `/dev/null`.
    Write(u64),
    /// Starts a thread of the task of that name, which the file names in this line.
    Fork {
        task: String,
        line: usize,
    },
    Yield,
}

/// More than it takes to start a thread.
const A_START: Nanos = Nanos::from_micros(100);

/// State shared by the simulated threads of one run.
struct Shared {
    pi: bool,
    buffer: u64,
    cost: Cost,
    /// A barrier for all threads that are not forked.
    start: Barrier,
    /// When they begin, once they have met.
    origin: Cell<Nanos>,
    /// By row.
    seen: Vec<Rc<RefCell<Measured>>>,
    mutexes: Vec<Mutex>,
    conds: Vec<Cond>,
    barriers: Vec<Barrier>,
    semaphores: Vec<Semaphore>,
    /// The words that suspended threads wait on.
    gates: Vec<u64>,
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

    /// Whether no thread is ever a real-time one, or gets the priority of one: fair schedulers can run it then.
    pub fn is_fair(&self) -> bool {
        let phases = |task: &Task| task.phases.iter().filter_map(|phase| phase.attr).all(|attr| attr.policy.is_fair());
        !self.pi && self.tasks.iter().all(|task| task.attr.policy.is_fair() && phases(task))
    }

    /// When the run ends, even if threads still wait. One without a duration must end by itself.
    pub fn duration(&self) -> Option<Nanos> {
        self.duration
    }

    /// The things in the file that have no effect here, or not rt-app's: a sentence for each, with its line.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The objects that its threads share.
    pub fn objects(&self) -> Objects {
        Objects {
            mutexes: self.mutexes,
            pi: self.pi,
            conds: self.conds,
            barriers: self.barriers,
            semaphores: self.semaphores,
            gates: self.gates,
        }
    }

    /// How many threads meet at a barrier.
    pub fn parties(&self, barrier: usize) -> u32 {
        let is_it = |e: &Event| matches!(e, Event::Barrier(n) if *n == barrier);
        let meets = |t: &&Task| t.events().any(is_it);
        self.tasks.iter().filter(meets).map(|t| t.instances as u32).sum()
    }

    /// The threads that begin with the run, on a machine with this many CPUs.
    pub fn threads(&self, cpus: usize) -> Vec<Thread> {
        let threads = self.tasks.iter().map(|task| task.instances).sum();
        let common = Arc::new(Common {
            tasks: self.tasks.clone(),
            timers: Timers::new(&self.timers),
            buffer: self.buffer,
            end: self.duration,
            threads,
            forked: self.forked(),
        });
        let tasks = self.tasks.iter().enumerate().flat_map(|(i, task)| (0..task.instances).map(move |_| i));
        let all = CpuMask::first(cpus);
        tasks.enumerate().map(|(row, task)| Thread::new(row, task, &all, &common)).collect()
    }

    /// Measurements have one row for each thread that begins with the run, and one for all threads that are forked of a
    /// task: its name, and the policy at the beginning.
    pub fn rows(&self) -> Vec<(String, Attr)> {
        let threads =
            self.tasks.iter().flat_map(|t| (0..t.instances).map(move |n| (format!("{}-{n}", t.name), t.attr)));
        let forked = self.forked().into_iter().map(|task| &self.tasks[task]);
        threads.chain(forked.map(|t| (format!("{}, forked", t.name), t.attr))).collect()
    }

    /// The tasks that are forked, in the order of the file.
    fn forked(&self) -> Vec<usize> {
        let forks = |task: &str, e: &Event| matches!(e, Event::Fork { task: forked, .. } if forked == task);
        let is_forked = |task: &str| self.tasks.iter().flat_map(Task::events).any(|e| forks(task, e));
        (0..self.tasks.len()).filter(|&task| is_forked(&self.tasks[task].name)).collect()
    }

    /// Runs it, simulated.
    pub fn run(&self, name: &str, seed: u64, cpus: usize, options: &Options) -> Report {
        self.measure(name, seed, cpus, options).0
    }

    /// Runs it, simulated; also what was measured, by [`Workload::rows`].
    pub fn measure(&self, name: &str, seed: u64, cpus: usize, options: &Options) -> (Report, Vec<Measured>) {
        let mut config = options.config(seed, cpus);
        let threads = self.threads(cpus);
        if let Some(duration) = self.duration {
            // They begin together when all are there.
            let begun = Nanos(threads.len() as u64 * A_START.0);
            config.limit = begun + duration + Nanos::from_millis(100);
            config.must_end = false;
        }
        let mut setup = Setup::new(config);
        let shared = Rc::new(self.share(&mut setup, options.cost.clone()));
        let program = |thread| (Attr::DEFAULT, thread::Simulated::program(thread, &shared));
        let threads = threads.into_iter().map(program).collect();
        let out = super::run(setup, options.policy, threads);
        let mut report = Report::new(name, seed, cpus, out);
        if shared.origin.get() == Nanos::ZERO {
            report.fail("its threads were not all there before the end of the run".to_owned());
        }
        let seen = self.rows().into_iter().zip(&shared.seen).map(|((name, attr), seen)| (name, attr, seen.take()));
        let seen: Vec<_> = seen.collect();
        for (thread, _, seen) in &seen {
            if let Some(error) = seen.refused {
                report.fail(format!("{thread}: its policy or its CPUs were refused with error {}", -error));
            }
            if let Some(error) = seen.no_thread {
                report.fail(format!("{thread}: a thread could not be forked: error {}", -error));
            }
        }
        tell(&seen, &mut report);
        (report, seen.into_iter().map(|(.., seen)| seen).collect())
    }

    fn share(&self, setup: &mut Setup, cost: Cost) -> Shared {
        Shared {
            pi: self.pi,
            buffer: self.buffer,
            cost,
            start: setup.barrier(self.tasks.iter().map(|task| task.instances as u32).sum()),
            origin: Cell::default(),
            seen: self.rows().iter().map(|_| Rc::default()).collect(),
            mutexes: (0..self.mutexes).map(|_| setup.mutex()).collect(),
            conds: (0..self.conds).map(|_| setup.cond()).collect(),
            barriers: (0..self.barriers).map(|b| setup.barrier(self.parties(b))).collect(),
            semaphores: (0..self.semaphores).map(|_| setup.semaphore()).collect(),
            gates: (0..self.gates).map(|_| setup.words(1)).collect(),
        }
    }
}

impl Task {
    fn events(&self) -> impl Iterator<Item = &Event> {
        self.phases.iter().flat_map(|phase| &phase.events)
    }
}

impl Thread {
    /// A thread whose creator may use the CPUs of `inherited`.
    fn new(row: usize, task: usize, inherited: &CpuMask, common: &Arc<Common>) -> Thread {
        let of = &common.tasks[task];
        let cpus = (!of.cpus.is_empty()).then(|| mask(&of.cpus));
        let writes = |event: &Event| match event {
            Event::Memory(bytes) | Event::Write(bytes) => *bytes,
            _ => 0,
        };
        let most = of.events().map(writes).max().unwrap_or(0);
        let script = Script::new(task, cpus.clone().unwrap_or_else(|| inherited.clone()), common.clone());
        Thread { row, attr: of.attr, cpus, buffer: most.min(common.buffer) as usize, script }
    }
}

/// The policy and priority of a thread in words.
pub fn policy_in_words(attr: &Attr) -> String {
    match attr.policy {
        ids::Policy::Fifo | ids::Policy::RoundRobin => format!("{:?} {}", attr.policy, attr.rt.0),
        ids::Policy::Deadline => "Deadline".to_owned(),
        other => format!("{other:?}, nice {}", attr.nice.0),
    }
}

fn mask(cpus: &[(u16, usize)]) -> CpuMask {
    let mut mask = CpuMask::empty();
    cpus.iter().for_each(|(cpu, _)| mask.insert(CpuId(*cpu)));
    mask
}

fn tell(seen: &[(String, Attr, Measured)], report: &mut Report) {
    let us = |n: u64| format!("{:.1}", n as f64 / 1e3);
    let row = |(name, attr, seen): &(String, Attr, Measured)| {
        let waits = [seen.wakeup.permille(500), seen.wakeup.permille(990), seen.wakeup.most()].map(us);
        let responses = [seen.response.permille(500), seen.response.most()].map(us);
        [
            vec![name.clone(), policy_in_words(attr), seen.loops.to_string()],
            waits.to_vec(),
            vec![seen.missed.to_string(), us(seen.ended.0 / 1000)],
            responses.to_vec(),
        ]
        .concat()
    };
    report.value("loops", seen.iter().map(|s| s.2.loops as f64).sum(), "");
    report.value("periods missed", seen.iter().map(|s| s.2.missed as f64).sum(), "");
    let (mut wakeup, mut response) = (Samples::default(), Samples::default());
    for (.., seen) in seen {
        wakeup.add_all(&seen.wakeup);
        response.add_all(&seen.response);
    }
    wakeup.report("wake-up", report);
    response.report("response", report);
    report.tables.push(Table {
        title: "Threads; wake-up: µs from when a sleep or timer was over until the thread ran; response: µs from then until it \
                waited for the next"
            .to_string(),
        columns: [
            "thread",
            "policy",
            "loops",
            "wake-up p50",
            "p99",
            "max",
            "missed",
            "last loop ends, ms",
            "response p50",
            "max",
        ]
        .map(String::from)
        .to_vec(),
        rows: seen.iter().map(row).collect(),
    });
}

#[cfg(test)]
mod grammar;
#[cfg(test)]
mod tests;
