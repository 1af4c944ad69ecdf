//! What one live decision costs with 1,000 and with 100,000 runnable threads: to *pick* who runs next, to *enqueue* who
//! was woken, and to find the CPU where who is woken should be (*placement*).
//!
//! Whole calls are timed, by batches of different threads: pick is `schedule` by a thread that waits, enqueue is
//! `wake` on a machine of one CPU, placement is `wake` on four busy CPUs. What is undone between two batches is not timed.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use entresol_sched::{Attr, Config, Kick, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SIZES: [u32; 2] = [1_000, 100_000];
/// Threads of one batch.
const BATCH: usize = 256;
/// Where placement has a choice.
const CPUS: usize = 4;

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

/// Busy CPUs with so many runnable threads in all.
struct Busy {
    s: Scheduler,
    now: u64,
    turn: usize,
    cpus: usize,
    waiting: Vec<ThreadIdx>,
}

impl Busy {
    fn new(cpus: usize, threads: u32, attr: &Attr) -> Busy {
        let s = Scheduler::new(&Config { cpus, ..Config::default() }).expect("memory");
        for i in 0..threads {
            let cpu = CpuId(i as u16 % cpus as u16);
            s.attach(ThreadIdx(i), attr, CpuMask::only(cpu)).expect("memory");
            s.wake_new(ThreadIdx(i), cpu, Nanos(1_000 + u64::from(i)), &mut NoKick);
        }
        for cpu in (0..cpus as u16).map(CpuId) {
            assert!(s.schedule(cpu, Nanos(1_000_000), Prev::Preempted, &mut NoKick).is_some());
        }
        for i in 0..threads {
            s.set_affinity(ThreadIdx(i), CpuMask::first(cpus), Nanos(1_000_000), &mut NoKick).expect("CPUs");
        }
        Busy { s, now: 1_000_000, turn: 0, cpus, waiting: Vec::with_capacity(BATCH) }
    }

    fn next_cpu(&mut self) -> CpuId {
        self.turn = after(self.turn, self.cpus);
        CpuId(self.turn as u16)
    }

    /// As many threads as a batch has wait, one after the other.
    fn wait(&mut self) {
        for _ in 0..BATCH {
            let cpu = self.next_cpu();
            self.now += 1_000;
            let t = self.s.current(cpu).expect("all CPUs are busy");
            self.s.prepare_block(t);
            black_box(self.s.schedule(cpu, Nanos(self.now), Prev::Block, &mut NoKick));
            self.waiting.push(t);
        }
    }

    /// They are woken, each by another CPU than before.
    fn wake(&mut self) {
        let (mut now, mut turn) = (self.now, self.turn);
        for &t in &self.waiting {
            turn = after(turn, self.cpus);
            now += 1_000;
            black_box(self.s.wake(t, CpuId(turn as u16), Nanos(now), &mut NoKick));
        }
        (self.now, self.turn) = (now, turn);
        self.waiting.clear();
    }
}

/// Whose turn it is after this CPU's.
fn after(turn: usize, cpus: usize) -> usize {
    if turn + 1 == cpus { 0 } else { turn + 1 }
}

/// Times one of the two halves, over and over.
fn half(b: &mut criterion::Bencher<'_>, m: &mut Busy, wakes: bool) {
    b.iter_custom(|steps| {
        let mut sum = Duration::ZERO;
        for _ in 0..steps.div_ceil(BATCH as u64) {
            let begun = Instant::now();
            m.wait();
            let between = Instant::now();
            m.wake();
            sum += if wakes { between.elapsed() } else { between - begun };
        }
        // Criterion divides by the steps that it asked for.
        sum.mul_f64(steps as f64 / (steps.div_ceil(BATCH as u64) * BATCH as u64) as f64)
    });
}

fn decisions(c: &mut Criterion) {
    let classes = [("fair", Attr::DEFAULT), ("fifo", Attr::fifo(10))];
    for (name, cpus, wakes) in [("pick", 1, false), ("enqueue", 1, true), ("placement", CPUS, true)] {
        let mut g = c.benchmark_group(name);
        for (class, attr) in classes {
            for n in SIZES {
                let mut m = Busy::new(cpus, n, &attr);
                g.bench_function(BenchmarkId::new(class, n), |b| half(b, &mut m, wakes));
            }
        }
        g.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300))
        .sample_size(30);
    targets = decisions
}
criterion_main!(benches);
