//! Requests of the kernel to the personality, which answers, with the host's help, all that is not about threads.

use crate::trap::{Out, Process};
use crate::wait::Wait;
use crate::{Call, Kernel, Machine};
use abi::{Errno, SaFlags, SigEvent, SigInfo, SigSet, Signal};
use ids::{CpuId, Nanos, ThreadIdx};
use time::cpu::Usage;

/// A right that the host grants a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// CAP_SYS_NICE: any priority.
    SetPriorities,
    /// CAP_SYS_RESOURCE: higher hard limits.
    RaiseLimits,
}

/// The personality of a process. It has no thread of its own: the kernel calls it in traps, with no lock held.
pub trait Personality<M: Machine<Personality = Self>>: Default + core::fmt::Debug + Sync + Sized {
    /// Answers a system call of the current thread `t` that the kernel does not know, or that names what it does not know.
    fn call(k: &Kernel<M>, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out;
    /// Something happens to the process as a whole.
    fn before(k: &Kernel<M>, what: &Process);
    /// The result of a wait that the personality has begun ([`Wait::Host`], [`Wait::Terminal`]), if it is over.
    fn finished(k: &Kernel<M>, t: ThreadIdx, wait: Wait) -> Option<isize>;
    /// The host has answered a call of [`Next::Inline`](crate::Next::Inline).
    fn answered(k: &Kernel<M>, call: &Call, result: isize);
    /// A parked thread ([`crate::parked`]) has been chosen: whether it can go on. If not, it is marked as waiting again.
    fn resumes(k: &Kernel<M>, t: ThreadIdx) -> bool;
    /// `cpu` ticks while threads are parked: it looks for events.
    fn look_for_events(k: &Kernel<M>, cpu: CpuId);
    /// On the way to user code: signals that a call of `t` has caused become pending here.
    fn take_arrivals(k: &Kernel<M>, cpu: CpuId, t: ThreadIdx);
    /// A signal was queued for `t` or the process, and nobody takes it now.
    fn unwanted(k: &Kernel<M>, t: ThreadIdx, info: &SigInfo);
    /// The thread `t` takes these signals from now on.
    fn wanted(k: &Kernel<M>, t: ThreadIdx, takes: impl FnOnce() -> SigSet);
    /// Signals of the process that are pending, but not here.
    fn pending(k: &Kernel<M>) -> SigSet;
    /// Takes one of them.
    fn take_pending(k: &Kernel<M>, wanted: SigSet) -> Option<SigInfo>;
    /// The program has begun to ignore a signal, or ceased to; `flags` of SIGCHLD say what becomes of children.
    fn ignore(m: &M, signal: Signal, ignored: bool, flags: SaFlags);
    /// A host timer with this event; its id.
    fn create_timer(m: &M, clock: i32, event: &SigEvent) -> Result<i32, Errno>;
    /// Deletes one.
    fn delete_timer(m: &M, id: i32);
    /// ITIMER_REAL: what is left, and the period.
    fn real_itimer(m: &M) -> [Nanos; 2];
    /// User and system time of this process, as the host counts them.
    fn usage(m: &M) -> Usage;
    /// The soft limit of a resource of this process.
    fn soft_limit(m: &M, resource: u64) -> u64;
    /// Whether the host grants this to the calling carrier.
    fn may(m: &M, what: Capability) -> bool;
}

impl<M: Machine> Kernel<M> {
    /// The personality answers.
    pub(crate) fn foreign(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        M::Personality::call(self, cpu, t, call)
    }
}
