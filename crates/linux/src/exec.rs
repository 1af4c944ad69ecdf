//! Pending signals across `execve(2)`: what the thread blocks stays pending in the new program, except signals of
//! timers, which end with them (`flush_itimer_signals`).
//!
//! The new program finds them where a native program would: at the host, queued for its first thread or for the
//! process. So they are moved there before the call, and from then on the host keeps further ones. The new program's
//! image takes them over; if the call fails, this one does.

use crate::left;
use crate::{Host, Linux};
use abi::{SigInfo, SigSet, si_code};
use alloc::vec::Vec;
use ids::{CpuId, ThreadIdx};
use kernel::machine::{Event, NEVER_LEFT, SignalChange};

/// Signals that were moved to the host, in case the call fails.
#[derive(Debug, Default)]
pub struct HandedOn {
    set: SigSet,
    /// Signals of timers, and those for which the host has no room, which are lost if the call succeeds. The flag: the
    /// signal is the thread's alone.
    kept: Vec<(SigInfo, bool)>,
}

impl<M: Host> Linux<'_, M> {
    /// Called before the current thread `t` executes a program. Its mask is the carrier's already, so nothing queued
    /// here is delivered, and a signal that it does not block arrives at the carrier. The machine takes no others,
    /// because what it took now would end with this program. What it took before is queued here when this returns.
    pub fn hand_on_signals(&self, t: ThreadIdx) -> HandedOn {
        let set = self.blocked(t);
        let mut handed = HandedOn { set, kept: Vec::new() };
        self.m.observe(Event::Signals(SignalChange::LeftToHost(SigSet(!0))));
        while !set.is_empty() {
            let private = self.process().signals.lock().private_set(&self.thread(t).signals.0.lock()) & set;
            // Take signals of the thread alone first.
            let Some(info) = self.take_signal(t, if private.is_empty() { set } else { private }) else { break };
            let is_left = private.is_empty() && !info.signal().is_some_and(|s| NEVER_LEFT.contains(s));
            let queued = match () {
                () if info.code() == si_code::TIMER => false,
                () if is_left => left::queue(&self.m, &info),
                () => left::queue_for_carrier(&self.m, self.config().pid.0, &info),
            };
            if !queued && handed.kept.try_reserve(1).is_ok() {
                handed.kept.push((info, !private.is_empty()));
            }
        }
        handed
    }

    /// Called if the call has failed.
    pub fn take_signals_back(&self, cpu: CpuId, t: ThreadIdx, handed: HandedOn) {
        if !handed.set.is_empty() {
            self.take_over_signals(cpu, t, handed.set);
        }
        self.m.observe(Event::Signals(SignalChange::LeftToHost(self.state().descriptors.left())));
        for (info, private) in handed.kept {
            // Cannot fail, because the signal was queued here before.
            let _ = match private {
                true => self.send_to_thread(cpu, t, info),
                false => self.send_to_process(cpu, Some(t), info),
            };
        }
    }

    /// Moves signals that are pending at the host here, except those of the process that descriptors read, which the
    /// host keeps. The caller is the carrier of `t`. The host has accepted all of them, so only what exceeds this
    /// process's own limit is refused.
    pub fn take_over_signals(&self, cpu: CpuId, t: ThreadIdx, set: SigSet) {
        if (left::pending(&self.m) & set).is_empty() {
            return;
        }
        loop {
            let private = left::pending_for_carrier(&self.m) & set;
            if private.is_empty() {
                break;
            }
            let Some(info) = left::take(&self.m, private) else { break };
            let _ = self.send_to_thread(cpu, t, info);
        }
        let set = set.without(self.state().descriptors.left());
        while let Some(info) = left::take(&self.m, set) {
            let _ = self.send_to_process(cpu, Some(t), info);
        }
    }
}
