//! The steps of threads.

use super::{History, Mode, Work};
use crate::event::Event;
use crate::user::{Env, Micro, Op, Step, View, Who};
use crate::world::PID;
use abi::Errno;
use abi::futex::{FUTEX_CMD_MASK, FUTEX_WAIT, FUTEX_WAKE};
use ids::{CpuId, Nanos};
use kernel::{Access, Call, Machine};
use lab::rt_balance::Thread;

impl History {
    /// Resumes the running thread in user mode.
    pub(super) fn go_on(&mut self, cpu: CpuId, t: Thread) {
        match self.actors[t].work {
            Work::Run(Nanos::ZERO, None) => self.next_part(cpu, t, 0),
            Work::Run(Nanos::ZERO, Some(call)) => self.call(cpu, t, call),
            Work::Next(input) => self.next_part(cpu, t, input),
            Work::Run(left, _) => self.user_until(cpu, self.now + left),
            Work::Until(at) if at <= self.now => self.next_part(cpu, t, 0),
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
        if let Some(t) = self.design.running(cpu) {
            self.go_on(cpu, t);
        }
    }

    /// The next part of the thread's step, or its next step.
    fn next_part(&mut self, cpu: CpuId, t: Thread, input: isize) {
        match self.actors[t].op.take() {
            Some(op) => self.advance(cpu, t, op, input),
            None => self.next_step(cpu, t),
        }
    }

    fn next_step(&mut self, cpu: CpuId, t: Thread) {
        let actor = &mut self.actors[t];
        match actor.work {
            Work::Until(_) => actor.result = actor.used.since(actor.used_before).0 as isize,
            Work::Next(result) => actor.result = result,
            // Some computation, or the end of a step with several parts, which has left its result.
            _ => {}
        }
        let (tid, result) = (Self::tid_of(t), actor.result);
        let (machine, run_time, rng) = (&self.machine, actor.used, &mut self.user_rng);
        let mut view = View { machine, run_time, result, tid, cpu, rng };
        let step = actor.program.next(&mut view);
        actor.result = 0;
        actor.used_before = actor.used;
        // Every step takes some instructions, so time advances.
        actor.debt += self.config.cost.atomic.max(1);
        self.begin_step(cpu, t, step);
    }

    fn begin_step(&mut self, cpu: CpuId, t: Thread, step: Step) {
        let call = self.config.cost.call;
        match step {
            Step::Compute(n) => {
                let debt = self.take_debt(t);
                self.use_cpu(cpu, t, n + debt, None);
            }
            Step::ComputeUntil(at) => self.use_cpu_until(cpu, t, at),
            Step::Sleep(n) => self.wait(cpu, t, None, Some(self.now + n)),
            Step::SleepUntil(at) => self.wait(cpu, t, None, Some(at)),
            Step::Exit => {
                self.actors[t].work = Work::Gone;
                self.alive -= 1;
                self.reschedule(cpu, call);
            }
            Step::Yield if self.design.give_way(cpu, self.now) => {
                self.actors[t].work = Work::Next(0);
                self.reschedule(cpu, call);
            }
            Step::SetAffinity(Who::Me, mask) => {
                self.design.set_mask(t, mask);
                self.actors[t].work = Work::Next(0);
                self.reschedule(cpu, call);
            }
            Step::SetPolicy(Who::Me, attr) => {
                self.actors[t].work = Work::Next(0);
                match self.design.set_attr(t, &attr, self.now) {
                    Ok(()) => self.actors[t].attr = attr,
                    Err(why) => drop(self.broken.get_or_insert(why)),
                }
                self.reschedule(cpu, call);
            }
            Step::Clone(program) => {
                let attr = self.actors[t].attr;
                let Some(child) = self.spawn(attr, program, cpu) else { return };
                self.actors[t].work = Work::Next(Self::tid(child) as isize);
                self.cpus[cpu.index()].to_wake.push_back(child);
                self.leave_kernel_later(cpu, call);
            }
            Step::Barrier(b) => self.meet(cpu, t, b.addr, b.parties as usize),
            Step::FutexWait { addr, value, timeout } => self.futex_wait(cpu, t, addr, value, timeout),
            Step::FutexWake { addr, count } => self.futex_wake(cpu, t, addr, count),
            Step::Lock(_) | Step::Unlock(_) | Step::CondWait(..) | Step::CondSignal(_) | Step::CondBroadcast(_) => {
                self.start(cpu, t, step)
            }
            Step::SemaphoreWait(_) | Step::SemaphorePost(_) => self.start(cpu, t, step),
            other => self.fail_at(&other),
        }
    }

    /// Begins a step that consists of memory accesses and futex calls.
    fn start(&mut self, cpu: CpuId, t: Thread, step: Step) {
        let op = self.with_env(cpu, t, |env| Op::begin(step, env));
        self.advance(cpu, t, op, 0);
    }

    fn advance(&mut self, cpu: CpuId, t: Thread, mut op: Op, input: isize) {
        let micro = self.with_env(cpu, t, |env| op.advance(input, env));
        // Two owners of one mutex: either the program or this machine is wrong.
        if let Some(what) = self.owners.broken.take() {
            self.broken.get_or_insert(what);
        }
        if let Micro::Done(result) = micro {
            self.actors[t].result = result;
        } else {
            self.actors[t].op = Some(op);
        }
        if let Micro::Until(at) = micro {
            return self.use_cpu_until(cpu, t, at);
        }
        let debt = self.take_debt(t);
        match micro {
            Micro::Run(n) => self.use_cpu(cpu, t, n + debt, None),
            Micro::Call(call) => self.use_cpu(cpu, t, debt, Some(call)),
            Micro::Until(_) | Micro::Done(_) => self.use_cpu(cpu, t, debt, None),
        }
    }

    /// The cost of its memory accesses so far; at least a nanosecond.
    fn take_debt(&mut self, t: Thread) -> Nanos {
        Nanos(std::mem::take(&mut self.actors[t].debt).max(1))
    }

    fn use_cpu_until(&mut self, cpu: CpuId, t: Thread, at: Nanos) {
        let debt = self.take_debt(t);
        self.actors[t].work = Work::Until(at.max(self.now + debt));
        self.go_on(cpu, t);
    }

    fn use_cpu(&mut self, cpu: CpuId, t: Thread, span: Nanos, then: Option<Call>) {
        self.actors[t].work = Work::Run(span, then);
        self.go_on(cpu, t);
    }

    fn with_env<R>(&mut self, cpu: CpuId, t: Thread, f: impl FnOnce(&mut Env<'_>) -> R) -> R {
        let actor = &mut self.actors[t];
        let mut env = Env {
            machine: &self.machine,
            tid: Self::tid_of(t),
            pid: PID,
            cpu,
            scratch: 0,
            used: actor.used,
            debt: actor.debt,
            costs: (self.config.cost.atomic, self.config.cost.line),
            children: &mut self.children,
            owners: &mut self.owners,
            hardware: &self.flat,
        };
        let result = f(&mut env);
        actor.debt = env.debt;
        result
    }

    /// A system call of a step that has several parts: only futexes are used by those that are known here.
    fn call(&mut self, cpu: CpuId, t: Thread, call: Call) {
        let [addr, op, value, timeout, ..] = call.args;
        match op as u32 & FUTEX_CMD_MASK {
            FUTEX_WAIT if call.nr == abi::nr::FUTEX && timeout == 0 => {
                self.futex_wait(cpu, t, addr, value as u32, None);
            }
            FUTEX_WAKE if call.nr == abi::nr::FUTEX => self.futex_wake(cpu, t, addr, value as u32),
            _ => self.fail_at(&Step::Call(call)),
        }
    }

    fn futex_wait(&mut self, cpu: CpuId, t: Thread, addr: u64, value: u32, timeout: Option<Nanos>) {
        match self.machine.word(addr, Access::Load) {
            Ok(word) if word == value => {
                self.waiters.entry(addr).or_default().push_back(t);
                self.wait(cpu, t, Some(addr), timeout.map(|span| self.now + span));
            }
            other => {
                let error = if other.is_ok() { Errno::EAGAIN } else { Errno::EFAULT };
                self.actors[t].work = Work::Next(error.to_ret());
                self.leave_kernel_later(cpu, self.config.cost.call);
            }
        }
    }

    fn futex_wake(&mut self, cpu: CpuId, t: Thread, addr: u64, count: u32) {
        let waiters = self.waiters.entry(addr).or_default();
        let woken: Vec<Thread> = waiters.drain(..waiters.len().min(count as usize)).collect();
        self.actors[t].work = Work::Next(woken.len() as isize);
        self.wake_one_by_one(cpu, woken);
        self.leave_kernel_later(cpu, self.config.cost.call);
    }

    /// The thread of `cpu` wakes these, which wait no longer: a time limit of theirs is void.
    fn wake_one_by_one(&mut self, cpu: CpuId, woken: Vec<Thread>) {
        for &t in &woken {
            self.actors[t].waits_for = None;
            self.actors[t].generation += 1;
        }
        self.cpus[cpu.index()].to_wake.extend(woken);
    }

    fn wait(&mut self, cpu: CpuId, t: Thread, addr: Option<u64>, until: Option<Nanos>) {
        self.actors[t].work = Work::Asleep;
        self.actors[t].waits_for = addr;
        if let Some(until) = until {
            self.sleep(t, until);
        }
        self.reschedule(cpu, self.config.cost.call);
    }

    /// The last thread to arrive wakes the others, one by one, before it continues.
    fn meet(&mut self, cpu: CpuId, t: Thread, barrier: u64, parties: usize) {
        let waiters = self.waiters.entry(barrier).or_default();
        if waiters.len() + 1 < parties {
            waiters.push_back(t);
            return self.wait(cpu, t, Some(barrier), None);
        }
        let woken = std::mem::take(waiters).into();
        self.actors[t].work = Work::Next(1);
        self.wake_one_by_one(cpu, woken);
        self.leave_kernel_later(cpu, self.config.cost.call);
    }
}
