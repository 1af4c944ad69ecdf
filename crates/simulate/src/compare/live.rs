//! The threads of an rt-app file as real threads of this process.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use abi::SchedAttr;
use anyhow::Context;
use bench::probe::clock::{now_ns, read_ns};
use ids::{CpuMask, Nanos};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use sched::Attr;
use sim::workload::rtapp::script::{Action, Measured};
use sim::workload::rtapp::{Thread, Workload};

use super::found::Observed;
use super::objects::Shared;

/// How long after the end of a workload its threads are waited for.
const GRACE: Duration = Duration::from_millis(500);

/// The stack of a thread, in bytes.
pub(super) const STACK: usize = 256 << 10;

/// State that the threads share.
struct Live {
    shared: Shared,
    /// Of each thread: its row, and what was measured.
    measured: Mutex<Vec<(usize, Arc<Mutex<Measured>>)>>,
    null: File,
    /// The host's CPUs, by the numbers that the workload gives them.
    cpus: Vec<usize>,
    start: Barrier,
    /// When the run begins, by CLOCK_MONOTONIC.
    origin: OnceLock<u64>,
}

/// Runs it on the first `cpus` CPUs. Threads that still wait at the end of a workload with a duration are left waiting.
pub(super) fn run(workload: &Workload, cpus: usize) -> anyhow::Result<Vec<Observed>> {
    let cpus = limit_to(cpus)?;
    let threads = workload.threads(cpus.len());
    let live = Arc::new(Live {
        shared: Shared::new(workload),
        measured: Mutex::default(),
        null: File::options().write(true).open("/dev/null").context("/dev/null cannot be written")?,
        cpus,
        start: Barrier::new(threads.len() + 1),
        origin: OnceLock::new(),
    });
    // Threads have the sender's copies, so it is closed when the last of them has ended.
    let (running, ended) = mpsc::channel();
    for thread in threads {
        let (live, running) = (live.clone(), running.clone());
        let body = move || {
            let settled = live.settle(&thread);
            live.start.wait();
            let origin = *live.origin.wait();
            sleep_until(origin);
            play(&live, &running, origin, thread, settled);
        };
        thread::Builder::new().stack_size(STACK).spawn(body).context("a thread cannot be created")?;
    }
    drop(running);
    live.origin.get_or_init(|| now_ns() + 2_000_000);
    live.start.wait();
    let left = workload.duration().map_or(Duration::MAX, |span| Duration::from_nanos(span.0) + GRACE);
    // Nothing is ever sent: either the last thread ends or the time is over.
    let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) = ended.recv_timeout(left);
    let mut rows = vec![Observed::default(); workload.rows().len()];
    for (row, mine) in locked(&live.measured).iter() {
        rows[*row].add(&Observed::from(&*locked(mine)));
    }
    Ok(rows)
}

/// A thread holds it while it runs.
type Running = Sender<()>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measurements and buffer of one thread.
struct Settled {
    mine: Arc<Mutex<Measured>>,
    buffer: Vec<u8>,
}

/// The life of a thread from the beginning of the run on, or from its fork on.
fn play(live: &Arc<Live>, running: &Running, origin: u64, thread: Thread, settled: Settled) {
    let (mut script, Settled { mine, mut buffer }) = (thread.script, settled);
    loop {
        let now = Nanos(now_ns().saturating_sub(origin));
        let action = script.next(now, &mut locked(&mine));
        match action {
            Action::Exit => return,
            Action::Fork(task) => {
                if let Err(errno) = start(live, running, origin, script.fork(task)) {
                    locked(&mine).no_thread.get_or_insert(-(errno as isize));
                }
            }
            Action::Memory(bytes) => by_pieces(&mut buffer, bytes, |piece| std::hint::black_box(piece).fill(0)),
            // It takes them all.
            Action::Write(bytes) => by_pieces(&mut buffer, bytes, |piece| drop((&live.null).write(piece))),
            action => live.act(origin, action, &mine),
        }
    }
}

/// Uses the buffer, over and over the same, for so many bytes.
fn by_pieces(buffer: &mut [u8], bytes: u64, mut each: impl FnMut(&mut [u8])) {
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(buffer.len() as u64);
        each(&mut buffer[..piece as usize]);
        left -= piece;
    }
}

/// Starts a forked thread.
fn start(live: &Arc<Live>, running: &Running, origin: u64, thread: Thread) -> Result<(), i32> {
    let (live, running) = (live.clone(), running.clone());
    let body = move || {
        let settled = live.settle(&thread);
        play(&live, &running, origin, thread, settled);
    };
    let started = thread::Builder::new().stack_size(STACK).spawn(body);
    started.map(drop).map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))
}

