//! The system calls of POSIX timers: `timer_create(2)`, with its checks in Linux's order (`time::posix::spec`),
//! `timer_settime(2)`, `timer_gettime(2)`, `timer_getoverrun(2)`, `timer_delete(2)`, and
//! `prctl(PR_TIMER_CREATE_RESTORE_IDS)`.

use super::clocks::NotEarlier;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, ThreadIdx};
use abi::args::TIMER_ABSTIME;
use abi::{Errno, Itimerspec, SigEvent};
use ids::{CpuId, Nanos, Tid};
use time::Who;
use time::cpu::itimer::ItimerValue;
use time::posix::{Base, IdSearch, Listed, NotReserved, Notify, Refused, Reserved, Timer, TimerClock, wanted_id};

/// An error of crate `time` as Linux's errno.
pub(super) fn errno(e: time::Error) -> Errno {
    Errno(e.errno())
}

/// The caller: clocks and threads are named from its point of view.
struct Caller<'a, M: Machine> {
    kernel: &'a Kernel<M>,
    thread: ThreadIdx,
}

impl<M: Machine> Who for Caller<'_, M> {
    fn tid(&self) -> i32 {
        self.kernel.tid(self.thread).0
    }
    fn pid(&self) -> i32 {
        self.kernel.config.pid.0
    }
    fn is_own_thread(&self, tid: i32) -> bool {
        tid > 0 && self.kernel.threads.find(Tid(tid)).is_some()
    }
    /// Only the host knows; it is asked when it makes the timer.
    fn is_process(&self, pid: i32) -> bool {
        pid > 0
    }
}

/// The side that runs a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Ours,
    /// The host, because the timer is on the CPU clock of another process.
    Host,
}

