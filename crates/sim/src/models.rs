//! The protocol of `linux`'s `ready` on a model checker (`--cfg shuttle`): the kernel itself on two CPUs whose traps
//! interleave at every atomic operation. The simulator's own traps come one at a time.
//!
//! A run that never ends, because a wake-up or an event is lost, is a failure by its length.

use crate::config::Config;
use crate::machine::{HANDLER_RIP, SimMachine, USER_RIP};
use crate::user::script;
use crate::world::Setup;
use abi::args::{F_DUPFD, POLLIN};
use abi::{Signal, clone_flags as cf, nr};
use ids::{CpuId, ThreadIdx};
use kernel::{Call, Io, Kernel, Machine, Next, Trap};
use linux::{Fault, Linux};
use sched::Idle;
use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Runner, thread};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use sync::Lock;

const SCHEDULES: usize = 100;
/// Threads have parked by then.
const START_MAX: u64 = 1_000;
/// The limit of a carrier's rounds; it becomes idle much sooner.
const ROUNDS_MAX: usize = 2_000;
/// The descriptor that is read, and closed.
const FD: u64 = 100;
const MAIN: ThreadIdx = ThreadIdx(0);
const WAITS: isize = isize::MIN;

/// The calls of the threads.
#[derive(Debug, Default)]
struct Script {
    /// Its calls, each to be made once that thread waits or is through, if one is named.
    calls: VecDeque<(Call, Option<ThreadIdx>)>,
    /// The result of each call; [`WAITS`] at first.
    results: Vec<isize>,
}

impl Script {
    fn is_over(&self) -> bool {
        self.calls.is_empty() && self.results.last() != Some(&WAITS)
    }
}

#[derive(Clone)]
struct Model {
    kernel: Arc<Kernel<SimMachine>>,
    scripts: Arc<Lock<BTreeMap<u32, Script>>>,
    /// Memory of the program.
    memory: u64,
}

impl Model {
    /// Two threads, one for each CPU. `FD` and the returned descriptor both denote one mailbox.
    fn new(fault: Option<Fault>) -> (Model, u64) {
        let mut setup = Setup::new(Config { io: Io::Poller, ..Config::new(0, 2) });
        let memory = setup.words(64);
        let model = Model { kernel: setup.main(script([])).kernel.clone(), scripts: Arc::default(), memory };
        if let Some(fault) = fault {
            model.kernel.personality.planted.plant(fault, 0);
        }
        let mailbox = model.mailbox();
        model.at_once(nr::FCNTL, &[mailbox, F_DUPFD, FD]);
        (model, mailbox)
    }

    /// A mailbox whose messages this test sends.
    fn mailbox(&self) -> u64 {
        self.at_once(nr::SOCKET, &[1, 2, 0, 0, 0]) as u64
    }

    /// Makes a call that no thread makes.
    fn at_once(&self, nr: usize, args: &[u64]) -> isize {
        linux::host(&self.kernel.m, &call(nr, args))
    }

    /// By the main thread, before there is any race.
    fn at_first(&self, call: Call) -> Next {
        self.kernel.m.with(MAIN, |c| {
            c.claim = Some(CpuId(0));
            c.regs.rip = USER_RIP;
        });
        self.kernel.trap(CpuId(0), Trap::Call(call))
    }

    fn script(&self, t: u32, calls: impl IntoIterator<Item = (Call, Option<ThreadIdx>)>) {
        self.scripts.lock().entry(t).or_default().calls.extend(calls);
    }

    fn result(&self, t: u32, i: usize) -> isize {
        self.scripts.lock()[&t].results.get(i).copied().unwrap_or(WAITS)
    }

    fn is_over(&self) -> bool {
        self.scripts.lock().values().all(Script::is_over)
    }

    /// Whether it is parked and has not been woken.
    fn is_waiting(&self, t: ThreadIdx) -> bool {
        let thread = self.kernel.thread(t);
        thread.parked.is_parked() && thread.node.queued()
    }

    /// Waits until the first call of `t` waits or has returned.
    fn await_first(&self, t: ThreadIdx) {
        while !self.is_waiting(t) && self.result(t.0, 0) == WAITS {
            thread::yield_now();
        }
    }

    /// A message for mailbox number `mailbox`; a carrier that is not on a CPU has seen it.
    fn send(&self, mailbox: usize) {
        self.kernel.m.inner.lock().linux.deliver(mailbox);
        self.look(CpuId::NONE);
    }

    fn look(&self, cpu: CpuId) {
        let events = self.kernel.m.inner.lock().linux.events(64);
        Linux(&*self.kernel).descriptors_ready(cpu, &events);
    }

