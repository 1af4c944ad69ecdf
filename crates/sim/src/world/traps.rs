//! Traps: how CPUs enter the simulated kernel, and how they leave it as it decides.

use super::{End, Exit, Mode, World};
use crate::config::Bug;
use crate::cost::Cost;
use crate::event::Event;
use crate::machine::Notes;
use crate::trace::{Record, What};
use crate::user::env::STACK;
use ids::{CpuId, Nanos, Nice, ThreadIdx};
use kernel::{Next, Process, Raise, Trap};
use linux::Linux;
use sched::Urgency;

impl World {
    /// `cpu` traps now.
    pub(crate) fn trap(&mut self, cpu: CpuId, trap: Trap) {
        let Cost { call, interrupt, tick, .. } = self.config.cost;
        let (what, who, base) = match trap {
            Trap::Call(c) => (What::Call, c.nr as i64, call),
            Trap::Interrupt { timer: true, .. } => (What::Timer, 0, interrupt + tick),
            Trap::Interrupt { .. } => (What::Kick, 0, interrupt),
            Trap::HostReturn { thread, .. } => (What::HostEnd, i64::from(self.thread(thread).tid.0), call),
            Trap::Seated => (What::Seated, 0, call),
        };
        self.note(cpu, what, who);
        self.lose_lawfully(cpu);
        self.cpu(cpu).deaf = false;
        let caller = self.cpus[cpu.index()].thread;
        let moved = self.moved(cpu);
        if let Trap::Call(call) = &trap {
            self.checker.note_call(&self.kernel, caller, call);
        }
        let next = self.kernel.trap(cpu, trap);
        if let (Trap::Call(call), Some(t)) = (&trap, caller)
            && call.nr == abi::nr::EXIT
            && self.kernel.sched.current(cpu) != Some(t)
        {
            self.bury(cpu, t);
        }
        let locks = (self.moved(cpu) - moved) * 2 * self.config.cost.lock;
        self.settle(cpu, next, base + locks);
    }

    /// How many threads this CPU has moved so far.
    fn moved(&self, cpu: CpuId) -> u64 {
        let s = self.kernel.sched.stats(cpu);
        s.pulls + s.pushes
    }

    /// A kick to a CPU that has entered the kernel by itself may get lost.
    fn lose_lawfully(&mut self, cpu: CpuId) {
        let lost = self.config.faults.kick_lost;
        if lost > 0 && self.cpus[cpu.index()].kick_flying && self.rng.permille(lost) {
            let c = self.cpu(cpu);
            c.kick_flying = false;
            c.kick_generation += 1;
        }
    }

    fn bury(&mut self, cpu: CpuId, t: ThreadIdx) {
        self.change_thread(cpu, None);
        let dead = self.threads[t.index()].take().unwrap_or_else(|| panic!("{t:?} dies twice"));
        self.checker.dead_time += dead.on_cpu;
        self.note(cpu, What::Death, i64::from(dead.tid.0));
    }

    /// The kernel has decided: everything it asked for happens, and `cpu` is busy until it
    /// leaves.
    pub(crate) fn settle(&mut self, cpu: CpuId, next: Next, base: u64) {
        let notes = self.take_notes();
        let now_on = self.kernel.sched.current(cpu);
        self.change_thread(cpu, now_on);
        let mut spent = base + self.deliver(cpu, &notes);
        self.give_back(notes);
        match next {
            Next::Run(t) => {
                let t = if self.strikes(Bug::ResumeWaiter) { self.somebody_else(t) } else { t };
                let on = if self.strikes(Bug::ResumeElsewhere) { self.next_cpu(cpu) } else { cpu };
                spent += self.claim(on, t);
            }
            Next::Idle { .. } => self.note(cpu, What::Idle, 0),
            Next::Host { thread, .. } => {
                let tid = self.thread(thread).tid;
                self.note(cpu, What::HostBegin, i64::from(tid.0));
            }
            Next::Inline { thread, call } => {
                let result = linux::host(&self.kernel.m, &call);
                let next = Linux(&*self.kernel).inline_done(cpu, thread, call, result);
                return self.settle(cpu, next, spent);
            }
            Next::Process(Process::Exit(status)) => self.end = Some(End::Exited(status)),
            Next::Process(what @ Process::Clone(_)) => {
                Linux(&*self.kernel).prepare(cpu, &what);
                let child = self.kernel.m.inner.lock().linux.fork();
                let span = self.rng.between(1_000, 2_000_000);
                self.events.at(self.now + Nanos(span), Event::ChildExit(child));
                let next = self.kernel.process_done(cpu, child as isize);
                return self.settle(cpu, next, spent);
            }
            Next::Process(other) => self.fail(format!("no simulated program does this: {other:?}")),
        }
        self.leave_later(cpu, Exit::Next(next), spent);
    }

