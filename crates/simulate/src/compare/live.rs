//! The threads of an rt-app file as real threads of this process.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use abi::SchedAttr;
use anyhow::Context;
use bench::probe::clock::{now_ns, read_ns};
use ids::{CpuMask, Nanos};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use sched::Attr;
use sim::workload::rtapp::script::{Action, Measured, Script};
use sim::workload::rtapp::{Thread, Workload};

use super::objects::Shared;

/// How long after the end of a workload its threads are waited for.
const GRACE: Duration = Duration::from_millis(500);

/// State that the threads share.
struct Live {
    shared: Shared,
    /// The host's CPUs, by the numbers that the workload gives them.
    cpus: Vec<usize>,
    start: Barrier,
    /// When the run begins, by CLOCK_MONOTONIC.
    origin: OnceLock<u64>,
}

/// Runs it on the first `cpus` CPUs. Threads that still wait at the end of a workload with a duration are left waiting.
pub(super) fn run(workload: &Workload, cpus: usize) -> anyhow::Result<Vec<Measured>> {
    let all = bench::probe::pthread::cpus();
    let cpus: Vec<usize> = all[..cpus].to_vec();
    if cpus.len() < all.len() {
        allow(&cpus).map_err(errno_error).context("the CPUs of this process cannot be limited")?;
    }
    let threads = workload.threads(cpus.len());
    let start = Barrier::new(threads.len() + 1);
    let live = Arc::new(Live { shared: Shared::new(workload), cpus, start, origin: OnceLock::new() });
    let (done, ended) = mpsc::channel();
    let mut measured = Vec::new();
    for thread in threads {
        let mine = Arc::new(Mutex::new(Measured::default()));
        measured.push(mine.clone());
        let (live, done) = (live.clone(), done.clone());
        let body = move || {
            play(&live, thread, &mine);
            // There is no receiver any more if the run is over.
            let _ = done.send(());
        };
        thread::Builder::new().stack_size(256 << 10).spawn(body).context("a thread cannot be created")?;
    }
    live.origin.get_or_init(|| now_ns() + 2_000_000);
    live.start.wait();
    let deadline = workload.duration().map(|span| Instant::now() + Duration::from_nanos(span.0) + GRACE);
    for _ in 0..measured.len() {
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    let taken = |mine: &Arc<Mutex<Measured>>| mine.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(measured.iter().map(taken).collect())
}

/// The life of a thread.
fn play(live: &Live, thread: Thread, mine: &Mutex<Measured>) {
    let Thread { attr, cpus, mut script, .. } = thread;
    let set = set_policy(&attr).and(cpus.map_or(Ok(()), |mask| live.allow(&mask)));
    note_refusal(mine, set);
    live.start.wait();
    let origin = *live.origin.wait();
    sleep_until(origin);
    loop {
        let now = Nanos(now_ns().saturating_sub(origin));
        match next(&mut script, now, mine) {
            Action::Exit => return,
            action => live.act(origin, action, mine),
        }
    }
}

fn next(script: &mut Script, now: Nanos, mine: &Mutex<Measured>) -> Action {
    script.next(now, &mut mine.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Live {
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
            Action::Suspend(task) => s.gates[task].wait(),
            Action::Resume(task) => s.gates[task].open(),
            Action::Yield => thread::yield_now(),
            Action::Exit => {}
        }
    }

    /// Allows this thread the CPUs of the workload in `mask`.
    fn allow(&self, mask: &CpuMask) -> Result<(), i32> {
        allow(&mask.iter().map(|cpu| self.cpus[cpu.index()]).collect::<Vec<_>>())
    }
}

fn note_refusal(mine: &Mutex<Measured>, set: Result<(), i32>) {
    if let Err(errno) = set {
        mine.lock().unwrap_or_else(PoisonError::into_inner).refused.get_or_insert(-(errno as isize));
    }
}

/// Computes until this thread has used this much CPU time.
fn compute(span: Nanos) {
    let end = read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) + span.0;
    while read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) < end {
        // About a microsecond between two readings of the clock, which are system calls.
        for turn in 0..1_000_u32 {
            std::hint::black_box(turn);
        }
    }
}

fn sleep_until(at: u64) {
    let until = TimeSpec::from_duration(Duration::from_nanos(at));
    // A signal interrupts it.
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &until).is_err() {}
}

/// Allows the calling thread these CPUs, and those that it creates.
fn allow(cpus: &[usize]) -> Result<(), i32> {
    let mut set = nix::sched::CpuSet::new();
    cpus.iter().try_for_each(|&cpu| set.set(cpu)).map_err(|e| e as i32)?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).map_err(|e| e as i32)
}

fn errno_error(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

/// Sets policy and priority of the calling thread.
fn set_policy(attr: &Attr) -> Result<(), i32> {
    let mut raw = SchedAttr { size: SchedAttr::SIZE as u32, policy: attr.policy as u32, ..SchedAttr::default() };
    match attr.deadline {
        Some(d) => (raw.runtime, raw.deadline, raw.period) = (d.runtime.0, d.deadline.0, d.period().0),
        None if attr.policy.is_rt() => raw.priority = u32::from(attr.rt.0),
        None => raw.nice = i32::from(attr.nice.0),
    }
    let bytes = raw.to_bytes();
    // SAFETY: the structure has the size that it says, and the call only reads it.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, bytes.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
    }
}
