//! `timer_settime(2)`, `timer_gettime(2)`, `timer_getoverrun(2)`, `timer_delete(2)`.

use super::clocks::NotEarlier;
use super::create::errno;
use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::args::TIMER_ABSTIME;
use abi::{Errno, Itimerspec};
use ids::{CpuId, Nanos};
use time::cpu::itimer::ItimerValue;
use time::posix::{Listed, Refused};

impl<M: Machine> Kernel<M> {
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

    /// Interval and value; EINVAL for no setting at all or one that is none, EFAULT.
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

    /// Its signal, if one is queued, means nothing from now on, but is seen until its turn comes.
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

    /// Deletes a timer whose signal is somewhere, or one on a CPU clock.
    fn delete_slowly(&self, id: i32) -> Out {
        match self.take_timer(id) {
            Some(_) => Out::Done(0),
            None => Errno::EINVAL.into(),
        }
    }

    /// Deletes any timer and says what it was: nothing is delivered of it in between.
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
