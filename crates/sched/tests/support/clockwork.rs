//! Time passes: ticks come when they are needed, budgets end when they end.

use super::{Checked, Life, Machine, Violation};
use entresol_sched::{Attr, Prev};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};

/// The regular tick.
pub const TICK: u64 = 100_000;

impl Machine {
    /// Lets `nanos` pass; threads that run compute.
    pub fn pass(&mut self, nanos: u64) -> Checked {
        let end = self.now + nanos;
        let mut tick_at = self.now + TICK;
        while self.now < end {
            let event = self.ids().filter_map(|c| self.s.next_event(c)).min().map_or(end, |e| e.0);
            self.now = end.min(tick_at).min(event.max(self.now + 1));
            tick_at = if self.now == tick_at { tick_at + TICK } else { tick_at };
            for cpu in self.ids() {
                if self.s.tick_needed(cpu) {
                    self.tick(cpu);
                }
                self.look(cpu);
            }
            if !self.settle() {
                return Err(Violation("requests without end".into()));
            }
            self.check_always()?;
        }
        Ok(())
    }

    /// A new thread that runs wherever it likes, and at once if it may.
    pub fn go(&mut self, attr: Attr) -> ThreadIdx {
        self.go_on(attr, CpuMask::first(self.cpus.len()))
    }

    /// A new thread with this mask.
    pub fn go_on(&mut self, attr: Attr, mask: CpuMask) -> ThreadIdx {
        let from = mask.lowest().unwrap();
        let x =
            self.start(Attr { policy: ids::Policy::Other, rt: ids::RtPriority(0), deadline: None, ..attr }, mask, from);
        self.s.set_attr(x, &attr, Nanos(self.now), &mut self.kicks).unwrap();
        self.reordered.insert(x);
        self.settle();
        x
    }

    /// The running thread `x` waits.
    pub fn sleep(&mut self, x: ThreadIdx) {
        if let Life::Running(cpu) = self.threads[x.index()].life {
            self.s.prepare_block(x);
            self.schedule(cpu, Prev::Block);
            self.settle();
        }
    }

    /// CPU time of `x` in microseconds.
    pub fn used_micros(&self, x: ThreadIdx) -> u64 {
        self.s.runtime(x, Nanos(self.now)).0 / 1000
    }
}

/// Fails unless `value` is within `slack` of `due`.
pub fn near(what: &str, value: u64, due: u64, slack: u64) -> Checked {
    if value.abs_diff(due) <= slack { Ok(()) } else { Err(Violation(format!("{what}: {value}, due {due}"))) }
}

/// Fails with `what` unless `holds`.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation(what())) }
}

pub const CPU0: CpuId = CpuId(0);
