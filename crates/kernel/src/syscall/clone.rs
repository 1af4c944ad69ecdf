//! Threads begin and end: `clone(2)`, `clone3(2)`, `exit(2)`.

use crate::cputime::TimeLimit;
use crate::machine::{Call, Event, Machine, Times};
use crate::trap::{Out, Process};
use crate::{Carried, Kernel, ThreadIdx, USER_END};
use abi::{CloneArgs, Errno, clone_flags as cf};
use ids::{CpuId, Nice, Policy};
use sched::Attr;
use sync::atomic::Ordering::*;

/// Limits that a fork passes on.
const LIMITS: [TimeLimit; 2] = [TimeLimit::Cpu, TimeLimit::RtTime];

/// The arguments of `fork(2)` and `vfork(2)`.
pub(crate) fn fork_args(vfork: bool) -> CloneArgs {
    let flags = if vfork { cf::VM | cf::VFORK } else { 0 };
    CloneArgs { flags, exit_signal: 17, ..CloneArgs::default() }
}

/// Flags that CLONE_THREAD requires (`copy_process`): the same memory and handlers; and what our carriers share, so
/// that threads cannot have it separately.
const THREAD_NEEDS: u64 = cf::VM | cf::SIGHAND | cf::THREAD;

/// Resources that a process may share with its creator and give up by `unshare(2)`, if it has one thread and no other
/// process has them.
pub const SHARED: u64 = cf::FS | cf::FILES | cf::SYSVSEM;

/// Flags that `clone3(2)` refuses (`clone3_args_valid`), and CLONE_INTO_CGROUP, which the host could do for its own threads only.
const NOT_FOR_THREADS: u64 = !(0xffff_ffff | cf::CLEAR_SIGHAND) | cf::DETACHED | cf::CSIGNAL & !cf::NEWTIME;

impl<M: Machine> Kernel<M> {
    /// Whether the current thread, the process's only one, shares none of these.
    pub fn has_alone(&self, flags: u64) -> bool {
        self.has_one_thread() && self.process.shares.load(Relaxed) & flags == 0
    }

    /// Whether the current thread is the process's only one.
    pub fn has_one_thread(&self) -> bool {
        self.threads.live() == 1
    }

    /// The process has stopped sharing these with other processes.
    pub fn shares_no_more(&self, flags: u64) {
        self.process.shares.fetch_and(!flags, Relaxed);
    }

    pub(crate) fn sys_clone(&self, cpu: CpuId, t: ThreadIdx, a: &[u64; 6]) -> Out {
        self.clone_any(cpu, t, &CloneArgs::from_clone(a[0], a[1], a[2], a[3], a[4]))
    }

    pub(crate) fn sys_clone3(&self, cpu: CpuId, t: ThreadIdx, a: &[u64; 6]) -> Out {
        let size = a[1] as usize;
        if let Err(e) = CloneArgs::check_size(size) {
            return e.into();
        }
        match self.read_clone_args(a[0], size) {
            Ok(args) if (args.stack == 0) != (args.stack_size == 0) => Errno::EINVAL.into(),
            // `clone3_stack_valid`.
            Ok(args) if args.stack.checked_add(args.stack_size).is_none_or(|end| end > USER_END - 4096) => {
                Errno::EINVAL.into()
            }
            Ok(args) if args.flags & cf::THREAD != 0 && args.flags & NOT_FOR_THREADS != 0 => Errno::EINVAL.into(),
            Ok(args) => self.clone_any(cpu, t, &args),
            Err(e) => e.into(),
        }
    }

    fn read_clone_args(&self, addr: u64, size: usize) -> Result<CloneArgs, Errno> {
        match size {
            CloneArgs::SIZE => Ok(crate::machine::get(&self.m, addr)?),
            0..CloneArgs::SIZE => self.read_clone_args_within::<{ CloneArgs::SIZE }>(addr, size),
            _ => self.read_long_clone_args(addr, size),
        }
    }

    /// Reads arguments longer than ours, from a program written for a newer kernel. Outlined, because clearing the
    /// buffer would be a measurable part of every `clone`.
    #[cold]
    #[inline(never)]
    fn read_long_clone_args(&self, addr: u64, size: usize) -> Result<CloneArgs, Errno> {
        self.read_clone_args_within::<4096>(addr, size)
    }

