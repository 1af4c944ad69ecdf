//! Kicks and timers on their way, and how an idle CPU polls and sleeps.

use super::{Exit, Mode, World};
use crate::config::Bug;
use crate::event::Event;
use crate::machine::Inner;
use crate::trace::What;
use abi::epoll::Readiness;
use ids::{CpuId, Nanos, ThreadIdx};
use linux::Linux;
use sched::Idle;
use sync::atomic::Ordering::Relaxed;

/// How many events one look takes.
const EVENTS: usize = 64;

impl World {
    /// How long a kick is under way, apart from what the distance adds.
    pub(crate) fn kick_delay(&mut self, asleep: bool) -> u64 {
        let [low, high] = if asleep { self.config.cost.kick_parked } else { self.config.cost.kick };
        let late = self.config.faults.kick_late;
        self.rng.between(low, high) + self.rng.below(late + 1)
    }

    /// `from`, or no CPU, sends a kick, `after` nanoseconds from now, unless one is already on its way; returns whether
    /// it was sent.
    pub(crate) fn send_kick(&mut self, from: CpuId, to: CpuId, after: u64) -> bool {
        if self.cpus[to.index()].kick_flying {
            return false;
        }
        let asleep = matches!(self.cpus[to.index()].mode, Mode::Parked | Mode::Host(_));
        let delay = self.kick_delay(asleep);
        let delay = self.hardware.kick(from, to, delay);
        let lost = self.strikes(Bug::LoseKick);
        let c = self.cpu(to);
        c.deaf |= lost;
        if c.deaf {
            return true;
        }
        c.kick_flying = true;
        c.kick_generation += 1;
        let event = Event::Kick(to, c.kick_generation);
        self.events.at(self.now + Nanos(after + delay), event);
        true
    }

    pub(crate) fn kick_arrives(&mut self, cpu: CpuId) {
        self.cpu(cpu).kick_flying = false;
        match self.cpus[cpu.index()].mode {
            Mode::Kernel(_) => self.cpu(cpu).kick_pending = true,
            Mode::User(_) => {
                self.stop_user(cpu);
                self.cpu(cpu).kick_pending = true;
                self.interrupt(cpu);
            }
            Mode::Looking { .. } => {
                self.cpu(cpu).kick_pending = true;
                self.interrupt(cpu);
            }
            Mode::Parked => self.wake_parked(cpu, false, true),
            Mode::Host(_) => self.seat_spare(cpu),
        }
    }

    /// How late a timer of the host goes off: a signal, or the end of a carrier's sleep.
    fn timer_late(&mut self) -> u64 {
        let [low, high] = self.config.cost.timer;
        self.rng.between(low, high) + self.rng.below(self.config.faults.timer_late + 1)
    }

    /// Sets the one-shot timer of `cpu`.
    pub(crate) fn set_timer(&mut self, cpu: CpuId, at: Nanos) {
        let late = self.timer_late();
        let c = self.cpu(cpu);
        c.timer_generation += 1;
        let event = Event::Timer(cpu, c.timer_generation);
        if self.strikes(Bug::LoseTimer) {
            return;
        }
        let late = if self.strikes(Bug::LateTimer) { 20_000_000 } else { late };
        self.events.at(at.max(self.now) + Nanos(late), event);
    }

    pub(crate) fn timer_arrives(&mut self, cpu: CpuId) {
        if self.strikes(Bug::FastClock) {
            self.kernel.m.skew.store(200_000, sync::atomic::Ordering::Relaxed);
        }
        self.cpu(cpu).timer_pending = true;
        match self.cpus[cpu.index()].mode {
            // Looked at on the way out; a carrier in a host call has the timer blocked.
            Mode::Kernel(_) | Mode::Host(_) => {}
            Mode::User(_) => {
                self.stop_user(cpu);
                self.interrupt(cpu);
            }
            Mode::Looking { .. } => self.interrupt(cpu),
            Mode::Parked => self.wake_parked(cpu, true, false),
        }
    }

    /// Nothing to run: the carrier polls for a while before it sleeps.
    pub(crate) fn begin_looking(&mut self, cpu: CpuId, until: Option<Nanos>) {
        if self.strikes(Bug::SleepBlindly) || self.has_struck(Bug::SleepBlindly) {
            self.cpu(cpu).mode = Mode::Parked;
            return;
        }
        self.look_later(cpu, self.config.cost.looks, until);
    }

    fn look_later(&mut self, cpu: CpuId, left: u32, until: Option<Nanos>) {
        self.cpu(cpu).mode = Mode::Looking { left, until };
        let at = self.now + Nanos(self.config.cost.look.max(1));
        self.cpu_event(cpu, at, Event::Look);
    }

