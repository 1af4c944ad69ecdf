//! Timers on CPU clocks of other processes. The host counts those, so each is a host timer under an id of ours. Its
//! signals arrive at the service thread for the process and are forwarded to their target.

use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, Personality};
use abi::{Errno, SigEvent, SigInfo, Signal};
use alloc::vec::Vec;
use ids::{CpuId, Tid};
use sync::Lock;
use sync::atomic::{AtomicUsize, Ordering::*};
use time::posix::{Base, TimerClock};

/// The real-time signals that the C library reserves. On the host they are the machine's tick and interrupt, so a timer
/// with one of them uses another signal on the host.
const PRIVATE_SIGNALS: core::ops::RangeInclusive<i32> = 32..=33;
/// SIGRTMAX.
const CARRYING_SIGNAL: i32 = 64;

/// A host timer behind one of ours.
#[derive(Clone, Copy, Debug)]
struct Carried {
    id: i32,
    host: i32,
    /// The signal that the program asked for, and the thread if it is for one.
    signal: Option<Signal>,
    aim: Option<Tid>,
}

/// All host timers: few, and usually none.
#[derive(Debug, Default)]
pub(super) struct HostTimers {
    list: Lock<Vec<Carried>>,
    count: AtomicUsize,
}

impl HostTimers {
    fn find(&self, which: impl Fn(&Carried) -> bool) -> Option<Carried> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        self.list.lock().iter().copied().find(which)
    }

    fn add(&self, timer: Carried) -> Result<(), Errno> {
        let mut list = self.list.lock();
        list.try_reserve(1).map_err(|_| Errno::EAGAIN)?;
        list.push(timer);
        self.count.store(list.len(), Relaxed);
        Ok(())
    }

    fn remove(&self, id: i32) -> Option<Carried> {
        let mut list = self.list.lock();
        let at = list.iter().position(|timer| timer.id == id)?;
        let timer = list.swap_remove(at);
        self.count.store(list.len(), Relaxed);
        Some(timer)
    }
}

impl<M: Machine> Kernel<M> {
    /// The base of a timer on another process's CPU clock, which only the host can judge.
    pub(super) fn others_clock(&self, clock: TimerClock) -> Option<Base> {
        match clock {
            TimerClock::Cpu(id) if !id.per_thread => Some(Base::ProcessCpu(id.clock)),
            _ => None,
        }
    }

    /// Makes the host timer behind timer `id`.
    pub(super) fn make_host_timer(&self, id: u32, raw: i32, event: &SigEvent) -> Result<(), Errno> {
        let mut wanted = *event;
        if wanted.notify == SigEvent::THREAD_ID {
            wanted.notify = SigEvent::SIGNAL;
        }
        if PRIVATE_SIGNALS.contains(&wanted.signo) {
            wanted.signo = CARRYING_SIGNAL;
        }
        let host = M::Personality::host_timer(&self.m, crate::HostTimer::Create(raw, &wanted))?;
        let aim = (event.notify == SigEvent::THREAD_ID).then_some(Tid(event.tid));
        let timer = Carried { id: id as i32, host, signal: Signal::from_raw(event.signo), aim };
        self.posix.host.add(timer).inspect_err(|_| self.delete_on_host(host))
    }

    fn delete_on_host(&self, host: i32) {
        // The only error is that the timer is gone already.
        let _ = M::Personality::host_timer(&self.m, crate::HostTimer::Delete(host));
    }

    pub(super) fn is_host_timer(&self, id: i32) -> bool {
        self.posix.host.find(|timer| timer.id == id).is_some()
    }

    /// Passes a call about timer `id` to the host.
    pub(super) fn ask_host_timer(&self, cpu: CpuId, call: &Call) -> Out {
        let Some(timer) = self.posix.host.find(|timer| timer.id == call.args[0] as i32) else {
            return Errno::EINVAL.into();
        };
        let mut call = *call;
        call.args[0] = timer.host as u64;
        self.foreign(cpu, self.current(cpu), &call)
    }

    pub(super) fn delete_host_timer(&self, id: i32) {
        if let Some(timer) = self.posix.host.remove(id) {
            self.delete_on_host(timer.host);
        }
    }

    /// Passes on a timer's signal that the host has sent to the process.
    pub fn timer_signal_from_host(&self, cpu: CpuId, info: SigInfo) -> Result<(), Errno> {
        let Some(timer) = self.posix.host.find(|timer| timer.host == info.timer_id()) else {
            // The timer has been deleted.
            return Ok(());
        };
        let Some(signal) = timer.signal.or(info.signal()) else { return Ok(()) };
        let info = SigInfo::timer(signal, timer.id, info.overrun(), info.value());
        match timer.aim {
            None => self.send_to_process(cpu, None, info),
            Some(tid) => match self.send_to_id(cpu, tid, info) {
                Err(Errno::ESRCH) => Ok(()),
                sent => sent,
            },
        }
    }
}