    #[inline(always)]
    fn read_clone_args_within<const MOST: usize>(&self, addr: u64, size: usize) -> Result<CloneArgs, Errno> {
        let mut bytes = [0; MOST];
        self.m.read(addr, &mut bytes[..size])?;
        CloneArgs::read(&bytes[..size])
    }

    pub(super) fn clone_any(&self, cpu: CpuId, t: ThreadIdx, args: &CloneArgs) -> Out {
        const OWN_AND_SHARED: u64 = cf::CLEAR_SIGHAND | cf::SIGHAND;
        if args.flags & OWN_AND_SHARED == OWN_AND_SHARED {
            return Errno::EINVAL.into();
        }
        // A reservation belongs to one thread (`sched_fork`).
        if matches!(self.sched.attr(t), Attr { policy: Policy::Deadline, reset_on_fork: false, .. }) {
            return Errno::EAGAIN.into();
        }
        if args.flags & cf::THREAD == 0 {
            self.process.shares.fetch_or(args.flags & SHARED, Relaxed);
            return Out::Process(Process::Clone(*args));
        }
        if args.flags & THREAD_NEEDS != THREAD_NEEDS || args.flags & cf::NAMESPACES != 0 || args.exit_signal != 0 {
            return Errno::EINVAL.into();
        }
        // We choose the ids of threads, and the host has no descriptor for a thread of ours.
        if args.set_tid != 0 || args.set_tid_size != 0 || args.flags & cf::PIDFD != 0 {
            return Errno::EINVAL.into();
        }
        // Of `do_arch_prctl_64`.
        if args.flags & cf::SETTLS != 0 && args.tls >= USER_END - 4096 {
            return Errno::EPERM.into();
        }
        match self.clone_thread(cpu, t, args) {
            Ok(tid) => Out::Done(tid as isize),
            Err(e) => e.into(),
        }
    }

    fn clone_thread(&self, cpu: CpuId, parent: ThreadIdx, args: &CloneArgs) -> Result<i32, Errno> {
        let child = self.threads.allocate().ok_or(Errno::EAGAIN)?;
        let top = args.stack.wrapping_add(args.stack_size);
        let tls = (args.flags & cf::SETTLS != 0).then_some(args.tls);
        if self.m.clone_context(parent, child, top, tls).is_err() {
            self.threads.free(child);
            return Err(Errno::EAGAIN);
        }
        let tid = self.prepare_child(parent, child, args).inspect_err(|_| self.free_slot(child))?;
        if args.flags & cf::PARENT_SETTID != 0 {
            let _ = self.store_u32(args.parent_tid, tid as u32);
        }
        if args.flags & cf::CHILD_SETTID != 0 {
            let _ = self.store_u32(args.child_tid, tid as u32);
        }
        let now = self.now();
        self.thread(child).begun.store(now.0, Relaxed);
        self.process.staying.fetch_add(1, Relaxed);
        self.note_creator(parent, child, now);
        self.sched.wake_new(child, cpu, now, &mut self.kicks(cpu));
        self.tick_elsewhere(cpu, self.sched.cpu_of(child));
        Ok(tid)
    }

    /// Everything else that can fail, before the child is visible.
    fn prepare_child(&self, parent: ThreadIdx, child: ThreadIdx, args: &CloneArgs) -> Result<i32, Errno> {
        self.reserve_timeouts(child)?;
        let attr = inherited(self.sched.attr(parent));
        self.sched.attach(child, &attr, self.sched.affinity(parent)).map_err(|_| Errno::EAGAIN)?;
        self.prepare_attached(parent, child, args).inspect_err(|_| self.sched.detach(child))
    }

    fn prepare_attached(&self, parent: ThreadIdx, child: ThreadIdx, args: &CloneArgs) -> Result<i32, Errno> {
        let (new, old) = (self.thread(child), self.thread(parent));
        new.reset(old.name_words());
        // The child's value is reset to the parent's (`copy_process`).
        new.set_slacks([old.slacks()[0]; 2]);
        new.io_priority.store(old.io_priority.load(Relaxed), Relaxed);
        self.inherit_signals(parent, child);
        if args.flags & cf::CHILD_CLEARTID != 0 {
            new.clear_child_tid.store(args.child_tid, Relaxed);
        }
        let tid = self.threads.assign_tid(child, || self.claim_tids()).ok_or(Errno::EAGAIN)?;
        self.join_signals(child)?;
        // Last, because it cannot fail: a group counts its threads.
        self.inherit_group(parent, child);
        Ok(tid.0)
    }

