//! How a run ended.

use super::World;
use crate::hardware::Figures;
use crate::trace::Record;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::stats::Stats;

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The process ended, with this status.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// There are no more events.
    Quiet,
    /// The time limit.
    Limit,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// A description.
    pub what: String,
    /// The time.
    pub at: Nanos,
    /// Which threads run and wait on which CPU.
    pub scene: String,
    /// The last events, oldest first.
    pub tail: Vec<Record>,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why it ended.
    pub end: End,
    /// When, in virtual time.
    pub time: Nanos,
    /// How many events there were.
    pub events: u64,
    /// Equal for equal runs.
    pub hash: u64,
    /// The violated invariant, if any.
    pub violation: Option<Violation>,
    /// Whether the planted bug had its opportunity.
    pub planted: bool,
    /// The kernel's counters.
    pub stats: Stats,
    /// The figures of the machine's model, if it has one.
    pub hardware: Option<Figures>,
    /// Everything that happened, if [`crate::Config::record`] asked for it.
    pub records: Vec<Record>,
}

impl Outcome {
    /// # Panics
    /// With a report, if anything was violated.
    #[track_caller]
    pub fn expect_sound(&self, seed: u64) {
        if let Some(v) = &self.violation {
            let tail: Vec<String> =
                v.tail.iter().map(|r| format!("  {:?} {:?} {:?} {}", r.at, r.cpu, r.what, r.who)).collect();
            panic!("seed {seed}, at {:?}: {}\n{}\nwhat happened last:\n{}", v.at, v.what, v.scene, tail.join("\n"));
        }
    }
}

impl World {
    pub(super) fn finish(&mut self) -> Outcome {
        let end = self.end.unwrap_or(End::Quiet);
        if self.broken.is_none() && self.config.check {
            self.check_all();
        }
        if self.broken.is_none() {
            self.close_times();
            match end {
                End::Quiet | End::Limit if self.config.must_end => {
                    let stuck = self.stuck();
                    self.fail(format!("{end:?}, but not all threads have ended: {stuck}"));
                }
                End::Killed(signal) => self.fail(format!("signal {signal} ended the process")),
                _ => {}
            }
        }
        let scene = if self.broken.is_some() { self.scene() } else { String::new() };
        let violation = self.broken.take().map(|what| Violation { what, at: self.now, scene, tail: self.trace.tail() });
        Outcome {
            end,
            time: self.now,
            events: self.handled,
            hash: self.trace.hash(),
            violation,
            planted: self.planted || self.kernel.personality.planted.has_struck(),
            stats: self.kernel.stats(),
            hardware: self.hardware.figures(),
            records: self.trace.take_records(),
        }
    }

    /// The first few threads that remain, and what they wait for.
    pub(crate) fn stuck(&self) -> String {
        let alive = self.threads.iter().enumerate().filter_map(|(i, t)| Some((ThreadIdx(i as u32), t.as_ref()?)));
        let describe = alive.take(8).map(|(i, t)| {
            let wait = &self.kernel.thread(i).wait;
            format!("{} ({i:?}, {:?}, wait {:?} on {:?})", t.tid.0, t.work, wait.kind(), self.kernel.sched.cpu_of(i))
        });
        let mut list: Vec<String> = describe.collect();
        for (i, c) in self.cpus.iter().enumerate().take(8) {
            let cpu = CpuId(i as u16);
            let s = &self.kernel.sched;
            list.push(format!("{cpu:?}: {:?}, {} queued, resched {}", c.mode, s.queued(cpu), s.need_resched(cpu)));
        }
        list.join("; ")
    }

    /// Which threads run and wait on which CPU (the first sixteen CPUs that have any).
    fn scene(&self) -> String {
        let s = &self.kernel.sched;
        let mut lines = std::collections::BTreeMap::<CpuId, Vec<String>>::new();
        // A damaged queue has been reported already; what can be read of it is shown.
        let _ = s.audit(|cpu, t, place| {
            let tid = self.kernel.tid(t).0;
            let line = format!("{t:?}={tid} {place:?} {:?} {:?} {:?}", s.attr(t).policy, s.urgency(t), s.affinity(t));
            lines.entry(cpu).or_default().push(line);
        });
        let lines = lines.iter().take(16).map(|(cpu, threads)| {
            let resched = if s.need_resched(*cpu) { " (asked to schedule)" } else { "" };
            format!("  {cpu:?}{resched}: {}", threads.join("; "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// All threads' time and all idle time must be the elapsed time of all CPUs.
    fn close_times(&mut self) {
        for i in 0..self.cpus.len() {
            self.change_thread(CpuId(i as u16), None);
        }
        let idle: u64 = self.cpus.iter().map(|c| c.idle.0).sum();
        let used = self.checker.dead_time.0 + self.threads.iter().flatten().map(|t| t.on_cpu.0).sum::<u64>();
        let elapsed = self.now.0 * self.cpus.len() as u64;
        if idle + used != elapsed {
            self.fail(format!("{used} ns used and {idle} ns idle are not {elapsed} ns elapsed on all CPUs"));
        }
    }
}
