//! The bug of 2008, executed: CPUs that compute primes for many threads and are interrupted by ticks, with any of
//! the generations doing the tick's work.
//! The threads are numbers here, because no host makes 100,000 of its own; the computing, the walks and the clock that
//! produces the ticks are real. A tick that comes while its predecessor is still being handled follows at
//! once, and those between are lost, as with a processor's interrupts.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Duration;

use ids::{CpuId, Nanos};
use lab::cputime::{Accounting, Atomic, Kind, Ours, PerCpu, Walk};
use time::cpu::CpuClock;

use super::race;
use bench::probe::primes::primes_up_to;

/// A thousand ticks a second.
const TICK: Duration = Duration::from_millis(1);
/// The program's setting of ITIMER_PROF.
const INTERVAL: Nanos = Nanos(10_000_000);
/// Work between two readings of the clock: some ten microseconds, many times what a reading costs.
const CHUNK_UPTO: u64 = 3_000;
/// How long the program is watched, by the CPU time of its host threads: time that others take is not counted.
const WATCHED: Duration = Duration::from_millis(150);
/// How many threads there are.
pub(super) const THREADS: [usize; 6] = [8, 1_000, 4_000, 20_000, 100_000, 300_000];

/// The outcome of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// The share of the CPUs' time in which it computed.
    pub left: f64,
    /// Seconds of CPU time for each profiling tick that it received; infinite if it received none.
    pub seconds_per_tick: f64,
}

/// The generations that are executed, oldest first.
pub(super) const NAMES: [&str; 4] = ["walk", "per-cpu", "atomics", "ours"];

/// One of the designs with this many threads, all of which run.
fn generation(name: &str, threads: usize, cpus: usize) -> Result<Box<dyn Accounting>, time::OutOfMemory> {
    let design: Box<dyn Accounting> = match name {
        "walk" => Box::new(Walk::new(threads)),
        "per-cpu" => Box::new(PerCpu::new(threads, cpus)),
        "atomics" => Box::new(Atomic::new(threads)),
        _ => Box::new(Ours::new(threads, cpus)?),
    };
    (0..threads).try_for_each(|thread| design.spawn(thread))?;
    design.start();
    design.arm(CpuClock::Prof, INTERVAL);
    Ok(design)
}

/// Watches the program for a while.
pub(super) fn watch(name: &str, threads: usize, cpus: usize) -> Result<Watched, time::OutOfMemory> {
    let design = generation(name, threads, cpus)?;
    let timer = Mutex::new(Timer { due: INTERVAL, received: 0 });
    let program = Program { design: &*design, timer: &timer, threads, cpus };
    let spans = race::together(cpus, |cpu| program.run(cpu));
    let computed: f64 = spans.iter().map(|(computed, _)| computed.as_secs_f64()).sum();
    let consumed: f64 = spans.iter().map(|(_, consumed)| consumed.as_secs_f64()).sum();
    let received = program.timer.lock().map_or(0, |timer| timer.received);
    Ok(Watched { left: computed / consumed, seconds_per_tick: consumed / received as f64 })
}

/// ITIMER_PROF.
struct Timer {
    due: Nanos,
    received: u32,
}

/// The program on all CPUs.
struct Program<'a> {
    design: &'a dyn Accounting,
    timer: &'a Mutex<Timer>,
    threads: usize,
    cpus: usize,
}

impl Program<'_> {
    /// Runs one CPU; returns how long it computed, and how long it was watched.
    fn run(&self, cpu: CpuId) -> (Duration, Duration) {
        let start = race::consumed();
        let now = || race::consumed() - start;
        let mut computed = Duration::ZERO;
        let mut next_tick = TICK;
        // Each thread stays on one CPU.
        let mut thread = cpu.index();
        let mut at = now();
        while at < WATCHED {
            if at < next_tick {
                black_box(primes_up_to(black_box(CHUNK_UPTO)));
                computed += now() - at;
            } else {
                self.tick(cpu, thread);
                thread = if thread + self.cpus < self.threads { thread + self.cpus } else { cpu.index() };
                // Ticks that were due meanwhile become one, which comes at once.
                next_tick = (next_tick + TICK).max(now());
            }
            at = now();
        }
        (computed, at)
    }

    /// The timer's interrupt.
    fn tick(&self, cpu: CpuId, thread: usize) {
        let span = Nanos(TICK.as_nanos() as u64);
        self.design.account(cpu, thread, Kind::Exec, span);
        self.design.account(cpu, thread, Kind::User, span);
        if !self.design.tick(cpu, thread) {
            return;
        }
        // One CPU at a time expires, under the process's lock; the next may find it done.
        let mut timer = self.timer.lock().expect("no CPU panics");
        let sum = self.design.snapshot();
        if sum.utime + sum.stime >= timer.due {
            timer.received += 1;
            // Once, however late it is (`check_cpu_itimer`).
            timer.due += INTERVAL;
            self.design.arm(CpuClock::Prof, timer.due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No time is judged: only that the program is interrupted and gets its ticks.
    #[test]
    fn every_generation_lets_few_threads_compute_and_tick() {
        for name in NAMES {
            let watched = watch(name, 8, 1).unwrap();
            assert!(watched.left > 0.0 && watched.left <= 1.0, "{name}: {watched:?}");
            assert!(watched.seconds_per_tick.is_finite(), "{name}: {watched:?}");
        }
    }
}
