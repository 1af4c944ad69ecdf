//! The tests of the message on timer ids (2025): threads of one process, or processes of one thread, create POSIX
//! timers and ask each for its overrun, or create and delete one in a loop. By system calls, as there.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, mem, ptr, thread};

use super::parameters::Parameters;
use super::timers::{create, delete};
use super::{Measured, report};

/// `threads` or `processes` create `each` timers, or make `pairs` of a creation and a deletion.
pub(super) const PARAMETERS: &[&str] = &["threads", "processes", "each", "pairs"];
const OWNERS_MAX: usize = 256;

/// The work of one owner.
#[derive(Clone, Copy)]
struct Work {
    each: usize,
    pairs: usize,
}

/// Memory that forked processes share: how many are ready, how many failed, and the CPU time of both steps.
#[repr(C)]
struct Board {
    ready: AtomicU64,
    failed: AtomicU64,
    consumed_ns: [AtomicU64; 2],
}

/// Milliseconds of CPU time for each owner, by the host's count: machines are shared, and owners are more than CPUs.
pub(super) fn measure(told: &Parameters) -> Measured {
    let processes: Option<usize> = told.number("processes")?;
    let owners = processes.or(told.number("threads")?).unwrap_or(1);
    if !(1..=OWNERS_MAX).contains(&owners) {
        return Err(format!("from 1 to {OWNERS_MAX} threads or processes"));
    }
    let work = Work { each: told.number("each")?.unwrap_or(0), pairs: told.number("pairs")?.unwrap_or(0) };
    let [first, second] = if processes.is_some() { of_processes(owners, work) } else { of_threads(owners, work) }?;
    let share = |ns: u64| ns as f64 / 1e6 / owners as f64;
    if work.pairs > 0 {
        report::figure("loop", "ms", share(first));
    } else {
        report::figure("create", "ms", share(first));
        report::figure("getoverrun", "ms", share(second));
    }
    Ok(())
}

impl Work {
    /// The first step; returns the timers that remain.
    fn make(self) -> Result<Vec<i32>, String> {
        let mut ids = vec![-1; self.each];
        ids.iter_mut().try_for_each(|id| create(id, 0))?;
        for _ in 0..self.pairs {
            let mut id = -1;
            create(&mut id, 0)?;
            delete(id);
        }
        Ok(ids)
    }
}

/// The second step.
fn ask(ids: &[i32]) {
    for id in ids {
        // SAFETY: about one of our timers.
        std::hint::black_box(unsafe { libc::syscall(libc::SYS_timer_getoverrun, *id) });
    }
}

/// Both steps' CPU time in all, in nanoseconds.
fn of_threads(owners: usize, work: Work) -> Result<[u64; 2], String> {
    let gate = Barrier::new(owners + 1);
    let owner = || {
        gate.wait();
        let made = work.make();
        gate.wait();
        gate.wait();
        ask(made.as_deref().unwrap_or_default());
        gate.wait();
        // The CPU time of a thread cannot be read after its end.
        gate.wait();
        made.map(drop)
    };
    thread::scope(|scope| {
        let owners: Vec<_> = (0..owners).map(|_| scope.spawn(owner)).collect();
        let mut sums = [0; 3];
        sums[0] = report::consumed_ns();
        // All begin, and all are through; then the same again.
        for sum in &mut sums[1..] {
            gate.wait();
            gate.wait();
            *sum = report::consumed_ns();
        }
        gate.wait();
        let ends = owners.into_iter().map(|owner| owner.join().unwrap_or(Err("a thread has died".to_owned())));
        ends.collect::<Result<Vec<()>, String>>()?;
        Ok([sums[1] - sums[0], sums[2] - sums[1]])
    })
}

/// As [`of_threads`] with forked processes, each of which reads its own CPU time.
fn of_processes(owners: usize, work: Work) -> Result<[u64; 2], String> {
    let board = board().map_err(|why| format!("mmap: {why}"))?;
    fork_all(owners, || {
        let meet = |count: usize| {
            board.ready.fetch_add(1, Ordering::AcqRel);
            while board.ready.load(Ordering::Acquire) < count as u64 {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let timed = |which: usize, step: &mut dyn FnMut()| {
            let before = report::consumed_ns();
            step();
            board.consumed_ns[which].fetch_add(report::consumed_ns() - before, Ordering::Relaxed);
        };
        meet(owners);
        let mut made = Ok(Vec::new());
        timed(0, &mut || made = work.make());
        // No process queries while others still create.
        meet(2 * owners);
        timed(1, &mut || ask(made.as_deref().unwrap_or_default()));
        board.failed.fetch_add(u64::from(made.is_err()), Ordering::Relaxed);
    })?;
    if board.failed.load(Ordering::Relaxed) > 0 {
        return Err("timer_create: the limit on pending signals was reached".to_owned());
    }
    Ok(board.consumed_ns.each_ref().map(|ns| ns.load(Ordering::Relaxed)))
}

/// A page of zeros that forked processes share.
fn board() -> io::Result<&'static Board> {
    let size = mem::size_of::<Board>();
    // SAFETY: new memory, never given back; zeros are a board.
    unsafe {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let place = libc::mmap(ptr::null_mut(), size, access, shared, -1, 0);
        if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(&*place.cast::<Board>()) }
    }
}

/// Runs `work` in this many processes and waits for them.
fn fork_all(count: usize, work: impl Fn()) -> Measured {
    let mut children = Vec::new();
    let mut refused = Ok(());
    for at in 0..count {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => {
                refused = Err(format!("fork after {at} processes: {}", io::Error::last_os_error()));
                // The others would wait for those that are missing.
                // SAFETY: our own children, not waited for yet.
                children.iter().for_each(|child| unsafe { _ = libc::kill(*child, libc::SIGKILL) });
                break;
            }
            0 => {
                work();
                // SAFETY: nothing of this process is needed any more.
                unsafe { libc::_exit(0) };
            }
            child => children.push(child),
        }
    }
    for child in children {
        let mut status = 0;
        // SAFETY: our child; the status is writable.
        unsafe { libc::waitpid(child, &mut status, 0) };
        if status != 0 {
            refused = refused.and(Err("a process ended early".to_owned()));
        }
    }
    refused
}
