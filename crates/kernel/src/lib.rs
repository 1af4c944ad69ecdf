//! The thread kernel: what happens to a thread between its trap and the moment it runs again.
//!
//! A trap enters, is handled to its end without waiting, and leaves with a decision, [`Next`], that says what the carrier
//! does. The crate does not know whether it stands on Linux or in the simulator: everything it needs from below is
//! [`Machine`]. Calls that are not about threads go to the [`Personality`] (crate `linux`), which
//! makes the host calls.
//!
//! **May touch:** what [`Machine`] offers. No host, no unsafe code, no clock of its own.
//!
//! **Start reading at** [`trap`] (the path of a trap), then [`wait`] (blocking is a state), then `syscall/`, one file per
//! family of calls.
//!
//! | module | subject |
//! |---|---|
//! | [`trap`], `brief` | entry, scheduling and exit of a trap; the entry of calls, with yields and plain futexes inlined |
//! | [`wait`] | what a thread waits for, and how a wait ends |
//! | `futex` | wait queues, requeue, priority inheritance, robust lists |
//! | `signals` | delivery to threads, on top of crate `signal` |
//! | `cputime`, `limits` | CPU time, its timers, limits and shares, on top of crate `time` |
//! | `posix_timers` | POSIX timers and checkpoints of them |
//! | `host_wait` | a thread leaves its CPU for a host call |
//! | [`Personality`] | answers all other calls |
//! | `control` | controlled runs (`entresol chaos`), on top of crate `chaos` |
//! | `woken` | for traces: what ended a wait |
//! | `describe` | what `ps` and the state page show of a thread, read without stopping it |
//!
//! # Four ways through the code
//! The files that decide something, in order. Each trap begins in `arch/src/entry.rs` and `host/src/traps/run.rs` and ends there.
//!
//! - *A contended mutex.* The waiter: `brief`, `syscall/futex`, `futex/wait`, `futex/queue`, `trap` (`block`, `schedule`),
//!   `sched/src/schedule.rs`, `fair.rs`, `tree.rs`. The waker: `brief`, `syscall/futex`, `futex/wake`, `futex/queue`, `wait`
//!   (`wake`), `sched/src/wake.rs`; for another CPU `host/src/carriers/seat.rs` and `wake.rs`.
//! - *A tick that ends a slice.* `host/src/traps/handlers.rs`, `cpu` (`on_timer`), `cputime`, `sched/src/tick.rs`, `fair.rs`,
//!   `trap` (`schedule`), `sched/src/schedule.rs`, `tree.rs`.
//! - *A timer with an exact id, until its signal.* `syscall/mod`, `posix_timers/calls`, `time/src/posix/spec.rs`, `table.rs`,
//!   `trie.rs`; `time/src/posix/calls.rs`, `queues.rs`; `cpu` (`on_timer`), `posix_timers/expiry`,
//!   `time/src/posix/timer.rs`, `signal/src/send.rs`; `signals`, `signal/src/deliver.rs`, `frame.rs`.
//! - *Open and read of a file in `/proc`.* `linux/src/calls.rs`, `linux/src/proc/calls.rs`, `path.rs`, `procfs/src/walk.rs`,
//!   `dentry.rs`, `permission.rs`, `linux/src/proc/open.rs`, `files.rs`; `open.rs` (`sys_read`), `contents.rs`, `view.rs`,
//!   `procfs/src/text/`.
//!
//! # Locks
//! In the order in which they may be taken: futex bucket, turnstiles (`futex::pi`), run queue (inside `sched`), timeout
//! queue. The process's signals come before a thread's. These and the tables' locks are leaves.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod brief;
mod carried;
mod control;
pub mod cpu;
mod cputime;
mod describe;
pub mod futex;
mod habit;
pub mod hint;
mod host_wait;
pub mod lasting;
pub mod limits;
pub mod machine;
pub mod parked;
mod personality;
mod posix_timers;
mod profile;
mod scarce;
mod shared;
mod signals;
pub mod stats;
pub mod syscall;
pub mod thread;
mod tid;
pub mod trap;
pub mod wait;
mod woken;

