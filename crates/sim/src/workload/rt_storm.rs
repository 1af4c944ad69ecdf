//! The workload that made Linux reverse its pull (RT_PUSH_IPI, 2015). On every CPU a thread of high priority wakes
//! for the same timer, works for some microseconds and waits again, so all CPUs become less urgent at about the same
//! moment. Threads of low priority, fewer than there are CPUs, queue behind some of them. Each CPU that pulls takes
//! the locks of the overloaded queues, and threads woken meanwhile wait for those locks.

use super::Options;
use crate::history::{History, Programs};
use crate::report::{Report, Samples};
use crate::user::{Program, Step, View, Who};
use crate::world::Setup;
use ids::{CpuId, CpuMask, Nanos};
use sched::Attr;
use std::cell::RefCell;
use std::rc::Rc;

const PERIOD: Nanos = Nanos::from_millis(1);
/// How much later odd CPUs wake: while the even ones finish.
const APART: Nanos = Nanos::from_micros(30);
const HIGH: u8 = 90;
const LOW: u8 = 10;
const ROUNDS: u32 = 20;
/// More than it takes to start a thread.
const A_START: Nanos = Nanos::from_micros(40);

#[derive(Default)]
struct Log {
    /// From the time that was slept for until the thread ran.
    wakeups: Samples,
    /// CPU time of the threads of low priority.
    done: Nanos,
}

/// Runs it: `options.threads` threads of low priority (a fourth of the CPUs), `options.rounds` rounds (20).
pub fn run(seed: u64, cpus: usize, options: &Options) -> Report {
    let low = options.threads.unwrap_or(cpus.div_ceil(4));
    // Until everybody is there.
    let begin = Nanos((cpus as u64 * A_START.0).next_multiple_of(PERIOD.0));
    let span = (begin, begin + Nanos(PERIOD.0 * u64::from(options.rounds.unwrap_or(ROUNDS))));
    let log = Rc::new(RefCell::new(Log::default()));
    let high = (0..cpus).map(|c| (Attr::fifo(HIGH), woken(log.clone(), CpuId(c as u16), span)));
    let all: Programs = high.chain((0..low).map(|_| (Attr::fifo(LOW), queued(log.clone(), span)))).collect();
    let setup = Setup::new(options.config(seed, cpus));
    let (out, lock_waits) = match options.policy.design(setup.config()) {
        None => (setup.threads(all.into_iter().map(super::ours).collect()).run(), None),
        Some(design) => {
            let mut machine = History::new(setup, design, all);
            (machine.run(), Some(machine.lock_waits))
        }
    };
    let mut report = Report::new("rt-storm", seed, cpus, out);
    let log = log.borrow();
    log.wakeups.report("wake-up", &mut report);
    if let Some(waits) = lock_waits {
        report.value("waiting for locks, a wake-up", waits.0 as f64 / 1e3 / log.wakeups.len().max(1) as f64, "µs");
    }
    report.value("work of low priority", log.done.0 as f64 / 1e6, "ms");
    report
}

fn woken(log: Rc<RefCell<Log>>, cpu: CpuId, (begin, end): (Nanos, Nanos)) -> Box<dyn Program> {
    let mut due = None;
    let mut pinned = false;
    Box::new(move |v: &mut View<'_>| {
        if !std::mem::replace(&mut pinned, true) {
            return Step::SetAffinity(Who::Me, CpuMask::only(cpu));
        }
        let late = due.map(|at| v.now().since(at));
        if let Some(late) = late {
            log.borrow_mut().wakeups.add(late.0);
            due = None;
            return Step::Compute(Nanos::from_micros(10) + Nanos(v.rng.between(0, 20_000)));
        }
        let next = Nanos(v.now().max(begin).0 / PERIOD.0 * PERIOD.0) + PERIOD + Nanos(APART.0 * u64::from(cpu.0 % 2));
        if next > end {
            return Step::Exit;
        }
        due = Some(next);
        Step::SleepUntil(next)
    })
}

fn queued(log: Rc<RefCell<Log>>, (begin, end): (Nanos, Nanos)) -> Box<dyn Program> {
    const PART: Nanos = Nanos::from_micros(20);
    let mut computing = false;
    Box::new(move |v: &mut View<'_>| {
        if v.now() < begin {
            return Step::SleepUntil(begin);
        }
        if std::mem::replace(&mut computing, true) {
            log.borrow_mut().done += PART;
        }
        if v.now() < end { Step::Compute(PART) } else { Step::Exit }
    })
}