    pub(crate) fn leave_later(&mut self, cpu: CpuId, exit: Exit, spent: u64) {
        self.cpu(cpu).mode = Mode::Kernel(exit);
        let at = self.hardware.kernel(cpu, self.now, Nanos(spent.max(1)));
        self.cpu_event(cpu, at, Event::KernelExit);
    }

    fn take_notes(&mut self) -> Notes {
        std::mem::take(&mut self.kernel.m.inner.lock().notes)
    }

    /// Keeps the notes' memory for the next trap.
    fn give_back(&mut self, mut notes: Notes) {
        notes.clear();
        self.kernel.m.inner.lock().notes = notes;
    }

    /// Carries out requests that the kernel made without a CPU: on a carrier that has lost its seat.
    pub(crate) fn settle_nowhere(&mut self) {
        let notes = self.take_notes();
        self.deliver(CpuId::NONE, &notes);
        self.give_back(notes);
    }

    /// Kicks, timers, interrupts, births; says what they cost the CPU.
    fn deliver(&mut self, from: CpuId, notes: &Notes) -> u64 {
        for &(child, top) in &notes.births {
            let tid = self.kernel.tid(child);
            match self.children.nursery.remove(&top) {
                Some(program) => self.add_thread(child, tid, program, top + 64 - STACK),
                None => self.fail(format!("{child:?} was made with a stack that nobody prepared")),
            }
            self.note(from, What::Birth, i64::from(tid.0));
        }
        let mut spent = 0;
        for &to in &notes.kicks {
            let to = if self.strikes(Bug::KickElsewhere) { CpuId((to.0 + 1) % self.config.cpus as u16) } else { to };
            self.note(from, What::Send, i64::from(to.0));
            if self.send_kick(from, to, spent) {
                spent += self.config.cost.kick_send;
            }
        }
        for &(cpu, at) in &notes.timers {
            self.set_timer(cpu, at);
        }
        for &t in &notes.interrupts {
            if !self.strikes(Bug::LoseInterrupt) && !self.has_struck(Bug::LoseInterrupt) {
                let delay = self.kick_delay(false);
                self.events.at(self.now + Nanos(delay), Event::Interrupt(t));
            }
        }
        if let Some((_, signal, action)) = notes.fatal
            && action == Raise::Terminate
        {
            self.end = Some(End::Killed(signal));
        }
        if let Some(law) = &notes.broken {
            self.fail(law.clone());
        }
        spent
    }

