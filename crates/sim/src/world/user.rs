//! User mode: threads do their steps until they need the kernel or are interrupted.

use super::{Mode, Then, Work, World};
use crate::config::Bug;
use crate::event::Event;
use crate::machine::{CALL_RIP, HANDLER_RIP, USER_RIP};
use crate::trace::What;
use crate::user::{Env, Micro, Op, View};
use crate::world::PID;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Call, Trap};

/// Memory accesses are paid at the next system call or computation, but not later than this.
const DEBT_MAX: u64 = 1_000;

impl World {
    /// `t` continues in user mode on `cpu`, as its registers say.
    pub(crate) fn resume(&mut self, cpu: CpuId, t: ThreadIdx) {
        self.cpu(cpu).mode = Mode::User(self.now);
        if let Work::Called(call) = self.thread(t).work
            && call.nr == abi::nr::RT_SIGRETURN
        {
            let frame = self.thread(t).frames.pop().expect("a handler returns to what it interrupted");
            let th = self.thread(t);
            (th.op, th.work, th.result) = frame;
        }
        let regs = self.kernel.m.with(t, |c| c.regs);
        if regs.rip == HANDLER_RIP {
            self.enter_handler(cpu, t, regs.rdi as i32);
        } else if let Work::Called(call) = self.thread(t).work {
            self.kernel.m.with(t, |c| c.regs.rip = USER_RIP);
            self.thread(t).work = if regs.rip == CALL_RIP {
                let again = Call { nr: regs.rax as usize, ..call };
                Work::Run { left: Nanos(1), then: Then::Call(again) }
            } else {
                if let Err(what) = self.checker.note_end(t, &call, regs.rax as isize) {
                    self.fail(what);
                }
                Work::Next(regs.rax as isize)
            };
        }
        self.go_on(cpu, t);
    }

    /// A handler computes for as long as the program says, then returns.
    fn enter_handler(&mut self, cpu: CpuId, t: ThreadIdx, signal: i32) {
        self.note(cpu, What::Handler, i64::from(signal));
        self.kernel.m.with(t, |c| c.regs.rip = USER_RIP);
        let machine = &self.kernel.m;
        let th = self.threads[t.index()].as_mut().expect("it runs");
        let (rng, run_time) = (&mut self.user_rng, th.used);
        let mut view = View { machine, run_time, result: th.result, tid: th.tid, cpu, rng };
        let span = th.program.on_signal(&mut view, signal);
        th.frames.push((th.op.take(), th.work, th.result));
        let back = Call { nr: abi::nr::RT_SIGRETURN, args: [0; 6] };
        th.work = Work::Run { left: span.max(Nanos(1)), then: Then::Call(back) };
    }

    /// Does what takes no time, then schedules the end of what does.
    fn go_on(&mut self, cpu: CpuId, t: ThreadIdx) {
        loop {
            let work = self.thread(t).work;
            match work {
                Work::Run { left: Nanos::ZERO, then: Then::Next } => self.thread(t).work = Work::Next(0),
                Work::Run { left: Nanos::ZERO, then: Then::Call(call) } => return self.call(cpu, t, call),
                Work::Run { left, .. } => {
                    let at = self.hardware.finish(cpu, self.now, left);
                    return self.user_until(cpu, at);
                }
                Work::Until(at) if at <= self.now => self.thread(t).work = Work::Next(0),
                Work::Until(at) => return self.user_until(cpu, at),
                Work::Called(call) => return self.fail(format!("{t:?} runs in the middle of call {}", call.nr)),
                Work::Next(input) => self.next_micro(cpu, t, input),
            }
        }
    }

    fn user_until(&mut self, cpu: CpuId, at: Nanos) {
        self.cpu(cpu).mode = Mode::User(self.now);
        self.cpu_event(cpu, at, Event::UserEnd);
    }

    /// One move of the program.
    fn next_micro(&mut self, cpu: CpuId, t: ThreadIdx, input: isize) {
        if self.strikes(Bug::LyingExchange) {
            self.kernel.m.lying_cas.store(1, sync::atomic::Ordering::Relaxed);
        }
        let th = self.threads[t.index()].as_mut().expect("it runs");
        let machine = &self.kernel.m;
        let mut env = Env {
            machine,
            tid: th.tid,
            pid: PID,
            cpu,
            scratch: th.scratch,
            used: th.used,
            debt: th.debt,
            costs: (self.config.cost.atomic, self.config.cost.line),
            hardware: &self.hardware,
            children: &mut self.children,
            owners: &mut self.owners,
        };
        let mut op = match th.op.take() {
            Some(op) => op,
            None => {
                // Every step takes some instructions, so time advances.
                env.debt += self.config.cost.atomic.max(1);
                let (rng, run_time) = (&mut self.user_rng, th.used + Nanos(env.debt));
                let mut view = View { machine, run_time, result: th.result, tid: th.tid, cpu, rng };
                let step = th.program.next(&mut view);
                Op::begin(step, &mut env)
            }
        };
        let micro = op.advance(input, &mut env);
        let debt = env.debt;
        th.debt = 0;
        th.op = Some(op);
        th.work = match micro {
            Micro::Run(n) => Work::Run { left: n + Nanos(debt), then: Then::Next },
            Micro::Until(at) => Work::Until(at),
            Micro::Call(call) => Work::Run { left: Nanos(debt), then: Then::Call(call) },
            Micro::Done(result) => {
                th.result = result;
                th.op = None;
                if debt > DEBT_MAX {
                    Work::Run { left: Nanos(debt), then: Then::Next }
                } else {
                    th.debt = debt;
                    Work::Next(0)
                }
            }
        };
    }

    fn call(&mut self, cpu: CpuId, t: ThreadIdx, mut call: Call) {
        let (now, sigreturn) = (self.now, call.nr == abi::nr::RT_SIGRETURN);
        self.kernel.m.with(t, |c| {
            (c.call, c.tried) = (call.nr, now);
            let r = &mut c.regs;
            [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = call.args;
            if sigreturn {
                // The handler's return has popped its return address.
                c.regs.rsp += 8;
            }
        });
        self.thread(t).work = Work::Called(call);
        if self.strikes(Bug::LoseResult) {
            // Planted: the kernel answers another call than the one that was made.
            call = Call { nr: abi::nr::GETTID, args: [0; 6] };
        }
        self.trap(cpu, Trap::Call(call));
    }

    /// The thread has consumed the CPU time that its step asked for.
    pub(crate) fn user_end(&mut self, cpu: CpuId) {
        let t = self.stop_user(cpu);
        self.cpu(cpu).mode = Mode::User(self.now);
        self.go_on(cpu, t);
    }

    /// User mode ends here: what was used is accounted, the rest stays to be done.
    pub(crate) fn stop_user(&mut self, cpu: CpuId) -> ThreadIdx {
        let Mode::User(since) = self.cpus[cpu.index()].mode else { panic!("{cpu:?} is not in user mode") };
        let t = self.cpus[cpu.index()].thread.expect("user mode has a thread");
        let used = self.now.since(since);
        let done = self.hardware.work(cpu, since, self.now);
        let interrupted = matches!(self.thread(t).work, Work::Run { left, .. } if left > done);
        let skip = interrupted && self.strikes(Bug::SkipCompute);
        let th = self.thread(t);
        th.used += used;
        if let Work::Run { left, .. } = &mut th.work {
            *left = if skip { Nanos::ZERO } else { left.since(done) };
        }
        t
    }
}
