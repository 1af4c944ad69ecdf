//! Identity and registrations of a thread: ids, robust list, name.

use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::{Out, Process};
use abi::Errno;
use abi::args::{
    PR_CAP_AMBIENT, PR_CAPBSET_DROP, PR_GET_NAME, PR_GET_TID_ADDRESS, PR_GET_TIMERSLACK, PR_MCE_KILL, PR_SCHED_CORE,
    PR_SCHED_CORE_GET, PR_SET_KEEPCAPS, PR_SET_NAME, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_SECUREBITS,
    PR_SET_SPECULATION_CTRL, PR_SET_SYSCALL_USER_DISPATCH, PR_SET_TIMERSLACK, PR_SET_TSC, PR_TIMER_CREATE_RESTORE_IDS,
    PR_TSC_ENABLE,
};
use ids::{CpuId, ThreadIdx, Tid};
use sync::atomic::Ordering::*;

const PIDTYPE_PID: u64 = 0;
const PIDTYPE_TGID: u64 = 1;

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_set_tid_address(&self, t: ThreadIdx, a: &[u64; 6]) -> Out {
        self.thread(t).clear_child_tid.store(a[0], Relaxed);
        Out::Done(self.tid(t).0 as isize)
    }

    pub(crate) fn sys_set_robust_list(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let a = &call.args;
        if a[1] as usize != abi::futex::RobustListHead::SIZE {
            return Errno::EINVAL.into();
        }
        self.thread(t).robust_list.store(a[0], Relaxed);
        if self.tid(t).0 == self.config.pid.0 {
            // If the process is killed, only the host can walk a list. It does so for the host thread with the id that
            // the locks name; entries that we have walked are released already.
            let _ = self.foreign(cpu, t, call);
        }
        Out::Done(0)
    }

    pub(crate) fn sys_get_robust_list(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let a = &call.args;
        let target = match self.thread_or_self(t, a[0] as i32) {
            Some(target) => target,
            // The host decides whether the caller may inspect another process's.
            None => return self.foreign(cpu, t, call),
        };
        let head = self.thread(target).robust_list.load(Relaxed);
        self.put::<u64>(a[2], abi::futex::RobustListHead::SIZE as u64).and(self.put::<u64>(a[1], head)).into()
    }

    /// The process's id for the id of any of its threads; other ids unchanged.
    pub fn host_id(&self, id: i32) -> i32 {
        if self.is_own(id) { self.config.pid.0 } else { id }
    }

    /// Whether this is the id of a thread of this process, but not the process's.
    pub fn is_own(&self, id: i32) -> bool {
        id > 0 && id != self.config.pid.0 && self.threads.find(Tid(id)).is_some()
    }

    /// 0 or the caller's own id is the caller; another id may be a thread of this process.
    pub(crate) fn thread_or_self(&self, t: ThreadIdx, tid: i32) -> Option<ThreadIdx> {
        if tid == 0 { Some(t) } else { self.threads.find(Tid(tid)) }
    }

    /// The thread with this id, which may be a zombie main thread; 0 is the caller.
    pub fn named_or_self(&self, t: ThreadIdx, id: i32) -> Option<ThreadIdx> {
        if id == 0 { Some(t) } else { self.threads.find_named(Tid(id)) }
    }

    pub(crate) fn sys_prctl(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let thread = self.thread(t);
        let a = &call.args;
        match a[0] {
            PR_SET_NAME => self.set_name(cpu, t, call),
            PR_GET_NAME => self.m.write(a[1], &thread.name_bytes()).into(),
            PR_SET_TIMERSLACK => {
                thread.set_slack(a[1]);
                Out::Done(0)
            }
            PR_GET_TIMERSLACK => Out::Done(thread.slacks()[0] as isize),
            PR_GET_TID_ADDRESS => {
                let word = thread.clear_child_tid.load(Relaxed);
                self.put::<u64>(a[1], word).into()
            }
            PR_TIMER_CREATE_RESTORE_IDS => self.restore_timer_ids(cpu, a),
            PR_SET_KEEPCAPS
            | PR_CAPBSET_DROP
            | PR_SET_SECUREBITS
            | PR_SET_NO_NEW_PRIVS
            | PR_CAP_AMBIENT
            | PR_MCE_KILL
            | PR_SET_SPECULATION_CTRL => Out::Process(Process::Rights(*call)),
            // The machine reads the counter itself, so it stays enabled.
            PR_SET_TSC if a[1] == PR_TSC_ENABLE => Out::Done(0),
            PR_SET_TSC => Errno::EINVAL.into(),
            // The machine uses the host threads' dispatch itself. No host answers so, by which the command knows that
            // it runs inside.
            PR_SET_SYSCALL_USER_DISPATCH => Errno::EALREADY.into(),
            PR_SCHED_CORE => self.core_scheduling(cpu, t, call),
            // Refused as by a host without seccomp, because a filter would apply to the machine's own calls, too.
            PR_SET_SECCOMP => Errno::EINVAL.into(),
            _ => self.foreign(cpu, t, call),
        }
    }

    /// The host decides which host threads share a core, and a thread of ours runs on all of them. So the only thread
    /// of a process stands for the process, and one among several cannot be separated from the others.
    fn core_scheduling(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let mut call = *call;
        let [_, what, id, kind, ..] = call.args;
        let ours = self.thread_or_self(t, id as i32);
        if ours.is_some() {
            call.args[2] = 0;
        }
        if ours.is_some() && kind == PIDTYPE_PID && what != PR_SCHED_CORE_GET {
            if self.threads.live() > 1 {
                return Errno::EINVAL.into();
            }
            call.args[3] = PIDTYPE_TGID;
        }
        self.foreign(cpu, t, &call)
    }

    /// `prctl(PR_SET_NAME)`. We keep the names, but the main thread's is also the host's name of the process.
    fn set_name(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let mut name = [0u8; 16];
        // Up to 15 bytes, ending at a zero; the string may end just before unmapped memory.
        for (i, byte) in name.iter_mut().take(15).enumerate() {
            let mut one = [0];
            if self.m.read(call.args[1].wrapping_add(i as u64), &mut one).is_err() {
                return Errno::EFAULT.into();
            }
            if one[0] == 0 {
                break;
            }
            *byte = one[0];
        }
        self.thread(t).set_name(&name);
        self.named(t);
        if self.tid(t).0 == self.config.pid.0 {
            return self.foreign(cpu, t, call);
        }
        Out::Done(0)
    }

    pub(crate) fn sys_getcpu(&self, cpu: CpuId, a: &[u64; 6]) -> Out {
        let mut ok = true;
        if a[0] != 0 {
            ok &= self.store_u32(a[0], u32::from(cpu.0)).is_ok();
        }
        if a[1] != 0 {
            ok &= self.store_u32(a[1], 0).is_ok();
        }
        if ok { Out::Done(0) } else { Errno::EFAULT.into() }
    }
}