    pub(crate) fn look(&mut self, cpu: CpuId) {
        let Mode::Looking { left, until } = self.cpus[cpu.index()].mode else { return };
        if self.kernel.sched.need_resched(cpu) {
            return self.interrupt(cpu);
        }
        if left == 0 {
            return self.park(cpu, until);
        }
        match self.kernel.idle_look(cpu) {
            Some(next) => self.settle(cpu, next, self.config.cost.look),
            None => {
                self.settle_nowhere();
                self.look_later(cpu, left - 1, until);
            }
        }
    }

    /// The carrier sleeps, unless there is work after all.
    fn park(&mut self, cpu: CpuId, until: Option<Nanos>) {
        if !self.kernel.sched.idle_state(cpu, Idle::Parked) {
            return self.look_later(cpu, self.config.cost.looks, until);
        }
        self.note(cpu, What::Park, 0);
        self.cpu(cpu).mode = Mode::Parked;
        if self.kernel.parked.is_any() {
            self.sleep_in_poller(cpu);
        }
        if let Some(at) = until {
            let late = self.timer_late();
            self.cpu_event(cpu, at.max(self.now) + Nanos(late), Event::SleptEnough);
        }
    }

    /// A sleeping carrier wakes up and enters the kernel.
    pub(crate) fn wake_parked(&mut self, cpu: CpuId, timer: bool, kick: bool) {
        if self.cpus[cpu.index()].mode != Mode::Parked {
            return;
        }
        let events = self.leave_poller(cpu);
        if events.is_empty() && !timer && !kick {
            // Others were faster.
            return self.sleep_in_poller(cpu);
        }
        self.report_events(cpu, &events);
        self.kernel.sched.idle_state(cpu, Idle::Spinning);
        let c = self.cpu(cpu);
        c.timer_pending |= timer;
        c.kick_pending |= kick;
        self.interrupt(cpu);
    }

    /// A report of the poller wakes at most one of the threads that read, or write, the same descriptor.
    fn report_events(&mut self, cpu: CpuId, events: &[Readiness]) {
        for event in events {
            let before = self.readers_in_queue();
            Linux(&self.kernel).descriptors_ready(cpu, std::slice::from_ref(event));
            let woken = before - self.readers_in_queue();
            // One thread may wait for each direction.
            if woken > 2 {
                self.fail(format!("an event of descriptor {} wakes {woken} threads", event.token as u32));
            }
        }
    }

    /// How many parked threads that read or write have not been woken.
    fn readers_in_queue(&self) -> usize {
        let parked = |&t: &ThreadIdx| {
            let thread = self.kernel.thread(t);
            let transfers = matches!(thread.wait.call.load(Relaxed) as usize, abi::nr::READ | abi::nr::WRITE);
            thread.parked.is_parked() && transfers && thread.node.queued()
        };
        let alive = self.threads.iter().enumerate().filter(|(_, th)| th.is_some());
        alive.map(|(i, _)| ThreadIdx(i as u32)).filter(parked).count()
    }

    /// The carrier sleeps in the poller, which may have something to report already.
    fn sleep_in_poller(&mut self, cpu: CpuId) {
        let poller = &mut self.kernel.m.inner.lock().linux.poller;
        if poller.has_events() {
            poller.called.push(cpu);
        } else {
            poller.sleepers.push(cpu);
            self.kernel.parked.begin_sleep();
        }
    }

    /// The carrier wakes up; returns the poller's events. If something else woke it, it reports none, even if there are
    /// some.
    fn leave_poller(&mut self, cpu: CpuId) -> Vec<Readiness> {
        let c = self.cpu(cpu);
        c.poll_generation += 1;
        let called = std::mem::take(&mut c.called);
        self.kernel.m.with_linux(|Inner { linux, .. }| {
            linux.poller.leave(cpu);
            if called { linux.events(EVENTS) } else { Vec::new() }
        })
    }

    /// Schedules the arrival of the CPUs that the poller wakes.
    pub(crate) fn call_sleepers(&mut self) {
        let called = std::mem::take(&mut self.kernel.m.inner.lock().linux.poller.called);
        for cpu in called {
            let delay = self.kick_delay(true);
            let c = self.cpu(cpu);
            c.called = true;
            let event = Event::Polled(cpu, c.poll_generation);
            self.events.at(self.now + Nanos(delay), event);
        }
    }

    /// The carrier of `cpu` is in a host call: a spare takes its place. The timer belonged to the old carrier.
    pub(crate) fn seat_spare(&mut self, cpu: CpuId) {
        if self.strikes(Bug::NoTakeOver) || self.has_struck(Bug::NoTakeOver) {
            return;
        }
        let c = self.cpu(cpu);
        c.timer_generation += 1;
        c.timer_pending = false;
        c.kick_pending = false;
        self.leave_later(cpu, Exit::Seat, self.config.cost.seat);
    }
}