use alloc::boxed::Box;
use ids::{CpuId, Nanos, Pid, ThreadIdx, Tid};
use sched::Scheduler;
use sync::CachePadded;

pub use brief::{Chosen, Here};
pub use carried::Carried;
pub use control::{Arrival, PRIVATE_POINT};
pub use cputime::TimeLimit;
pub use describe::{Moment, reason, snapshot_rest};
pub use host_wait::FOR_EVER;
pub use machine::{Access, Call, Clock, Event, Fault, Machine, NoMemory, Raise, Resume, Times, Transfer};
pub use personality::{Grants, HostTimer, Personality};
pub use scarce::Unserved;
pub use shared::Shared;
pub use signals::{ProcessState, USER_END};
pub use syscall::neighbour::ELSEWHERE;
pub use thread::{Thread, ThreadTable};
pub use trap::{Next, Out, Process, Trap, Wanted};

/// The most wake-ups in one go (law 4).
pub const WAKES_MAX: usize = 64;

/// The number of the private call that says which version answers; ENOSYS outside.
pub const PRIVATE_VERSION: usize = 0x454e_0000;

/// The number of the private call that says how system calls are caught: [`CAUGHT_BY_DISPATCH`], [`CAUGHT_BY_FILTER`].
pub const PRIVATE_CATCH: usize = 0x454e_0001;
/// By Syscall User Dispatch.
pub const CAUGHT_BY_DISPATCH: isize = 1;
/// By a seccomp filter.
pub const CAUGHT_BY_FILTER: isize = 2;

/// The number of the private call by which a dynamic linker that nobody audits says that its list of objects has changed.
pub const PRIVATE_OBJECTS: usize = 0x454e_0030;

/// The number of the private call by which a thread joins a named group: its id (0: the caller), the name.
pub const PRIVATE_JOIN_GROUP: usize = 0x454e_0010;

/// How the kernel is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many CPUs.
    pub cpus: usize,
    /// How many CPUs the host can run at the same time; zero: all.
    pub at_once: usize,
    /// The time between ticks.
    pub tick: Nanos,
    /// Timeouts of threads that are not urgent may interrupt others as late as their timer slack allows.
    pub timer_slack: bool,
    /// Real-time policies need the host's permission (`--rt=host`).
    pub rt_host_rules: bool,
    /// The process's id.
    pub pid: Pid,
    /// The process's first real user id.
    pub uid: u32,
    /// The machine catches system calls by a filter, and not by dispatch.
    pub by_filter: bool,
    /// RLIMIT_SIGPENDING is not enforced (`--pending-signals=unlimited`).
    pub pending_unlimited: bool,
    /// Limits on CPU time beyond Linux.
    pub limits: limits::Limits,
    /// Stack guards are mappings, as on a host without guard markers (`--guards=mappings`).
    pub mapped_guards: bool,
    /// Where threads wait for descriptors (`--io`).
    pub io: Io,
    /// Tells the largest extended state that a signal frame may hold. A virtual machine's processor takes long to answer,
    /// so it is not asked before a handler returns.
    pub extended_state: fn() -> signal::frame::ExtendedState,
    /// Switches are recorded.
    pub tracing: bool,
    /// Threads are sampled.
    pub sampling: Option<Sampling>,
}

/// Where threads wait for descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// In the host, on a carrier each, while they are few; in the machine's poller when they are many.
    #[default]
    Auto,
    /// All in the poller.
    Poller,
    /// All in the host.
    Threads,
}

/// How often threads are sampled, and by which clock (`entresol profile`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// The time between two samples.
    pub every: Nanos,
    /// By the wall clock, all threads are sampled; by CPU time, those that run, at ticks.
    pub wall: bool,
}

