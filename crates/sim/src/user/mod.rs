//! Simulated programs: a thread is a state machine that names its next [`Step`] each time the last one is done.
//!
//! A step is one thing a C program would write: compute, lock a mutex, wait at a barrier. `op` splits it as glibc
//! would, into atomic operations on the program's own memory and system calls; the kernel sees nothing else.

mod call;
pub(crate) mod env;
mod host_ops;
mod mail_ops;
mod op;
mod sync_ops;

use crate::machine::SimMachine;
use crate::rng::Rng;
use ids::{CpuId, CpuMask, Nanos, Tid};
use kernel::{Access, Call, Machine};
use sched::Attr;

pub(crate) use env::{Env, Micro};
pub(crate) use op::Op;

/// A word of the program's memory that it uses as a mutex (glibc's "low-level lock": 0 free, 1 taken, 2 taken and there
/// may be waiters), or, with the PI steps, as a priority-inheriting one (0 or the owner's id).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mutex(pub u64);

/// A condition variable: a word that counts signals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cond(pub u64);

/// A barrier for `parties` threads: two words, arrivals and round.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Barrier {
    /// Its memory.
    pub addr: u64,
    /// How many threads meet.
    pub parties: u32,
}

/// A semaphore: two words, its value and the number of threads that wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Semaphore(pub u64);

/// Which thread a call is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The caller.
    Me,
    /// The thread with this id.
    Tid(Tid),
}

/// A thread's next step. The program sees its result in [`View::result`]: 0 or the return value of the system call,
/// unless stated otherwise.
pub enum Step {
    /// Uses the CPU for this long.
    Compute(Nanos),
    /// A busy loop until the given monotonic time. Its result is the number of nanoseconds that it had the CPU.
    ComputeUntil(Nanos),
    /// `clock_nanosleep(2)`, relative.
    Sleep(Nanos),
    /// `clock_nanosleep(2)`, absolute.
    SleepUntil(Nanos),
    /// `sched_yield(2)`.
    Yield,
    /// FUTEX_WAIT while the word holds `value`, at most for `timeout`.
    FutexWait {
        /// The word.
        addr: u64,
        /// The expected value.
        value: u32,
        /// How long at most.
        timeout: Option<Nanos>,
    },
    /// FUTEX_WAKE.
    FutexWake {
        /// The word.
        addr: u64,
        /// How many at most.
        count: u32,
    },
    /// Takes a mutex.
    Lock(Mutex),
    /// Releases it.
    Unlock(Mutex),
    /// Takes a mutex with priority inheritance.
    LockPi(Mutex),
    /// Releases it.
    UnlockPi(Mutex),
    /// Releases the mutex, waits for a signal (or for nothing), takes the mutex again.
    CondWait(Cond, Mutex),
    /// The same with a mutex with priority inheritance.
    CondWaitPi(Cond, Mutex),
    /// Wakes one waiter.
    CondSignal(Cond),
    /// Wakes all waiters.
    CondBroadcast(Cond),
    /// Waits until all have come. Yields 1 in the last to come, else 0.
    Barrier(Barrier),
    /// Decrements a semaphore as soon as it is above zero.
    SemaphoreWait(Semaphore),
    /// Increments it, and wakes one thread that waits for it.
    SemaphorePost(Semaphore),
    /// A system call in which the host waits for this long, then returns 0.
    Host(Nanos),
    /// `pipe2(2)`. Yields the end to read, and in the upper half the one to write.
    Pipe,
    /// Writes this many bytes: the numbers of the stream from `seq` on.
    Send {
        /// The descriptor.
        fd: u64,
        /// How many bytes were sent before.
        seq: u64,
        /// How many more.
        len: u64,
    },
    /// Reads at most this many bytes. Yields the number read; 0 at the end, which must be after `total`.
    Receive {
        /// The descriptor.
        fd: u64,
        /// How many bytes were read before.
        seq: u64,
        /// How many at most.
        len: u64,
        /// How long the stream is.
        total: u64,
    },
    /// A mailbox: a socket to which another process sends messages. Yields its descriptor; it has another one as well.
    Mailbox {
        /// How many messages there will be.
        messages: u64,
        /// All of them come in this time.
        within: Nanos,
        /// SO_RCVTIMEO.
        limit: Option<Nanos>,
        /// The other descriptor.
        at: u64,
    },
    /// Takes a message.
    Message(TakeMessage),
    /// A descriptor denotes something else for a moment: it is closed, or overwritten by another one of the same kind.
    Renumber {
        /// The descriptor.
        fd: u64,
        /// Another one of the same file.
        spare: u64,
        /// By `dup2(2)`: there is no such moment.
        at_once: bool,
    },
    /// `close(2)`.
    Close(u64),
    /// `fork(2)` and `wait4(2)` for the child.
    Child,
    /// Starts a thread. Yields its id.
    Clone(Box<dyn Program>),
    /// Waits until that thread has exited.
    Join(Tid),
    /// `sched_setattr(2)`.
    SetPolicy(Who, Attr),
    /// `sched_setaffinity(2)`.
    SetAffinity(Who, CpuMask),
    /// `setpriority(2)`.
    SetNice(Who, i8),
    /// `tgkill(2)`.
    Signal(Tid, i32),
    /// `rt_sigaction(2)`: [`Program::on_signal`] shall handle it, restarting calls or not.
    Handle {
        /// The signal.
        signal: i32,
        /// SA_RESTART.
        restart: bool,
    },
    /// `pause(2)`.
    Pause,
    /// Any system call.
    Call(Call),
    /// `exit(2)`: the thread ends; the last one ends the process.
    Exit,
}

