//! Calls that wait in the host.

use super::{Mode, World};
use crate::config::Bug;
use crate::event::Event;
use crate::trace::What;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Call, Trap};

impl World {
    /// If the CPU has something else to do, a spare makes the call; where there is none, as every other time here, the
    /// carrier of `cpu` makes it and a new one takes its place at once. Else the carrier keeps the seat, loosely.
    pub(crate) fn host_begin(&mut self, cpu: CpuId, t: ThreadIdx, call: &Call, busy: bool) {
        let th = self.thread(t);
        th.host_generation += 1;
        let n = th.host_generation;
        th.host = Some((n, cpu));
        if self.kernel.host_interrupted(t) {
            self.events.at(self.now, Event::Interrupt(t));
        }
        if !self.strikes(Bug::LoseHostReturn) {
            self.events.at(self.now + Nanos(call.args[0].max(1)), Event::HostDone(t, n));
        }
        if busy && n.is_multiple_of(2) {
            let next = self.kernel.go_on(cpu);
            return self.settle(cpu, next, self.config.cost.kick_send);
        }
        let s = &self.kernel.sched;
        let wanted = s.need_resched(cpu) || s.queued(cpu) != 0 || self.cpus[cpu.index()].kick_pending;
        self.cpu(cpu).mode = Mode::Host(t);
        if busy || wanted {
            self.seat_spare(cpu);
        }
    }

    /// A signal for the thread ends its call, if it can take it.
    pub(crate) fn host_interrupt(&mut self, t: ThreadIdx) {
        let host = self.threads.get(t.index()).and_then(|th| th.as_ref()?.host);
        if let Some((n, _)) = host
            && self.kernel.host_interrupted(t)
        {
            self.host_done(t, n, abi::Errno::EINTR.to_ret());
        }
    }

    pub(crate) fn host_done(&mut self, t: ThreadIdx, n: u32, result: isize) {
        let Some(th) = self.threads.get_mut(t.index()).and_then(Option::as_mut) else { return };
        let Some((_, cpu)) = th.host.filter(|h| h.0 == n) else { return };
        th.host = None;
        let tid = i64::from(th.tid.0);
        if self.cpus[cpu.index()].mode == Mode::Host(t) {
            return self.trap(cpu, Trap::HostReturn { thread: t, result });
        }
        // The seat is somebody else's: the carrier reports and becomes a spare.
        self.note(CpuId::NONE, What::HostEnd, tid);
        self.kernel.host_returned(cpu, t, result);
        self.settle_nowhere();
    }
}