/// The kernel of one process.
#[derive(Debug)]
pub struct Kernel<M: Machine> {
    /// The machine.
    pub m: M,
    /// Switches are observed (trace, groups): one test per switch.
    watched: bool,
    /// The scheduler.
    pub sched: Scheduler,
    config: Config,
    threads: ThreadTable,
    cpus: Box<[CachePadded<cpu::Cpu>]>,
    futexes: futex::FutexTable,
    process: signals::ProcessState,
    /// Memory that other processes may see.
    pub shared: Shared,
    /// Threads that wait for descriptors.
    pub parked: parked::Parked,
    /// The personality's state of the process.
    pub personality: M::Personality,
    posix: posix_timers::PosixRoom,
    timeout_room: sync::Lock<usize>,
    cputime: cputime::ProcessTime,
    limits: limits::Enforcer,
    /// `None` except in controlled runs.
    controlled: Option<Box<control::Controlled>>,
}

/// The kernel could not be set up for want of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetUpFailed;

impl<M: Machine> Kernel<M> {
    /// A kernel without threads.
    // Inlined, it would enlarge the frame of start-up code that runs on the program's stack.
    #[inline(never)]
    pub fn new(m: M, config: Config) -> Result<Box<Kernel<M>>, SetUpFailed> {
        let domains = config.limits.exclusive_cpus().cloned().collect();
        let (cpus, at_once, tick) = (config.cpus, config.at_once, config.tick);
        let sched_config = sched::Config { cpus, at_once, tick, domains, ..sched::Config::default() };
        let sched = Scheduler::new(&sched_config).map_err(|_| SetUpFailed)?;
        let limits = limits::Enforcer::new(&config.limits, config.cpus);
        let ticking = limits.active || config.sampling.is_some_and(|sampling| !sampling.wall);
        Ok(Box::new(Kernel {
            watched: limits.holds || config.tracing,
            limits,
            m,
            sched,
            threads: ThreadTable::new().ok_or(SetUpFailed)?,
            cpus: (0..config.cpus).map(|_| cpu::Cpu::new()).collect(),
            futexes: futex::FutexTable::new().ok_or(SetUpFailed)?,
            process: signals::ProcessState::new(config.uid)?,
            shared: Shared::default(),
            parked: parked::Parked::default(),
            personality: M::Personality::default(),
            posix: posix_timers::PosixRoom::new(config.cpus)?,
            timeout_room: sync::Lock::new(0),
            cputime: cputime::ProcessTime::new(config.cpus, ticking).map_err(|_| SetUpFailed)?,
            config,
            controlled: None,
        }))
    }

    /// How it was set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The thread in a slot.
    #[inline(always)]
    pub fn thread(&self, t: ThreadIdx) -> &Thread {
        self.threads.get(t)
    }

    /// The process's signals, and how it ends.
    pub fn process(&self) -> &signals::ProcessState {
        &self.process
    }

    /// The POSIX timers.
    pub fn posix_timers(&self) -> &posix_timers::PosixRoom {
        &self.posix
    }

    /// The table of threads.
    pub fn threads(&self) -> &ThreadTable {
        &self.threads
    }

    /// A CPU's own lines.
    #[inline(always)]
    pub fn cpu(&self, cpu: CpuId) -> &cpu::Cpu {
        &self.cpus[cpu.index()]
    }

    /// A thread's id.
    pub fn tid(&self, t: ThreadIdx) -> Tid {
        Tid(self.thread(t).tid.load(sync::atomic::Ordering::Relaxed))
    }
}

/// The machine's time, for the scheduler to read.
struct Now<'a, M>(&'a M);

impl<M: Machine> sched::Clock for Now<'_, M> {
    #[inline(always)]
    fn read(self) -> Nanos {
        self.0.clock(Clock::Scheduling)
    }
}

/// Passes the scheduler's kicks to the machine. The caller's own CPU needs none: it checks `need_resched` before it
/// leaves the kernel.
#[derive(Debug)]
pub struct Kicks<'a, M: Machine> {
    m: &'a M,
    me: CpuId,
}

impl<M: Machine> sched::Kick for Kicks<'_, M> {
    #[inline]
    fn kick(&mut self, cpu: CpuId) {
        if cpu != self.me {
            self.m.kick(cpu);
        }
    }

    fn serves(&mut self, cpu: CpuId, core: Option<usize>) {
        self.m.observe(Event::Serves(cpu, core));
    }
}
