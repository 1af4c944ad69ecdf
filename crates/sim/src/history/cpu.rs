//! Into the kernel and out.

use super::{History, Mode, Work};
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
        self.decide(|b, q, m| b.called(q, cpu, m));
        let spent = self.config.cost.interrupt + self.settle_moves(cpu);
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
        let mut moves = std::mem::take(&mut self.moves);
        self.balance.tick(&mut self.q, cpu, ticks, &mut moves);
        self.moves = moves;
        let spent = self.config.cost.interrupt + self.config.cost.tick;
        match self.cpus[cpu.index()].mode {
            Mode::Kernel => {
                self.settle_moves(cpu);
                self.cpus[cpu.index()].pending = true;
            }
            Mode::User | Mode::Idle => self.interrupt(cpu, spent),
        }
    }

    /// An interrupt: reschedules.
    pub(super) fn interrupt(&mut self, cpu: CpuId, spent: u64) {
        self.stop_user(cpu);
        let spent = spent + self.settle_moves(cpu);
        self.reschedule(cpu, spent);
    }

    /// Gives the CPU to the thread that should have it. It leaves the kernel `spent` nanoseconds and the switch
    /// later.
    pub(super) fn reschedule(&mut self, cpu: CpuId, mut spent: u64) {
        // The CPU's own queue's lock costs nothing unless others hold it.
        spent += self.wait_for(cpu, spent);
        let running = self.q.running(cpu);
        let asleep = running.is_some_and(|t| matches!(self.actors[t].work, Work::Asleep | Work::Gone));
        let best = self.q.waiting(cpu).next().map(|t| self.q.rank(t));
        let outside = running.is_some_and(|t| !self.q.allows(t, cpu));
        if running.is_some() && !asleep && !outside && best <= self.q.running_rank(cpu) {
            return self.leave_kernel_later(cpu, spent);
        }
        let ran = self.q.running_rank(cpu);
        if let Some(t) = self.q.vacate(cpu)
            && !asleep
        {
            self.stats.preemptions += 1;
            self.put_back(t, cpu, outside, spent);
        }
        self.decide(|b, q, m| b.before_choice(q, cpu, ran, m));
        spent += self.settle_moves(cpu);
        match self.q.choose(cpu) {
            None => self.note(cpu, What::Idle, 0, 0),
            Some(t) => {
                spent += self.begin(cpu, t);
                self.decide(|b, q, m| b.after_switch(q, cpu, m));
                spent += self.settle_moves(cpu);
            }
        }
        self.leave_kernel_later(cpu, spent);
    }

    /// A preempted thread keeps its place; one whose mask has changed moves to a CPU where it may run.
    fn put_back(&mut self, t: Thread, cpu: CpuId, outside: bool, spent: u64) {
        if !outside {
            return self.q.enqueue(t, cpu, true);
        }
        let mut all = (0..self.q.cpus() as u16).map(CpuId);
        let target = all.find(|&c| self.q.allows(t, c)).unwrap_or(cpu);
        self.q.enqueue(t, target, false);
        self.send_kick(target, spent);
    }

    fn decide(
        &mut self,
        how: impl FnOnce(&mut dyn lab::rt_balance::RtBalance, &mut lab::rt_balance::Queues, &mut Vec<lab::rt_balance::Move>),
    ) {
        how(&mut *self.balance, &mut self.q, &mut self.moves);
    }

    /// Kicks the CPUs that got something more urgent than they run; says what moving cost `cpu`.
    pub(super) fn settle_moves(&mut self, cpu: CpuId) -> u64 {
        let cost = &self.config.cost;
        let mut spent = self.q.take_looks() * cost.line;
        for c in self.q.take_locked() {
            spent += self.wait_for(c, spent) + self.config.cost.lock;
            self.locked_until[c.index()] = self.now + Nanos(spent);
        }
        for c in self.q.take_called() {
            spent += self.config.cost.kick_send;
            self.send_errand(c, spent);
        }
        for m in std::mem::take(&mut self.moves) {
            let wins = Some(self.q.rank(m.thread)) > self.q.running_rank(m.to);
            if m.to != cpu && wins {
                spent += self.config.cost.kick_send;
                self.send_kick(m.to, spent);
            }
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
        let priority = 99 - i16::from(self.q.rank(t));
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
        match self.q.running(cpu) {
            None => self.cpus[cpu.index()].mode = Mode::Idle,
            Some(t) => self.go_on(cpu, t),
        }
    }

    /// The running thread wakes one of several threads, and continues with the others after the kernel exit.
    fn wake_one(&mut self, cpu: CpuId, t: Thread) {
        self.stats.wakeups += 1;
        let target = self.enqueue_woken(t);
        let mut spent = self.config.cost.atomic + self.config.cost.line;
        if Some(self.q.rank(t)) > self.q.running_rank(target) {
            if target == cpu {
                self.cpus[cpu.index()].pending = true;
            } else {
                spent += self.config.cost.kick_send;
                self.send_kick(target, spent);
            }
        } else {
            self.decide(|b, q, m| b.woken(q, target, m));
            spent += self.settle_moves(cpu);
        }
        self.leave_kernel_later(cpu, spent);
    }

    /// User mode, if there was any, ends here: what was used is accounted, the rest stays to be done.
    pub(super) fn stop_user(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].mode != Mode::User {
            return;
        }
        let used = self.now.since(self.cpus[cpu.index()].since);
        self.cpus[cpu.index()].since = self.now;
        if let Some(t) = self.q.running(cpu) {
            let actor = &mut self.actors[t];
            actor.used += used;
            if let Work::Run(left) = &mut actor.work {
                *left = left.since(used);
            }
        }
    }
}