    /// Room in every CPU's timeout queue, so that a sleep never allocates.
    fn reserve_timeouts(&self, child: ThreadIdx) -> Result<(), Errno> {
        let mut room = self.timeout_room.lock();
        if child.index() < *room {
            return Ok(());
        }
        let want = (child.index() + 1).next_power_of_two().max(64);
        for cpu in self.cpus.iter() {
            cpu.timeouts.lock().reserve(want).map_err(|_| Errno::EAGAIN)?;
        }
        *room = want;
        Ok(())
    }

    /// A block of ids that no other process of ours has.
    fn claim_tids(&self) -> Option<i32> {
        self.m.claim_ids(crate::tid::BLOCK as i32)
    }

    /// `exit(2)`: releases the thread's robust futexes, clears its word for the joiner and ends it. The last thread
    /// ends the process.
    pub(crate) fn sys_exit(&self, cpu: CpuId, t: ThreadIdx, status: i32) -> Out {
        if let Some(out) = self.exit_robust(cpu, t) {
            return out;
        }
        self.exit_pi(cpu, t);
        if self.process.staying.fetch_sub(1, AcqRel) == 1 {
            return Out::Process(Process::Exit(status));
        }
        self.m.save(t);
        let thread = self.thread(t);
        self.drop_signals(cpu, t);
        self.nice_ended(t);
        self.account_exit(cpu, t);
        let word = thread.clear_child_tid.load(Relaxed);
        if word != 0 && self.store_u32(word, 0).is_ok() {
            // A shared word (`mm_release`): no other process waits on a stack of ours.
            if self.shared.contains(word) {
                let args = [word, u64::from(abi::futex::FUTEX_WAKE), 1, 0, 0, 0];
                let _ = self.foreign(cpu, t, &Call { nr: abi::nr::FUTEX, args });
            } else {
                self.futex_wake_some(cpu, crate::futex::key_of(word, false), 1);
            }
        }
        Out::Exited
    }

    /// Frees the slot of a dead thread that has left its CPU.
    pub(crate) fn bury(&self, t: ThreadIdx) {
        self.sched.detach(t);
        self.free_slot(t);
    }

    /// Frees the slot of a thread that has a context.
    fn free_slot(&self, t: ThreadIdx) {
        let identity = self.m.identity(t);
        if self.tid(t).0 == self.config.pid.0 {
            self.threads.keep_zombie(t);
        } else {
            self.threads.free(t);
        }
        self.m.observe(Event::Gone(identity));
    }

    /// Makes the program's first thread, which already runs on `cpu`, a thread of ours. The machine gives it a context.
    pub fn adopt_main(&self, cpu: CpuId) -> Option<ThreadIdx> {
        let t = self.threads.allocate()?;
        self.reserve_timeouts(t).ok()?;
        // No carrier serves the other CPUs yet, so none polls for work there: they must be kicked.
        for i in (0..self.config.cpus).filter(|&i| i != cpu.index()) {
            self.sched.idle_state(CpuId(i as u16), sched::Idle::Parked);
        }
        let all = ids::CpuMask::first(self.config.cpus);
        self.sched.attach(t, &sched::Attr::DEFAULT, all).ok()?;
        self.thread(t).reset([0; 2]);
        self.threads.adopt_tid(t, ids::Tid(self.config.pid.0));
        self.join_signals(t).ok()?;
        let now = self.now();
        self.sched.wake_new(t, cpu, now, &mut self.kicks(cpu));
        let chosen = self.sched.schedule(cpu, now, sched::Prev::Block, &mut self.kicks(cpu));
        self.cputime.cpu.run(cpu, now);
        self.know_carrier(cpu, now);
        (chosen == Some(t)).then_some(t)
    }

    /// Mask and actions of a process that `t` makes with these flags.
    pub fn signals_for_child(&self, t: ThreadIdx, flags: u64) -> (signal::ThreadSignals, signal::ProcessSignals) {
        // One lock after the other: within a single expression both would be held, in the wrong order.
        let thread = self.thread(t).signals.0.lock().for_child(flags & (cf::VM | cf::VFORK));
        let process = self.process.signals.lock().for_child(flags & cf::CLEAR_SIGHAND != 0);
        (thread, process)
    }

