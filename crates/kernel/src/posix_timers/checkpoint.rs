//! A process's time as records: for a program that saves and restores itself by private system calls, and for
//! requests from outside (`abi::checkpoint`).
//!
//! Creating, setting and deleting do not wait for a listing: it holds one timer at a time, while it copies it.

use super::calls::errno;
use super::clocks::machine_clock;
use crate::Kernel;
use crate::ThreadIdx;
use crate::cputime::TimeLimit;
use crate::machine::{Call, Clock, Machine};
use crate::trap::Out;
use abi::checkpoint::request::Item;
use abi::checkpoint::{END, ProcessRecord, RECORDS_MAX, TAKE, ThreadRecord, TimerRecord, VERSION, call, timer_flag};
use abi::{Errno, SigEvent};
use ids::CpuId;
use time::cpu::CpuItimerKind;
use time::cpu::Usage;
use time::cpu::limit::Rlimit;
use time::posix::{Base, Listed, Notify, TimerDump};

const SIZE: usize = TimerRecord::SIZE;

impl<M: Machine> Kernel<M> {
    /// The calls of `abi::checkpoint` about timers.
    pub fn private_call(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        match call.nr {
            call::TIMERS_COPY => self.sys_timers_copy(call),
            call::TIMERS_MAKE => self.for_each_record(call, |record| self.make_recorded(cpu, t, record)),
            call::TIMERS_START => self.for_each_record(call, |record| self.start_recorded(cpu, record)),
            call::TIMERS_NEXT_ID => {
                self.timer_table().set_next_id(call.args[0] as u32);
                Out::Done(0)
            }
            _ => Errno::ENOSYS.into(),
        }
    }

    /// Up to 64 timers from the cursor on (law 4); `TAKE` deletes them.
    fn sys_timers_copy(&self, call: &Call) -> Out {
        let [buffer, count, cursor_at, flags, ..] = call.args;
        let Ok(cursor) = self.get::<u64>(cursor_at) else { return Errno::EFAULT.into() };
        if flags & !TAKE != 0 {
            return Errno::EINVAL.into();
        }
        let count = (count as usize).min(RECORDS_MAX);
        // Take nothing that cannot be delivered.
        for i in 0..count {
            if self.m.write(buffer + (i * SIZE) as u64, &[0; SIZE]).is_err() {
                return Errno::EFAULT.into();
            }
        }
        let mut found = [None; RECORDS_MAX];
        let mut len = 0;
        let next = match cursor {
            END => None,
            cursor => self.timer_table().list(cursor, count as u32, |listed| {
                found[len] = Some(listed);
                len += 1;
            }),
        };
        let mut told = 0;
        for listed in found.into_iter().flatten() {
            let listed = if flags & TAKE != 0 { self.take_timer(listed.id as i32) } else { Some(listed) };
            let Some(listed) = listed else { continue };
            if self.put(buffer + (told * SIZE) as u64, self.timer_record(&listed)).is_err() {
                return Errno::EFAULT.into();
            }
            told += 1;
        }
        match self.m.write(cursor_at, &next.unwrap_or(END).to_le_bytes()) {
            Ok(()) => Out::Done(told as isize),
            Err(_) => Errno::EFAULT.into(),
        }
    }

    fn for_each_record(&self, call: &Call, act: impl Fn(&TimerRecord) -> Result<(), Errno>) -> Out {
        let [records, count, ..] = call.args;
        let count = (count as usize).min(RECORDS_MAX);
        for i in 0..count {
            let mut bytes = [0; SIZE];
            let done = match self.m.read(records + (i * SIZE) as u64, &mut bytes) {
                Ok(()) => act(&TimerRecord::from_bytes(&bytes)),
                Err(_) => Err(Errno::EFAULT),
            };
            match done {
                Ok(()) => {}
                Err(e) if i == 0 => return e.into(),
                Err(_) => return Out::Done(i as isize),
            }
        }
        Out::Done(count as isize)
    }

    fn make_recorded(&self, cpu: CpuId, t: ThreadIdx, r: &TimerRecord) -> Result<(), Errno> {
        let event = SigEvent { signo: r.signo, notify: r.notify, tid: r.tid, value: r.value };
        self.create_exactly(cpu, t, r.clock, event, r.id)
    }

