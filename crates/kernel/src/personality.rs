//! The kernel's interface to the personality, which answers, with the host's help, all calls that do not concern
//! threads.

use crate::trap::Out;
use crate::wait::Wait;
use crate::{Call, Kernel, Machine};
use abi::{Errno, SigEvent, SigInfo, SigSet};
use ids::{CpuId, ThreadIdx};

/// Rights and limits that the host grants a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grants {
    /// Any priority (CAP_SYS_NICE).
    pub any_priority: bool,
    /// Higher hard limits (CAP_SYS_RESOURCE).
    pub higher_limits: bool,
    /// RLIMIT_NICE: without the capability, nice values down to 20 less this.
    pub nice: u64,
    /// RLIMIT_RTPRIO: without the capability, real-time priorities up to this.
    pub rt_priority: u64,
    /// RLIMIT_SIGPENDING.
    pub pending_signals: u64,
}

/// A request about a timer of the host's.
#[derive(Clone, Copy, Debug)]
pub enum HostTimer<'a> {
    /// Create one on this clock, with this event.
    Create(i32, &'a SigEvent),
    /// Delete the one with this id.
    Delete(i32),
}

/// The personality of a process. It has no thread of its own: the kernel calls it in traps, with no lock held.
pub trait Personality<M: Machine<Personality = Self>>: Default + core::fmt::Debug + Sync + Sized {
    /// Answers a system call of the current thread `t` that the kernel does not handle, or whose arguments it does not
    /// know.
    fn call(k: &Kernel<M>, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out;
    /// A thread in a wait that the personality has begun ([`Wait::Host`], [`Wait::Terminal`]) has been chosen: whether
    /// it can continue. If not, marks it as waiting again.
    fn resumes(k: &Kernel<M>, t: ThreadIdx, wait: Wait) -> bool;
    /// Polls for events, at a tick of `cpu` while threads are parked.
    fn look_for_events(k: &Kernel<M>, cpu: CpuId);
    /// A signal was queued for `t` or the process, and no thread takes it now.
    fn unwanted(k: &Kernel<M>, t: ThreadIdx, info: &SigInfo);
    /// The thread `t` takes these signals from now on, and no others.
    fn wanted(k: &Kernel<M>, t: ThreadIdx, takes: impl FnOnce() -> SigSet);
    /// Creates or deletes a host timer; returns its id.
    fn host_timer(m: &M, what: HostTimer<'_>) -> Result<i32, Errno>;
    /// Rights and limits that the host grants this process, by the calling carrier's credentials.
    fn grants(m: &M) -> Grants;
}

impl<M: Machine> Kernel<M> {
    /// Passes a call to the personality.
    pub(crate) fn foreign(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        M::Personality::call(self, cpu, t, call)
    }
}
