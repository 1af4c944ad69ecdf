//! Expiry: the timer of a CPU also serves the POSIX timers of that CPU.

use super::clocks::machine_clock;
use crate::machine::{Clock, Machine};
use crate::{Kernel, ThreadIdx, WAKES_MAX};
use abi::{SigInfo, Signal};
use core::cell::Cell;
use ids::{CpuId, Nanos, Tid};
use signal::{ProcessSignals, Sent, Target};
use time::posix::{Base, First, Notify, TimerKey, TimerSignal};

/// How often a clock that can be set is checked: an absolute expiry on it comes at most this late after the clock was
/// set forward. (Never early: expiries are judged by the clock itself.)
const LOOK_AGAIN: Nanos = Nanos::from_secs(1);

impl<M: Machine> Kernel<M> {
    /// When to check, by the monotonic clock, for an expiry on some clock.
    pub(crate) fn look_at(&self, base: Base, at: Nanos) -> Nanos {
        if base == Base::Monotonic {
            return at;
        }
        let left = at.since(self.clock(machine_clock(base)));
        self.clock(Clock::Monotonic) + left.min(LOOK_AGAIN)
    }

    /// The first POSIX timer of this CPU on the monotonic clock (MAX for none), and those on other clocks. Called under
    /// the lock of the CPU's timeouts.
    pub(crate) fn first_posix_expiries(&self, cpu: CpuId) -> (Nanos, [Option<(Base, Nanos)>; 3]) {
        let queues = &self.posix.timers.queues;
        if !queues.is_used(cpu) {
            return (Nanos::MAX, [None; 3]);
        }
        let [(_, monotonic), others @ ..] = queues.firsts(cpu);
        (monotonic.unwrap_or(Nanos::MAX), others.map(|(base, at)| at.map(|at| (base, at))))
    }

    /// A timer has become the first of its queue: sets its CPU's timer for it. If it is already due, it expires here.
    pub(super) fn serve_expiry(&self, cpu: CpuId, first: First) {
        let at = self.look_at(first.base, first.at);
        if first.cpu == cpu && at <= self.now() {
            self.expire_posix_timers(cpu);
        }
        if self.lower_earliest(first.cpu, at) && first.cpu != cpu {
            self.m.kick(first.cpu);
        }
    }

    /// Sends the signals of the timers that are due on this CPU, at most 64 (law 4).
    pub(crate) fn expire_posix_timers(&self, cpu: CpuId) {
        if !self.posix.timers.queues.is_used(cpu) {
            return;
        }
        let now = self.wall_clocks();
        for _ in 0..WAKES_MAX {
            let Some(key) = self.posix.timers.pop_due(cpu, &now) else { return };
            self.fire_timer(cpu, key, self.first_choice(cpu));
        }
    }

    /// A timer has left its queue because it was due. If it signals the process, `first` is the first choice.
    pub(crate) fn fire_timer(&self, cpu: CpuId, key: TimerKey, first: ThreadIdx) {
        let sent = {
            let mut process = self.process.signals.lock();
            let mut ignored = self.posix.ignored.lock();
            let target = Cell::new(first);
            let lives = |tid| {
                let living = self.living_target(tid);
                target.set(living.unwrap_or(first));
                living.is_some()
            };
            let ignores = |signo| {
                let candidate = self.thread(target.get()).signals.0.lock().candidate(self.state_of(target.get()));
                Signal::from_raw(i32::from(signo)).is_none_or(|s| process.is_dropped(s, &candidate))
            };
            let Some(fired) = self.posix.timers.fire(key, &mut ignored, lives, ignores) else { return };
            self.queue_timer_signal(&mut process, &fired, first)
        };
        self.after_timer_signal(cpu, sent);
    }

    /// The thread that is tried first for a timer that signals the process: the current thread, else the main thread,
    /// else any (`posixtimer_get_target`, `complete_signal`).
    pub(super) fn first_choice(&self, cpu: CpuId) -> ThreadIdx {
        let current = (cpu != CpuId::NONE).then(|| self.sched.current(cpu)).flatten();
        current.unwrap_or(ThreadIdx(0))
    }

    /// The thread of that id, if it still takes signals.
    pub(super) fn living_target(&self, tid: i32) -> Option<ThreadIdx> {
        let t = self.threads.find(Tid(tid))?;
        (!self.thread(t).signals.0.lock().has_exited()).then_some(t)
    }

    /// Queues a timer's signal, with the process's signals locked.
    pub(super) fn queue_timer_signal(
        &self,
        process: &mut ProcessSignals,
        fired: &TimerSignal,
        first: ThreadIdx,
    ) -> Option<(Sent, SigInfo, ThreadIdx)> {
        let signal = Signal::from_raw(i32::from(fired.notify.signo()?))?;
        let info = SigInfo::timer(signal, fired.id as i32, 0, fired.value);
        let key = signal::TimerKey(u64::from(fired.key.0));
        let (sent, first) = match fired.notify {
            Notify::Thread { tid, .. } => {
                let t = self.living_target(tid)?;
                let state = self.state_of(t);
                let mut signals = self.thread(t).signals.0.lock();
                let candidate = signals.candidate(state);
                let sent = process.send_timer(Target::Thread(&mut signals, candidate), key, info).ok()?;
                (sent, t)
            }
            _ => {
                let candidate = self.thread(first).signals.0.lock().candidate(self.state_of(first));
                (process.send_timer(Target::Process(candidate), key, info).ok()?, first)
            }
        };
        self.settle_timers(process);
        Some((sent, info, first))
    }

    pub(super) fn after_timer_signal(&self, cpu: CpuId, sent: Option<(Sent, SigInfo, ThreadIdx)>) {
        if let Some((sent, info, first)) = sent {
            self.after_sending(cpu, sent, info, first);
        }
    }
}
