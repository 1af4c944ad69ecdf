//! Clocks of CPU time: `clock_gettime(2)` and related calls. A carrier's time is not a thread's, and the host's count
//! of the process includes our own work, so the host cannot answer. All other clocks are the host's.

use crate::cputime::SleepClock;
use crate::machine::{Call, Machine, read_timespec};
use crate::trap::Out;
use crate::{Kernel, ThreadIdx};
use abi::args::{CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, TIMER_ABSTIME};
use abi::{Errno, Timespec};
use ids::{CpuId, Nanos, Tid};
use time::{ClockId, CpuTarget, Who};

/// The thread that asks for a clock.
struct Asker<'a, M: Machine> {
    k: &'a Kernel<M>,
    t: ThreadIdx,
}

impl<M: Machine> Who for Asker<'_, M> {
    fn tid(&self) -> i32 {
        self.k.tid(self.t).0
    }
    fn pid(&self) -> i32 {
        self.k.config.pid.0
    }
    fn is_own_thread(&self, tid: i32) -> bool {
        self.k.threads().find_named(Tid(tid)).is_some()
    }
    /// An id that is not one of our threads may be a process: asks the host.
    fn is_process(&self, pid: i32) -> bool {
        !self.is_own_thread(pid)
    }
}

/// The side that answers.
enum Whose {
    /// We.
    Ours(SleepClock),
    /// The host.
    Hosts,
}

impl<M: Machine> Kernel<M> {
    fn own_clock(&self, target: CpuTarget, clock: time::CpuClock) -> Whose {
        match target {
            CpuTarget::OwnProcess => Whose::Ours(SleepClock { thread: None, clock }),
            CpuTarget::Thread(tid) => match self.threads().find_named(Tid(tid)) {
                Some(t) => Whose::Ours(SleepClock { thread: Some(t), clock }),
                None => Whose::Hosts,
            },
            CpuTarget::OtherProcess(_) => Whose::Hosts,
        }
    }

    fn clock_of(&self, t: ThreadIdx, raw: i32, reading: bool) -> Result<Whose, Errno> {
        let Some(id) = ClockId::from_raw(raw).and_then(ClockId::as_cpu) else { return Ok(Whose::Hosts) };
        let target = id.resolve(&Asker { k: self, t }, reading).map_err(errno)?;
        Ok(self.own_clock(target, id.clock))
    }

    #[inline(never)]
    pub(crate) fn sys_clock_gettime(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [clock, to, ..] = call.args;
        let used = match clock as i32 {
            CLOCK_PROCESS_CPUTIME_ID => self.cputime.cpu.clock(self.moment_of_reading(cpu, t)),
            CLOCK_THREAD_CPUTIME_ID => self.thread_clock_at(t, self.moment_of_reading(cpu, t)),
            raw if raw >= 0 => match self.virtual_clock(raw) {
                Some(now) => now,
                None => return self.foreign(cpu, t, call),
            },
            raw => match self.clock_of(t, raw, true) {
                Ok(Whose::Ours(clock)) => self.read_clock(clock),
                Ok(Whose::Hosts) => return self.foreign(cpu, t, call),
                Err(e) => return e.into(),
            },
        };
        self.put(to, Timespec::from_nanos(used)).into()
    }

    pub(crate) fn sys_clock_getres(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [clock, to, ..] = call.args;
        match self.clock_of(t, clock as i32, false) {
            Ok(Whose::Hosts) => return self.foreign(cpu, t, call),
            Ok(Whose::Ours(_)) => {}
            Err(e) => return e.into(),
        }
        let hz = 1_000_000_000 / self.config.tick.0.max(1);
        let resolution = ClockId::from_raw(clock as i32).and_then(|c| c.cpu_resolution(hz)).unwrap_or(Nanos(1));
        if to == 0 { Out::Done(0) } else { self.put(to, Timespec::from_nanos(resolution)).into() }
    }

    /// Clocks of CPU time cannot be set. The host returns the right error, but does not know our threads.
    pub(crate) fn sys_clock_settime(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [clock, from, ..] = call.args;
        let asker = Asker { k: self, t };
        let Some(ClockId::Cpu(id)) = ClockId::from_raw(clock as i32) else { return self.foreign(cpu, t, call) };
        if self.get::<Timespec>(from).is_err() {
            return Errno::EFAULT.into();
        }
        match (id.resolve(&asker, false), ClockId::Cpu(id).cpu_settime(&asker)) {
            (Ok(CpuTarget::OwnProcess | CpuTarget::Thread(_)) | Err(_), Some(e)) => errno(e).into(),
            _ => self.foreign(cpu, t, call),
        }
    }

    /// `clock_nanosleep(2)` on clocks that one cannot sleep on, or that stand still while the thread sleeps.
    #[inline(never)]
    pub(crate) fn sys_cpu_sleep(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [clock, flags, request, rem, ..] = call.args;
        // The host answers for invalid clocks and for clocks that cannot be slept on.
        let Some(id) = ClockId::from_raw(clock as i32) else { return self.foreign(cpu, t, call) };
        let Some(of) = id.as_cpu() else { return self.foreign(cpu, t, call) };
        let sleeper = match id.sleeper(&Asker { k: self, t }) {
            Err(time::Error::NotSupported) => return Errno::EOPNOTSUPP.into(),
            sleeper => sleeper,
        };
        let at = match read_timespec(&self.m, request) {
            Ok(at) => at,
            Err(e) => return e.into(),
        };
        let target = match sleeper {
            Ok(Some(target)) => target,
            Ok(None) => return self.foreign(cpu, t, call),
            Err(e) => return errno(e).into(),
        };
        let Whose::Ours(clock) = self.own_clock(target, of.clock) else { return self.foreign(cpu, t, call) };
        let (absolute, now) = (flags & TIMER_ABSTIME != 0, self.read_clock(clock));
        let at = if absolute { at } else { now + at };
        if at <= now {
            return Out::Done(0);
        }
        self.cpu_sleep(cpu, t, clock, at, absolute, rem)
    }
}

/// The crate's errors correspond to Linux's.
fn errno(e: time::Error) -> Errno {
    Errno(e.errno())
}
