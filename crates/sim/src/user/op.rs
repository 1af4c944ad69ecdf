//! A step under way: what the thread does with the CPU until it needs the kernel.

use super::call;
use super::env::{Env, Micro, STACK};
use super::host_ops::HostOp;
use super::mail_ops::MailOp;
use super::sync_ops::{BarrierOp, CondOp, LockOp, PiOp, SemaphoreOp};
use super::{Program, Step};
use ids::Nanos;
use kernel::Call;

/// A step under way.
pub(crate) enum Op {
    Run {
        span: Nanos,
        before: Option<Nanos>,
    },
    Until {
        until: Nanos,
        used: Option<Nanos>,
    },
    Call(Call),
    /// A call was made: what it returns is the result.
    Result,
    Return(isize),
    Sleep {
        until: Nanos,
        call: Option<Call>,
    },
    Lock(LockOp),
    Pi(PiOp),
    Cond(CondOp),
    Barrier(BarrierOp),
    Semaphore(SemaphoreOp),
    Host(HostOp),
    Mail(MailOp),
    CloneCall {
        word: u64,
        call: Call,
    },
    Clone {
        word: u64,
    },
    Join {
        word: u64,
    },
}

impl Op {
    /// Begins a step.
    pub(crate) fn begin(step: Step, env: &mut Env<'_>) -> Op {
        match step {
            Step::Compute(span) => Op::Run { span, before: None },
            Step::ComputeUntil(until) => Op::Until { until, used: None },
            Step::Sleep(n) => Op::Sleep { until: env.machine.now() + n, call: Some(call::sleep(env, n, false)) },
            Step::SleepUntil(at) => Op::Sleep { until: at, call: Some(call::sleep(env, at, true)) },
            Step::Yield => Op::Call(call::call(abi::nr::SCHED_YIELD, &[])),
            Step::FutexWait { addr, value, timeout } => Op::Call(call::futex_wait(env, addr, value, timeout)),
            Step::FutexWake { addr, count } => Op::Call(call::futex_wake(addr, count)),
            Step::Lock(m) => Op::Lock(LockOp::lock(m)),
            Step::Unlock(m) => Op::Lock(LockOp::unlock(m)),
            Step::LockPi(m) => Op::Pi(PiOp::lock(m)),
            Step::UnlockPi(m) => Op::Pi(PiOp::unlock(m)),
            Step::CondWait(c, m) => Op::Cond(CondOp::wait(c, m, false)),
            Step::CondWaitPi(c, m) => Op::Cond(CondOp::wait(c, m, true)),
            Step::CondSignal(c) => Op::Cond(CondOp::wake(c, 1)),
            Step::CondBroadcast(c) => Op::Cond(CondOp::wake(c, i32::MAX as u32)),
            Step::Barrier(b) => Op::Barrier(BarrierOp::new(b)),
            Step::SemaphoreWait(s) => Op::Semaphore(SemaphoreOp::wait(s)),
            Step::SemaphorePost(s) => Op::Semaphore(SemaphoreOp::post(s)),
            Step::Host(n) => Op::Call(call::host(n)),
            Step::Pipe => Op::Host(HostOp::Pipe),
            Step::Send { fd, seq, len } => Op::Host(HostOp::Send { fd, seq, left: len, asked: 0 }),
            Step::Receive { fd, seq, len, total } => Op::Host(HostOp::Receive { fd, seq, len, total, asked: false }),
            Step::Mailbox { messages, within, limit, at } => Op::Mail(MailOp::open(messages, within, limit, at)),
            Step::Message(how) => Op::Mail(MailOp::take(how)),
            Step::Renumber { fd, spare, at_once } => Op::Mail(MailOp::Renumber { fd, spare, at_once }),
            Step::Close(fd) => Op::Call(call::call(abi::nr::CLOSE, &[fd])),
            Step::Child => Op::Host(HostOp::Fork),
            Step::Clone(program) => Op::clone(program, env),
            Step::Join(tid) => match env.children.words.get(&tid.0) {
                Some(&word) => Op::Join { word },
                None => Op::Return(abi::Errno::ESRCH.to_ret()),
            },
            Step::SetPolicy(who, attr) => Op::Call(call::set_policy(env, who, &attr)),
            Step::SetAffinity(who, mask) => Op::Call(call::set_affinity(env, who, &mask)),
            Step::SetNice(who, nice) => Op::Call(call::set_nice(who, nice)),
            Step::Signal(to, signal) => Op::Call(call::signal(env, to, signal)),
            Step::Handle { signal, restart } => Op::Call(call::handle(env, signal, restart)),
            Step::Pause => Op::Call(call::call(abi::nr::PAUSE, &[])),
            Step::Call(call) => Op::Call(call),
            Step::Exit => Op::Call(call::call(abi::nr::EXIT, &[])),
        }
    }

    fn clone(program: Box<dyn Program>, env: &mut Env<'_>) -> Op {
        let stack = env.children.stacks.pop().unwrap_or_else(|| {
            let at = env.machine.inner.lock().memory.allocate(STACK);
            (at, STACK)
        });
        // The joiner's word lies in the stack's last line, as glibc's thread block does.
        let (top, word) = (stack.0 + stack.1 - 64, stack.0 + stack.1 - 4);
        env.children.nursery.insert(top, program);
        // The arguments are the parent's scratch, so the call is made from here.
        let call = call::clone(env, (stack.0, top - stack.0), word);
        Op::CloneCall { word, call }
    }

    /// The next operation; `input` is the result of the last system call.
    pub(crate) fn advance(&mut self, input: isize, env: &mut Env<'_>) -> Micro {
        match self {
            Op::Run { span, before } => match *before {
                None => {
                    *before = Some(env.used);
                    Micro::Run(*span)
                }
                Some(before) => {
                    if env.used.since(before) < *span {
                        env.owners.broken.get_or_insert(format!("thread {} computed too little", env.tid.0));
                    }
                    Micro::Done(0)
                }
            },
            Op::Until { until, used: None } => {
                let until = *until;
                *self = Op::Until { until, used: Some(env.used) };
                Micro::Until(until)
            }
            Op::Until { used: Some(before), .. } => Micro::Done(env.used.since(*before).0 as isize),
            Op::Call(call) => {
                let call = *call;
                *self = Op::Result;
                Micro::Call(call)
            }
            Op::Result => Micro::Done(input),
            Op::Return(result) => Micro::Done(*result),
            Op::Sleep { call, .. } if call.is_some() => Micro::Call(call.take().expect("just seen")),
            Op::Sleep { until, .. } => {
                if input == 0 && env.machine.now() < *until {
                    let early = until.since(env.machine.now());
                    env.owners.broken.get_or_insert(format!("thread {} slept {early:?} too short", env.tid.0));
                }
                Micro::Done(input)
            }
            Op::Lock(op) => op.advance(input, env),
            Op::Pi(op) => op.advance(input, env),
            Op::Cond(op) => op.advance(input, env),
            Op::Barrier(op) => op.advance(input, env),
            Op::Semaphore(op) => op.advance(input, env),
            Op::Host(op) => op.advance(input, env),
            Op::Mail(op) => op.advance(input, env),
            Op::CloneCall { word, call } => {
                let (word, call) = (*word, *call);
                *self = Op::Clone { word };
                Micro::Call(call)
            }
            Op::Clone { word } => {
                if input > 0 {
                    env.children.words.insert(input as i32, *word);
                }
                Micro::Done(input)
            }
            Op::Join { word } => match env.load(*word) {
                0 => Micro::Done(0),
                tid => Micro::Call(call::futex_wait_shared(*word, tid)),
            },
        }
    }
}