    /// Law 2: the thread is the scheduler's choice, on no other CPU, inside its mask.
    /// Says what the switch costs.
    fn claim(&mut self, cpu: CpuId, t: ThreadIdx) -> u64 {
        let tid = i64::from(self.thread(t).tid.0);
        let claimed = self.kernel.m.with(t, |c| c.claim.replace(cpu));
        if let Some(other) = claimed.filter(|&o| o != cpu) {
            self.fail(format!("thread {tid} is resumed on {cpu:?}, but it still runs on {other:?}"));
        }
        if self.kernel.sched.current(cpu) != Some(t) {
            self.fail(format!("{cpu:?} resumes thread {tid}, which the scheduler has not chosen"));
        }
        if !self.kernel.sched.affinity(t).contains(cpu) {
            self.fail(format!("thread {tid} is resumed on {cpu:?}, outside its mask"));
        }
        let priority = linux_priority(self.kernel.sched.urgency(t), self.kernel.sched.attr(t).nice);
        self.trace.note(Record { at: self.now, cpu, what: What::Run, who: tid, priority });
        let mut spent = 0;
        if self.cpus[cpu.index()].last != Some(t) {
            spent += self.config.cost.switch;
        }
        let last_cpu = self.threads[t.index()].as_ref().map_or(CpuId::NONE, |th| th.last_cpu);
        if last_cpu != cpu && last_cpu != CpuId::NONE {
            spent += self.hardware.migrate(last_cpu, cpu, self.config.cost.migration);
            self.note(cpu, What::Migrate, tid);
        }
        self.cpu(cpu).last = Some(t);
        self.thread(t).last_cpu = cpu;
        if self.strikes(Bug::ResumeTwice) {
            self.resume_twice(cpu, t);
        }
        spent
    }

    /// Records which thread has which CPU since when.
    pub(crate) fn change_thread(&mut self, cpu: CpuId, new: Option<ThreadIdx>) {
        let now = self.now;
        let c = self.cpu(cpu);
        let passed = now.since(c.since);
        c.since = now;
        match std::mem::replace(&mut c.thread, new) {
            None => c.idle += passed,
            Some(t) => {
                if let Some(thread) = &mut self.threads[t.index()] {
                    thread.on_cpu += passed;
                }
            }
        }
    }

    /// `cpu` has done its work in the kernel.
    pub(crate) fn kernel_exit(&mut self, cpu: CpuId) {
        let Mode::Kernel(exit) = self.cpus[cpu.index()].mode else { return };
        let c = self.cpu(cpu);
        let marked = c.kick_pending || c.timer_pending;
        match exit {
            Exit::Seat => {
                c.kick_pending = false;
                self.trap(cpu, Trap::Seated);
            }
            Exit::Next(Next::Run(_) | Next::Idle { .. }) if marked => self.interrupt(cpu),
            Exit::Next(Next::Run(t)) => self.resume(cpu, t),
            Exit::Next(Next::Idle { until }) => self.begin_looking(cpu, until),
            Exit::Next(Next::Host { thread, call, wanted }) => self.host_begin(cpu, thread, &call, wanted),
            Exit::Next(Next::Inline { .. } | Next::Process(_)) => {}
        }
    }

    /// Reports to the kernel the kicks and timers that came while `cpu` was in the kernel, or one that found it
    /// outside.
    pub(crate) fn interrupt(&mut self, cpu: CpuId) {
        let c = self.cpu(cpu);
        let timer = std::mem::take(&mut c.timer_pending);
        let kick = std::mem::take(&mut c.kick_pending);
        self.trap(cpu, Trap::Interrupt { timer, kick });
    }

    /// For a planted bug: another thread than the one that was chosen.
    fn somebody_else(&self, t: ThreadIdx) -> ThreadIdx {
        let other = self.threads.iter().enumerate().find(|(i, th)| *i != t.index() && th.is_some());
        other.map_or(t, |(i, _)| ThreadIdx(i as u32))
    }

    /// For a planted bug: another CPU resumes the thread, too.
    fn resume_twice(&mut self, cpu: CpuId, t: ThreadIdx) {
        let other = self.next_cpu(cpu);
        if other != cpu {
            self.claim(other, t);
        }
    }

    fn next_cpu(&self, cpu: CpuId) -> CpuId {
        CpuId((cpu.0 + 1) % self.config.cpus as u16)
    }
}

/// `task_struct::prio`.
fn linux_priority(urgency: Urgency, nice: Nice) -> i16 {
    match urgency {
        Urgency::Stop | Urgency::Deadline(_) => -1,
        Urgency::Rt(p) => 99 - i16::from(p.0),
        Urgency::Fair => 120 + i16::from(nice.0),
    }
}
