//! Timers on CPU clocks of this process and of its threads: they are in the queues of [`crate::cputime`], where ticks
//! expire them by consumed time.

use crate::Kernel;
use crate::cputime::SleepClock;
use crate::machine::Machine;
use ids::{CpuId, Nanos, Tid};
use time::posix::{Base, CpuClocks, TimerKey};

/// The CPU clocks for one call about one timer. Call [`CpuClocksOf::finish`] afterwards, with no lock held.
pub(crate) struct CpuClocksOf<'a, M: Machine> {
    kernel: &'a Kernel<M>,
    /// Expire a timer at once if it is armed for the past, as `posix_cpu_timer_set` does.
    at_once: bool,
    due: Option<TimerKey>,
    ticks: bool,
}

impl<M: Machine> Kernel<M> {
    /// `None` for other clocks, and for that of a thread that has ended.
    pub(super) fn cpu_clock(&self, base: Base) -> Option<SleepClock> {
        match base {
            Base::ProcessCpu(clock) => self.cpu_clock_of(None, clock),
            Base::ThreadCpu(clock, tid) => self.cpu_clock_of(Some(Tid(tid)), clock),
            _ => None,
        }
    }

    pub(super) fn cpu_clocks(&self, at_once: bool) -> CpuClocksOf<'_, M> {
        CpuClocksOf { kernel: self, at_once, due: None, ticks: false }
    }
}

impl<M: Machine> CpuClocks for CpuClocksOf<'_, M> {
    fn read(&self, base: Base) -> Option<Nanos> {
        Some(self.kernel.read_clock(self.kernel.cpu_clock(base)?))
    }

    fn arm(&mut self, base: Base, timer: TimerKey, at: Nanos) {
        let Some(clock) = self.kernel.cpu_clock(base) else { return };
        if self.at_once && at <= self.kernel.read_clock(clock) {
            self.due = Some(timer);
        } else {
            self.ticks |= self.kernel.arm_cpu_timer(clock, timer, at);
        }
    }

    fn disarm(&mut self, base: Base, timer: TimerKey) {
        if let Some(clock) = self.kernel.cpu_clock(base) {
            self.kernel.disarm_cpu_timer(clock, timer);
        }
    }
}

impl<M: Machine> CpuClocksOf<'_, M> {
    /// Does the work that was deferred while locks were held.
    pub(super) fn finish(&self, cpu: CpuId) {
        if self.ticks {
            self.kernel.ask_for_ticks(cpu);
        }
        if let Some(timer) = self.due {
            self.kernel.fire_timer(cpu, timer, self.kernel.first_choice(cpu));
        }
    }
}
