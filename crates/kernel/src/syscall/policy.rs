//! `sched_*(2)` except affinity. Checks in the order of Linux's `kernel/sched/syscalls.c`.

use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, Personality, ThreadIdx};
use abi::{Errno, SchedAttr, Timespec, sched_flags as sf};
use core::cell::LazyCell;
use ids::{CpuId, Nanos, Nice, Policy, RtPriority};
use sched::{Attr, AttrError, DeadlineParams};

const RESET_ON_FORK: u32 = 0x4000_0000;
const UTIL_CLAMP: u64 = sf::UTIL_CLAMP_MIN | sf::UTIL_CLAMP_MAX;

/// The target of a call.
pub(super) enum Target {
    Ours(ThreadIdx),
    /// Not a thread of this process. It may belong to another process under Entresol or to the host, or not exist.
    Foreign,
}

/// The caller of a change.
#[derive(Clone, Copy)]
pub(crate) struct By {
    /// The caller's CPU; none for another process.
    pub cpu: CpuId,
    /// Whether another process has CAP_SYS_NICE; `None` for this one, whose privilege is checked when needed.
    pub privileged: Option<bool>,
}

impl By {
    /// The caller is a thread of this process, on this CPU.
    pub fn own(cpu: CpuId) -> By {
        By { cpu, privileged: None }
    }
}

impl<M: Machine> Kernel<M> {
    pub(super) fn sched_target(&self, t: ThreadIdx, pid: i32) -> Target {
        self.named_or_self(t, pid).map_or(Target::Foreign, Target::Ours)
    }

    pub(crate) fn sys_sched_setscheduler(&self, by: By, t: ThreadIdx, call: &Call) -> Out {
        let a = &call.args;
        let (pid, policy) = (a[0] as i32, a[1] as i32);
        if policy < 0 || a[2] == 0 || pid < 0 {
            return Errno::EINVAL.into();
        }
        let Ok(priority) = self.load_u32(a[2]) else { return Errno::EFAULT.into() };
        let Target::Ours(target) = self.sched_target(t, pid) else { return self.foreign(by.cpu, t, call) };
        self.set_policy(by, target, policy as u32, priority as i32)
    }

    pub(crate) fn sys_sched_setparam(&self, by: By, t: ThreadIdx, call: &Call) -> Out {
        let a = &call.args;
        let pid = a[0] as i32;
        if a[1] == 0 || pid < 0 {
            return Errno::EINVAL.into();
        }
        let Ok(priority) = self.load_u32(a[1]) else { return Errno::EFAULT.into() };
        let Target::Ours(target) = self.sched_target(t, pid) else { return self.foreign(by.cpu, t, call) };
        let old = self.sched.attr(target);
        let reset = if old.reset_on_fork { RESET_ON_FORK } else { 0 };
        self.set_policy(by, target, old.policy as u32 | reset, priority as i32)
    }

    fn set_policy(&self, by: By, target: ThreadIdx, raw: u32, priority: i32) -> Out {
        let old = self.sched.attr(target);
        let Some(policy) = Policy::from_raw(raw & !RESET_ON_FORK) else { return Errno::EINVAL.into() };
        let fits = if policy.is_rt() { (1..=99).contains(&priority) } else { priority == 0 };
        if !fits || policy == Policy::Deadline {
            return Errno::EINVAL.into();
        }
        let new = Attr {
            policy,
            rt: RtPriority(priority as u8),
            reset_on_fork: raw & RESET_ON_FORK != 0,
            deadline: None,
            ..old
        };
        self.apply(by, target, &new)
    }

    /// Whether the caller may make this change to the thread.
    fn may_apply(&self, by: By, target: ThreadIdx, new: &Attr) -> bool {
        let old = self.sched.attr(target);
        // The host is asked at most once, and only if something is raised.
        let granted = LazyCell::new(|| M::Personality::grants(&self.m));
        let nicer = may_be_nicer(&old, new, || granted.nice);
        let permitted = nicer && (!self.config.rt_host_rules || may_be_urgent(&old, new, granted.rt_priority));
        permitted || by.privileged.unwrap_or_else(|| granted.any_priority)
    }

