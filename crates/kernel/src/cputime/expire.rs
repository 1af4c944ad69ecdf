//! Expiry of CPU-time timers: found by ticks, at constant cost while nothing is due.

use super::queues::SLEEPER;
use super::{TimeLimit, Timers};
use crate::machine::Machine;
use crate::{Kernel, ThreadIdx};
use abi::{SigInfo, Signal};
use ids::{CpuId, Nanos};
use sync::atomic::Ordering::Relaxed;
use time::cpu::itimer::ItimerValue;
use time::cpu::limit::Rlimit;
use time::cpu::{CpuEvent, CpuItimerKind, FIRED_PER_PASS_MAX, expire_thread};
use time::posix::TimerKey;

/// The most events of one pass: both interval timers, the limit, and the timers of three clocks.
const EVENTS_MAX: usize = 3 + 3 * FIRED_PER_PASS_MAX;

/// The events of one pass. They are carried out after the lock is released.
struct Events {
    list: [Option<CpuEvent>; EVENTS_MAX],
    len: usize,
}

impl Events {
    fn new() -> Events {
        Events { list: [None; EVENTS_MAX], len: 0 }
    }

    fn push(&mut self, event: CpuEvent) {
        self.list[self.len] = Some(event);
        self.len += 1;
    }
}

impl<M: Machine> Kernel<M> {
    /// Called at a tick while something is armed. `current` is up to date.
    pub(super) fn expire_cpu_timers(&self, cpu: CpuId, current: Option<ThreadIdx>, now: Nanos) {
        let process = &self.cputime.cpu;
        // One CPU at a time: ticks of others see that, and continue.
        let known = |cpu| self.known_on(cpu);
        if process.is_due(now, known)
            && let Some(claim) = process.expiry.claim()
        {
            let mut events = Events::new();
            {
                let mut timers = self.cputime.timers.lock();
                let places = &mut self.waiting();
                timers
                    .process
                    .expire(claim, process, process.settle(now, known), places, |event, _| events.push(event));
                self.cputime.note_armed(&timers);
            }
            self.carry_out(cpu, current.or_else(|| self.any_running()), events);
        }
        if let Some(t) = current {
            self.expire_timers_of(cpu, t, now);
        }
    }

    /// The current thread is about to wait: expires timers of its own. The tick that a short burst sets comes after its
    /// end, and would never find the thread.
    #[cold]
    pub(crate) fn expire_before_wait(&self, cpu: CpuId, t: ThreadIdx) {
        let clock = &self.thread(t).time.cpu;
        if clock.expiry.is_empty() {
            return;
        }
        let now = self.now();
        self.follow(t, now);
        if clock.expiry.is_due(&clock.sample(now)) {
            let now = self.compare_with_host(cpu, t);
            self.expire_timers_of(cpu, t, now);
        }
    }

    fn expire_timers_of(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) {
        let clock = &self.thread(t).time.cpu;
        let due = !clock.expiry.is_empty() && clock.expiry.is_due(&clock.sample(now));
        let rt_run = if self.cputime.limits_rt.load(Relaxed) { self.rt_run(t, now) } else { None };
        if !due && rt_run.is_none() {
            return;
        }
        let mut events = Events::new();
        {
            let mut timers = self.cputime.timers.lock();
            let timers = &mut *timers;
            let rt_run = rt_run.map(|run| (run, &mut timers.rttime));
            let places = &mut self.waiting();
            timers.threads.with(t, |own| {
                expire_thread(own, rt_run, clock, now, places, |event, _| events.push(event));
            });
            self.cputime.note_armed(timers);
        }
        self.carry_out(cpu, Some(t), events);
    }

    /// How long a real-time thread has run since it woke up, without what the host took meanwhile.
    fn rt_run(&self, t: ThreadIdx, now: Nanos) -> Option<Nanos> {
        let run = self.sched.run_since_wake(t, now)?;
        let time = &self.thread(t).time;
        Some(time.since_wake.correct(self.sched.runtime(t, now) - run, run, time.extra.load(Relaxed)))
    }

    /// A thread that has a CPU, as first choice for the signal. On Linux, CPU timers of a process expire at ticks of
    /// its running threads only (`run_posix_cpu_timers`), so a sleeping thread is not interrupted while others run.
    /// Here the expiry may be found by a CPU that has become idle and whose last tick is still to come.
    fn any_running(&self) -> Option<ThreadIdx> {
        (0..self.config.cpus).find_map(|cpu| self.sched.current(CpuId(cpu as u16)))
    }

    /// Signals try `t` first, if a running thread was found.
    fn carry_out(&self, cpu: CpuId, t: Option<ThreadIdx>, events: Events) {
        for event in events.list.into_iter().flatten() {
            let signal = match event {
                CpuEvent::Prof => Signal::PROF,
                CpuEvent::Virtual => Signal::VTALRM,
                CpuEvent::SoftLimit | CpuEvent::SoftRtTime => Signal::XCPU,
                CpuEvent::HardLimit => Signal::KILL,
                CpuEvent::Timer(item, _) if item & SLEEPER == 0 => {
                    self.fire_timer(cpu, TimerKey(item), t.unwrap_or(ThreadIdx(0)));
                    continue;
                }
                CpuEvent::Timer(item, _) => {
                    self.wake(cpu, ThreadIdx(item & !SLEEPER));
                    continue;
                }
            };
            // A standard signal that is pending already coalesces, so nothing is lost.
            let _ = self.send_to_process(cpu, t, SigInfo::kernel(signal));
            if let Some(t) = t {
                self.take_pending(cpu, t, signal);
            }
        }
    }

    fn armed(&self, cpu: CpuId, timers: &Timers) {
        if self.newly_armed(timers) {
            self.ask_for_ticks(cpu);
        }
    }

    /// Sets a limit on CPU time.
    pub(crate) fn set_time_limit(&self, cpu: CpuId, which: TimeLimit, limit: Rlimit) {
        let mut timers = self.cputime.timers.lock();
        match which {
            TimeLimit::Cpu => timers.process.set_limit(limit, &self.cputime.cpu),
            TimeLimit::RtTime => timers.rttime = limit,
        }
        self.armed(cpu, &timers);
    }

    /// Sets an interval timer on CPU time; returns the old setting.
    pub(crate) fn set_itimer(&self, cpu: CpuId, which: CpuItimerKind, new: ItimerValue, now: Nanos) -> ItimerValue {
        let mut timers = self.cputime.timers.lock();
        let old = timers.process.set_itimer(which, new, &self.cputime.cpu, now, self.config.tick);
        self.armed(cpu, &timers);
        old
    }

    /// The setting of an interval timer on CPU time.
    pub(crate) fn itimer(&self, which: CpuItimerKind, now: Nanos) -> ItimerValue {
        self.cputime.timers.lock().process.get_itimer(which, &self.cputime.cpu, now, self.config.tick)
    }
}
