//! CPU time: crate `time`'s `cpu` applied to threads and CPUs.
//!
//! A process's time is one word per CPU, written when the CPU turns idle or busy; a switch between threads writes
//! nothing. A thread's time is the scheduler's count plus `extra`: consumption of host calls while the thread was off
//! its CPU, less time stolen by the host while it had one.
//!
//! | work | charged |
//! |---|---|
//! | user code, and our own work on its behalf | the time it has a CPU |
//! | a host call made with the CPU, up to [`SHORT_CALL`] | the same |
//! | a longer one | the host's count of the carrier ([`host_time`]) |
//! | a host call made off the CPU | the host's count of the carrier, as system time |
//! | time that the host gave to others | nothing, from the next comparison on ([`host_time`]) |
//! | polling, sleeping and waking up while a CPU is idle | the next thread there, from the next comparison on |
//!
//! [`expire`] is the work of a tick while something is armed; [`queues`] holds sleepers and timers.

mod expire;
mod host_time;
mod queues;
mod sleep;
mod thread_time;
mod usage;

pub(crate) use host_time::HostTime;
pub(crate) use sleep::SleepClock;
pub(crate) use thread_time::ThreadTime;

use self::thread_time::UNKNOWN;
use crate::limits::{Enforced, Moment};
use crate::machine::{Machine, Times};
use crate::{Kernel, ThreadIdx};
use ids::{CpuId, Nanos};
use sync::Lock;
use sync::atomic::{AtomicBool, Ordering::*};
use time::OutOfMemory;
use time::cpu::limit::{Rlimit, UNLIMITED};
use time::cpu::{Adjuster, CpuItimerKind, Cputime, Mode, ProcessCputime, ProcessTimers, Usage};

/// A host call that takes no longer is charged by the clock alone.
pub(crate) const SHORT_CALL: Nanos = Nanos::from_micros(5);

/// What a tick means for the current thread.
///
/// With a thousand threads it runs again only after seconds. If a signal caused by CPU time had to wait that long,
/// further expiries would coalesce with the pending one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ticked {
    /// Time has passed, and nothing is due.
    Quietly,
    /// The current thread has a signal and handles it first. If its slice is over, it gives way at the next tick
    /// ([`Kernel::favour`]).
    Signalled,
    /// The current thread has a signal, but a more urgent thread waits: the handler runs when the thread is chosen
    /// again.
    SignalledUrgently,
    /// The current thread has used up its share of CPU time and must wait.
    Throttled,
}

/// The limits on CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeLimit {
    /// RLIMIT_CPU: of the process.
    Cpu,
    /// RLIMIT_RTTIME: of each real-time thread since it woke up.
    RtTime,
}

/// CPU time of the process.
#[derive(Debug)]
pub(crate) struct ProcessTime {
    pub(crate) cpu: ProcessCputime,
    /// Something is armed, for the process or a thread: CPUs that run threads tick.
    armed: AtomicBool,
    /// CPUs that run threads always tick: for a profile, or for limits.
    ticking: bool,
    /// RLIMIT_RTTIME is set.
    limits_rt: AtomicBool,
    pub(crate) timers: Lock<Timers>,
}

/// Armed timers, and the times last shown. The lock is a leaf.
#[derive(Debug)]
pub(crate) struct Timers {
    pub(crate) process: ProcessTimers,
    /// How many POSIX timers there are on each clock of the process.
    posix: [usize; 3],
    /// Sleepers and timers on clocks of single threads.
    threads: queues::ThreadQueues,
    /// RLIMIT_RTTIME, which is counted for each real-time thread.
    pub(crate) rttime: Rlimit,
    shown: Adjuster,
}

impl ProcessTime {
    pub(crate) fn new(cpus: usize, ticking: bool) -> Result<ProcessTime, OutOfMemory> {
        Ok(ProcessTime {
            cpu: ProcessCputime::new(cpus)?,
            armed: AtomicBool::new(ticking),
            ticking,
            limits_rt: AtomicBool::new(false),
            timers: Lock::new(Timers {
                process: ProcessTimers::new(),
                posix: [0; 3],
                threads: queues::ThreadQueues::new(),
                rttime: Rlimit::NONE,
                shown: Adjuster::new(),
            }),
        })
    }

    /// Whether CPUs that run threads must tick. One load.
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Relaxed)
    }

    /// Called after a change under the lock.
    fn note_armed(&self, timers: &Timers) {
        let limited = timers.rttime.cur != UNLIMITED;
        self.limits_rt.store(limited, Relaxed);
        let timed = self.cpu.expiry.is_active() || !timers.threads.is_empty() || limited;
        self.armed.store(timed || self.ticking, SeqCst);
    }
}

