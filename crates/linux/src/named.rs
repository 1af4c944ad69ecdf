//! Calls that the host answers and that name a process by an id, which may be that of one of its threads
//! (`find_task_by_vpid`). The host does not know our threads' ids, so it gets the process's.

use crate::facts;
use crate::machine::Arg;
use crate::{Host, Linux};
use abi::args::{PIDFD_THREAD, PTRACE_TRACEME, WNOTHREAD};
use abi::{Errno, nr};
use ids::{CpuId, ThreadIdx, Tid};
use kernel::Call;
use kernel::trap::{Out, Process};

/// The arguments of a call that hold such an id.
fn ids_of(call: &Call) -> &'static [usize] {
    match call.nr {
        nr::KCMP => &[0, 1],
        nr::PTRACE if call.args[0] == PTRACE_TRACEME => &[],
        nr::PTRACE => &[1],
        _ => &[0],
    }
}

impl<M: Host> Linux<'_, M> {
    /// The call with our threads' ids replaced by the host's.
    pub(crate) fn with_host_ids(&self, call: &Call) -> Call {
        let mut call = *call;
        for &at in ids_of(&call) {
            call.args[at] = self.host_id(call.args[at] as i32) as u64;
        }
        call
    }

    /// Calls about the process, or for which threads make no difference.
    pub(crate) fn sys_named(&self, cpu: CpuId, call: &Call) -> Out {
        self.pass(cpu, &self.with_host_ids(call))
    }

    /// `wait4(2)` and `waitid(2)` with __WNOTHREAD. The host considers the caller's children to be those of its host
    /// thread, wherever the caller forked them. So the call waits for all children of the process, unless the thread
    /// has a host thread of its own, as tracers have.
    pub(crate) fn with_children_of_all(&self, t: ThreadIdx, call: &Call) -> Call {
        let options = if call.nr == nr::WAIT4 { 2 } else { 3 };
        let mut call = *call;
        if matches!(call.nr, nr::WAIT4 | nr::WAITID) && self.m.identity(t) == 0 {
            call.args[options] &= !WNOTHREAD;
        }
        call
    }

    /// `setpgid(2)` moves whole processes.
    pub(crate) fn sys_setpgid(&self, cpu: CpuId, call: &Call) -> Out {
        if self.is_own(call.args[0] as i32) { Errno::EINVAL.into() } else { self.pass(cpu, call) }
    }

    /// `pidfd_open(2)`: there is none for a thread of ours, as on hosts before Linux 6.9.
    pub(crate) fn sys_pidfd_open(&self, cpu: CpuId, call: &Call) -> Out {
        let id = call.args[0] as i32;
        if self.is_own(id) || id == self.config().pid.0 && call.args[1] & PIDFD_THREAD != 0 {
            return Errno::EINVAL.into();
        }
        self.pass(cpu, call)
    }

    /// `perf_event_open(2)`: the host counts a host thread, so a thread that is to be counted gets one of its own. For
    /// another thread of ours this is refused, because its future host threads are unknown: with ESRCH, if the host finds
    /// nothing else wrong.
    pub(crate) fn sys_perf_event_open(&self, t: ThreadIdx, call: &Call) -> Out {
        const PERF_FLAG_PID_CGROUP: u64 = 4;
        let id = call.args[1] as i32;
        if call.args[4] & PERF_FLAG_PID_CGROUP != 0 || id < 0 {
            return Out::Done(self.host(call));
        }
        if id == 0 || id == self.tid(t).0 {
            let mut call = *call;
            call.args[1] = 0;
            return Out::Process(Process::Rights(call));
        }
        if self.threads().find(Tid(id)).is_none() {
            return Out::Done(self.host(call));
        }
        // Of an event that it does not have (ENOENT) the host tells only for a thread that there is.
        let mut of_caller = *call;
        of_caller.args[1] = 0;
        let result = self.host(&of_caller);
        let Ok(fd) = u64::try_from(result) else { return Out::Done(result) };
        facts::close(&self.m, fd);
        Errno::ESRCH.into()
    }

    /// `io_uring_setup(2)`, `io_uring_register(2)`: the host binds some rings to the host thread that sets them up, and
    /// registered ring descriptors (IORING_REGISTER_RING_FDS) to the one that registers them.
    pub(crate) fn sys_io_uring(&self, call: &Call) -> Out {
        const SINGLE_ISSUER: u32 = 1 << 12;
        const DEFER_TASKRUN: u32 = 1 << 13;
        const REGISTER_ENABLE_RINGS: u64 = 12;
        const REGISTER_RING_FDS: u64 = 20;
        /// The offset of the flags in `struct io_uring_params`.
        const FLAGS: u64 = 8;
        let binds = match call.nr {
            nr::IO_URING_SETUP => {
                self.state().files.let_others_close();
                let flags = self.load_u32(call.args[1].wrapping_add(FLAGS)).unwrap_or(0);
                flags & (SINGLE_ISSUER | DEFER_TASKRUN) != 0
            }
            _ => matches!(call.args[1], REGISTER_ENABLE_RINGS | REGISTER_RING_FDS),
        };
        if binds { Out::Process(Process::Rights(*call)) } else { Out::Done(self.host(call)) }
    }

    /// `capget(2)`: threads with the same rights have the same capabilities.
    pub(crate) fn sys_capget(&self, t: ThreadIdx, call: &Call) -> Out {
        let at = call.args[0];
        let (Ok(version), Ok(id)) = (self.load_u32(at), self.load_u32(at.wrapping_add(4))) else {
            return Out::Done(self.host(call));
        };
        let like_caller = |of: ThreadIdx| self.m.identity(of) == self.m.identity(t);
        match self.threads().find(Tid(id as i32)) {
            Some(of) if like_caller(of) => {
                let mut header = u64::from(version).to_le_bytes();
                let result = self.ask(call.nr, &mut [Arg::Out(&mut header), Arg::Word(call.args[1])]);
                // An unknown version is answered with a known one.
                let known = u64::from_le_bytes(header) as u32;
                if known != version && self.store_u32(at, known).is_err() {
                    return Errno::EFAULT.into();
                }
                Out::Done(result)
            }
            _ => Out::Done(self.host(call)),
        }
    }
}