    /// Runs the scripts on two CPUs, and `meanwhile` at the same time.
    fn run(&self, meanwhile: impl FnOnce(&Model) + Send + 'static) {
        let flags = cf::VM | cf::SIGHAND | cf::THREAD;
        let kernel = &self.kernel;
        let next = self.at_first(call(nr::CLONE, &[flags, self.memory]));
        assert_eq!(next, Next::Run(MAIN));
        kernel.sched.idle_state(CpuId(1), Idle::Spinning);
        let idle = Next::Idle { until: None };
        let carriers = [(0, next), (1, idle)].map(|(cpu, next)| {
            let model = self.clone();
            thread::spawn(move || model.carry(CpuId(cpu), next))
        });
        let model = self.clone();
        let meanwhile = thread::spawn(move || {
            (0..thread_rng().next_u64() % START_MAX).for_each(|_| thread::yield_now());
            meanwhile(&model);
        });
        carriers.into_iter().chain([meanwhile]).for_each(|thread| thread.join().unwrap());
        assert_eq!(kernel.m.inner.lock().notes.broken, None);
    }

    /// A carrier does what the kernel says, until all scripts are done.
    fn carry(&self, cpu: CpuId, mut next: Next) {
        let kernel = &self.kernel;
        for round in 0.. {
            if self.is_over() {
                return;
            }
            assert!(round < ROUNDS_MAX, "{cpu:?} has {next:?} for ever; {:?}", &*self.scripts.lock());
            next = match next {
                Next::Run(t) => {
                    let claimed = kernel.m.with(t, |c| c.claim.replace(cpu));
                    assert!(claimed.is_none_or(|by| by == cpu), "{t:?} runs on {claimed:?} and {cpu:?}");
                    kernel.trap(cpu, Trap::Call(self.go_on(t)))
                }
                Next::Idle { .. } if kernel.sched.need_resched(cpu) => {
                    kernel.trap(cpu, Trap::Interrupt { timer: false, kick: true })
                }
                Next::Idle { .. } => kernel.idle_look(cpu).unwrap_or_else(|| {
                    self.look(cpu);
                    thread::yield_now();
                    next
                }),
                Next::Inline { thread, call } => {
                    let result = linux::host(&kernel.m, &call);
                    linux::Linux(&**kernel).inline_done(cpu, thread, call, result)
                }
                other => panic!("the model has no such thing: {other:?}"),
            };
        }
    }

    /// A thread continues in user mode: returns its next call. A thread without one yields.
    fn go_on(&self, t: ThreadIdx) -> Call {
        let r = self.kernel.m.with(t, |c| c.regs);
        if r.rip == HANDLER_RIP {
            self.kernel.m.with(t, |c| c.regs.rsp += 8);
            return call(nr::RT_SIGRETURN, &[]);
        }
        let mut scripts = self.scripts.lock();
        let script = scripts.get_mut(&t.0).expect("each has one");
        if let Some(last) = script.results.last_mut().filter(|last| **last == WAITS) {
            *last = r.rax as isize;
        }
        let after = script.calls.front().map(|next| next.1);
        let waits = |t: ThreadIdx| !self.is_waiting(t) && !scripts[&t.0].is_over();
        if after.is_none_or(|after| after.is_some_and(waits)) {
            drop(scripts);
            thread::yield_now();
            return call(nr::SCHED_YIELD, &[]);
        }
        let script = scripts.get_mut(&t.0).expect("each has one");
        let (call, _) = script.calls.pop_front().expect("just seen");
        script.results.push(WAITS);
        drop(scripts);
        self.kernel.m.with(t, |c| {
            [c.regs.rdi, c.regs.rsi, c.regs.rdx, c.regs.r10, c.regs.r8, c.regs.r9] = call.args;
            (c.regs.rip, c.call) = (USER_RIP, call.nr);
        });
        call
    }

    fn read(&self, fd: u64, t: u32) -> (Call, Option<ThreadIdx>) {
        (call(nr::READ, &[fd, self.memory + 16 * u64::from(t), 8]), None)
    }
}

fn call(nr: usize, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call { nr, args: all }
}

fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config
}

fn check(model: fn(Option<Fault>)) {
    Runner::new(RandomScheduler::new(SCHEDULES), config()).run(move || model(None));
    Runner::new(PctScheduler::new(3, SCHEDULES), config()).run(move || model(None));
}

/// Some schedule must show the fault.
fn catches(model: fn(Option<Fault>), fault: Fault) {
    let runner = Runner::new(RandomScheduler::new(30 * SCHEDULES), config());
    let caught = catch_unwind(AssertUnwindSafe(|| runner.run(move || model(Some(fault))))).is_err();
    assert!(caught, "{} is never caught", fault.name());
}

/// Two readers and two messages; the poller may report both as one event.
fn two_readers(fault: Option<Fault>) {
    let (model, _) = Model::new(fault);
    [0, 1].into_iter().for_each(|t| model.script(t, [model.read(FD, t)]));
    model.run(|model| {
        model.kernel.m.inner.lock().linux.deliver(0);
        model.send(0);
    });
    assert_eq!([0, 1].map(|t| model.result(t, 0)), [8, 8]);
}

