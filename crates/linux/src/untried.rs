//! Calls that begin in the host, where they can wait, instead of with a try in the form that cannot.
//!
//! What Linux checks when a call begins, such as O_NONBLOCK, the host then checks itself. Until its first host call
//! begins, such a call has not begun.

use crate::{Host, Linux};
use abi::nr;
use ids::{CpuId, ThreadIdx};
use kernel::Call;
use kernel::parked::Begin;
use kernel::trap::Out;

impl<M: Host> Linux<'_, M> {
    /// Whether a call that asks what is ready, or takes what has come, need not be tried, because its thread nearly
    /// always waits there.
    pub(crate) fn is_expected_to_wait(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> bool {
        self.thread(t).parked.habit.expects(call) && self.may_begin_in_host(cpu, call)
    }

    /// Whether the call may begin in the host, where it can wait: no other thread wants the CPU, and the thread will not
    /// be parked, which requires a try. If the descriptor is non-blocking by now, the host says so.
    pub(crate) fn may_begin_in_host(&self, cpu: CpuId, call: &Call) -> bool {
        let waits = match call.nr {
            nr::POLL => call.args[2] as i32 != 0,
            nr::EPOLL_WAIT | nr::EPOLL_PWAIT => call.args[3] as i32 != 0,
            _ => {
                let taken = takes_what_has_come(call) && !self.state().enough.is_used();
                taken && self.state().files.may_wait(call.args[0] as u32)
            }
        };
        waits && self.sched.queued(cpu) == 0 && !self.is_crowd() && !self.is_controlled()
    }

    /// The thread waits for descriptors in the host itself.
    pub(crate) fn wait_in_host(&self, t: ThreadIdx, call: Call) -> Out {
        self.thread(t).wait.note_call(&call);
        self.thread(t).parked.leave_to_host(&self.parked, Begin::InHost);
        Out::Host(call, 0)
    }

    /// Whether the call of `t` begins only in the host, and may start over until then. A call that lets signals through
    /// while it waits may not: they would be handled, and it would wait for them.
    pub fn may_start_over(&self, t: ThreadIdx, call: &Call) -> bool {
        let takes = matches!(call.nr, nr::POLL | nr::EPOLL_WAIT) || takes_what_has_come(call);
        takes && self.thread(t).parked.begins_in_host() || self.waits_for_disk_only(call)
    }

    /// The first host call of a call that was expected to wait has returned EAGAIN: the next call looks at the flag.
    pub fn note_refusal(&self, call: &Call) {
        self.state().files.doubt_wait(call.args[0] as u32);
    }
}

/// Whether the call ends as soon as anything has come: a signal that interrupts it has taken nothing from it.
fn takes_what_has_come(call: &Call) -> bool {
    match call.nr {
        nr::READ | nr::ACCEPT | nr::ACCEPT4 => true,
        nr::RECVFROM => call.args[3] == 0,
        nr::RECVMSG => call.args[2] == 0,
        _ => false,
    }
}