    /// The state that a forked child takes over, read before a fork with these flags.
    pub fn inheritance(&self, t: ThreadIdx, flags: u64) -> Inheritance {
        let thread = self.thread(t);
        let (signals, process) = self.signals_for_child(t, flags);
        Inheritance {
            name: thread.name_words(),
            rseq: thread.rseq.load(Relaxed),
            rseq_len: thread.rseq_len.load(Relaxed),
            rseq_signature: thread.rseq_signature.load(Relaxed),
            timer_slack: thread.slacks()[0],
            io_priority: thread.io_priority.load(Relaxed),
            attr: self.sched.attr(t),
            nice: self.process.nice.load(Relaxed),
            affinity: self.sched.affinity(t),
            signals,
            process,
            shared: self.shared.all(),
            time_limits: LIMITS.map(|which| self.time_limit(which)),
            group: self.group_number(t),
            shares: flags & SHARED,
        }
    }

    /// Gives the main thread of a forked child what it inherits.
    pub fn take_inheritance(&self, t: ThreadIdx, from: Inheritance) {
        let thread = self.thread(t);
        self.process.shares.store(from.shares, Relaxed);
        for (to, word) in thread.name.iter().zip(from.name) {
            to.store(word, Relaxed);
        }
        thread.rseq.store(from.rseq, Relaxed);
        thread.rseq_len.store(from.rseq_len, Relaxed);
        thread.rseq_signature.store(from.rseq_signature, Relaxed);
        thread.set_slacks([from.timer_slack; 2]);
        thread.io_priority.store(from.io_priority, Relaxed);
        {
            let mut process = self.process.signals.lock();
            process.become_child(from.process);
            self.enter_signals(&mut process, t, from.signals);
        }
        self.shared.inherit(&from.shared);
        let attr = inherited(from.attr);
        let now = self.now();
        let cpu = self.sched.cpu_of(t);
        for (which, limit) in LIMITS.into_iter().zip(from.time_limits) {
            self.set_time_limit(cpu, which, limit);
        }
        // A deadline is not inherited (the fork was refused) and the mask was valid before.
        let _ = self.sched.set_attr(t, &attr, now, &mut self.kicks(cpu));
        // The child's host thread has its creator's nice value.
        self.process.nice.store(from.nice, Relaxed);
        self.nice_changed(Nice::clamp_from(from.nice), attr.nice);
        let _ = self.sched.set_affinity(t, from.affinity, now, &mut self.kicks(cpu));
        self.enter(t, from.group);
    }
}

/// Scheduling attributes of a child (`sched_fork`): with SCHED_RESET_ON_FORK no
/// real-time policy and no negative nice value, but a fair policy stays, and the flag does not.
pub(crate) fn inherited(attr: Attr) -> Attr {
    match attr {
        Attr { reset_on_fork: false, .. } => attr,
        _ if !attr.policy.is_fair() => Attr::DEFAULT,
        _ => Attr { reset_on_fork: false, nice: attr.nice.max(Nice(0)), ..attr },
    }
}

/// The state that a forked child takes over from its parent.
pub struct Inheritance {
    name: [u64; 2],
    rseq: u64,
    rseq_len: u32,
    rseq_signature: u32,
    timer_slack: u64,
    io_priority: u32,
    attr: sched::Attr,
    nice: i32,
    affinity: ids::CpuMask,
    signals: signal::ThreadSignals,
    process: signal::ProcessSignals,
    shared: alloc::vec::Vec<(u64, u64)>,
    time_limits: [time::cpu::limit::Rlimit; 2],
    group: u32,
    shares: u64,
}

/// What a child passes on that executes a program before it has a kernel.
impl Inheritance {
    /// The first CPU where its thread may run.
    pub fn first_cpu(&self) -> CpuId {
        self.affinity.lowest().unwrap_or(CpuId(0))
    }

    /// The state of its thread, in a process with this many CPUs.
    pub fn carried(&self, cpus: usize) -> Carried {
        let affinity = (self.affinity != ids::CpuMask::first(cpus)).then(|| self.affinity.clone());
        Carried::by_new_child(self.attr, affinity, self.timer_slack)
    }

    /// The signals that it blocks.
    pub fn blocked(&self) -> abi::SigSet {
        self.signals.blocked()
    }

    /// Its actions.
    pub fn actions(&self) -> &signal::Dispositions {
        self.process.actions()
    }

    /// Its limits. It has no timers.
    pub fn times(&self) -> Times {
        let [limit, rttime] = self.time_limits;
        Times { usage: time::cpu::Usage::default(), limit, rttime, itimers: None }
    }
}