impl<M: Machine> Kernel<M> {
    pub(crate) fn consumed(&self, t: ThreadIdx, now: Nanos) -> Nanos {
        let run = self.sched.runtime(t, now).0 as i64;
        Nanos(run.saturating_add(self.thread(t).time.extra.load(Relaxed)).max(0) as u64)
    }

    /// A thread's clock.
    pub fn thread_clock(&self, t: ThreadIdx) -> Nanos {
        self.thread_clock_at(t, self.now())
    }

    /// Reads the clock at `now`, which the caller has just read.
    #[inline]
    pub(crate) fn thread_clock_at(&self, t: ThreadIdx, now: Nanos) -> Nanos {
        self.thread(t).time.cpu.raise(self.consumed(t, now))
    }

    /// The process's clock: constant cost for any number of threads.
    pub(crate) fn process_clock(&self) -> Nanos {
        self.cputime.cpu.clock(self.now())
    }

    /// The three CPU clocks of a thread.
    pub(crate) fn thread_sample(&self, t: ThreadIdx) -> Cputime {
        let now = self.now();
        let exec = self.consumed(t, now);
        Cputime { exec, ..self.thread(t).time.cpu.sample(now) }
    }

    /// User and system time of a thread, as programs see them.
    pub fn thread_usage(&self, t: ThreadIdx) -> Usage {
        self.thread_usage_at(t, self.now())
    }

    /// The same at `now`, which the caller has just read.
    pub fn thread_usage_at(&self, t: ThreadIdx, now: Nanos) -> Usage {
        let time = &self.thread(t).time;
        time.shown.show(now, Cputime { exec: self.thread_clock_at(t, now), ..time.cpu.sample(now) })
    }

    /// User and system time of a thread. If they were shown after `since`, returns the same again, without a write.
    /// Linux's `stat` of a running thread is as old as its last tick, too (`task_cputime`).
    pub fn thread_usage_since(&self, t: ThreadIdx, since: Nanos) -> Usage {
        self.thread(t).time.shown.last(since).unwrap_or_else(|| self.thread_usage(t))
    }

    /// User and system time of the process, as programs see them.
    ///
    /// A CPU without competition has no ticks. The time that no tick has divided is divided in the proportion of
    /// `host`, the host's own count, because the host always ticks.
    pub fn process_usage(&self, host: Usage) -> Usage {
        self.process_usage_at(host, self.now())
    }

    /// The same at `now`, which the caller has just read.
    pub fn process_usage_at(&self, host: Usage, now: Nanos) -> Usage {
        let mut sample = Cputime { exec: self.cputime.cpu.clock(now), ..self.cputime.cpu.sample(now) };
        let rest = sample.exec - (sample.utime + sample.stime);
        if host.stime != Nanos::ZERO {
            let all = u128::from((host.utime + host.stime).0);
            let system = Nanos((u128::from(rest.0) * u128::from(host.stime.0) / all) as u64);
            sample.stime += system;
            sample.utime += rest - system;
        }
        self.cputime.timers.lock().shown.adjust(sample)
    }

    /// Brings the clock of `t`, the current thread of the calling CPU, up to date.
    fn follow(&self, t: ThreadIdx, now: Nanos) {
        self.thread(t).time.cpu.follow(self.consumed(t, now));
    }

    /// A tick: divides what the current thread has run since the last one into user and system time, and expires what
    /// is due. Returns what that means for the current thread.
    #[inline(never)]
    pub(crate) fn account_tick(&self, cpu: CpuId, mode: Mode, now: Nanos) -> Ticked {
        let current = self.sched.current(cpu);
        let mut now = now;
        if let Some(t) = current {
            now = match self.cputime.is_armed() {
                true => self.compare_with_host(cpu, t),
                false => self.compare_now_and_then(cpu, t, now),
            };
            self.cputime.cpu.tick(cpu, &self.thread(t).time.cpu, mode, now);
        }
        if !self.cputime.is_armed() {
            return Ticked::Quietly;
        }
        self.expire_cpu_timers(cpu, current, now);
        let Some(t) = current else { return Ticked::Quietly };
        self.sample_at_tick(cpu, t, now);
        let throttled = self.limits.active && self.enforce(Moment { cpu, now }, t) == Enforced::Throttled;
        if self.thread(t).hint.load(Acquire) & crate::hint::SIGNAL != 0 {
            Ticked::Signalled
        } else if throttled {
            Ticked::Throttled
        } else {
            Ticked::Quietly
        }
    }

    /// The current thread makes a host call and keeps its CPU.
    #[inline(never)]
    pub(crate) fn begin_inline(&self, cpu: CpuId, t: ThreadIdx) {
        let now = self.now();
        self.thread(t).time.since.store(now.0, Relaxed);
        self.know_carrier(cpu, now);
    }

