//! Limits on CPU time beyond Linux: of the process, of each thread, and of named groups of threads.
//!
//! | limit | checked | effect |
//! |---|---|---|
//! | soft | at ticks | a signal, once |
//! | hard | at ticks | the process gets SIGKILL; a thread makes `exit(2)` where it is |
//! | share | at ticks, and when a thread is chosen | the thread waits ([`Wait::Throttled`](crate::wait::Wait)) until enough periods have begun |
//!
//! Consumption beyond a share is owed to the next periods (`time::cpu::bandwidth`), so the share is exact in the long
//! run however coarse the ticks are.
//!
//! **Owners of PI locks with waiters are not throttled.** They continue, and their consumption is owed. A throttled
//! owner is woken when a thread begins to wait for its lock (`Kernel::release_owner`). Owners of other locks are
//! unknown, so those locks stay held until the share allows more, as under cgroups.
//!
//! A group may have CPUs, exclusively or not (`cpuset`). Its threads get all of them when they join, and an affinity
//! mask that a thread requests is cut down to them. Exclusive CPUs are a root domain (cpuset(7), `sched_load_balance`
//! off above them): urgent threads are balanced within, and deadline threads are admitted by its capacity.
//! Overlapping sets share the domain of the rest.
//!
//! Without limits and groups this costs one test of a constant flag per switch.

mod enforce;
mod member;

use alloc::vec::Vec;
use ids::{CpuId, CpuMask, Nanos};
use sync::Lock;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use time::cpu::bandwidth::Bandwidth;
use time::cpu::limit::{AtHard, CpuLimit};

pub use member::matches;

/// A share of the CPU: a quota in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// CPU time per period.
    pub quota: Nanos,
    /// The length of a period.
    pub period: Nanos,
}

/// The limits of one process or one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// A signal after this much CPU time.
    pub soft: Option<(Nanos, abi::Signal)>,
    /// The end after this much CPU time.
    pub hard: Option<Nanos>,
    /// Throttling beyond this share.
    pub share: Option<Share>,
}

/// A named group of threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// Its name.
    pub name: Vec<u8>,
    /// Its share, if it is limited and not only counted.
    pub share: Option<Share>,
    /// The CPUs that its threads may use, if not all (`cpuset`).
    pub cpus: Option<CpuMask>,
    /// No other thread may use these CPUs.
    pub exclusive: bool,
    /// Threads whose names match one of these belong to it.
    pub patterns: Vec<Vec<u8>>,
}

/// All limits of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// The process's limit.
    pub process: Limit,
    /// The limit of each thread.
    pub thread: Limit,
    /// Groups, in the order in which names are compared with them.
    pub groups: Vec<GroupSpec>,
}

impl Limits {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }

    /// The CPUs that groups have to themselves, group by group.
    pub(crate) fn exclusive_cpus(&self) -> impl Iterator<Item = &CpuMask> {
        self.groups.iter().filter(|group| group.exclusive).filter_map(|group| group.cpus.as_ref())
    }
}

/// A share and its use so far.
#[derive(Debug)]
struct Meter {
    share: Option<Share>,
    /// Begins at the first request: earlier consumption does not count.
    bandwidth: Lock<Option<Bandwidth>>,
    /// How often threads had to wait.
    throttled: AtomicU64,
}

impl Meter {
    fn new(share: Option<Share>) -> Meter {
        Meter { share, bandwidth: Lock::new(None), throttled: AtomicU64::new(0) }
    }

    /// When a thread that has consumed this much may continue.
    fn until(&self, consumed: Nanos, now: Nanos) -> Option<Nanos> {
        self.share?.until(&mut self.bandwidth.lock(), consumed, now)
    }
}

impl Share {
    fn until(&self, bandwidth: &mut Option<Bandwidth>, consumed: Nanos, now: Nanos) -> Option<Nanos> {
        if bandwidth.is_none() {
            *bandwidth = Bandwidth::new(self.quota, self.period, consumed, now).ok();
        }
        match bandwidth.as_mut()?.check(consumed, now) {
            time::cpu::bandwidth::Share::Run => None,
            time::cpu::bandwidth::Share::ThrottledUntil(at) => Some(at),
        }
    }
}

#[derive(Debug)]
struct Group {
    spec: GroupSpec,
    meter: Meter,
    consumed: AtomicU64,
    threads: AtomicU32,
}

/// Counts of one group of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupStats<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// CPU time of its threads while they belonged to it.
    pub consumed: Nanos,
    /// Threads that belong to it now.
    pub threads: u32,
    /// How often a thread had to wait for the next period.
    pub throttled: u64,
}

/// Limits being enforced.
#[derive(Debug)]
pub(crate) struct Enforcer {
    /// Some limit must be enforced.
    pub(crate) active: bool,
    /// Chosen threads may have to wait.
    pub(crate) holds: bool,
    thread: Limit,
    process: Option<Lock<CpuLimit>>,
    soft_signal: Option<abi::Signal>,
    all: Meter,
    groups: Vec<Group>,
    /// Some group has CPUs of its own.
    pub(crate) has_cpusets: bool,
    /// The CPUs of threads whose group has none of its own: those that are exclusive to no group.
    common: CpuMask,
}

impl Enforcer {
    pub(crate) fn new(limits: &Limits, cpus: usize) -> Enforcer {
        let mut common = CpuMask::first(cpus);
        for own in limits.exclusive_cpus() {
            own.iter().for_each(|cpu| common.remove(cpu));
        }
        let group = |spec: &GroupSpec| Group {
            spec: spec.clone(),
            meter: Meter::new(spec.share),
            consumed: AtomicU64::new(0),
            threads: AtomicU32::new(0),
        };
        let groups: Vec<Group> = limits.groups.iter().map(group).collect();
        Enforcer {
            active: !limits.is_empty(),
            holds: limits.process.share.is_some() || limits.thread.share.is_some() || !groups.is_empty(),
            thread: limits.thread,
            process: cpu_limit(&limits.process).map(Lock::new),
            soft_signal: limits.process.soft.map(|(_, signal)| signal),
            all: Meter::new(limits.process.share),
            has_cpusets: limits.groups.iter().any(|group| group.cpus.is_some()),
            common,
            groups,
        }
    }
}

fn cpu_limit(limit: &Limit) -> Option<CpuLimit> {
    CpuLimit::new(limit.soft.map(|(at, _)| at), limit.hard, AtHard::Stop).ok()
}

/// A thread's limits and group. Written by the CPU that runs it, or by the thread that makes it join a group.
#[derive(Debug, Default)]
pub(crate) struct ThreadLimits {
    own: Lock<Own>,
    /// The place of the thread's group in the list, plus one; 0 for none.
    group: AtomicU32,
    /// The thread's consumption when its group's count was last updated.
    counted: AtomicU64,
}

#[derive(Debug, Default)]
struct Own {
    /// The rest of its limit; `None` until the first check.
    limit: Option<CpuLimit>,
    bandwidth: Option<Bandwidth>,
}

impl ThreadLimits {
    pub(crate) fn reset(&self) {
        *self.own.lock() = Own::default();
        self.group.store(0, Relaxed);
        self.counted.store(0, Relaxed);
    }
}

/// The result of a tick's check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Enforced {
    /// The thread may go on.
    Nothing,
    /// The thread has used up its share.
    Throttled,
}

/// The tick that is being handled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) cpu: CpuId,
    pub(crate) now: Nanos,
}
