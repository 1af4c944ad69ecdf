//! The seed's tests: create and getoverrun of 20,000 to 100,000 timers, and a loop of
//! create and delete, for each design; ns per call.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use entresol_lab::posix_timers::*;
use ids::CpuId;
use std::time::{Duration, Instant};

fn all(timers: usize) -> Vec<Box<dyn TimerIds>> {
    vec![
        Box::new(Hash::global(1, timers)),
        Box::new(Hash::double_walk(1, timers)),
        Box::new(Hash::scaled(1, timers, 2)),
        Box::new(Xarray::new(1, timers)),
        Box::new(Ours::new(1, 2).unwrap()),
    ]
}

fn sizes(c: &mut Criterion) {
    for timers in [20_000, 50_000, 100_000] {
        let mut g = c.benchmark_group(format!("{timers} timers"));
        g.throughput(Throughput::Elements(timers as u64));
        for design in 0..5 {
            let name = all(1)[design].name();
            g.bench_function(BenchmarkId::new("create", name), |b| {
                b.iter_custom(|rounds| {
                    let rounds: Vec<_> = (0..rounds).map(|_| all(timers).swap_remove(design)).collect();
                    let start = Instant::now();
                    rounds.iter().for_each(|d| (0..timers).for_each(|_| _ = d.create(0, CpuId(0))));
                    start.elapsed()
                });
            });
            let d = all(timers).swap_remove(design);
            (0..timers).for_each(|_| _ = d.create(0, CpuId(0)));
            g.bench_function(BenchmarkId::new("getoverrun", name), |b| {
                b.iter(|| assert!((0..timers as u32).all(|id| d.look_up(0, id))));
            });
        }
        g.finish();
    }
}

fn loops(c: &mut Criterion) {
    let mut g = c.benchmark_group("create and delete");
    for threads in [1u16, 2] {
        for d in all(1_000) {
            // Others' timers make the chains that a loop has to walk.
            (0..900).for_each(|_| _ = d.create(0, CpuId(0)));
            g.bench_function(BenchmarkId::new(d.name(), threads), |b| {
                b.iter_custom(|pairs| {
                    let start = Instant::now();
                    std::thread::scope(|s| {
                        for cpu in 0..threads {
                            let (d, cpu) = (&d, CpuId(cpu));
                            let one = move || (0..pairs).for_each(|_| assert!(d.delete(0, d.create(0, cpu).unwrap())));
                            s.spawn(one);
                        }
                    });
                    start.elapsed()
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
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200));
    targets = sizes, loops
}
criterion_main!(benches);
