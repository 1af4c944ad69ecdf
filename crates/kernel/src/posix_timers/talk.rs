//! Hooks of timers at their queued signals: at delivery, when they are flushed, and when the program no longer
//! ignores them.

use super::clocks::NotLater;
use super::cpu_clocks::CpuClocksOf;
use crate::machine::Machine;
use crate::{Kernel, ThreadIdx};
use abi::{SigInfo, Signal};
use ids::CpuId;
use signal::{ProcessSignals, TimerSignals};
use sync::atomic::Ordering::*;
use time::posix::{Delivery, First, TimerKey, TimerTable};

/// Called by crate `signal` for each timer's signal that it takes from a queue.
pub(crate) struct TimerTalk<'a, M: Machine> {
    kernel: &'a Kernel<M>,
    /// A new expiry, to be served when no lock is held.
    first: Option<First>,
    clocks: CpuClocksOf<'a, M>,
}

fn key(timer: signal::TimerKey) -> TimerKey {
    TimerKey(timer.0 as u32)
}

impl<M: Machine> TimerSignals for TimerTalk<'_, M> {
    fn deliver(&mut self, timer: signal::TimerKey, info: SigInfo) -> Option<SigInfo> {
        let room = &self.kernel.posix;
        match room.timers.deliver(key(timer), &NotLater(&self.kernel.m), &mut self.clocks) {
            Delivery::Dropped => None,
            Delivery::Signal { overrun, tell } => {
                self.first = tell.or(self.first);
                Some(SigInfo::timer(info.signal()?, info.timer_id(), overrun, info.value()))
            }
        }
    }

    fn alarm_taken(&mut self) {}
}

impl<M: Machine> Kernel<M> {
    /// Ids and slots of the timers.
    pub(crate) fn timer_table(&self) -> &TimerTable {
        &self.posix.timers.table
    }

    /// The hook for crate `signal`. Call [`TimerTalk::finish`] afterwards, with no lock held.
    #[inline]
    pub(crate) fn timer_talk(&self) -> TimerTalk<'_, M> {
        TimerTalk { kernel: self, first: None, clocks: self.cpu_clocks(false) }
    }

    /// Handles timers whose signals were flushed because the program now ignores them: parks the periodic ones. Called
    /// under the lock of the process's signals after each call that may flush.
    #[inline]
    pub(crate) fn settle_timers(&self, process: &mut ProcessSignals) {
        while let Some(timer) = process.next_dropped() {
            self.posix.timers.flush(key(timer), &mut self.posix.ignored.lock());
        }
    }

    /// Handles timers whose signals were lost with their thread.
    pub(crate) fn discard_timers(&self, process: &mut ProcessSignals) {
        while let Some(timer) = process.next_dropped() {
            self.posix.timers.discard(key(timer));
        }
    }

    /// `sigaction(2)` made the program ignore a signal: flushes what single threads have queued of it now, not when
    /// they next check, so that its timers are parked.
    pub(crate) fn flush_aimed_timers(&self) {
        if !self.posix.aimed.load(Relaxed) {
            return;
        }
        for t in self.threads.iter() {
            let mut process = self.process.signals.lock();
            process.settle(&mut self.thread(t).signals.0.lock());
            self.settle_timers(&mut process);
        }
    }

    /// `sigaction(2)` made the program no longer ignore a signal: parked timers queue theirs.
    pub(crate) fn revive_timers(&self, cpu: CpuId, t: ThreadIdx, signal: Signal) {
        loop {
            let sent = {
                let mut process = self.process.signals.lock();
                let revived = {
                    let mut ignored = self.posix.ignored.lock();
                    let lives = |tid| self.living_target(tid).is_some();
                    self.posix.timers.unignore(signal.raw() as u8, &mut ignored, lives)
                };
                match revived {
                    None => return,
                    Some(None) => continue,
                    Some(Some(revived)) => self.queue_timer_signal(&mut process, &revived, t),
                }
            };
            self.after_timer_signal(cpu, sent);
        }
    }
}

impl<M: Machine> TimerTalk<'_, M> {
    /// Serves expiries that a delivery has set.
    #[inline]
    pub(crate) fn finish(&self, cpu: CpuId) {
        self.clocks.finish(cpu);
        if let Some(first) = self.first {
            self.kernel.serve_expiry(cpu, first);
        }
    }
}
