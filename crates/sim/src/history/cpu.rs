//! Into the kernel and out.

use super::design::Choice;
use super::{Effects, History, Mode, Work};
use crate::event::Event;
use crate::trace::What;
use ids::{CpuId, Nanos};
use lab::rt_balance::Thread;

impl History {
    pub(super) fn kick_arrives(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].kick_flying = false;
        self.stats.kicks += 1;
        self.note(cpu, What::Kick, 0, 0);
        match self.cpus[cpu.index()].mode {
            Mode::Kernel => self.cpus[cpu.index()].pending = true,
            Mode::User | Mode::Idle => self.interrupt(cpu, self.config.cost.interrupt),
        }
    }

    /// An interrupt of the balance arrives; it is handled at once, whatever the CPU does.
    pub(super) fn errand(&mut self, cpu: CpuId) {
        self.stats.kicks += 1;
        self.note(cpu, What::Kick, 0, 0);
        let at_rest = self.cpus[cpu.index()].mode != Mode::Kernel;
        if at_rest {
            self.stop_user(cpu);
        }
        self.design.errand(cpu, &mut self.effects);
        let spent = self.config.cost.interrupt + self.settle(cpu);
        if at_rest {
            self.reschedule(cpu, spent);
        } else {
            self.cpus[cpu.index()].pending = true;
        }
    }

    pub(super) fn tick(&mut self, cpu: CpuId) {
        self.events.at(self.now + self.config.tick, Event::Timer(cpu, 0));
        self.stats.ticks += 1;
        let ticks = self.cpus[cpu.index()].ticks;
        self.cpus[cpu.index()].ticks += 1;
        self.design.tick(cpu, ticks, self.now, &mut self.effects);
        let spent = self.config.cost.interrupt + self.config.cost.tick;
        match self.cpus[cpu.index()].mode {
            Mode::Kernel => {
                self.settle(cpu);
                self.cpus[cpu.index()].pending = true;
            }
            Mode::User | Mode::Idle => self.interrupt(cpu, spent),
        }
    }

    /// An interrupt: reschedules.
    pub(super) fn interrupt(&mut self, cpu: CpuId, spent: u64) {
        self.stop_user(cpu);
        let spent = spent + self.settle(cpu);
        self.reschedule(cpu, spent);
    }

    /// Gives the CPU to the thread that should have it. It leaves the kernel `spent` nanoseconds and the switch
    /// later.
    pub(super) fn reschedule(&mut self, cpu: CpuId, mut spent: u64) {
        // The CPU's own queue's lock costs nothing unless others hold it.
        spent += self.wait_for(cpu, spent);
        let running = self.design.running(cpu);
        let leaves = running.is_some_and(|t| matches!(self.actors[t].work, Work::Asleep | Work::Gone));
        let choice = self.design.choose(cpu, leaves, self.now, &mut self.effects);
        if choice != Choice::Keep && running.is_some() && !leaves {
            self.stats.preemptions += 1;
        }
        spent += self.settle(cpu);
        match choice {
            Choice::Keep => {}
            Choice::Run(None) => self.note(cpu, What::Idle, 0, 0),
            Choice::Run(Some(t)) => {
                spent += self.begin(cpu, t);
                self.design.after_switch(cpu, &mut self.effects);
                spent += self.settle(cpu);
            }
        }
        self.leave_kernel_later(cpu, spent);
    }

    /// Carries out what was decided on a CPU; says what that cost.
    pub(super) fn settle(&mut self, cpu: CpuId) -> u64 {
        let Effects { looks, locked, errands, kicks } = std::mem::take(&mut self.effects);
        let mut spent = looks * self.config.cost.line;
        for c in locked {
            spent += self.wait_for(c, spent) + self.config.cost.lock;
            self.locked_until[c.index()] = self.now + Nanos(spent);
        }
        for c in errands {
            spent += self.config.cost.kick_send;
            self.send_errand(c, spent);
        }
        for c in kicks {
            if c == cpu {
                self.cpus[c.index()].pending = true;
                continue;
            }
            spent += self.config.cost.kick_send;
            self.send_kick(c, spent);
        }
        spent
    }

    /// How long a CPU that has spent `spent` waits for the lock of `queue`.
    fn wait_for(&mut self, queue: CpuId, spent: u64) -> u64 {
        let wait = self.locked_until[queue.index()].since(self.now + Nanos(spent));
        self.lock_waits += wait;
        wait.0
    }

    /// The cost until `t` runs.
    fn begin(&mut self, cpu: CpuId, t: Thread) -> u64 {
        let mut spent = 0;
        if self.cpus[cpu.index()].last != Some(t) {
            self.stats.switches += 1;
            spent += self.config.cost.switch;
        }
        if self.actors[t].ran_on.is_some_and(|c| c != cpu) {
            self.stats.migrations += 1;
            spent += self.config.cost.migration;
            self.note(cpu, What::Migrate, Self::tid(t), 0);
        }
        self.actors[t].ran_on = Some(cpu);
        self.cpus[cpu.index()].last = Some(t);
        let priority = self.design.priority(t);
        self.note(cpu, What::Run, Self::tid(t), priority);
        spent
    }

    pub(super) fn leave_kernel_later(&mut self, cpu: CpuId, spent: u64) {
        let c = &mut self.cpus[cpu.index()];
        c.mode = Mode::Kernel;
        c.generation += 1;
        let event = Event::KernelExit(cpu, c.generation);
        self.events.at(self.now + Nanos(spent.max(1)), event);
    }

    pub(super) fn kernel_exit(&mut self, cpu: CpuId) {
        if let Some(t) = self.cpus[cpu.index()].to_wake.pop_front() {
            return self.wake_one(cpu, t);
        }
        if std::mem::take(&mut self.cpus[cpu.index()].pending) {
            return self.interrupt(cpu, self.config.cost.interrupt);
        }
        match self.design.running(cpu) {
            None => self.cpus[cpu.index()].mode = Mode::Idle,
            Some(t) => self.go_on(cpu, t),
        }
    }

    /// The running thread wakes one of several threads, and continues with the others after the kernel exit.
    fn wake_one(&mut self, cpu: CpuId, t: Thread) {
        self.stats.wakeups += 1;
        self.enqueue_woken(t, Some(cpu));
        let spent = self.config.cost.atomic + self.config.cost.line + self.settle(cpu);
        self.leave_kernel_later(cpu, spent);
    }

    /// User mode, if there was any, ends here: what was used is accounted, the rest stays to be done.
    pub(super) fn stop_user(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].mode != Mode::User {
            return;
        }
        let used = self.now.since(self.cpus[cpu.index()].since);
        self.cpus[cpu.index()].since = self.now;
        if let Some(t) = self.design.running(cpu) {
            let actor = &mut self.actors[t];
            actor.used += used;
            if let Work::Run(left, _) = &mut actor.work {
                *left = left.since(used);
            }
        }
    }
}