/// What the caller asked for.
struct Wanted {
    clock: TimerClock,
    clock_raw: i32,
    event: Option<SigEvent>,
    /// The address to which the id is written, unless the caller chose it.
    id_at: Option<u64>,
}

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_timer_create(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [clock, event, id_at, ..] = call.args;
        match self.timer_create(cpu, t, clock as i32, event, id_at) {
            Ok(true) => Out::Done(0),
            Ok(false) => {
                // Many successive ids were taken: the search continues from the counter after others had their turn.
                self.restart_call(t, None);
                Out::Restored
            }
            Err(e) => e.into(),
        }
    }

    /// False: the call must be repeated.
    fn timer_create(&self, cpu: CpuId, t: ThreadIdx, clock_raw: i32, event: u64, id_at: u64) -> Result<bool, Errno> {
        let event = if event == 0 { None } else { Some(self.get(event)?) };
        let clock = TimerClock::new(clock_raw).map_err(errno)?;
        let table = &self.posix.timers.table;
        let mut id = None;
        if table.is_restoring() {
            let raw = self.load_u32(id_at)?;
            id = Some(wanted_id(raw as i32).map_err(errno)?);
        }
        self.reserve_and_make(cpu, t, id, Wanted { clock, clock_raw, event, id_at: Some(id_at) })
    }

    /// Makes a timer with this id, whatever the mode, for a process that is being restored.
    pub(super) fn create_exactly(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        clock_raw: i32,
        event: SigEvent,
        id: i32,
    ) -> Result<(), Errno> {
        let clock = TimerClock::new(clock_raw).map_err(errno)?;
        let id = wanted_id(id).map_err(errno)?;
        let wanted = Wanted { clock, clock_raw, event: Some(event), id_at: None };
        if self.reserve_and_make(cpu, t, Some(id), wanted)? { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// Charges, assigns an id and makes the timer. False: too many successive ids were taken.
    fn reserve_and_make(&self, cpu: CpuId, t: ThreadIdx, id: Option<u32>, wanted: Wanted) -> Result<bool, Errno> {
        self.charge_timer(cpu)?;
        let made = match self.posix.timers.table.reserve(id, cpu, &mut IdSearch::by(t.0)) {
            Ok(reserved) => self.make_timer(t, reserved, wanted).map(|()| true),
            Err(NotReserved::Refused(e)) => Err(errno(e)),
            Err(NotReserved::More) => Ok(false),
        };
        if made != Ok(true) {
            self.uncharge_timer(cpu);
        }
        made
    }

    /// From the reserved id to a timer that answers calls.
    fn make_timer(&self, t: ThreadIdx, reserved: Reserved, wanted: Wanted) -> Result<(), Errno> {
        let room = &self.posix;
        let made = self.check_timer(t, reserved.id, &wanted).and_then(|(timer, whose)| {
            self.prepare_clock(reserved.id, &timer, whose, &wanted)?;
            Ok(timer)
        });
        let timer = made.inspect_err(|_| room.timers.table.abandon(reserved))?;
        room.note(&timer);
        room.timers.publish(reserved, timer, self.now()).map_err(|_| Errno::EAGAIN)
    }

    /// Prepares what a timer on a CPU clock needs beside its slot.
    fn prepare_clock(&self, id: u32, timer: &Timer, whose: Whose, wanted: &Wanted) -> Result<(), Errno> {
        if whose == Whose::Host {
            let event = wanted.event.unwrap_or(SigEvent { signo: 14, value: u64::from(id), ..Default::default() });
            return self.make_host_timer(id, wanted.clock_raw, &event);
        }
        let is_cpu = matches!(timer.base, Base::ProcessCpu(_) | Base::ThreadCpu(..));
        match self.cpu_clock(timer.base) {
            Some(clock) => self.keep_cpu_timer(clock).map_err(|_| Errno::EAGAIN),
            None if is_cpu => Err(Errno::EINVAL),
            None => Ok(()),
        }
    }

    fn check_timer(&self, t: ThreadIdx, id: u32, wanted: &Wanted) -> Result<(Timer, Whose), Errno> {
        let who = Caller { kernel: self, thread: t };
        let (notify, value) = match &wanted.event {
            None => (Notify::DEFAULT, u64::from(id)),
            Some(e) => (Notify::new(e.notify, e.signo, e.tid, &who).map_err(errno)?, e.value),
        };
        if let Some(at) = wanted.id_at {
            self.store_u32(at, id)?;
        }
        let (base, whose) = match wanted.clock.resolve(&who) {
            Ok(base) => (base, Whose::Ours),
            // Another process's clock: the host may know it.
            Err(time::Error::Invalid) => (self.others_clock(wanted.clock).ok_or(Errno::EINVAL)?, Whose::Host),
            Err(e) => return Err(errno(e)),
        };
        Ok((Timer::new(base, notify, value, wanted.clock_raw), whose))
    }

    /// `prctl(PR_TIMER_CREATE_RESTORE_IDS)`. A request for exact ids is followed by creations, so it charges some
    /// timers in advance.
    pub(crate) fn restore_timer_ids(&self, cpu: CpuId, a: &[u64; 6]) -> Out {
        let table = &self.posix.timers.table;
        match table.restore_ids(a[1], [a[2], a[3], a[4]]) {
            Ok(answer) => {
                // At the limit, `timer_create` reports the error itself.
                if table.is_restoring() && self.charge_timer(cpu).is_ok() {
                    self.uncharge_timer(cpu);
                }
                Out::Done(answer as isize)
            }
            Err(e) => errno(e).into(),
        }
    }

    /// Flags other than TIMER_ABSTIME are ignored, as on Linux.
    pub(crate) fn sys_timer_settime(&self, cpu: CpuId, call: &Call) -> Out {
        let [id, flags, new, old, ..] = call.args;
        let (interval, value) = match self.read_setting(new) {
            Ok(pair) => pair,
            Err(e) => return e.into(),
        };
        let absolute = flags & TIMER_ABSTIME != 0;
        let new = ItimerValue { value, interval };
        if self.is_host_timer(id as i32) {
            return self.ask_host_timer(cpu, call);
        }
        let mut clocks = self.cpu_clocks(true);
        let timers = &self.posix.timers;
        match timers.settime(id as i32, new, old != 0, absolute, &NotEarlier(&self.m), Some(&mut clocks)) {
            Ok((before, first)) => {
                clocks.finish(cpu);
                if let Some(first) = first {
                    self.serve_expiry(cpu, first);
                }
                if old == 0 { Out::Done(0) } else { self.write_setting(old, before) }
            }
            Err(Refused::Error(e)) => errno(e).into(),
            Err(Refused::NeedsProcess) => Errno::EINVAL.into(),
        }
    }

    /// Reads interval and value; EINVAL without a setting or for an invalid one, EFAULT.
    fn read_setting(&self, at: u64) -> Result<(Nanos, Nanos), Errno> {
        if at == 0 {
            return Err(Errno::EINVAL);
        }
        self.get::<Itimerspec>(at)?.to_nanos()
    }

    fn write_setting(&self, at: u64, setting: ItimerValue) -> Out {
        self.put(at, Itimerspec::from_nanos(setting.interval, setting.value)).into()
    }

    pub(crate) fn sys_timer_gettime(&self, cpu: CpuId, call: &Call) -> Out {
        let [id, to, ..] = call.args;
        if self.is_host_timer(id as i32) {
            return self.ask_host_timer(cpu, call);
        }
        match self.posix.timers.gettime(id as i32, &NotEarlier(&self.m), Some(&mut self.cpu_clocks(false))) {
            Ok(setting) => self.write_setting(to, setting),
            Err(Refused::Error(e)) => errno(e).into(),
            Err(Refused::NeedsProcess) => Errno::EINVAL.into(),
        }
    }

    pub(crate) fn sys_timer_getoverrun(&self, cpu: CpuId, call: &Call) -> Out {
        match self.posix.timers.table.overrun(call.args[0] as i32) {
            Ok(_) if self.is_host_timer(call.args[0] as i32) => self.ask_host_timer(cpu, call),
            Ok(overrun) => Out::Done(overrun as isize),
            Err(e) => errno(e).into(),
        }
    }

    /// `timer_delete(2)`. A queued signal of the timer stays visible until its turn comes, and is dropped then.
    pub(crate) fn sys_timer_delete(&self, cpu: CpuId, call: &Call) -> Out {
        let id = call.args[0] as i32;
        if self.is_host_timer(id) {
            return self.delete_slowly(id);
        }
        match self.posix.timers.delete(id, None) {
            Ok(_) => {
                self.uncharge_timer(cpu);
                Out::Done(0)
            }
            Err(Refused::Error(e)) => errno(e).into(),
            Err(Refused::NeedsProcess) => self.delete_slowly(id),
        }
    }

    /// Deletes a timer with a pending signal, or one on a CPU clock.
    fn delete_slowly(&self, id: i32) -> Out {
        match self.take_timer(id) {
            Some(_) => Out::Done(0),
            None => Errno::EINVAL.into(),
        }
    }

    /// Deletes any timer and returns its description: nothing of it is delivered in between.
    pub(super) fn take_timer(&self, id: i32) -> Option<Listed> {
        if self.is_host_timer(id) {
            self.delete_host_timer(id);
        }
        let mut process = self.process.signals.lock();
        let taken = {
            let mut ignored = self.posix.ignored.lock();
            self.posix.timers.take(id, Some((&mut self.cpu_clocks(false), &mut ignored))).ok()?
        };
        process.remove_timer(taken.queued);
        drop(process);
        if let Some(clock) = self.cpu_clock(taken.listed.timer.base) {
            self.drop_cpu_timer(clock);
        }
        Some(taken.listed)
    }
}
