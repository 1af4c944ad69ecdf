//! The arguments of system calls, written to the thread's scratch memory where the call
//! takes a pointer.

use super::{Env, Who};
use crate::machine::{HANDLER_RIP, RESTORER_RIP};
use abi::args::TIMER_ABSTIME;
use abi::futex::{FUTEX_PRIVATE_FLAG, FUTEX_WAIT, FUTEX_WAKE};
use abi::{CloneArgs, SaFlags, SchedAttr, SigAction, SigSet, Timespec, clone_flags as cf, nr};
use ids::{CpuMask, Nanos, Policy, Tid};
use kernel::{Call, Machine};
use sched::Attr;

const MONOTONIC: u64 = 1;

pub(super) fn call(nr: usize, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call { nr, args: all }
}

fn tid(who: Who) -> u64 {
    match who {
        Who::Me => 0,
        Who::Tid(t) => t.0 as u64,
    }
}

fn timespec(env: &Env<'_>, span: Nanos) -> u64 {
    env.scratch(&Timespec::from_nanos(span).to_bytes())
}

pub(super) fn sleep(env: &Env<'_>, time: Nanos, absolute: bool) -> Call {
    let flags = if absolute { TIMER_ABSTIME } else { 0 };
    call(nr::CLOCK_NANOSLEEP, &[MONOTONIC, flags, timespec(env, time)])
}

pub(super) fn futex_wait(env: &Env<'_>, addr: u64, value: u32, timeout: Option<Nanos>) -> Call {
    let timeout = timeout.map_or(0, |t| timespec(env, t));
    call(nr::FUTEX, &[addr, u64::from(FUTEX_WAIT | FUTEX_PRIVATE_FLAG), u64::from(value), timeout])
}

/// As a joiner waits: not marked private.
pub(super) fn futex_wait_shared(addr: u64, value: u32) -> Call {
    call(nr::FUTEX, &[addr, u64::from(FUTEX_WAIT), u64::from(value), 0])
}

pub(super) fn futex_wake(addr: u64, count: u32) -> Call {
    call(nr::FUTEX, &[addr, u64::from(FUTEX_WAKE | FUTEX_PRIVATE_FLAG), u64::from(count)])
}

pub(super) fn futex_pi(addr: u64, op: u32) -> Call {
    call(nr::FUTEX, &[addr, u64::from(op | FUTEX_PRIVATE_FLAG)])
}

pub(super) fn host(span: Nanos) -> Call {
    call(nr::FSYNC, &[span.0])
}

pub(super) fn set_policy(env: &Env<'_>, who: Who, attr: &Attr) -> Call {
    let mut raw = SchedAttr { size: SchedAttr::SIZE as u32, policy: attr.policy as u32, ..SchedAttr::default() };
    match (attr.policy, attr.deadline) {
        (Policy::Deadline, Some(d)) => {
            (raw.runtime, raw.deadline, raw.period) = (d.runtime.0, d.deadline.0, d.period().0);
        }
        (p, _) if p.is_rt() => raw.priority = u32::from(attr.rt.0),
        _ => (raw.nice, raw.runtime) = (i32::from(attr.nice.0), attr.slice.0),
    }
    call(nr::SCHED_SETATTR, &[tid(who), env.scratch(&raw.to_bytes()), 0])
}

pub(super) fn set_affinity(env: &Env<'_>, who: Who, mask: &CpuMask) -> Call {
    let mut bytes: Vec<u8> = mask.words().iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.resize(bytes.len().max(8), 0);
    call(nr::SCHED_SETAFFINITY, &[tid(who), bytes.len() as u64, env.scratch(&bytes)])
}

pub(super) fn set_nice(who: Who, nice: i8) -> Call {
    call(nr::SETPRIORITY, &[0, tid(who), nice as u64])
}

pub(super) fn signal(env: &Env<'_>, to: Tid, signal: i32) -> Call {
    call(nr::TGKILL, &[env.pid as u64, to.0 as u64, signal as u64])
}

pub(super) fn handle(env: &Env<'_>, signal: i32, restart: bool) -> Call {
    let again = if restart { SaFlags::RESTART } else { SaFlags(0) };
    let flags = SaFlags::RESTORER | SaFlags::SIGINFO | again;
    let action = SigAction { handler: HANDLER_RIP, flags, restorer: RESTORER_RIP, mask: SigSet::EMPTY };
    call(nr::RT_SIGACTION, &[signal as u64, env.scratch(&action.to_bytes()), 0, SigSet::SIZE as u64])
}

/// glibc's `pthread_create`: the child's word is cleared at its exit, for the joiner.
pub(super) fn clone(env: &Env<'_>, stack: (u64, u64), word: u64) -> Call {
    let flags = cf::VM | cf::FS | cf::FILES | cf::SIGHAND | cf::THREAD | cf::SYSVSEM | cf::SETTLS;
    let args = CloneArgs {
        flags: flags | cf::PARENT_SETTID | cf::CHILD_CLEARTID,
        stack: stack.0,
        stack_size: stack.1,
        parent_tid: word,
        child_tid: word,
        tls: stack.0,
        ..CloneArgs::default()
    };
    let fields = [
        args.flags,
        args.pidfd,
        args.child_tid,
        args.parent_tid,
        args.exit_signal,
        args.stack,
        args.stack_size,
        args.tls,
        args.set_tid,
        args.set_tid_size,
        args.cgroup,
    ];
    let bytes: Vec<u8> = fields.iter().flat_map(|f| f.to_le_bytes()).collect();
    call(nr::CLONE3, &[env.scratch(&bytes), CloneArgs::SIZE as u64])
}

impl Env<'_> {
    /// Bytes for the kernel to read, valid until the thread's next call.
    fn scratch(&self, bytes: &[u8]) -> u64 {
        self.machine.write(self.scratch, bytes).expect("the scratch memory is mapped");
        self.scratch
    }
}