    fn start_recorded(&self, cpu: CpuId, r: &TimerRecord) -> Result<(), Errno> {
        let timers = &self.posix.timers;
        // A timer on the clock of another process is the host's, and its remaining time is unknown.
        if self.is_host_timer(r.id) {
            return Ok(());
        }
        let base = timers.table.look(r.id, |timer| timer.base).map_err(errno)?;
        let mut clocks = self.cpu_clocks(true);
        let mut expires = (r.flags & timer_flag::RUNS != 0).then_some(r.expires);
        if let Some(clock) = self.cpu_clock(base) {
            // A clock of CPU time may have been changed by the exec, or be another process's: the remaining time
            // counts.
            expires = expires.map(|at| self.read_clock(clock) + at.since(r.now));
        }
        let dump = TimerDump {
            interval: r.interval,
            expires,
            absolute: r.flags & timer_flag::ABSOLUTE != 0,
            overrun: r.overrun,
            overrun_last: r.overrun_last,
            signal_pending: r.flags & timer_flag::PENDING != 0,
        };
        let (tell, fire) = timers.resume(r.id, &dump, &mut clocks).map_err(errno)?;
        clocks.finish(cpu);
        if let Some(first) = tell {
            self.serve_expiry(cpu, first);
        }
        if let Some(key) = fire {
            self.fire_timer(cpu, key, self.first_choice(cpu));
        }
        Ok(())
    }

    fn timer_record(&self, listed: &Listed) -> TimerRecord {
        let timer = &listed.timer;
        let (notify, signo, tid) = match timer.notify {
            Notify::None { signo } => (SigEvent::NONE, signo, 0),
            Notify::Process { signo, thread: false } => (SigEvent::SIGNAL, i32::from(signo), 0),
            Notify::Process { signo, thread: true } => (SigEvent::THREAD, i32::from(signo), 0),
            Notify::Thread { signo, tid } => (SigEvent::THREAD_ID, i32::from(signo), tid),
        };
        let dump = timer.dump();
        let base = timer.queue_base();
        let now = match base {
            Base::ProcessCpu(_) | Base::ThreadCpu(..) => self.cpu_clock(base).map(|clock| self.read_clock(clock)),
            _ => Some(self.clock(machine_clock(base))),
        };
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        TimerRecord {
            id: listed.id as i32,
            clock: timer.clock_raw,
            notify,
            signo,
            tid,
            flags: flag(dump.expires.is_some(), timer_flag::RUNS)
                | flag(dump.signal_pending, timer_flag::PENDING)
                | flag(dump.absolute, timer_flag::ABSOLUTE),
            value: timer.value,
            interval: dump.interval,
            expires: dump.expires.unwrap_or_default(),
            now: now.unwrap_or_default(),
            overrun: dump.overrun,
            overrun_last: dump.overrun_last,
            created: listed.created,
            clock_tid: if let Base::ThreadCpu(_, tid) = timer.base { tid } else { 0 },
        }
    }

    /// The process's record, except what only the host knows: ITIMER_REAL and RLIMIT_SIGPENDING.
    pub fn process_record(&self, usage: Usage) -> ProcessRecord {
        let limit = |which| {
            let Rlimit { cur, max } = self.time_limit(which);
            [cur, max]
        };
        let itimer = |which| {
            let setting = self.itimer(which, self.now());
            [setting.value, setting.interval]
        };
        ProcessRecord {
            pid: self.config.pid.0,
            next_id: self.timer_table().next_id(),
            restoring: self.timer_table().is_restoring().into(),
            clocks: [Clock::Monotonic, Clock::Realtime, Clock::Boottime, Clock::Tai].map(|clock| self.clock(clock)),
            cpu: [self.process_clock(), usage.utime, usage.stime],
            itimers: [Default::default(), itimer(CpuItimerKind::Virtual), itimer(CpuItimerKind::Prof)],
            limits: [limit(TimeLimit::Cpu), limit(TimeLimit::RtTime)],
            sigpending: 0,
        }
    }

    /// Passes everything, beginning with `process`, to `out`, for another process. May be called by a host thread
    /// without a CPU.
    pub fn write_checkpoint(&self, process: &ProcessRecord, mut out: impl FnMut(&[u8])) {
        let mut item = |item: Item, bytes: &[u8]| {
            out(&item.header(bytes.len()));
            out(bytes);
        };
        item(Item::Version, &VERSION.to_le_bytes());
        item(Item::Process, &process.to_bytes());
        for t in self.threads().iter() {
            let usage = self.thread_usage(t);
            let cpu = [self.thread_clock(t), usage.utime, usage.stime];
            item(Item::Thread, &ThreadRecord { tid: self.tid(t).0, cpu }.to_bytes());
        }
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            cursor = self.timer_table().list(from, RECORDS_MAX as u32, |listed| {
                item(Item::Timer, &self.timer_record(&listed).to_bytes());
            });
        }
        item(Item::End, &[]);
    }
}
