//! Nice values: `getpriority(2)`, `setpriority(2)`, and the value that other processes see.
//!
//! Each thread has its own, which counts among the threads of the process. The process competes with other processes by
//! the **lowest** of them, so that no thread gets less of the machine than threads of the same value elsewhere. Other
//! processes see that value, too.

use super::policy::{By, Target};
use crate::machine::{Call, Event, Machine};
use crate::trap::Out;
use crate::{Kernel, ThreadIdx};
use abi::Errno;
use abi::args::PRIO_PROCESS;
use ids::{CpuId, Nice};
use sched::Attr;
use sync::atomic::Ordering::Relaxed;

impl<M: Machine> Kernel<M> {
    /// `getpriority(2)`. The nice value of a thread of ours is its own, as on Linux. Groups and other processes are
    /// left to the host.
    pub(crate) fn sys_getpriority(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        match (call.args[0], self.sched_target(t, call.args[1] as i32)) {
            (PRIO_PROCESS, Target::Ours(target)) => Out::Done(20 - self.sched.attr(target).nice.0 as isize),
            _ => self.foreign(cpu, t, call),
        }
    }

    pub(crate) fn sys_setpriority(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        match (call.args[0], self.sched_target(t, call.args[1] as i32)) {
            (PRIO_PROCESS, Target::Ours(target)) => {
                let nice = Nice::clamp_from(call.args[2] as i32);
                let old = self.sched.attr(target);
                match self.apply(By::own(cpu), target, &Attr { nice, ..old }) {
                    // setpriority(2) returns EACCES where sched_setattr(2) returns EPERM.
                    Out::Done(e) if e == Errno::EPERM.to_ret() => Errno::EACCES.into(),
                    out => out,
                }
            }
            (PRIO_PROCESS, _) => self.foreign(cpu, t, call),
            _ => {
                let out = self.foreign(cpu, t, call);
                if let (Out::Done(0), 0) = (&out, call.args[1] as i32) {
                    self.adopt_nice(cpu, Nice::clamp_from(call.args[2] as i32));
                }
                out
            }
        }
    }

    /// The host has set this nice value for all threads of the process: before it began (`nice entresol run`), or
    /// through its group or user.
    pub fn adopt_nice(&self, cpu: CpuId, nice: Nice) {
        self.process.nice.store(nice.0.into(), Relaxed);
        let now = self.now();
        for t in self.threads.living() {
            let attr = Attr { nice, ..self.sched.attr(t) };
            // Any nice value of the host is valid here.
            let _ = self.sched.set_attr(t, &attr, now, &mut self.kicks(cpu));
            self.pi_urgency_changed(cpu, t);
        }
    }

    /// A thread's nice value has been set, perhaps to the same value.
    pub(crate) fn nice_changed(&self, before: Nice, now: Nice) {
        if before != now && !self.has_one_thread() {
            self.process.nices_differ.store(true, Relaxed);
        }
        match now <= self.told_nice() {
            true => self.tell_nice(now),
            false => self.nice_given_up(before),
        }
    }

    /// A thread with a nice value is about to end and no longer counts.
    pub(crate) fn nice_ended(&self, t: ThreadIdx) {
        if self.process.nices_differ.load(Relaxed) {
            self.nice_given_up(self.sched.attr(t).nice);
        }
    }

    /// A thread no longer has this value. Checks the others only up to the first that still has it.
    fn nice_given_up(&self, before: Nice) {
        let told = self.told_nice();
        let counts = |t: &ThreadIdx| !self.thread(*t).signals.0.lock().has_exited();
        let values = || self.threads.living().filter(counts).map(|t| self.sched.attr(t).nice);
        if before > told || values().any(|nice| nice <= told) {
            return;
        }
        values().min().into_iter().for_each(|least| self.tell_nice(least));
    }

    fn told_nice(&self) -> Nice {
        Nice::clamp_from(self.process.nice.load(Relaxed))
    }

    fn tell_nice(&self, least: Nice) {
        if self.process.nice.swap(least.0.into(), Relaxed) != i32::from(least.0) {
            self.m.observe(Event::Nice(least));
        }
    }
}
