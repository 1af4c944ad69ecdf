//! Two threads spin on one CPU and never give it up: for how long does neither run at a switch?

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::clock::{now_ns, percentile};
use super::{Measured, pthread, report};

/// The later thread's first reading of the clock minus the earlier one's last: the cost of a preemption, from the
/// interrupt to the next thread's instruction, and of one reading.
pub(super) fn measure(quick: bool) -> Measured {
    let duration_ns: u64 = if quick { 700_000_000 } else { 2_000_000_000 };
    // Threads inherit their creator's CPUs.
    pthread::pin(pthread::cpus()[0])?;
    // The last reading of the clock, with the thread that read it in the lowest bit.
    let last_look = AtomicU64::new(0);
    let spin = |own: u64| {
        let end = now_ns() + duration_ns;
        let mut gaps = Vec::with_capacity(10_000);
        loop {
            let mut now = now_ns();
            let last = last_look.load(Ordering::Relaxed);
            if last != 0 && last & 1 != own && gaps.len() < gaps.capacity() {
                if now <= last {
                    // The other thread ran after this look: the first look since then is the next one.
                    now = now_ns();
                }
                gaps.push(now.saturating_sub(last) as f64);
            }
            last_look.store(now & !1 | own, Ordering::Relaxed);
            if now > end {
                return gaps;
            }
        }
    };
    let mut gaps = thread::scope(|scope| {
        let both = [scope.spawn(|| spin(0)), scope.spawn(|| spin(1))];
        let mut gaps = Vec::new();
        for thread in both {
            gaps.extend(thread.join().expect("a spinning thread does not panic"));
        }
        gaps
    });
    if gaps.is_empty() {
        return Err("the two threads never took turns".into());
    }
    report::figure("preemption", "us", percentile(&mut gaps, 50) / 1e3);
    Ok(())
}