/// Each may take what the other was woken for.
fn rivals(fault: Option<Fault>) {
    let (model, _) = Model::new(fault);
    [0, 1].into_iter().for_each(|t| model.script(t, [model.read(FD, t), model.read(FD, t)]));
    model.run(|model| (0..4).for_each(|_| model.send(0)));
    assert_eq!([(0, 0), (0, 1), (1, 0), (1, 1)].map(|(t, i)| model.result(t, i)), [8; 4]);
}

/// One is chosen without a reason, while its message comes.
fn chosen_for_nothing(fault: Option<Fault>) {
    let (model, _) = Model::new(fault);
    model.script(0, [model.read(FD, 0)]);
    model.script(1, []);
    model.run(|model| {
        model.await_first(MAIN);
        model.kernel.wake(CpuId::NONE, MAIN);
        (0..thread_rng().next_u64() % 200).for_each(|_| thread::yield_now());
        model.send(0);
    });
    assert_eq!(model.result(0, 0), 8);
}

/// One thread reads from a mailbox whose descriptor the other overwrites by that of another mailbox.
fn overwritten(fault: Option<Fault>) {
    let (model, _) = Model::new(fault);
    let other = model.mailbox();
    model.script(0, [model.read(FD, 0)]);
    model.script(1, [(call(nr::DUP2, &[other, FD]), Some(MAIN))]);
    model.run(|model| {
        while model.result(1, 0) == WAITS {
            thread::yield_now();
        }
        model.send(0);
    });
    assert_eq!([0, 1].map(|t| model.result(t, 0)), [8, FD as isize]);
}

/// One reads from a mailbox whose descriptor the other closes for a moment.
fn closed(fault: Option<Fault>) {
    let (model, spare) = Model::new(fault);
    model.script(0, [model.read(FD, 0)]);
    let again = [(call(nr::CLOSE, &[FD]), Some(MAIN)), (call(nr::FCNTL, &[spare, F_DUPFD, FD]), None)];
    model.script(1, again.into_iter().chain([model.read(FD, 1)]));
    model.run(|model| [0, 0].into_iter().for_each(|mailbox| model.send(mailbox)));
    assert_eq!([model.result(0, 0), model.result(1, 2)], [8, 8]);
}

/// One asks two descriptors, of which the other reads one.
fn polled(fault: Option<Fault>) {
    let (model, _) = Model::new(fault);
    let other = model.mailbox();
    let at = model.memory + 64;
    for (i, fd) in [other, FD].into_iter().enumerate() {
        model.kernel.m.write(at + 8 * i as u64, &(fd | POLLIN << 32).to_le_bytes()).unwrap();
    }
    model.script(0, [(call(nr::POLL, &[at, 2, u64::MAX]), None), model.read(FD, 0)]);
    model.script(1, [model.read(other, 1)]);
    model.run(|model| [0, 1].into_iter().for_each(|mailbox| model.send(mailbox)));
    assert!([1, 2].contains(&model.result(0, 0)), "{}", model.result(0, 0));
}

/// Another carrier sends a signal to one of two readers; the other one gets the message.
fn signalled(fault: Option<Fault>) {
    let (model, _) = Model::new(fault);
    let action = abi::SigAction {
        handler: HANDLER_RIP,
        flags: abi::SaFlags::RESTORER,
        restorer: crate::machine::RESTORER_RIP,
        mask: abi::SigSet::EMPTY,
    };
    model.kernel.m.write(model.memory + 128, &action.to_bytes()).unwrap();
    let handle = call(nr::RT_SIGACTION, &[Signal::USR1.raw() as u64, model.memory + 128, 0, 8]);
    model.at_first(handle);
    [0, 1].into_iter().for_each(|t| model.script(t, [model.read(FD, t)]));
    model.run(|model| {
        model.await_first(MAIN);
        let info = abi::SigInfo::kernel(Signal::USR1);
        model.kernel.send_to_thread(CpuId::NONE, MAIN, info).unwrap();
        model.send(0);
        while model.result(0, 0) == WAITS {
            thread::yield_now();
        }
        if model.result(0, 0) == 8 {
            model.send(0);
        }
    });
    assert_eq!(model.result(1, 0), 8);
}

#[test]
fn no_event_and_no_wake_up_is_lost() {
    for model in [two_readers, rivals, chosen_for_nothing, overwritten, closed, polled, signalled] {
        check(model);
    }
}

#[test]
fn faults_are_caught() {
    for fault in [Fault::DropEvent, Fault::KeepWakeUp, Fault::MissEvent] {
        catches(two_readers, fault);
    }
    catches(overwritten, Fault::KeepDescriptor);
}
