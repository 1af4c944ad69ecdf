//! The steps of threads.

use super::{History, Mode, Work};
use crate::event::Event;
use crate::user::{Step, View, Who};
use ids::{CpuId, Nanos};
use lab::rt_balance::Thread;

impl History {
    /// Resumes the running thread in user mode.
    pub(super) fn go_on(&mut self, cpu: CpuId, t: Thread) {
        match self.actors[t].work {
            Work::Run(Nanos::ZERO) | Work::Next => self.next_step(cpu, t),
            Work::Run(left) => self.user_until(cpu, self.now + left),
            Work::Until(at) if at <= self.now => self.next_step(cpu, t),
            Work::Until(at) => self.user_until(cpu, at),
            Work::Asleep | Work::Gone => self.reschedule(cpu, 1),
        }
    }

    fn user_until(&mut self, cpu: CpuId, at: Nanos) {
        let c = &mut self.cpus[cpu.index()];
        c.mode = Mode::User;
        c.since = self.now;
        c.generation += 1;
        let event = Event::UserEnd(cpu, c.generation);
        self.events.at(at, event);
    }

    pub(super) fn user_end(&mut self, cpu: CpuId) {
        self.stop_user(cpu);
        if let Some(t) = self.q.running(cpu) {
            self.go_on(cpu, t);
        }
    }

    fn next_step(&mut self, cpu: CpuId, t: Thread) {
        let actor = &mut self.actors[t];
        if matches!(actor.work, Work::Until(_)) {
            actor.result = actor.used.since(actor.used_before).0 as isize;
        }
        let (tid, result) = (Self::tid_of(t), actor.result);
        let (machine, run_time, rng) = (&self.machine, actor.used, &mut self.user_rng);
        let mut view = View { machine, run_time, result, tid, cpu, rng };
        let step = actor.program.next(&mut view);
        actor.result = 0;
        actor.used_before = actor.used;
        let call = self.config.cost.call;
        match step {
            Step::Compute(n) => actor.work = Work::Run(n.max(Nanos(1))),
            Step::ComputeUntil(at) => actor.work = Work::Until(at),
            Step::Sleep(n) => return self.wait(cpu, t, Some(self.now + n)),
            Step::SleepUntil(at) => return self.wait(cpu, t, Some(at)),
            Step::Exit => {
                actor.work = Work::Gone;
                self.alive -= 1;
                return self.reschedule(cpu, call);
            }
            Step::SetAffinity(Who::Me, mask) => {
                self.q.set_mask(t, mask);
                return self.reschedule(cpu, call);
            }
            Step::Barrier(b) => return self.meet(cpu, t, b.addr, b.parties as usize),
            other => return self.fail_at(&other),
        }
        self.go_on(cpu, t);
    }

    fn wait(&mut self, cpu: CpuId, t: Thread, until: Option<Nanos>) {
        self.actors[t].work = Work::Asleep;
        if let Some(until) = until {
            self.sleep(t, until);
        }
        self.reschedule(cpu, self.config.cost.call);
    }

    /// The last thread to arrive wakes the others, one by one, before it continues.
    fn meet(&mut self, cpu: CpuId, t: Thread, barrier: u64, parties: usize) {
        let waiters = self.barriers.entry(barrier).or_default();
        if waiters.len() + 1 < parties {
            waiters.push(t);
            return self.wait(cpu, t, None);
        }
        let waiters = std::mem::take(waiters);
        self.actors[t].work = Work::Next;
        self.actors[t].result = 1;
        self.cpus[cpu.index()].to_wake.extend(waiters);
        self.leave_kernel_later(cpu, self.config.cost.call);
    }
}