/// How a message is taken.
#[derive(Clone, Copy, Debug)]
pub struct TakeMessage {
    /// The descriptor, which others may close.
    pub fd: u64,
    /// Another one of the same mailbox.
    pub spare: u64,
    /// The mailbox's time limit.
    pub limit: Option<Nanos>,
    /// `poll(2)` first, for this many milliseconds (-1: for ever).
    pub poll: Option<i32>,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Step::Compute(n) => return write!(f, "Compute({n:?})"),
            Step::ComputeUntil(n) => return write!(f, "ComputeUntil({n:?})"),
            Step::Sleep(n) => return write!(f, "Sleep({n:?})"),
            Step::SleepUntil(n) => return write!(f, "SleepUntil({n:?})"),
            Step::FutexWait { addr, value, .. } => return write!(f, "FutexWait({addr:#x}, {value})"),
            Step::FutexWake { addr, count } => return write!(f, "FutexWake({addr:#x}, {count})"),
            Step::Lock(m) => return write!(f, "Lock({:#x})", m.0),
            Step::Unlock(m) => return write!(f, "Unlock({:#x})", m.0),
            Step::LockPi(m) => return write!(f, "LockPi({:#x})", m.0),
            Step::UnlockPi(m) => return write!(f, "UnlockPi({:#x})", m.0),
            Step::CondWait(c, m) => return write!(f, "CondWait({:#x}, {:#x})", c.0, m.0),
            Step::CondWaitPi(c, m) => return write!(f, "CondWaitPi({:#x}, {:#x})", c.0, m.0),
            Step::CondSignal(c) => return write!(f, "CondSignal({:#x})", c.0),
            Step::CondBroadcast(c) => return write!(f, "CondBroadcast({:#x})", c.0),
            Step::Barrier(b) => return write!(f, "Barrier({:#x}, {})", b.addr, b.parties),
            Step::SemaphoreWait(s) => return write!(f, "SemaphoreWait({:#x})", s.0),
            Step::SemaphorePost(s) => return write!(f, "SemaphorePost({:#x})", s.0),
            Step::Host(n) => return write!(f, "Host({n:?})"),
            Step::Join(t) => return write!(f, "Join({})", t.0),
            Step::SetPolicy(_, a) => return write!(f, "SetPolicy({:?} {:?})", a.policy, a.rt),
            Step::SetAffinity(_, m) => return write!(f, "SetAffinity({m:?})"),
            Step::SetNice(_, n) => return write!(f, "SetNice({n})"),
            Step::Signal(t, n) => return write!(f, "Signal({}, {n})", t.0),
            Step::Call(c) => return write!(f, "Call({})", c.nr),
            Step::Send { fd, len, .. } => return write!(f, "Send({fd}, {len})"),
            Step::Receive { fd, len, .. } => return write!(f, "Receive({fd}, {len})"),
            Step::Mailbox { messages, at, .. } => return write!(f, "Mailbox({messages}, {at})"),
            Step::Message(how) => return how.fmt(f),
            Step::Renumber { fd, at_once, .. } => return write!(f, "Renumber({fd}, {at_once})"),
            Step::Close(fd) => return write!(f, "Close({fd})"),
            Step::Pipe => "Pipe",
            Step::Child => "Child",
            Step::Clone(_) => "Clone",
            Step::Handle { .. } => "Handle",
            Step::Yield => "Yield",
            Step::Pause => "Pause",
            Step::Exit => "Exit",
        };
        f.write_str(name)
    }
}