    /// An inline call is over. If it took long, it is charged as system time, and only as much as the host counts.
    pub(crate) fn end_inline(&self, cpu: CpuId, t: ThreadIdx) {
        let now = self.now();
        let took = now - Nanos(self.thread(t).time.since.load(Relaxed));
        let waited = if took > SHORT_CALL { self.end_long_inline(cpu, t, now, took) } else { Nanos::ZERO };
        self.thread(t).parked.lasting.is_over(|| waited);
    }

    /// Returns how long the call has waited: what the host did not count of it.
    #[cold]
    fn end_long_inline(&self, cpu: CpuId, t: ThreadIdx, now: Nanos, took: Nanos) -> Nanos {
        let before = self.consumed(t, now) - took;
        let now = self.compare_with_host(cpu, t);
        let span = self.consumed(t, now) - before;
        self.cputime.cpu.attribute(cpu, &self.thread(t).time.cpu, span, Mode::System);
        took.since(span)
    }

    /// The calling carrier makes the host call of `t`, which it has not run before.
    pub fn change_carrier(&self, t: ThreadIdx) {
        self.thread(t).time.call_began_at(self.carrier_time());
    }

    /// Records what the calling carrier has consumed in the call that has returned, to be charged later. Returns the
    /// host's count of the carrier, if it was asked for.
    pub(crate) fn return_carrier(&self, t: ThreadIdx) -> Option<Nanos> {
        let time = &self.thread(t).time;
        let since = time.since.load(Relaxed);
        if since == UNKNOWN {
            return None;
        }
        let host = self.carrier_time()?;
        time.owed.store((host - Nanos(since)).0, Relaxed);
        Some(host)
    }

    /// The thread has been chosen again after a host call.
    pub fn charge_host_call(&self, t: ThreadIdx) {
        let time = &self.thread(t).time;
        let owed = Nanos(time.owed.load(Relaxed));
        if owed == Nanos::ZERO {
            return;
        }
        time.owed.store(0, Relaxed);
        self.charge(self.sched.cpu_of(t), t, owed, Mode::System);
    }

    fn charge(&self, cpu: CpuId, t: ThreadIdx, span: Nanos, mode: Mode) {
        let time = &self.thread(t).time;
        self.follow(t, self.now());
        self.cputime.cpu.charge(cpu, &time.cpu, span, mode);
        self.cpu(cpu).host_time.charged(span);
        time.add_extra(span);
    }

    /// The current thread ends: sleepers on its clock will never wake up.
    pub(crate) fn account_exit(&self, cpu: CpuId, t: ThreadIdx) {
        let now = self.now();
        let now = self.compare_at_exit(cpu, t, now);
        self.sample_at_exit(cpu, t, now);
        self.leave_group(t);
        self.cputime.cpu.exit(cpu, &self.thread(t).time.cpu, now);
        if self.thread(t).time.has_queues.load(Relaxed) {
            self.forget_queues_of(t);
        }
    }

    /// The process takes over what the host has counted and armed for it. `t` is its only thread.
    pub fn take_over_times(&self, cpu: CpuId, t: ThreadIdx, times: Times) {
        self.forget_consumption(cpu, t);
        self.charge(cpu, t, times.usage.utime, Mode::User);
        self.charge(cpu, t, times.usage.stime, Mode::System);
        self.know_carrier(cpu, self.now());
        self.set_time_limit(cpu, TimeLimit::Cpu, times.limit);
        self.set_time_limit(cpu, TimeLimit::RtTime, times.rttime);
        let kinds = [CpuItimerKind::Virtual, CpuItimerKind::Prof];
        for (which, value) in kinds.into_iter().zip(times.itimers.unwrap_or_default()) {
            if value != Default::default() {
                self.set_itimer(cpu, which, value, self.now());
            }
        }
        // Earlier consumption belongs to no profile.
        let _ = self.take_unsampled(t);
    }

    /// Called before exec: what the host must have for the new program to find. A vfork child (`borrowed`) has its
    /// parent's limit, but no timers.
    pub fn times_to_hand_on(&self, borrowed: bool) -> Times {
        let now = self.now();
        let timers = self.cputime.timers.lock();
        let left = |which| timers.process.get_itimer(which, &self.cputime.cpu, now, self.config.tick);
        let itimers = (!borrowed).then(|| [left(CpuItimerKind::Virtual), left(CpuItimerKind::Prof)]);
        Times { usage: Usage::default(), limit: timers.process.limit(), rttime: timers.rttime, itimers }
    }

    /// A limit on CPU time.
    pub fn time_limit(&self, which: TimeLimit) -> Rlimit {
        let timers = self.cputime.timers.lock();
        match which {
            TimeLimit::Cpu => timers.process.limit(),
            TimeLimit::RtTime => timers.rttime,
        }
    }
}
