//! Real-time threads, whose balance between CPUs is one of [`lab::rt_balance`].

use super::design::{Choice, Design, Effects};
use ids::{CpuId, CpuMask, Nanos};
use lab::rt_balance::{Move, Queues, RtBalance, Thread};
use sched::Attr;

pub(super) struct RealTime {
    balance: Box<dyn RtBalance>,
    q: Queues,
    moves: Vec<Move>,
}

impl RealTime {
    pub fn new(balance: Box<dyn RtBalance>, cpus: usize) -> RealTime {
        RealTime { balance, q: Queues::new(cpus), moves: Vec::new() }
    }

    /// Lets the balance decide about `cpu`. CPUs that get something more urgent than they run must choose again.
    fn decide(
        &mut self,
        cpu: CpuId,
        effects: &mut Effects,
        how: impl FnOnce(&mut dyn RtBalance, &mut Queues, &mut Vec<Move>),
    ) {
        how(&mut *self.balance, &mut self.q, &mut self.moves);
        effects.looks += self.q.take_looks();
        effects.locked.extend(self.q.take_locked());
        effects.errands.extend(self.q.take_called());
        for m in self.moves.drain(..) {
            let wins = Some(self.q.rank(m.thread)) > self.q.running_rank(m.to);
            if m.to != cpu && wins {
                effects.kicks.push(m.to);
            }
        }
    }

    /// The first CPU that the thread may use.
    fn first_allowed(&self, t: Thread) -> Option<CpuId> {
        (0..self.q.cpus() as u16).map(CpuId).find(|&c| self.q.allows(t, c))
    }

    /// A preempted thread keeps its place; one whose mask has changed moves to a CPU where it may run.
    fn put_back(&mut self, t: Thread, cpu: CpuId, outside: bool, effects: &mut Effects) {
        if !outside {
            return self.q.enqueue(t, cpu, true);
        }
        let target = self.first_allowed(t).unwrap_or(cpu);
        self.q.enqueue(t, target, false);
        effects.kicks.push(target);
    }
}

impl Design for RealTime {
    fn spawn(&mut self, attr: &Attr, cpu: CpuId, _now: Nanos) -> Result<Thread, String> {
        if !attr.policy.is_rt() {
            return Err("this scheduler has real-time threads only".to_owned());
        }
        Ok(self.q.spawn(attr.rt.0, cpu))
    }

    fn running(&self, cpu: CpuId) -> Option<Thread> {
        self.q.running(cpu)
    }

    fn priority(&self, thread: Thread) -> i16 {
        99 - i16::from(self.q.rank(thread))
    }

    fn set_mask(&mut self, thread: Thread, mask: CpuMask) {
        self.q.set_mask(thread, mask);
    }

    fn set_attr(&mut self, thread: Thread, attr: &Attr, _now: Nanos) -> Result<(), String> {
        if attr.policy.is_rt() && attr.rt.0 == self.q.rank(thread) {
            return Ok(());
        }
        Err("this scheduler's threads keep their priorities".to_owned())
    }

    /// On its last CPU, or on one that it may use.
    fn wake(&mut self, thread: Thread, waker: Option<CpuId>, _now: Nanos, effects: &mut Effects) -> CpuId {
        let last = self.q.cpu_of(thread);
        let cpu = if self.q.allows(thread, last) { last } else { self.first_allowed(thread).unwrap_or(last) };
        self.q.enqueue(thread, cpu, false);
        match waker {
            Some(_) if Some(self.q.rank(thread)) > self.q.running_rank(cpu) => effects.kicks.push(cpu),
            Some(waker) => self.decide(waker, effects, |balance, q, moves| balance.woken(q, cpu, moves)),
            // The timer's interrupt makes the CPU choose.
            None => {}
        }
        cpu
    }

    fn tick(&mut self, cpu: CpuId, tick: u64, _now: Nanos, effects: &mut Effects) {
        self.decide(cpu, effects, |balance, q, moves| balance.tick(q, cpu, tick, moves));
    }

    fn errand(&mut self, cpu: CpuId, effects: &mut Effects) {
        self.decide(cpu, effects, |balance, q, moves| balance.called(q, cpu, moves));
    }

    fn choose(&mut self, cpu: CpuId, leaves: bool, _now: Nanos, effects: &mut Effects) -> Choice {
        let running = self.q.running(cpu);
        let best = self.q.waiting(cpu).next().map(|t| self.q.rank(t));
        let outside = running.is_some_and(|t| !self.q.allows(t, cpu));
        let ran = self.q.running_rank(cpu);
        if running.is_some() && !leaves && !outside && best <= ran {
            return Choice::Keep;
        }
        if let Some(t) = self.q.vacate(cpu).filter(|_| !leaves) {
            self.put_back(t, cpu, outside, effects);
        }
        self.decide(cpu, effects, |balance, q, moves| balance.before_choice(q, cpu, ran, moves));
        Choice::Run(self.q.choose(cpu))
    }

    fn after_switch(&mut self, cpu: CpuId, effects: &mut Effects) {
        self.decide(cpu, effects, |balance, q, moves| balance.after_switch(q, cpu, moves));
    }
}
