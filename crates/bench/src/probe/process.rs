//! Processes are made and awaited.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::{now_ns, percentile};
use super::pthread::Thread;
use super::{Measured, report};

const TRUE: &CStr = c"/bin/true";

/// Microseconds until a child of each kind has ended and been awaited.
pub(super) fn measure(quick: bool) -> Measured {
    // SAFETY: reads the file's rights.
    if unsafe { libc::access(TRUE.as_ptr(), libc::X_OK) } != 0 {
        return Err("this machine has no /bin/true".into());
    }
    let count = if quick { 40 } else { 200 };
    report::figure("fork_exit_wait", "us", median(count, || fork(|| {})));
    report::figure("fork_exec_wait", "us", median(count, || fork(execute)));
    report::figure("posix_spawn_wait", "us", median(count, spawn));
    Ok(())
}

static STOP: AtomicBool = AtomicBool::new(false);

fn allocate() {
    let mut size = 1;
    while !STOP.load(Ordering::Relaxed) {
        // SAFETY: the block is given back at once.
        unsafe { libc::free(std::hint::black_box(libc::malloc(size))) };
        size = size * 5 % 4_093 + 1;
    }
}

/// As above while eight threads call malloc, which the child calls as well.
pub(super) fn measure_malloc(quick: bool) -> Measured {
    let threads = (0..8).map(|_| Thread::running(allocate)).collect::<Result<Vec<_>, _>>();
    let threads = threads.map_err(|error| format!("the host refuses eight threads ({error})"))?;
    let in_child = || drop(std::hint::black_box(vec![1u8; 5_000]));
    report::figure("fork_beside_malloc", "us", median(if quick { 20 } else { 100 }, || fork(in_child)));
    STOP.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(Thread::join);
    Ok(())
}

/// The median of this many times, in microseconds; `begin` answers a child's id.
fn median(count: usize, begin: impl Fn() -> libc::pid_t) -> f64 {
    let once = || {
        let start = now_ns();
        let (child, mut status) = (begin(), 0);
        // SAFETY: the status is ours.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(child > 0 && waited == child && status == 0, "child {child} ended with {status:#x}");
        (now_ns() - start) as f64 / 1e3
    };
    percentile(&mut (0..count).map(|_| once()).collect::<Vec<_>>(), 50)
}

fn fork(in_child: impl Fn()) -> libc::pid_t {
    // SAFETY: glibc holds its locks over the fork, and the child calls nothing that needs others.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            in_child();
            libc::_exit(0);
        }
        child
    }
}

fn arguments() -> [*mut c_char; 2] {
    [TRUE.as_ptr().cast_mut(), ptr::null_mut()]
}

unsafe extern "C" {
    static environ: *const *mut c_char;
}

fn execute() {
    // SAFETY: both arrays end with a null; it comes back only on failure.
    unsafe {
        libc::execve(TRUE.as_ptr(), arguments().as_ptr().cast(), environ.cast());
        libc::_exit(127);
    }
}

fn spawn() -> libc::pid_t {
    let mut child = 0;
    // SAFETY: as above; no file actions and no attributes.
    let refused = unsafe {
        libc::posix_spawn(&mut child, TRUE.as_ptr(), ptr::null(), ptr::null(), arguments().as_ptr(), environ)
    };
    if refused == 0 { child } else { -1 }
}