impl Live {
    /// Gives the calling thread its policy, its CPUs and its buffer.
    fn settle(&self, thread: &Thread) -> Settled {
        let mine = Arc::new(Mutex::new(Measured::default()));
        locked(&self.measured).push((thread.row, mine.clone()));
        let allowed = thread.cpus.as_ref().map_or(Ok(()), |mask| self.allow(mask));
        note_refusal(&mine, set_policy(&thread.attr).and(allowed));
        Settled { mine, buffer: vec![1; thread.buffer] }
    }

    fn act(&self, origin: u64, action: Action, mine: &Mutex<Measured>) {
        let s = &self.shared;
        match action {
            Action::SetPolicy(attr) => note_refusal(mine, set_policy(&attr)),
            Action::SetAffinity(mask) => note_refusal(mine, self.allow(&mask)),
            Action::Run(span) => compute(span),
            Action::RunUntil(at) => while now_ns() < origin + at.0 {},
            Action::Sleep(span) => sleep_until(now_ns() + span.0),
            Action::SleepUntil(at) => sleep_until(origin + at.0),
            Action::Lock(m) => s.mutexes[m].lock(),
            Action::Unlock(m) => s.mutexes[m].unlock(),
            Action::Wait { cond, mutex } => s.conds[cond].wait(&s.mutexes[mutex]),
            Action::Signal(c) => s.conds[c].signal(),
            Action::Broadcast(c) => s.conds[c].broadcast(),
            Action::Barrier(b) => drop(s.barriers[b].wait()),
            Action::SemaphoreWait(n) => s.semaphores[n].wait(),
            Action::SemaphorePost(n) => s.semaphores[n].post(),
            Action::Suspend(gate) => s.gates[gate].wait(),
            Action::Resume(gate) => s.gates[gate].open(),
            Action::Yield => thread::yield_now(),
            // `play` carries these out.
            Action::Memory(_) | Action::Write(_) | Action::Fork(_) | Action::Exit => {}
        }
    }

    /// Allows this thread the CPUs of the workload in `mask`.
    fn allow(&self, mask: &CpuMask) -> Result<(), i32> {
        allow(&mask.iter().map(|cpu| self.cpus[cpu.index()]).collect::<Vec<_>>())
    }
}

fn note_refusal(mine: &Mutex<Measured>, set: Result<(), i32>) {
    if let Err(errno) = set {
        locked(mine).refused.get_or_insert(-(errno as isize));
    }
}

/// Computes until this thread has used this much CPU time.
pub(super) fn compute(span: Nanos) {
    let end = read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) + span.0;
    while read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) < end {
        // About a microsecond between two readings of the clock, which are system calls.
        for turn in 0..1_000_u32 {
            std::hint::black_box(turn);
        }
    }
}

pub(super) fn sleep_until(at: u64) {
    let until = TimeSpec::from_duration(Duration::from_nanos(at));
    // A signal interrupts it.
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &until).is_err() {}
}

/// Allows the calling thread these CPUs, and those that it creates.
pub(super) fn allow(cpus: &[usize]) -> Result<(), i32> {
    let mut set = nix::sched::CpuSet::new();
    cpus.iter().try_for_each(|&cpu| set.set(cpu)).map_err(|e| e as i32)?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).map_err(|e| e as i32)
}

fn errno_error(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

/// Allows this process the first `cpus` CPUs of those that it has; returns them.
pub(super) fn limit_to(cpus: usize) -> anyhow::Result<Vec<usize>> {
    let all = bench::probe::pthread::cpus();
    let cpus = all[..cpus].to_vec();
    if cpus.len() < all.len() {
        allow(&cpus).map_err(errno_error).context("the CPUs of this process cannot be limited")?;
    }
    Ok(cpus)
}

/// Sets policy and priority of the calling thread.
pub(super) fn set_policy(attr: &Attr) -> Result<(), i32> {
    let mut raw = SchedAttr { size: SchedAttr::SIZE as u32, policy: attr.policy as u32, ..SchedAttr::default() };
    match attr.deadline {
        Some(d) => (raw.runtime, raw.deadline, raw.period) = (d.runtime.0, d.deadline.0, d.period().0),
        None if attr.policy.is_rt() => raw.priority = u32::from(attr.rt.0),
        None => (raw.nice, raw.runtime) = (i32::from(attr.nice.0), attr.slice.0),
    }
    let mut bytes = raw.to_bytes();
    // SAFETY: the structure has the size that it says; a kernel that knows less writes its own size there.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, bytes.as_mut_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
    }
}
