//! The tests of the message on timer ids (2025): threads of one process, or processes of one thread, create POSIX
//! timers and ask each for its overrun, or create and delete one in a loop. By system calls, as there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, mem, ptr};

use super::clock::now_ns;
use super::parameters::Parameters;
use super::timers::{create, delete};
use super::{Measured, pthread, report};

/// `threads` or `processes` create `each` timers, or make `pairs` of a creation and a deletion.
pub(super) const PARAMETERS: &[&str] = &["threads", "processes", "each", "pairs"];
/// Owners at most: each has a place in the shared page.
const OWNERS_MAX: usize = 256;

/// What all owners write into, whichever process they are.
#[repr(C)]
struct Board {
    ready: AtomicU64,
    failed: AtomicU64,
    /// When each began to create, was through with it, began to ask, and was through with that.
    moments: [[AtomicU64; 4]; OWNERS_MAX],
}

/// Milliseconds of a CPU for each owner: all of them share the CPUs there are.
pub(super) fn measure(told: &Parameters) -> Measured {
    let processes: Option<usize> = told.number("processes")?;
    let owners = processes.or(told.number("threads")?).unwrap_or(1);
    if !(1..=OWNERS_MAX).contains(&owners) {
        return Err(format!("from 1 to {OWNERS_MAX} threads or processes"));
    }
    let (each, pairs) = (told.number("each")?.unwrap_or(0), told.number("pairs")?.unwrap_or(0));
    let board = board().map_err(|why| format!("mmap: {why}"))?;
    let work = |at: usize| {
        if work(board, at, owners, each, pairs).is_err() {
            board.failed.fetch_add(1, Ordering::Relaxed);
        }
    };
    match processes {
        Some(count) => fork_all(count, work)?,
        None => std::thread::scope(|scope| (0..owners).for_each(|at| _ = scope.spawn(move || work(at)))),
    }
    if board.failed.load(Ordering::Relaxed) > 0 {
        return Err("timer_create: the limit on pending signals was reached".to_owned());
    }
    let moment = |which: usize| board.moments[..owners].iter().map(move |m| m[which].load(Ordering::Relaxed));
    let span = |from, to| moment(to).max().unwrap_or(0).saturating_sub(moment(from).min().unwrap_or(0));
    let share = |ns: u64| ns as f64 / 1e6 * pthread::cpus().len().min(owners) as f64 / owners as f64;
    if each > 0 {
        report::figure("create", "ms", share(span(0, 1)));
        report::figure("getoverrun", "ms", share(span(2, 3)));
    }
    if pairs > 0 {
        report::figure("loop", "ms", share(span(0, 1)));
    }
    Ok(())
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

/// One owner's work.
fn work(board: &Board, at: usize, owners: usize, each: usize, pairs: usize) -> Measured {
    let note = |which: usize| board.moments[at][which].store(now_ns(), Ordering::Relaxed);
    // Owners are of several processes, so they meet by polling.
    let meet = |count: usize| {
        board.ready.fetch_add(1, Ordering::AcqRel);
        while board.ready.load(Ordering::Acquire) < count as u64 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    meet(owners);
    note(0);
    let mut ids = vec![-1; each];
    let mut made = ids.iter_mut().try_for_each(|id| create(id, 0));
    for _ in 0..pairs {
        let mut id = -1;
        made = made.and_then(|()| create(&mut id, 0));
        delete(id);
    }
    note(1);
    // Nobody looks while others still create.
    meet(2 * owners);
    note(2);
    for id in &ids {
        // SAFETY: about one of our timers.
        std::hint::black_box(unsafe { libc::syscall(libc::SYS_timer_getoverrun, *id) });
    }
    note(3);
    made
}

/// Runs `work` in so many processes and waits for them.
fn fork_all(count: usize, work: impl Fn(usize)) -> Measured {
    let mut children = Vec::new();
    for at in 0..count {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => return Err(format!("fork after {at} processes: {}", io::Error::last_os_error())),
            0 => {
                work(at);
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
            return Err("a process ended early".to_owned());
        }
    }
    Ok(())
}
