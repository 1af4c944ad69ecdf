//! Requests of the kernel to the personality, which answers, with the host's help, all that is not about threads.

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
    /// One on this clock, with this event.
    Create(i32, &'a SigEvent),
    /// The one with this id is deleted.
    Delete(i32),
}

/// The personality of a process. It has no thread of its own: the kernel calls it in traps, with no lock held.
pub trait Personality<M: Machine<Personality = Self>>: Default + core::fmt::Debug + Sync + Sized {
    /// Answers a system call of the current thread `t` that the kernel does not know, or that names what it does not know.
    fn call(k: &Kernel<M>, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out;
    /// A thread in a wait that the personality has begun ([`Wait::Host`], [`Wait::Terminal`]) has been chosen: whether it
    /// can go on. If not, it is marked as waiting again.
    fn resumes(k: &Kernel<M>, t: ThreadIdx, wait: Wait) -> bool;
    /// `cpu` ticks while threads are parked: it looks for events.
    fn look_for_events(k: &Kernel<M>, cpu: CpuId);
    /// A signal was queued for `t` or the process, and nobody takes it now.
    fn unwanted(k: &Kernel<M>, t: ThreadIdx, info: &SigInfo);
    /// The thread `t` takes these signals from now on.
    fn wanted(k: &Kernel<M>, t: ThreadIdx, takes: impl FnOnce() -> SigSet);
    /// Makes or deletes a host timer; its id.
    fn host_timer(m: &M, what: HostTimer<'_>) -> Result<i32, Errno>;
    /// Rights and limits that the host grants this process, by the calling carrier's rights.
    fn grants(m: &M) -> Grants;
}

impl<M: Machine> Kernel<M> {
    /// The personality answers.
    pub(crate) fn foreign(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        M::Personality::call(self, cpu, t, call)
    }
}
