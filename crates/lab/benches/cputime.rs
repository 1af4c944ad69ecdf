//! ns per accounting and per snapshot, all generations, with one and two real threads.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use entresol_lab::cputime::*;
use ids::{CpuId, Nanos};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const THREADS: usize = 1_000;

fn all() -> Vec<Box<dyn Accounting>> {
    let all: Vec<Box<dyn Accounting>> = vec![
        Box::new(Walk::new(THREADS)),
        Box::new(PerCpu::new(THREADS, 2)),
        Box::new(Locked::new(THREADS)),
        Box::new(Atomic::new(THREADS)),
        Box::new(Today::new(THREADS)),
        Box::new(Ours::new(THREADS, 2).unwrap()),
    ];
    for a in &all {
        (0..THREADS).for_each(|t| a.spawn(t).unwrap());
        a.start();
    }
    all
}

/// Runs `work` on `cpus` host threads at once and returns the time of one call.
fn timed(cpus: u16, calls: u64, work: impl Fn(CpuId) + Sync) -> Duration {
    let gate = Barrier::new(cpus as usize);
    std::thread::scope(|s| {
        let hands: Vec<_> = (0..cpus)
            .map(|cpu| {
                let (gate, work) = (&gate, &work);
                s.spawn(move || {
                    gate.wait();
                    let start = Instant::now();
                    (0..calls).for_each(|_| work(CpuId(cpu)));
                    start.elapsed()
                })
            })
            .collect();
        hands.into_iter().map(|h| h.join().unwrap()).max().unwrap()
    })
}

fn accounting(c: &mut Criterion) {
    let mut g = c.benchmark_group("account");
    for a in all() {
        for cpus in [1, 2] {
            g.bench_function(BenchmarkId::new(a.name(), cpus), |b| {
                b.iter_custom(|calls| {
                    timed(cpus, calls, |cpu| {
                        a.account(cpu, cpu.index(), Kind::Exec, Nanos(1_000));
                        a.account(cpu, cpu.index(), Kind::User, Nanos(1_000));
                    })
                });
            });
        }
    }
    g.finish();
    let mut g = c.benchmark_group("snapshot");
    for a in all() {
        for cpus in [1, 2] {
            g.bench_function(BenchmarkId::new(a.name(), cpus), |b| {
                b.iter_custom(|calls| {
                    timed(cpus, calls, |_| {
                        std::hint::black_box(a.snapshot());
                    })
                });
            });
        }
    }
    g.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = accounting
}
criterion_main!(benches);