    pub(super) fn apply(&self, by: By, target: ThreadIdx, new: &Attr) -> Out {
        if !self.may_apply(by, target, new) {
            return Errno::EPERM.into();
        }
        if self.threads().zombie() == Some(target) {
            // Linux changes the exiting thread, which never runs again; here there is nothing left to change.
            return if new.is_valid() { Out::Done(0) } else { Errno::EINVAL.into() };
        }
        let (now, before) = (self.now(), self.sched.attr(target).nice);
        match self.sched.set_attr(target, new, now, &mut self.kicks(by.cpu)) {
            Ok(()) => {
                self.nice_changed(before, new.nice);
                self.pi_urgency_changed(by.cpu, target);
                Out::Done(0)
            }
            Err(AttrError::Invalid) => Errno::EINVAL.into(),
            Err(AttrError::Busy) => Errno::EBUSY.into(),
            Err(AttrError::NotPermitted) => Errno::EPERM.into(),
        }
    }

    pub(crate) fn sys_sched_getscheduler(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let pid = call.args[0] as i32;
        if pid < 0 {
            return Errno::EINVAL.into();
        }
        match self.sched_target(t, pid) {
            Target::Foreign => self.foreign(cpu, t, call),
            Target::Ours(target) => {
                let attr = self.sched.attr(target);
                let reset = if attr.reset_on_fork { RESET_ON_FORK } else { 0 };
                Out::Done((attr.policy as u32 | reset) as isize)
            }
        }
    }

    pub(crate) fn sys_sched_getparam(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [pid, to, ..] = call.args;
        if to == 0 || (pid as i32) < 0 {
            return Errno::EINVAL.into();
        }
        match self.sched_target(t, pid as i32) {
            Target::Foreign => self.foreign(cpu, t, call),
            Target::Ours(target) => self.store_u32(to, u32::from(self.sched.attr(target).rt.0)).into(),
        }
    }

    pub(crate) fn sys_sched_setattr(&self, by: By, t: ThreadIdx, call: &Call) -> Out {
        let a = &call.args;
        let [pid, from, flags, ..] = *a;
        let pid = pid as i32;
        if from == 0 || pid < 0 || flags as u32 != 0 {
            return Errno::EINVAL.into();
        }
        let raw = match self.read_attr(from) {
            Ok(raw) => raw,
            Err(e) => return e.into(),
        };
        let Target::Ours(target) = self.sched_target(t, pid) else { return self.foreign(by.cpu, t, call) };
        match attr_from(&raw, &self.sched.attr(target)) {
            // Like a kernel without CONFIG_UCLAMP_TASK.
            Ok(new) if raw.flags & UTIL_CLAMP != 0 && self.may_apply(by, target, &new) => Errno::EOPNOTSUPP.into(),
            Ok(new) => self.apply(by, target, &new),
            Err(e) => e.into(),
        }
    }

    /// `sched_copy_attr`: an unknown size is answered with the known one.
    fn read_attr(&self, from: u64) -> Result<SchedAttr, Errno> {
        let too_big = |e| {
            if e == Errno::E2BIG {
                let _ = self.store_u32(from, SchedAttr::SIZE as u32);
            }
            e
        };
        let size = self.load_u32(from)?;
        let size = SchedAttr::check_size(size).map_err(too_big)?;
        let mut bytes = [0; 4096];
        self.m.read(from, &mut bytes[..size])?;
        SchedAttr::read(&bytes[..size]).map_err(too_big)
    }

    pub(crate) fn sys_sched_getattr(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [pid, to, size, flags, ..] = call.args;
        let (pid, size) = (pid as i32, size as u32 as usize);
        if to == 0 || pid < 0 || !(SchedAttr::SIZES[0]..=4096).contains(&size) || flags as u32 != 0 {
            return Errno::EINVAL.into();
        }
        let Target::Ours(target) = self.sched_target(t, pid) else { return self.foreign(cpu, t, call) };
        let known = attr_to(&self.sched.attr(target), self.sched.rr_interval(target), size).to_bytes();
        // Bytes after the known fields are zero (`copy_struct_to_user`).
        let mut bytes = [0; 4096];
        bytes[..known.len()].copy_from_slice(&known);
        self.m.write(to, &bytes[..size]).into()
    }

