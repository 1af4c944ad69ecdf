//! Samples for `entresol profile`: which thread, when, and how much CPU time the sample stands for. The machine
//! records where the thread is.
//!
//! By CPU time, a running thread is sampled at ticks. A sample stands for the thread's consumption since its last one,
//! so a thread's samples add up to its clock however ticks fall. What it consumes after the last sample is reported at
//! its end and counts for that sample, if there was one. By the wall clock, the machine samples waiting threads itself
//! and asks each CPU to sample the thread it runs.

use crate::Kernel;
use crate::machine::{Event, Machine};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    /// Called at a tick that found `t` running.
    pub(crate) fn sample_at_tick(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) {
        let Some(every) = self.config.sampling.filter(|s| !s.wall).map(|s| s.every) else { return };
        let last = &self.cpu(cpu).sampled;
        // Ticks come a little early and late.
        if now.since(Nanos(last.load(Relaxed))) + Nanos(self.config.tick.0 / 2) < every {
            return;
        }
        last.store(now.0, Relaxed);
        let value = self.unsampled(t, now);
        self.m.observe(Event::Sample(cpu, t, value));
    }

    /// The consumption of `t` since its last sample; counts as sampled from now on.
    fn unsampled(&self, t: ThreadIdx, now: Nanos) -> Nanos {
        let consumed = self.consumed(t, now);
        let sampled = &self.thread(t).time.sampled;
        let before = Nanos(sampled.load(Relaxed));
        // Stolen time is subtracted from a thread's clock later, so the clock may be behind for a while.
        sampled.store(consumed.max(before).0, Relaxed);
        consumed.since(before)
    }

    /// Called at the end of the running thread `t`.
    pub(crate) fn sample_at_exit(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) {
        if self.config.sampling.is_some() {
            self.m.observe(Event::Unsampled(cpu, t, self.unsampled(t, now)));
        }
    }

    /// CPU time of `t` since the last call, for a machine that samples a thread which does not run.
    pub fn take_unsampled(&self, t: ThreadIdx) -> Nanos {
        self.unsampled(t, self.now())
    }

    /// Asks `cpu` for a sample of the thread that it runs.
    pub fn ask_for_sample(&self, cpu: CpuId) {
        let c = self.cpu(cpu);
        c.sample_asked.store(true, Release);
        c.asked.store(true, Release);
        self.m.kick(cpu);
    }

    #[cold]
    pub(crate) fn answer_sample(&self, cpu: CpuId) {
        if self.cpu(cpu).sample_asked.swap(false, AcqRel)
            && let Some(t) = self.sched.current(cpu)
        {
            let value = self.unsampled(t, self.now());
            self.m.observe(Event::Sample(cpu, t, value));
        }
    }
}
