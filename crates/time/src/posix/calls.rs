//! The calls: table, queues and timers put together.
//!
//! Wall-clock timers need no lock of the process: setting, reading and deleting one
//! touches that timer and its home's queue. CPU-clock timers are in queues of the
//! caller's, whose lock comes after a timer's own ([`CpuClocks`]). The process's accounts change when
//! such a timer, or one with a queued or parked signal, is deleted; a caller without the process lock
//! gets [`Refused::NeedsProcess`] and calls again with the lock.

use crate::cpu::itimer::ItimerValue;
use crate::planted::{self, Fault};
use crate::posix::queues::{ExpiryQueues, ReadClock, WallClocks};
use crate::posix::table::{IdSearch, Listed, NotReserved, Reserved, Slot, TimerKey, TimerTable};
use crate::posix::{Base, Delivered, Fired, IgnoredTimers, Notify, Resumed, Sent, SignalAt, Timer, TimerDump};
use crate::{Error, Heap, OutOfMemory};
use ids::{CpuId, Nanos};
use sync::atomic::Ordering::Relaxed;

/// The CPU clocks of the process and its threads.
pub trait CpuClocks {
    /// The clock's reading; `None` if its thread has exited.
    fn read(&self, base: Base) -> Option<Nanos>;
    /// Puts a timer into the clock's queue ([`crate::cpu::CpuTimers::arm`], and the cache
    /// follows).
    fn arm(&mut self, base: Base, timer: TimerKey, at: Nanos);
    /// Takes the timer out if it is in ([`crate::cpu::CpuTimers::disarm`], and the cache
    /// follows); its place is known for sure under the queue's lock only.
    fn disarm(&mut self, base: Base, timer: TimerKey);
}

/// For a caller without CPU clocks.
#[derive(Clone, Copy, Debug)]
pub struct NoCpuClocks;

impl CpuClocks for NoCpuClocks {
    fn read(&self, _: Base) -> Option<Nanos> {
        None
    }
    fn arm(&mut self, _: Base, _: TimerKey, _: Nanos) {}
    fn disarm(&mut self, _: Base, _: TimerKey) {}
}

/// Why a call did not do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The call fails with this error.
    Error(Error),
    /// The timer runs on a CPU clock: take the process lock and call again.
    NeedsProcess,
}

impl From<Error> for Refused {
    fn from(e: Error) -> Refused {
        Refused::Error(e)
    }
}

/// An expiry that is now the first on its clock in the queue of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct First {
    /// The CPU whose queue it is: its host timer may have to be set earlier.
    pub cpu: CpuId,
    /// The clock.
    pub base: Base,
    /// When, by that clock.
    pub at: Nanos,
}

/// A notice for the CPU that serves a timer, if it needs one.
pub type TellCpu = Option<First>;

/// A signal to be queued: everything that goes into its `siginfo`, and the key by which
/// its delivery comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerSignal {
    /// The timer it belongs to.
    pub key: TimerKey,
    /// `si_tid`: the timer's id.
    pub id: u32,
    /// The receiver and the signal.
    pub notify: Notify,
    /// `si_value`.
    pub value: u64,
}

/// The result of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a dropped signal is not delivered"]
pub enum Delivery {
    /// The signal is stale: take the next one.
    Dropped,
    /// Deliver it with this `si_overrun`.
    Signal {
        /// `si_overrun`.
        overrun: i32,
        /// The CPU whose host timer may have to be set earlier.
        tell: TellCpu,
    },
}

/// A timer that was deleted.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The timer as it was.
    pub listed: Listed,
    /// The timer's signal is still queued, but stale.
    pub queued: bool,
}

/// All of a process's POSIX timers.
#[derive(Debug)]
pub struct PosixTimers {
    /// Ids and slots.
    pub table: TimerTable,
    /// Timers by expiry.
    pub queues: ExpiryQueues,
}

