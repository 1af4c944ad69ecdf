//! `ioprio_get(2)` and `ioprio_set(2)`: a thread's priority for I/O on disks.
//!
//! Each thread has its own, which counts when a thread asks for it. A thread that was given none has one that follows
//! from its policy and nice value (`__get_task_ioprio`), which the host cannot know: it sees a carrier. The host's disks
//! know only carriers, so that a priority has effect while the thread that was given it is alone, and for the children
//! and the programs that the thread starts.

use crate::machine::Arg::Word;
use crate::machine::ask;
use crate::{Host, Linux};
use abi::nr;
use ids::{CpuId, Nice, Policy, ThreadIdx, Tid};
use kernel::Call;
use kernel::trap::Out;
use sync::atomic::{AtomicBool, Ordering::*};

/// Whose priority is meant: that of one thread, by its id (IOPRIO_WHO_PROCESS), where 0 is the caller.
const OF_THREAD: u64 = 1;

/// Classes, in the bits from 13 on. Class 0, IOPRIO_CLASS_NONE, means that none was given.
const CLASS_SHIFT: u32 = 13;
const REAL_TIME: u32 = 1;
const BEST_EFFORT: u32 = 2;
const IDLE: u32 = 3;

/// Whether the program has given a thread a priority, and with it a carrier.
#[derive(Debug, Default)]
pub(crate) struct Given(AtomicBool);

fn has_class(priority: u32) -> bool {
    priority >> CLASS_SHIFT != 0
}

/// The priority of a thread that was given none (`task_nice_ioclass`, `task_nice_ioprio`).
fn derived(policy: Policy, nice: Nice) -> u32 {
    let class = match policy {
        Policy::Idle => IDLE,
        policy if policy.is_fair() => BEST_EFFORT,
        _ => REAL_TIME,
    };
    let level = (i32::from(nice.0) + 20) as u32 / 5;
    class << CLASS_SHIFT | level
}

impl<M: Host> Linux<'_, M> {
    /// The thread of ours that such a call means.
    fn thread_for_io(&self, t: ThreadIdx, call: &Call) -> Option<ThreadIdx> {
        match (call.args[0], call.args[1] as i32) {
            (OF_THREAD, 0) => Some(t),
            (OF_THREAD, id) => self.threads().find_named(Tid(id)),
            _ => None,
        }
    }

    pub(crate) fn sys_ioprio_get(&self, t: ThreadIdx, call: &Call) -> Out {
        let Some(of) = self.thread_for_io(t, call) else { return Out::Done(self.host(call)) };
        if let Some(given) = self.thread(of).io_priority.load(Relaxed).checked_sub(1) {
            return Out::Done(given as isize);
        }
        let carrier = self.ask(nr::IOPRIO_GET, &mut [Word(OF_THREAD), Word(0)]);
        // Hosts before Linux 6.0 report a class only where one was given.
        if carrier < 0 || !has_class(carrier as u32) && !self.state().io.0.load(Relaxed) {
            return Out::Done(carrier);
        }
        let attr = self.sched.attr(of);
        Out::Done(derived(attr.policy, attr.nice) as isize)
    }

    /// The host checks the value and the caller's right to it, and gives it to the calling carrier.
    pub(crate) fn sys_ioprio_set(&self, t: ThreadIdx, call: &Call) -> Out {
        let of = self.thread_for_io(t, call);
        let mut asked = *call;
        if of.is_some() {
            asked.args[1] = 0;
        }
        let result = self.host(&asked);
        if result == 0 {
            let value = u32::from(call.args[2] as u16);
            let give = |t: ThreadIdx| self.thread(t).io_priority.store(value + 1, Relaxed);
            match of {
                Some(of) => give(of),
                // The caller's group or user.
                None if call.args[1] as i32 == 0 => self.threads().living().for_each(give),
                None => return Out::Done(result),
            }
            self.state().io.0.store(true, Relaxed);
        }
        Out::Done(result)
    }

    /// Gives the carrier the priority of its current thread, so that a child or a new program begins with it.
    pub(crate) fn hand_on_io_priority(&self, cpu: CpuId) {
        if self.state().io.0.load(Relaxed) {
            let own = self.thread(self.current(cpu)).io_priority.load(Relaxed).saturating_sub(1);
            self.ask(nr::IOPRIO_SET, &mut [Word(OF_THREAD), Word(0), Word(own.into())]);
        }
    }

    /// Gives the main thread the priority that the host thread was given before the program began (`ionice(1)`).
    pub fn adopt_io_priority(&self, t: ThreadIdx) {
        let given = ask(&self.m, nr::IOPRIO_GET, &mut [Word(OF_THREAD), Word(0)]);
        let policy = ask(&self.m, nr::SCHED_GETSCHEDULER, &mut [Word(0)]);
        let policy = Policy::from_raw(policy as u32).unwrap_or(Policy::Other);
        if given > 0 && has_class(given as u32) && given as u32 != derived(policy, self.sched.attr(t).nice) {
            self.thread(t).io_priority.store(given as u32 + 1, Relaxed);
        }
    }
}
