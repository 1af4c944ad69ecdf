//! The threads of a scenario as real threads of this process: the programs are the simulator's, word for word.

mod objects;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::thread;

use anyhow::Context;
use ids::{Nanos, Tid};
use nix::time::ClockId;
use sched::Attr;
use sim::rng::Rng;
use sim::user::{Program, Step, Surroundings, View, Who};
use sim::workload::Options;
use sim::workload::threads::{Code, Make, Threads};

use super::found::Found;
use super::live::{STACK, allow, compute, limit_to, set_policy, sleep_until};
use bench::probe::clock::{now_ns, read_ns};
use objects::Memory;

/// Spans of computing up to here are measured by a clock that needs no system call: reading the CPU time would take longer.
const SHORT: Nanos = Nanos::from_micros(20);

/// State that the threads share.
struct Live {
    memory: Memory,
    /// The host's CPUs, by the numbers that the programs give them.
    cpus: Vec<usize>,
    /// The error with which a change of policy or CPUs was refused, or 0.
    refused: AtomicI32,
}

/// Runs it on the first `cpus` CPUs.
pub(super) fn run(make: Make, cpus: usize, seed: u64, options: &Options) -> anyhow::Result<Found> {
    let cpus = limit_to(cpus)?;
    let mut memory = Memory::default();
    let Threads { threads, results } = make(&mut memory, cpus.len(), options);
    let seed = Rng::new(seed);
    let live = Arc::new(Live { memory, cpus, refused: AtomicI32::new(0) });
    let start = |(i, (attr, mut code)): (usize, (Attr, Code))| {
        let (live, rng) = (live.clone(), seed.fork(i as u64));
        let body = move || {
            // Threads begin with the default attributes.
            if attr != Attr::DEFAULT {
                live.note_refusal(set_policy(&attr));
            }
            live.play(&mut *code, Tid(i as i32 + 1), rng);
        };
        thread::Builder::new().stack_size(STACK).spawn(body)
    };
    // If one cannot be created, those that wait for it are not waited for.
    let started: std::io::Result<Vec<_>> = threads.into_iter().enumerate().map(start).collect();
    for thread in started.context("a thread cannot be created")? {
        thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    }
    let refused = Some(live.refused.load(Relaxed)).filter(|errno| *errno != 0);
    Ok(Found { refused, ..Found::from(results()) })
}

impl Live {
    /// The life of a thread.
    fn play(&self, code: &mut dyn Program, tid: Tid, mut rng: Rng) {
        let mut result = 0;
        loop {
            let step = code.next(&mut View::real(&self.memory, tid, result, &mut rng));
            result = match step {
                Step::Exit => return,
                step => self.act(step),
            };
        }
    }

    /// Carries a step out; returns its result.
    fn act(&self, step: Step) -> isize {
        let m = &self.memory;
        match step {
            Step::Compute(span) if span <= Nanos(1) => {}
            Step::Compute(span) if span <= SHORT => spin_until(m.now() + span),
            Step::Compute(span) => compute(span),
            Step::ComputeUntil(at) => return busy_until(at),
            Step::Sleep(span) => sleep_until(now_ns() + span.0),
            Step::FutexWait { addr, value, timeout: None } => m.futex_wait(addr, value),
            Step::FutexWake { addr, count } => m.futex_wake(addr, count),
            Step::Lock(mutex) => m.mutex_at(mutex).lock(),
            Step::Unlock(mutex) => m.mutex_at(mutex).unlock(),
            Step::CondWait(cond, mutex) => m.cond_at(cond).wait(m.mutex_at(mutex)),
            Step::CondSignal(cond) => m.cond_at(cond).signal(),
            Step::Barrier(barrier) => return m.barrier_at(barrier).wait(),
            Step::SetAffinity(Who::Me, mask) => {
                let cpus: Vec<usize> = mask.iter().map(|cpu| self.cpus[cpu.index()]).collect();
                self.note_refusal(allow(&cpus));
            }
            other => unreachable!("no scenario that runs live has {other:?}"),
        }
        0
    }

    fn note_refusal(&self, set: Result<(), i32>) {
        if let Err(errno) = set {
            self.refused.store(errno, Relaxed);
        }
    }
}

fn spin_until(at: Nanos) {
    while now_ns() < at.0 {}
}

/// A busy loop; returns the CPU time that the thread had meanwhile.
fn busy_until(at: Nanos) -> isize {
    let used = || read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let before = used();
    spin_until(at);
    used().saturating_sub(before) as isize
}