impl PosixTimers {
    /// No timers, on `cpus` CPUs; with memory for a few on the first one, where programs start.
    pub fn new(cpus: usize) -> Result<PosixTimers, OutOfMemory> {
        const FIRST: CpuId = CpuId(0);
        let timers = PosixTimers { table: TimerTable::new()?, queues: ExpiryQueues::new(cpus)? };
        timers.table.prepare(FIRST)?;
        timers.queues.reserve(FIRST, Base::Monotonic)?;
        timers.queues.unreserve(FIRST, Base::Monotonic);
        Ok(timers)
    }

    /// Creates a timer in one go: for callers that need none of the steps between
    /// reserving and publishing (see [`crate::posix::spec`]).
    pub fn create(&self, wanted: Option<u32>, timer: Timer, home: CpuId, now: Nanos) -> Result<u32, NotReserved> {
        let reserved = self.table.reserve(wanted, home, &mut IdSearch::default())?;
        self.publish(reserved, timer, now)?;
        Ok(reserved.id)
    }

    /// The last step of a creation: reserves its place in the queue and makes the timer answer calls. On failure
    /// (EAGAIN) the id is given back. The caller reserves memory on CPU clocks.
    pub fn publish(&self, reserved: Reserved, timer: Timer, now: Nanos) -> Result<(), OutOfMemory> {
        if let Err(e) = self.queues.reserve(self.table.slot(reserved.key).home(), timer.base) {
            self.table.abandon(reserved);
            return Err(e);
        }
        self.table.publish(reserved, timer, now);
        Ok(())
    }

    /// `timer_settime(2)`: the old setting, if it is wanted. ESRCH for the CPU clock of a
    /// thread that is gone.
    pub fn settime(
        &self,
        id: i32,
        new: ItimerValue,
        want_old: bool,
        absolute: bool,
        now: &impl ReadClock,
        cpu: Option<&mut dyn CpuClocks>,
    ) -> Result<(ItimerValue, TellCpu), Refused> {
        let (key, slot, mut state) = self.table.lock(id)?;
        let timer = &mut state.timer;
        if !counts_cpu_time(timer.base) {
            let (before, base) = (timer.queue_base(), timer.base_for(absolute));
            // Disarming and absolute times do not depend on what the clocks read.
            let relative = new.value != Nanos::ZERO && !absolute;
            let wall = if want_old || relative { now.read(before) } else { None }.unwrap_or_default();
            self.queues.disarm(&self.table, slot, before);
            let old = if want_old { timer.get(wall) } else { ItimerValue::default() };
            let wall = if relative && base != before { now.read(base).unwrap_or_default() } else { wall };
            let at = timer.set(new, absolute, wall);
            let tell = at.and_then(|at| self.arm(key, slot, base, at));
            return Ok((old, tell));
        }
        let cpu = cpu.ok_or(Refused::NeedsProcess)?;
        let reading = cpu.read(timer.base).ok_or(Error::NoSuchProcess)?;
        disarm_cpu(key, slot, timer.base, cpu);
        let old = timer.get(reading);
        if let Some(at) = timer.set(new, absolute, reading) {
            cpu.arm(timer.base, key, at);
        }
        Ok((old, None))
    }

    /// `timer_gettime(2)`; all zero for the CPU clock of a thread that is gone.
    pub fn gettime(
        &self,
        id: i32,
        now: &impl ReadClock,
        cpu: Option<&mut dyn CpuClocks>,
    ) -> Result<ItimerValue, Refused> {
        let (_, _, mut state) = self.table.lock(id)?;
        let timer = &mut state.timer;
        if let Some(wall) = now.read(timer.queue_base()) {
            return Ok(timer.get(wall));
        }
        let reading = cpu.ok_or(Refused::NeedsProcess)?.read(timer.base);
        Ok(reading.map_or(ItimerValue::default(), |reading| timer.get(reading)))
    }

    /// `timer_delete(2)`: returns whether its signal is still queued, which is stale from now on. A parked signal is
    /// removed from `ignored`. A caller without the process lock is refused if the timer's signal is parked or queued,
    /// because that lock protects their accounts.
    pub fn delete(&self, id: i32, process: Option<(&mut dyn CpuClocks, &mut IgnoredTimers)>) -> Result<bool, Refused> {
        self.take(id, process).map(|taken| taken.queued)
    }

