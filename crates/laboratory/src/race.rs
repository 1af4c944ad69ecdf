//! Races of designs on real CPUs: one pinned host thread each.

use std::sync::Barrier;
use std::time::Duration;

use ids::CpuId;

use bench::probe::clock::percentile;
use bench::probe::pthread;

/// How long a batch takes at least: many times what the clock costs.
const BATCH: Duration = Duration::from_millis(1);
/// How many batches; the median counts, because the host takes CPUs away now and then.
const BATCHES: usize = 9;

/// Nanoseconds of a CPU for one call while `cpus` CPUs, at most as many as the host allows, make it at once.
pub(super) fn ns_per_call(cpus: usize, work: impl Fn(CpuId) + Sync) -> f64 {
    let mut calls = 16;
    while calls < 1 << 24 && batch(cpus, calls, &work) < BATCH {
        calls *= 2;
    }
    let mut took: Vec<f64> =
        (0..BATCHES).map(|_| batch(cpus, calls, &work).as_nanos() as f64 / f64::from(calls)).collect();
    percentile(&mut took, 50)
}

/// How long each CPU took for its calls, on average.
fn batch(cpus: usize, calls: u32, work: &(impl Fn(CpuId) + Sync)) -> Duration {
    let took = together(cpus, |cpu| {
        let start = consumed();
        (0..calls).for_each(|_| work(cpu));
        consumed() - start
    });
    took.iter().sum::<Duration>() / cpus as u32
}

/// CPU time of this thread: the laboratory's clock, because machines are shared.
pub(super) fn consumed() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs `work` on that many pinned threads, which begin together. If there are more threads than CPUs, they share them.
pub(super) fn together<T: Send>(threads: usize, work: impl Fn(CpuId) -> T + Sync) -> Vec<T> {
    let hosts = pthread::cpus();
    let gate = Barrier::new(threads);
    std::thread::scope(|scope| {
        let one = |at: usize| {
            let (gate, work, host) = (&gate, &work, hosts[at % hosts.len()]);
            scope.spawn(move || {
                // Unpinned is slower and not wrong.
                let _ = pthread::pin(host);
                gate.wait();
                work(CpuId(at as u16))
            })
        };
        let threads: Vec<_> = (0..threads).map(one).collect();
        threads.into_iter().map(|thread| thread.join().expect("a racing thread does not panic")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn every_cpu_calls_as_often() {
        let calls = [const { AtomicU32::new(0) }; 2];
        let ns = ns_per_call(2, |cpu| _ = calls[cpu.index()].fetch_add(1, Ordering::Relaxed));
        assert!(ns > 0.0);
        let [first, second] = calls.map(AtomicU32::into_inner);
        assert_eq!(first, second);
    }
}
