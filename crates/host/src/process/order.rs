//! Checks by samples that the most urgent threads have the CPUs, for tests (`run --check-order`). The watcher checks in
//! each round, and the process ends with a report if a thread waits where it should not.
//!
//! Between a wake-up and its kick, and between a change of priority and the next trap of its CPU, a thread may wait
//! unjustly for a moment. Each tick repairs what was missed, so the bound is in ticks of the CPU where the thread
//! waits, which exclude time that the host takes away. The promise is broken if the same wait is unjust in `LOOKS`
//! successive checks with `TICKS` ticks between any two.

use crate::base::report;
use crate::process::Process;
use crate::process::survey;
use alloc::boxed::Box;
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering::*;

const LOOKS: u32 = 3;
const TICKS: u64 = 4;

/// A wait that looked unjust.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    thread: ThreadIdx,
    since: Nanos,
    /// The ticks of its CPU at the last check.
    ticks: u64,
    looks: u32,
}

/// Observations, by CPU.
#[derive(Debug)]
pub(crate) struct Order {
    suspects: Box<[Option<Suspect>]>,
}

impl Order {
    pub(crate) fn new(cpus: usize) -> Order {
        Order { suspects: (0..cpus).map(|_| None).collect() }
    }

    /// Checks the threads that wait for `cpu`.
    pub(crate) fn look(&mut self, k: &Process, cpu: CpuId) {
        if !k.m.settings.check_order {
            return;
        }
        let suspect = &mut self.suspects[cpu.index()];
        let Some(found) = k.sched.misplaced(cpu) else {
            *suspect = None;
            return;
        };
        let ticks = k.cpu(cpu).count.ticks.load(Relaxed);
        match suspect {
            Some(s) if (s.thread, s.since) == (found.thread, found.since) => {
                if ticks.wrapping_sub(s.ticks) >= TICKS {
                    (s.looks, s.ticks) = (s.looks + 1, ticks);
                }
                if s.looks >= LOOKS {
                    end(k, cpu, &found);
                }
            }
            _ => *suspect = Some(Suspect { thread: found.thread, since: found.since, ticks, looks: 1 }),
        }
    }
}

fn end(k: &Process, cpu: CpuId, found: &sched::Misplaced) -> ! {
    report::say(format_args!(
        "thread {} waits for CPU {} over several ticks, although CPU {} runs something less urgent; the process ends",
        k.tid(found.thread).0,
        cpu.0,
        found.instead.0
    ));
    survey::end(k)
}