    /// Deletes a timer and returns what it was, with no delivery in between.
    pub fn take(&self, id: i32, process: Option<(&mut dyn CpuClocks, &mut IgnoredTimers)>) -> Result<Taken, Refused> {
        let (key, slot, mut state) = self.table.lock(id)?;
        let created = state.created();
        let timer = &mut state.timer;
        let base = timer.queue_base();
        let is_cpu = counts_cpu_time(base);
        if process.is_none() && (is_cpu || timer.signal() != SignalAt::Nowhere) {
            return Err(Refused::NeedsProcess);
        }
        let listed = Listed { id: id as u32, created, timer: *timer };
        self.queues.disarm(&self.table, slot, base);
        let (sent, last) = timer.delete();
        let signo = timer.notify.signo();
        if let Some((cpu, ignored)) = process {
            if is_cpu {
                disarm_cpu(key, slot, base, cpu);
            }
            if let (Sent::Unpark, Some(signo)) = (sent, signo) {
                ignored.unpark(&self.table, key, signo);
            }
        }
        self.queues.unreserve(slot.home(), state.timer.base);
        self.table.bury(key, state, last);
        Ok(Taken { listed, queued: !last })
    }

    /// Continues a timer where another was dumped. Returns the change of its CPU's expiry, and its key if its signal
    /// was pending: then call [`Self::fire`].
    pub fn resume(
        &self,
        id: i32,
        dump: &TimerDump,
        cpu: &mut dyn CpuClocks,
    ) -> Result<(TellCpu, Option<TimerKey>), Error> {
        let (key, slot, mut state) = self.table.lock(id)?;
        // It may have been set since, or resumed twice.
        let before = state.timer.queue_base();
        if counts_cpu_time(before) {
            disarm_cpu(key, slot, before, cpu);
        } else {
            self.queues.disarm(&self.table, slot, before);
        }
        let resumed = state.timer.restore(dump);
        let base = state.timer.queue_base();
        Ok(match resumed {
            Resumed::Idle => (None, None),
            Resumed::Fire => (None, Some(key)),
            Resumed::Arm(at) if counts_cpu_time(base) => {
                cpu.arm(base, key, at);
                (None, None)
            }
            Resumed::Arm(at) => (self.arm(key, slot, base, at), None),
        })
    }

    #[inline]
    fn arm(&self, key: TimerKey, slot: &Slot, base: Base, at: Nanos) -> TellCpu {
        let first = self.queues.arm(&self.table, key, slot, base, at);
        first.then(|| First { cpu: slot.home(), base, at })
    }

    /// The next timer that is due at `cpu`; [`Self::fire`] it.
    pub fn pop_due(&self, cpu: CpuId, now: &WallClocks) -> Option<TimerKey> {
        self.queues.pop_due(&self.table, cpu, now)
    }

    /// Handles a timer that left its queue because it was due, under the process lock. `target_lives`: whether this
    /// thread has not exited; `ignores`: whether this signal is ignored and not blocked. Returns the signal to queue,
    /// if any.
    ///
    /// Between the queue and this call the timer may have been set anew. If it is in a queue again, nothing happens.
    /// If that newer expiry has left its queue as well, the first call here fires it, once.
    pub fn fire(
        &self,
        key: TimerKey,
        ignored: &mut IgnoredTimers,
        target_lives: impl FnOnce(i32) -> bool,
        ignores: impl FnOnce(u8) -> bool,
    ) -> Option<TimerSignal> {
        let slot = self.table.slot(key);
        let mut state = slot.lock();
        if slot.place.load(Relaxed) != Heap::ABSENT || state.timer.fire() == Fired::Nothing {
            return None;
        }
        let id = state.id();
        let timer = &mut state.timer;
        let (signo, lives) = match timer.notify {
            Notify::None { .. } => return None,
            Notify::Process { signo, .. } => (signo, true),
            Notify::Thread { signo, tid } => (signo, target_lives(tid)),
        };
        let was_parked = timer.signal() == SignalAt::Ignored;
        let sent = timer.send(lives, ignores(signo));
        match sent {
            Sent::Park => ignored.park(&self.table, key, signo),
            Sent::Unpark => ignored.unpark(&self.table, key, signo),
            Sent::Queue if was_parked => ignored.unpark(&self.table, key, signo),
            Sent::Queue | Sent::Nothing => {}
        }
        (sent == Sent::Queue).then_some(TimerSignal { key, id, notify: timer.notify, value: timer.value })
    }

