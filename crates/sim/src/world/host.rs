//! Calls that wait in the host.

use super::{Mode, World};
use crate::config::Bug;
use crate::event::Event;
use crate::machine::Inner;
use crate::trace::What;
use abi::{SigInfo, Signal};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Call, Trap, Wanted};
use linux::Linux;

impl World {
    /// If the CPU has other work, a spare makes the call. Every other time here there is no spare: then the carrier of
    /// `cpu` makes the call, and a new carrier takes the CPU at once. Without other work the carrier makes the call and
    /// keeps the CPU until it is wanted.
    pub(crate) fn host_begin(&mut self, cpu: CpuId, t: ThreadIdx, call: &Call, wanted: Wanted) {
        let th = self.thread(t);
        th.host_generation += 1;
        let n = th.host_generation;
        th.host = Some((n, cpu));
        let waiting = self.kernel.m.with_linux(|inner| inner.linux.begin(*call, self.now));
        self.thread(t).waiting = Some(waiting);
        if self.kernel.host_interrupted(t) {
            self.events.at(self.now, Event::Interrupt(t));
        }
        if !self.strikes(Bug::LoseHostReturn) {
            // A call that waits for another thread is tried at once.
            let span = if call.nr == abi::nr::FSYNC { call.args[0].max(1) } else { 1 };
            self.events.at(self.now + Nanos(span), Event::HostDone(t, n));
            if let Some(until) = waiting.until {
                self.events.at(until.max(self.now), Event::HostDone(t, n));
            }
        }
        let busy = wanted == Wanted::Now;
        if busy && n.is_multiple_of(2) {
            let next = self.kernel.resched(cpu);
            return self.settle(cpu, next, self.config.cost.kick_send);
        }
        let s = &self.kernel.sched;
        let kicked = s.need_resched(cpu) || s.queued(cpu) != 0 || self.cpus[cpu.index()].kick_pending;
        self.cpu(cpu).mode = Mode::Host(t);
        if busy || kicked {
            self.seat_spare(cpu);
        } else if let Wanted::At(at) = wanted {
            self.events.at(at.max(self.now), Event::CpuWanted(t, n));
        }
    }

    /// The CPU that `t` left for a host call is wanted: a spare takes it, unless that has happened already.
    pub(crate) fn cpu_wanted(&mut self, t: ThreadIdx, n: u32) {
        let host = self.threads.get(t.index()).and_then(|th| th.as_ref()?.host);
        if let Some((_, cpu)) = host.filter(|host| host.0 == n)
            && self.cpus[cpu.index()].mode == Mode::Host(t)
        {
            self.seat_spare(cpu);
        }
    }

    /// A signal ends the thread's call, if the thread can take it.
    pub(crate) fn host_interrupt(&mut self, t: ThreadIdx) {
        let host = self.threads.get(t.index()).and_then(|th| th.as_ref()?.host);
        if let Some((n, _)) = host
            && self.kernel.host_interrupted(t)
        {
            let result = self.thread(t).waiting.map_or(abi::Errno::EINTR.to_ret(), |waiting| waiting.interrupted());
            self.host_done(t, n, result);
        }
    }

    /// The host continues a call, which then ends or waits on.
    pub(crate) fn host_advances(&mut self, t: ThreadIdx, n: u32) {
        let Some(th) = self.threads.get_mut(t.index()).and_then(Option::as_mut) else { return };
        let Some(waiting) = th.waiting.as_mut().filter(|_| th.host.is_some_and(|host| host.0 == n)) else { return };
        let result = self.kernel.m.with_linux(|Inner { linux, memory, .. }| linux.advance(waiting, memory, self.now));
        if let Some(result) = result {
            self.host_done(t, n, result);
        }
    }

    /// Something has changed at the host: calls that wait for a change may be able to continue.
    pub(crate) fn look_at_waiting(&mut self) {
        let (changed, announced) = {
            let linux = &mut self.kernel.m.inner.lock().linux;
            (std::mem::take(&mut linux.changed), std::mem::take(&mut linux.announced))
        };
        for (mailbox, after) in announced {
            self.events.at(self.now + after, Event::Message(mailbox));
        }
        if !changed {
            return;
        }
        for (i, th) in self.threads.iter().enumerate() {
            if let Some(th) = th
                && let Some((n, _)) = th.host
                && th.waiting.is_some_and(|waiting| waiting.depends())
            {
                let delay = self.rng.between(100, 5_000);
                self.events.at(self.now + Nanos(delay), Event::HostDone(ThreadIdx(i as u32), n));
            }
        }
    }

    /// A child process ends and its parent gets SIGCHLD.
    pub(crate) fn child_exits(&mut self, child: i32) {
        self.kernel.m.with_linux(|inner| inner.linux.exit(child));
        // It is ignored, unless the program says otherwise.
        let _ = Linux(&self.kernel).signal_from_host(CpuId::NONE, SigInfo::kernel(Signal::CHLD));
        self.settle_nowhere();
    }

    pub(crate) fn host_done(&mut self, t: ThreadIdx, n: u32, result: isize) {
        let Some(th) = self.threads.get_mut(t.index()).and_then(Option::as_mut) else { return };
        let Some((_, cpu)) = th.host.filter(|h| h.0 == n) else { return };
        th.host = None;
        let tid = i64::from(th.tid.0);
        if self.cpus[cpu.index()].mode == Mode::Host(t) {
            return self.trap(cpu, Trap::HostReturn { thread: t, result });
        }
        // Another carrier has the CPU: this one reports the result and becomes a spare.
        self.note(CpuId::NONE, What::HostEnd, tid);
        self.kernel.host_returned(cpu, t, result);
        self.settle_nowhere();
    }
}
