//! The programs that run under Entresol.

use crate::host::Process;
use state::{Snapshot, Thread};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where snapshots come from.
pub trait Watch: Send + Sync + 'static {
    /// Looks at a process.
    fn look(&self, pid: i32) -> Seen;
    /// The ids of those processes.
    fn pids(&self) -> Vec<i32>;
}

/// An observation of a process.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The process's latest snapshot; `None` if it does not run under Entresol or does not answer.
    pub snapshot: Option<Snapshot>,
    /// How long the snapshot stays valid: the process makes no other one before that, or does not answer.
    pub lasts: Duration,
}

/// A process under Entresol, and its threads by ascending ids.
#[derive(Clone, Debug)]
pub struct Program(Snapshot);

impl Program {
    fn new(mut snapshot: Snapshot) -> Program {
        snapshot.threads.sort_unstable_by_key(|thread| thread.tid);
        snapshot.threads.dedup_by_key(|thread| thread.tid);
        Program(snapshot)
    }

    /// Its last snapshot.
    pub fn snapshot(&self) -> &Snapshot {
        &self.0
    }

    /// That thread.
    pub fn thread(&self, tid: i32) -> Option<&Thread> {
        let threads = &self.0.threads;
        threads.binary_search_by_key(&tid, |thread| thread.tid).ok().and_then(|at| threads.get(at))
    }

    /// How many threads it has; as `task/` lists them, so with a main thread that has exited before others.
    pub fn count(&self, pid: i32) -> u32 {
        self.0.threads.len() as u32 + u32::from(self.thread(pid).is_none())
    }

    /// Their ids: the main thread, then the others.
    pub fn tids(&self, pid: i32) -> impl Iterator<Item = i32> + '_ {
        std::iter::once(pid).chain(self.0.threads.iter().map(|thread| thread.tid).filter(move |&tid| tid != pid))
    }
}

/// How long a snapshot stays valid: times are shown in ticks of this length.
const TICK: Duration = Duration::from_millis(10);
/// The longest time that a snapshot stays valid, whatever the page says.
const LONGEST: Duration = Duration::from_secs(30);
/// The number of processes remembered; beyond it all are forgotten.
const KNOWN_MAX: usize = 4096;

/// `None`: not looked yet.
type Known = Option<(Instant, Option<Arc<Program>>)>;

/// All programs, each read when it is requested.
pub struct Programs {
    watch: Box<dyn Watch>,
    known: Mutex<HashMap<Process, Arc<Mutex<Known>>>>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Programs {
    /// Without any observation yet.
    pub fn new(watch: impl Watch) -> Programs {
        Programs { watch: Box::new(watch), known: Mutex::default() }
    }

    /// The process, if it runs under Entresol. One that does not answer delays no request for another.
    pub fn find(&self, process: Process) -> Option<Arc<Program>> {
        let slot = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= KNOWN_MAX && !known.contains_key(&process) {
                known.clear();
            }
            known.entry(process).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, program)) = &*slot
            && Instant::now() < *until
        {
            return program.clone();
        }
        let seen = self.watch.look(process.pid);
        let program = seen.snapshot.map(|snapshot| Arc::new(Program::new(snapshot)));
        *slot = Some((Instant::now() + seen.lasts.clamp(TICK, LONGEST), program.clone()));
        program
    }

    /// The greatest id of a thread of all of them.
    pub fn greatest(&self, process: impl Fn(i32) -> Option<Process>) -> i32 {
        let all = self.watch.pids().into_iter().filter_map(process).filter_map(|process| self.find(process));
        all.filter_map(|program| program.0.threads.last().map(|thread| thread.tid)).max().unwrap_or(0)
    }

    /// The process that has this thread.
    pub fn owner(&self, tid: i32, process: impl Fn(i32) -> Option<Process>) -> Option<Process> {
        let all = self.watch.pids().into_iter().filter_map(process);
        all.into_iter().find(|&process| self.find(process).is_some_and(|program| program.thread(tid).is_some()))
    }
}