    /// A timer's signal was taken from its queue to be delivered. Under the process lock.
    /// A periodic timer is armed again, past now.
    pub fn deliver(&self, key: TimerKey, now: &impl ReadClock, cpu: &mut dyn CpuClocks) -> Delivery {
        let slot = self.table.slot(key);
        let mut state = slot.lock();
        let base = state.timer.queue_base();
        // A CPU clock whose thread is gone stands still: nothing is re-armed on it.
        let reading = now.read(base).or_else(|| cpu.read(base));
        match state.timer.deliver(reading.unwrap_or(Nanos::ZERO)) {
            Delivered::Dropped { last } => {
                if last {
                    self.table.release(key, state);
                }
                Delivery::Dropped
            }
            Delivered::Signal { overrun, rearm } => {
                let rearm = rearm.filter(|_| !planted::strikes(Fault::LoseRearm));
                let mut tell = None;
                if let (Some(at), Some(_)) = (rearm, reading) {
                    if now.read(base).is_some() {
                        tell = self.arm(key, slot, base, at);
                    } else {
                        cpu.arm(base, key, at);
                    }
                }
                Delivery::Signal { overrun, tell }
            }
        }
    }

    /// A pending signal of a timer is flushed because the program ignores it from now on.
    /// Under the process lock.
    pub fn flush(&self, key: TimerKey, ignored: &mut IgnoredTimers) {
        let mut state = self.table.slot(key).lock();
        let parked = state.timer.flushed();
        match state.timer.notify.signo() {
            Some(signo) if parked => ignored.park(&self.table, key, signo),
            _ if state.timer.discarded() => self.table.release(key, state),
            _ => {}
        }
    }

    /// A pending signal of a timer is thrown away with the queue it was in.
    pub fn discard(&self, key: TimerKey) {
        let mut state = self.table.slot(key).lock();
        if state.timer.discarded() {
            self.table.release(key, state);
        }
    }

    /// The program no longer ignores `signo`: the next parked timer, until `None`, and its signal to queue
    /// again, unless its target is gone. Under the process lock, and one per call, so that the lock is
    /// never held for all of them.
    /// Note that Linux calls this for signals that were SIG_IGN only, not for those that
    /// were ignored by default.
    pub fn unignore(
        &self,
        signo: u8,
        ignored: &mut IgnoredTimers,
        target_lives: impl Fn(i32) -> bool,
    ) -> Option<Option<TimerSignal>> {
        let key = ignored.first(signo)?;
        let mut state = self.table.slot(key).lock();
        ignored.unpark(&self.table, key, signo);
        let id = state.id();
        let timer = &mut state.timer;
        let lives = match timer.notify {
            Notify::Thread { tid, .. } => target_lives(tid),
            _ => true,
        };
        let revived = timer.unignored(lives) && !planted::strikes(Fault::ForgetParked);
        Some(revived.then_some(TimerSignal { key, id, notify: timer.notify, value: timer.value }))
    }
}

const fn counts_cpu_time(base: Base) -> bool {
    matches!(base, Base::ProcessCpu(_) | Base::ThreadCpu(..))
}

fn disarm_cpu(key: TimerKey, slot: &Slot, base: Base, cpu: &mut dyn CpuClocks) {
    if slot.place.load(Relaxed) != Heap::ABSENT {
        cpu.disarm(base, key);
    }
}

#[cfg(test)]
mod dumps;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
