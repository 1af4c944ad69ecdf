//! The texts. If the host has the same file for the process, its text is the base, and our values replace its.

use crate::{Host, Linux};
use abi::{Errno, nr};
use alloc::vec::Vec;
use core::fmt::Write;
use ids::{Policy, ThreadIdx};
use kernel::TimeLimit;
use kernel::wait::Wait;
use procfs::Node;
use procfs::entries::File;
use procfs::node::{Dir, Place};
use procfs::text::sched::Sched;
use procfs::text::status::{Ours, write_limits};
use procfs::text::thread::{self, Facts, Scheduling};
use procfs::text::{Room, State, sched};
use sync::atomic::Ordering::Relaxed;
use time::posix::ProcTimer;

/// The longest text: `timers` of many.
const SIZE: usize = 16 << 10;
/// `status` on a machine with many CPUs.
const MEDIUM: usize = 12 << 10;
/// The longest text of one line: 52 numbers of up to 20 digits.
const SMALL: usize = 1200;
/// Timer slots looked at for one text (law 4).
const TIMERS_MAX: u32 = 64;
const CPUS_SHOWN: usize = 1024;

/// The facts about a thread.
#[derive(Clone, Copy)]
struct Subject {
    slot: ThreadIdx,
    id: i32,
    /// All threads together; otherwise this one.
    whole: bool,
}

