//! What the real-time class costs those who do not use it, in instructions: `.ci/check-rt-cost` counts them (callgrind)
//! for this program built as it is and built with `--features no-rt`.
//!
//! `instructions yield N` and `instructions wake N` make so many steps between fair threads.

use entresol_sched::{Attr, Config, Kick, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use std::hint::black_box;

const CPU: CpuId = CpuId(0);
/// As many threads and CPUs as a program has that does not care: the usual paths, no special case for one CPU.
const THREADS: u32 = 2;
const CPUS: usize = 2;
/// Between two steps.
const STEP: u64 = 100;

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let [what, steps] = &arguments[..] else {
        println!("counted by .ci/check-rt-cost");
        return;
    };
    let steps: u64 = steps.parse().expect("a number of steps");
    let s = busy();
    match what.as_str() {
        "yield" => yields(&s, steps),
        "wake" => wakes(&s, steps),
        other => panic!("unknown: {other}"),
    }
}

/// Fair threads on the first of two CPUs, one of them running.
fn busy() -> Scheduler {
    let s = Scheduler::new(&Config { cpus: CPUS, ..Config::default() }).expect("memory");
    for i in 0..THREADS {
        s.attach(ThreadIdx(i), &Attr::DEFAULT, CpuMask::only(CPU)).expect("memory");
        s.wake_new(ThreadIdx(i), CPU, Nanos(1_000 + u64::from(i)), &mut NoKick);
    }
    assert!(s.schedule(CPU, Nanos(1_000_000), Prev::Preempted, &mut NoKick).is_some());
    s
}

#[inline(never)]
fn yields(s: &Scheduler, steps: u64) {
    for i in 0..steps {
        black_box(s.schedule(CPU, Nanos(1_000_000 + STEP * i), Prev::Yield, &mut NoKick));
    }
}

/// The running thread wakes the one that waits and waits itself.
#[inline(never)]
fn wakes(s: &Scheduler, steps: u64) {
    let mut now = 1_000_000;
    let mut waits = s.current(CPU).expect("somebody runs");
    s.prepare_block(waits);
    let mut runs = s.schedule(CPU, Nanos(now), Prev::Block, &mut NoKick).expect("others are there");
    for _ in 0..steps {
        now += STEP;
        black_box(s.wake(waits, CPU, Nanos(now), &mut NoKick));
        now += STEP;
        s.prepare_block(runs);
        waits = runs;
        runs = s.schedule(CPU, Nanos(now), Prev::Block, &mut NoKick).expect("one was woken");
    }
}
