//! The texts of files about a thread, from its state page and the host's files of its process.

use crate::host::Process;
use crate::programs::Program;
use procfs::Name;
use procfs::entries::{self, File, Is};
use procfs::node::Dir;
use procfs::text::sched::{self, Sched};
use procfs::text::stat::Stat;
use procfs::text::status::{self, Ours};
use procfs::text::thread::{self, Facts, Scheduling};
use procfs::text::{Room, State};
use rustix::io::Errno;
use state::{Place, Thread, Wait};

/// The longest text without what the host's adds.
const SIZE: usize = 8 << 10;
/// Only the first 64 CPUs of a mask are shown.
const CPUS_TOLD: u32 = 64;

/// The owner of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The process.
    pub process: Process,
    /// The thread; the process's id if it is the main one.
    pub tid: i32,
    /// The file is in the directory of a process, and is about all its threads.
    pub whole: bool,
    /// The reader may know where the thread waits.
    pub traces: bool,
}

/// The file of ours that has this name in such a directory. Limits, timers and timer slack are the host's from outside: the page
/// does not have them.
#[must_use]
pub fn ours(dir: Dir, name: &[u8]) -> Option<File> {
    match entries::find(dir, &Name::new(name))?.1.is {
        Is::Ours(File::Limits | File::Timers | File::TimerSlack) => None,
        Is::Ours(file) => Some(file),
        _ => None,
    }
}

/// The text as of the snapshot. `host` reads the files of the process, with the rights of the one that asks.
///
/// # Errors
/// ESRCH if the process or the thread is gone.
pub fn make(
    host: impl Fn(&[u8]) -> Result<Vec<u8>, Errno>,
    program: &Program,
    of: &Subject,
    file: File,
) -> Result<Vec<u8>, Errno> {
    let thread = program.thread(of.tid);
    if thread.is_none() && of.tid != of.process.pid {
        return Err(Errno::SRCH);
    }
    let gone = |_| Errno::SRCH;
    let stat = Stat::parse(&host(b"stat").map_err(gone)?).ok_or(Errno::SRCH)?;
    let base = if file == File::Status { host(b"status").map_err(gone)? } else { vec![] };
    let mut bytes = vec![0; SIZE + base.len()];
    let mut room = Room::new(&mut bytes);
    let it = Told { program, of, thread, stat };
    // Text that does not fit is cut, as by a short read.
    let _ = it.write(file, &base, &mut room);
    let len = room.text().len();
    bytes.truncate(len);
    Ok(bytes)
}

/// All that is known for a text.
struct Told<'a> {
    program: &'a Program,
    of: &'a Subject,
    thread: Option<&'a Thread>,
    /// The host's line of the process.
    stat: Stat,
}

impl Told<'_> {
    fn write(&self, file: File, base: &[u8], to: &mut Room<'_>) -> std::fmt::Result {
        match file {
            File::Stat => self.facts().write_stat(&mut self.stat.clone(), to),
            File::Status => self.write_status(base, to),
            File::Comm => {
                to.raw(self.name())?;
                to.byte(b'\n')
            }
            File::Sched => sched::write(self.name(), self.of.tid, self.count(), &self.sched(), to),
            File::Schedstat => sched::write_stat(&self.sched(), to),
            File::Wchan => thread::write_wchan(self.waits_in(), to),
            File::Stack => thread::write_stack(self.waits_in(), to),
            File::Limits
            | File::Timers
            | File::TimerSlack
            | File::Machine
            | File::Uptime
            | File::Loadavg
            | File::PidMax
            | File::ThreadsMax => Ok(()),
        }
    }

    fn count(&self) -> u32 {
        self.program.count(self.of.process.pid)
    }

    /// A main thread that has exited before others keeps the name that the host knows.
    fn name(&self) -> &[u8] {
        self.thread.map_or(self.stat.name(), Thread::name)
    }

    fn state(&self) -> State {
        match (self.thread, self.stat.state) {
            // Stopped are all threads together, and the host does it.
            (_, b'T' | b't') => State::Stopped,
            (None, _) | (_, b'Z' | b'X') => State::Zombie,
            (Some(thread), _) if thread.place != Place::Waiting || thread.wait == Wait::Throttled => State::Running,
            (Some(_), _) => State::Sleeping,
        }
    }

    fn waits_in(&self) -> Option<&'static str> {
        let waiting = self.thread.filter(|thread| self.of.traces && thread.place == Place::Waiting);
        waiting.and_then(|thread| thread.wait.function())
    }

    fn facts(&self) -> Facts<'_> {
        let process = &self.program.snapshot().process;
        let times = match self.thread {
            _ if self.of.whole => [process.user.0, process.system.0],
            Some(thread) => [thread.user.0, thread.system.0],
            None => [0; 2],
        };
        Facts {
            process: self.of.process.pid,
            id: self.of.tid,
            name: self.name(),
            begun: None,
            state: self.state(),
            whole: self.of.whole,
            threads: self.count(),
            times,
            scheduling: self.thread.map(scheduling),
            waits_in: self.waits_in(),
            signals: self.signals(),
        }
    }

    /// Pending for the thread and for the process, blocked, ignored, caught.
    fn signals(&self) -> [u64; 5] {
        let process = &self.program.snapshot().process;
        self.thread
            .map_or([0; 5], |thread| [thread.pending, process.pending, thread.blocked, process.ignored, process.caught])
    }

    fn write_status(&self, base: &[u8], to: &mut Room<'_>) -> std::fmt::Result {
        let possible = self.program.snapshot().cpus.len() as u32;
        let mask = self.thread.map_or(0, |thread| thread.mask);
        let all = self.thread.is_some_and(|thread| u32::from(thread.allowed) == possible);
        let cpus: Vec<u32> = (0..possible).filter(|&cpu| all || cpu < CPUS_TOLD && mask >> cpu & 1 != 0).collect();
        let ours = Ours {
            name: self.name(),
            state: self.state(),
            tgid: self.of.process.pid,
            pid: self.of.tid,
            threads: self.count(),
            signals: self.signals(),
            cpus: &cpus,
            cpus_possible: possible,
            switches: self.thread.map_or([0; 2], |thread| [thread.voluntary, thread.involuntary]),
        };
        status::write(base, &ours, to)
    }

    fn sched(&self) -> Sched {
        let Some(thread) = self.thread else { return Sched::default() };
        let scheduling = scheduling(thread);
        Sched {
            runtime: thread.cpu_time().0,
            waited: thread.queued.0,
            timeslices: thread.voluntary.saturating_add(thread.involuntary),
            exec_start: self.program.snapshot().process.taken.0,
            migrations: thread.migrations,
            voluntary: thread.voluntary,
            involuntary: thread.involuntary,
            policy: scheduling.policy,
            // The kernel's own scale: 100 less than in `stat`.
            priority: scheduling.priority() as i32 + 100,
            ..Sched::default()
        }
    }
}

fn scheduling(thread: &Thread) -> Scheduling {
    Scheduling {
        policy: thread.policy as u32,
        is_rt: thread.policy.is_rt(),
        is_deadline: thread.policy == ids::Policy::Deadline,
        nice: i32::from(thread.nice.0),
        rt: u32::from(thread.rt.0),
        cpu: u32::from(thread.cpu),
    }
}
