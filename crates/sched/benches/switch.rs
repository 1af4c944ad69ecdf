//! What scheduling costs: yields, hand-overs, and pairs of wake-up and wait with 2, 1,000 and
//! 100,000 runnable threads on one CPU.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use entresol_sched::{Attr, Config, Kick, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use std::hint::black_box;
use std::time::Duration;

const CPU: CpuId = CpuId(0);
const SIZES: [u32; 3] = [2, 1_000, 100_000];

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

/// A scheduler of one CPU with `n` runnable threads, one of them running.
fn busy(n: u32, attr: &Attr) -> Scheduler {
    let s = Scheduler::new(&Config { cpus: 1, ..Config::default() }).expect("memory");
    for i in 0..n {
        s.attach(ThreadIdx(i), attr, CpuMask::first(1)).expect("memory");
        s.wake_new(ThreadIdx(i), CPU, Nanos(1_000 + u64::from(i)), &mut NoKick);
    }
    assert!(s.schedule(CPU, Nanos(1_000_000), Prev::Preempted, &mut NoKick).is_some());
    s
}

fn yields(c: &mut Criterion) {
    let mut g = c.benchmark_group("yield");
    for (class, attr) in [("fair", Attr::DEFAULT), ("fifo", Attr::fifo(10))] {
        for n in SIZES {
            let s = busy(n, &attr);
            let mut now = 1_000_000;
            g.bench_function(BenchmarkId::new(class, n), |b| {
                b.iter(|| {
                    now += 100;
                    black_box(s.schedule(CPU, Nanos(now), Prev::Yield, &mut NoKick))
                })
            });
        }
    }
    g.finish();
}

/// The running thread wakes another and waits itself; that one runs (or others, if it is their turn).
fn wake_and_wait(c: &mut Criterion) {
    let mut g = c.benchmark_group("wake+schedule");
    for (class, attr) in [("fair", Attr::DEFAULT), ("fifo", Attr::fifo(10))] {
        for n in SIZES {
            let s = busy(n, &attr);
            let mut now = 1_000_000;
            let mut blocked = s.current(CPU).expect("somebody runs");
            s.prepare_block(blocked);
            let mut current = s.schedule(CPU, Nanos(now), Prev::Block, &mut NoKick).expect("two threads");
            g.bench_function(BenchmarkId::new(class, n), |b| {
                b.iter(|| {
                    now += 100;
                    s.wake(blocked, CPU, Nanos(now), &mut NoKick);
                    now += 100;
                    s.prepare_block(current);
                    blocked = current;
                    current = s.schedule(CPU, Nanos(now), Prev::Block, &mut NoKick).expect("two threads");
                })
            });
        }
    }
    g.finish();
}

/// A thread uses up its slice and is preempted by the tick.
fn preempt(c: &mut Criterion) {
    let mut g = c.benchmark_group("tick+preempt");
    for n in SIZES {
        let s = busy(n, &Attr::DEFAULT);
        let mut now = 1_000_000;
        g.bench_function(BenchmarkId::new("fair", n), |b| {
            b.iter(|| {
                now += 1_000_000;
                s.tick(CPU, Nanos(now), &mut NoKick);
                black_box(s.schedule(CPU, Nanos(now), Prev::Preempted, &mut NoKick))
            })
        });
    }
    g.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(1))
        .warm_up_time(Duration::from_millis(300))
        .sample_size(20);
    targets = yields, wake_and_wait, preempt
}
criterion_main!(benches);
