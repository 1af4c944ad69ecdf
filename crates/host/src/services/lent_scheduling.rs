//! Policy and CPUs of a program that runs natively: those of its thread, which the host thread that executes it does not
//! have.

use crate::base::os::{self, CpuSet};
use crate::process::Process;
use abi::SchedAttr;
use kernel::Carried;

/// The policy and the CPUs that the calling host thread had before, where they differed.
#[must_use]
pub(crate) struct Before {
    attr: Option<SchedAttr>,
    cpus: Option<CpuSet>,
}

/// Gives the calling host thread the policy and the CPUs of the thread whose program it is about to execute. What the
/// host refuses stays as it is: real-time policies need a right.
pub(crate) fn lend(k: &Process, carried: &Carried) -> Before {
    let wanted = carried.sched_attr();
    let attr = os::sched_attr().filter(|had| (had.policy, had.priority) != (wanted.policy, wanted.priority));
    if attr.is_some() {
        os::set_sched_attr(&wanted);
    }
    let set = carried.affinity().and_then(|mask| k.m.places.host_set(mask, k.config().cpus));
    let cpus = set.map(|set| {
        let had = os::affinity();
        os::set_affinity(0, &set);
        had
    });
    Before { attr, cpus }
}

impl Before {
    /// The program was not executed.
    pub(crate) fn restore(self) {
        if let Some(attr) = &self.attr {
            os::set_sched_attr(attr);
        }
        if let Some(cpus) = &self.cpus {
            os::set_affinity(0, cpus);
        }
    }
}