impl<M: Host> Linux<'_, M> {
    /// Calls `using` with a file's present text. ESRCH if its thread died meanwhile: a text never mixes two threads.
    pub(super) fn proc_text<R>(&self, node: &Node, file: File, using: impl FnOnce(&[u8]) -> R) -> Result<R, Errno> {
        if matches!(file, File::Stat | File::Comm | File::Schedstat | File::Wchan | File::TimerSlack) {
            let mut bytes = [0; SMALL];
            return self.text_in(&mut bytes, node, file).map(using);
        }
        if file == File::Status {
            let mut bytes = [0; MEDIUM];
            return self.text_in(&mut bytes, node, file).map(using);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(SIZE).map_err(|_| Errno::ENOMEM)?;
        bytes.resize(SIZE, 0);
        self.text_in(&mut bytes, node, file).map(using)
    }

    fn text_in<'b>(&self, bytes: &'b mut [u8], node: &Node, file: File) -> Result<&'b [u8], Errno> {
        let slot = self.slot_of(node.thread).ok_or(Errno::ESRCH)?;
        let whole = matches!(node.place, Place::Entry(Dir::Process, _));
        let mut room = Room::new(bytes);
        let subject = Subject { slot, id: node.thread.id, whole };
        // Text that does not fit is cut, as by a short read.
        let _ = self.write_file(&subject, file, &mut room);
        let len = room.text().len();
        if self.slot_of(node.thread) != Some(slot) {
            return Err(Errno::ESRCH);
        }
        Ok(&bytes[..len])
    }

    fn write_file(&self, of: &Subject, file: File, to: &mut Room<'_>) -> core::fmt::Result {
        match file {
            File::Stat => self.write_stat(of, to),
            File::Status => self.write_status(of, to),
            File::Comm => {
                let (name, len) = self.name_of(of);
                to.raw(&name[..len])?;
                to.write_str("\n")
            }
            File::Sched => {
                let (name, len) = self.name_of(of);
                sched::write(&name[..len], of.id, self.threads().shown(), &self.sched_of(of), to)
            }
            File::Schedstat => sched::write_stat(&self.sched_of(of), to),
            File::Wchan => thread::write_wchan(self.waits_in(of), to),
            File::Stack => thread::write_stack(self.waits_in(of), to),
            File::Timers => self.write_timers(to),
            File::Limits => self.write_limits(to),
            File::TimerSlack => {
                let [slack, _] = self.thread(of.slot).slacks();
                writeln!(to, "{slack}")
            }
            // The machine's own files are the host's here; the tree has them for hosts without.
            File::Machine | File::Uptime | File::Loadavg | File::PidMax | File::ThreadsMax => Ok(()),
        }
    }

    fn name_of(&self, of: &Subject) -> ([u8; 16], usize) {
        let name = self.thread(of.slot).name_bytes();
        (name, name.iter().position(|&byte| byte == 0).unwrap_or(15))
    }

    fn proc_state(&self, of: &Subject) -> State {
        let t = of.slot;
        if self.threads().zombie() == Some(t) {
            State::Zombie
        } else if self.thread(t).wait.kind() == Wait::Throttled || !self.sched.is_blocked(t) {
            // A throttled thread is runnable to Linux (`throttle_cfs_rq`).
            State::Running
        } else if self.waits_for_vfork(t) {
            State::Disk
        } else if self.is_asleep(t) {
            State::Sleeping
        } else {
            State::Running
        }
    }

    /// Whether `t` waits for a child that has borrowed its memory. Only the child's end wakes it
    /// (`wait_for_vfork_done`).
    fn waits_for_vfork(&self, t: ThreadIdx) -> bool {
        let wait = &self.thread(t).wait;
        wait.kind() == Wait::Host && wait.call.load(Relaxed) as usize == nr::VFORK
    }

    /// Whether a thread off its CPU sleeps: it may be on the way to its host call, or back.
    fn is_asleep(&self, t: ThreadIdx) -> bool {
        let (wait, parked) = (&self.thread(t).wait, &self.thread(t).parked);
        wait.kind() != Wait::Host || parked.is_parked() || wait.armed().is_some() || self.m.sleeps_in_host(t)
    }

    /// Linux's name of the function in which such a wait sleeps.
    fn waits_in(&self, of: &Subject) -> Option<&'static str> {
        let kind = self.thread(of.slot).wait.kind();
        if self.sched.is_blocked(of.slot) { kernel::reason(kind).function() } else { None }
    }

    fn write_stat(&self, of: &Subject, to: &mut Room<'_>) -> core::fmt::Result {
        let mut host = self.host_stat();
        let (name, len) = self.name_of(of);
        let usage = if of.whole { self.process_usage() } else { self.thread_usage_since(of.slot, host.since) };
        let begun = self.thread(of.slot).begun.load(Relaxed);
        let facts = Facts {
            process: self.config().pid.0,
            id: of.id,
            name: &name[..len],
            state: self.proc_state(of),
            whole: of.whole,
            threads: self.threads().shown(),
            times: [usage.utime.0, usage.stime.0],
            begun: (begun != 0).then_some(begun + host.boot.0),
            scheduling: Some(self.scheduling_of(of.slot)),
            waits_in: self.waits_in(of),
            signals: self.signal_sets(of.slot),
        };
        facts.write_stat(&mut host.line, to)
    }

    fn scheduling_of(&self, t: ThreadIdx) -> Scheduling {
        let attr = self.sched.attr(t);
        Scheduling {
            policy: attr.policy as u32,
            is_rt: attr.policy.is_rt(),
            is_deadline: attr.policy == Policy::Deadline,
            nice: i32::from(attr.nice.0),
            rt: u32::from(attr.rt.0),
            cpu: u32::from(self.sched.cpu_of(t).0),
        }
    }

    fn write_status(&self, of: &Subject, to: &mut Room<'_>) -> core::fmt::Result {
        let (name, len) = self.name_of(of);
        let mut cpus = [0; CPUS_SHOWN];
        let mut allowed = 0;
        for (to, cpu) in cpus.iter_mut().zip(self.sched.affinity(of.slot).iter()) {
            *to = u32::from(cpu.0);
            allowed += 1;
        }
        let ours = Ours {
            name: &name[..len],
            state: self.proc_state(of),
            tgid: self.config().pid.0,
            pid: of.id,
            threads: self.threads().shown(),
            signals: self.signal_sets(of.slot),
            cpus: &cpus[..allowed],
            cpus_possible: self.config().cpus as u32,
            switches: self.switches(of.slot),
        };
        self.host_status(of.whole, |base| procfs::text::status::write(base, &ours, to))
    }

    /// Voluntary and involuntary context switches of a thread.
    fn switches(&self, t: ThreadIdx) -> [u64; 2] {
        let counts = self.sched.counts(t, self.now());
        [u64::from(self.thread(t).wait.begun()), u64::from(counts.involuntary)]
    }

    fn sched_of(&self, of: &Subject) -> Sched {
        let t = of.slot;
        let scheduling = self.scheduling_of(t);
        let now = self.now();
        let (counts, [voluntary, involuntary]) = (self.sched.counts(t, now), self.switches(t));
        Sched {
            runtime: self.thread_clock(t).0,
            waited: counts.queued.0,
            // The running thread has begun one slice more than it has left.
            timeslices: voluntary + involuntary + 1,
            exec_start: now.0,
            vruntime: counts.vruntime.max(0) as u64,
            migrations: u64::from(counts.migrations),
            voluntary,
            involuntary,
            weight: u64::from(counts.weight),
            policy: scheduling.policy,
            // The kernel's internal scale: 100 more than in `stat`.
            priority: scheduling.priority() as i32 + 100,
            slice: self.sched.rr_interval(t).0,
        }
    }

    fn write_timers(&self, to: &mut Room<'_>) -> core::fmt::Result {
        let (pid, mut result) = (self.config().pid.0, Ok(()));
        self.posix_timers().list(TIMERS_MAX, |listed| {
            if result.is_ok() {
                result = write!(to, "{}", ProcTimer { listed: &listed, pid });
            }
        });
        result
    }

    fn write_limits(&self, to: &mut Room<'_>) -> core::fmt::Result {
        let base = self.read_host_file(c"/proc/self/limits");
        let (cpu, rt) = (self.time_limit(TimeLimit::Cpu), self.time_limit(TimeLimit::RtTime));
        let rows = [("Max cpu time", [cpu.cur, cpu.max], "seconds"), ("Max realtime timeout", [rt.cur, rt.max], "us")];
        write_limits(&base, &rows, to)
    }
}