/// The machine as its programs see it.
pub trait Surroundings {
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    fn now(&self) -> Nanos;
    /// Loads a word of the program.
    fn load(&self, addr: u64) -> u32;
    /// Stores a word of the program.
    fn store(&self, addr: u64, value: u32);
}

impl Surroundings for SimMachine {
    fn now(&self) -> Nanos {
        SimMachine::now(self)
    }

    fn load(&self, addr: u64) -> u32 {
        self.word(addr, Access::Load)
            .unwrap_or_else(|_| panic!("the program loads from {addr:#x}, which is not mapped"))
    }

    fn store(&self, addr: u64, value: u32) {
        let stored = self.word(addr, Access::Store(value));
        assert!(stored.is_ok(), "the program stores to {addr:#x}, which is not mapped");
    }
}

/// A program's view of the machine between two steps. Looking costs no simulated time.
pub struct View<'a> {
    pub(crate) machine: &'a dyn Surroundings,
    pub(crate) run_time: Nanos,
    /// The result of the last step.
    pub result: isize,
    /// The thread's id.
    pub tid: Tid,
    /// The CPU it is on (`getcpu`).
    pub cpu: CpuId,
    /// Randomness of the program's own, from the run's seed.
    pub rng: &'a mut Rng,
}

impl<'a> View<'a> {
    /// The view of a thread on a real CPU: on which, and how long it has run, is not said.
    pub fn real(machine: &'a dyn Surroundings, tid: Tid, result: isize, rng: &'a mut Rng) -> View<'a> {
        View { machine, run_time: Nanos::ZERO, result, tid, cpu: CpuId::NONE, rng }
    }
}

impl View<'_> {
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    pub fn now(&self) -> Nanos {
        self.machine.now()
    }

    /// How long the thread has run in user mode when its next step begins.
    pub fn run_time(&self) -> Nanos {
        self.run_time
    }

    /// Loads a word of the program.
    pub fn load(&self, addr: u64) -> u32 {
        self.machine.load(addr)
    }

    /// Stores a word of the program.
    pub fn store(&self, addr: u64, value: u32) {
        self.machine.store(addr, value);
    }
}

/// A thread's code.
pub trait Program {
    /// The next step. Not called again after [`Step::Exit`].
    fn next(&mut self, view: &mut View<'_>) -> Step;

    /// A signal handler runs; returns how long it computes.
    fn on_signal(&mut self, _view: &mut View<'_>, _signal: i32) -> Nanos {
        Nanos::from_micros(1)
    }
}

impl<F: FnMut(&mut View<'_>) -> Step> Program for F {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        self(view)
    }
}

/// A program that does these steps in order and exits.
pub fn script(steps: impl IntoIterator<Item = Step>) -> Box<dyn Program> {
    let mut steps: std::collections::VecDeque<Step> = steps.into_iter().collect();
    Box::new(move |_: &mut View<'_>| steps.pop_front().unwrap_or(Step::Exit))
}

/// A program that first does these steps.
pub fn after(first: impl IntoIterator<Item = Step>, mut then: Box<dyn Program>) -> Box<dyn Program> {
    let mut steps: std::collections::VecDeque<Step> = first.into_iter().collect();
    Box::new(move |view: &mut View<'_>| steps.pop_front().unwrap_or_else(|| then.next(view)))
}

/// A program with this policy and mask.
pub fn with(attr: Attr, mask: Option<CpuMask>, then: Box<dyn Program>) -> Box<dyn Program> {
    let mask = mask.map(|m| Step::SetAffinity(Who::Me, m));
    after(mask.into_iter().chain([Step::SetPolicy(Who::Me, attr)]), then)
}