    pub(crate) fn sys_sched_rr_get_interval(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [pid, to, ..] = call.args;
        if (pid as i32) < 0 {
            return Errno::EINVAL.into();
        }
        let Target::Ours(target) = self.sched_target(t, pid as i32) else { return self.foreign(cpu, t, call) };
        let interval = Timespec::from_nanos(self.sched.rr_interval(target));
        self.put(to, interval).into()
    }
}

/// Whether an unprivileged process may change from one nice value to another, by the host's rule (`is_nice_reduction`).
/// SCHED_IDLE counts as above any nice value.
fn may_be_nicer(old: &Attr, new: &Attr, limit: impl Fn() -> u64) -> bool {
    let may_have = |nice: Nice| (20 - i64::from(nice.0)) as u64 <= limit();
    let wakes = old.policy == Policy::Idle && new.policy != Policy::Idle;
    (new.nice >= old.nice || may_have(new.nice)) && (!wakes || may_have(old.nice))
}

/// `--rt=host`: the same for policies and real-time priorities (`user_check_sched_setscheduler`).
fn may_be_urgent(old: &Attr, new: &Attr, limit: u64) -> bool {
    let raised = new.rt > old.rt && u64::from(new.rt.0) > limit;
    let entered = new.policy.is_rt() && new.policy != old.policy && limit == 0;
    let unreset = old.reset_on_fork && !new.reset_on_fork;
    !(raised || entered || unreset || new.policy == Policy::Deadline)
}

/// The request of `sched_setattr(2)` (`__sched_setscheduler`).
fn attr_from(raw: &SchedAttr, old: &Attr) -> Result<Attr, Errno> {
    if raw.flags & !sf::ALL != 0 || (raw.policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    // SCHED_FLAG_KEEP_POLICY keeps the flag, too (`policy < 0`).
    let (policy, reset_on_fork) = if raw.flags & sf::KEEP_POLICY != 0 {
        (old.policy, old.reset_on_fork)
    } else {
        (Policy::from_raw(raw.policy).ok_or(Errno::EINVAL)?, raw.flags & sf::RESET_ON_FORK != 0)
    };
    let keep_params = raw.flags & sf::KEEP_PARAMS != 0;
    let priority = if keep_params && old.policy.is_rt() {
        old.rt
    } else {
        RtPriority(u8::try_from(raw.priority).map_err(|_| Errno::EINVAL)?)
    };
    let fits = if policy.is_rt() { (1..=99).contains(&priority.0) } else { priority.0 == 0 };
    if !fits {
        return Err(Errno::EINVAL);
    }
    if keep_params {
        // The policy is set together with the parameters, so it stays as well.
        return Ok(Attr { reset_on_fork, ..*old });
    }
    let deadline = (policy == Policy::Deadline).then_some(DeadlineParams {
        runtime: Nanos(raw.runtime),
        deadline: Nanos(raw.deadline),
        period: Nanos(raw.period),
    });
    let nice = if policy.is_fair() { Nice::clamp_from(raw.nice) } else { old.nice };
    // A thread of SCHED_IDLE keeps its slice (`__setscheduler_params`).
    let slice = match policy {
        Policy::Other | Policy::Batch => Nanos(raw.runtime),
        Policy::Idle => old.slice,
        _ => Nanos::ZERO,
    };
    Ok(Attr { policy, nice, rt: priority, reset_on_fork, slice, deadline })
}

/// The slice of a fair thread is reported as its runtime, as since Linux 6.12.
pub(crate) fn attr_to(attr: &Attr, slice: Nanos, size: usize) -> SchedAttr {
    let size = size.min(SchedAttr::SIZE) as u32;
    let flags = if attr.reset_on_fork { sf::RESET_ON_FORK } else { 0 };
    let mut raw = SchedAttr { size, policy: attr.policy as u32, flags, ..SchedAttr::default() };
    match attr.deadline {
        Some(d) => (raw.runtime, raw.deadline, raw.period) = (d.runtime.0, d.deadline.0, d.period().0),
        None if attr.policy.is_rt() => raw.priority = u32::from(attr.rt.0),
        None => (raw.nice, raw.runtime) = (i32::from(attr.nice.0), slice.0),
    }
    raw
}
