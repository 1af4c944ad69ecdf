//! Looking threads of the own process up in `/proc`, from one, two and many threads.

use std::ffi::CString;
use std::mem;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use super::clock::now_ns;
use super::{Measured, report};

/// How many threads look at once.
const CROWDS: [usize; 3] = [1, 2, 64];
const SPANS: usize = 5;

/// What is done with a path.
type Look = fn(&CString) -> bool;

fn stat(path: &CString) -> bool {
    // SAFETY: the path ends with a zero and the structure is writable; all-zero bytes are one.
    unsafe {
        let mut found: libc::stat = mem::zeroed();
        libc::stat(path.as_ptr(), &mut found) == 0
    }
}

fn access(path: &CString) -> bool {
    // SAFETY: the path ends with a zero.
    unsafe { libc::access(path.as_ptr(), libc::R_OK) == 0 }
}

fn readlink(_: &CString) -> bool {
    let mut text = [0_u8; 64];
    // SAFETY: the path ends with a zero and the text is as long as said.
    unsafe { libc::readlink(c"/proc/thread-self".as_ptr(), text.as_mut_ptr().cast(), text.len()) > 0 }
}

fn read(path: &CString) -> bool {
    let mut text = [0_u8; 1024];
    // SAFETY: the path ends with a zero, the text is as long as said, and the descriptor was just opened.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY);
        fd >= 0 && libc::read(fd, text.as_mut_ptr().cast(), text.len()) > 0 && libc::close(fd) == 0
    }
}

/// Nanoseconds of CPU for each, at each number of threads.
pub(super) fn measure(quick: bool) -> Measured {
    // Long enough that two threads which begin on one CPU do not end there.
    let rounds = if quick { 40_000 } else { 200_000 };
    let tasks: [(&str, Look, usize); 4] = [
        ("proc_stat", stat, rounds),
        ("proc_access", access, rounds),
        ("proc_readlink", readlink, rounds),
        ("proc_read", read, rounds / 4),
    ];
    for (name, look, rounds) in tasks {
        for threads in CROWDS {
            let mut spans = Vec::new();
            for _ in 0..SPANS {
                spans.push(crowd(threads, rounds / threads.min(8), look)?);
            }
            report::figure(&format!("{name}_{threads}"), "ns", super::clock::percentile(&mut spans, 50));
        }
    }
    Ok(())
}

/// All look each other up in turn, each so often.
fn crowd(threads: usize, rounds: usize, look: Look) -> Result<f64, String> {
    let (gate, ids) = (Barrier::new(threads), Mutex::new(Vec::new()));
    let cpus = super::pthread::cpus().len().min(threads);
    let work = || {
        // SAFETY: it takes nothing and cannot fail.
        let id = unsafe { libc::gettid() };
        ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        gate.wait();
        let all = ids.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = |id| CString::new(format!("/proc/self/task/{id}/stat")).map_err(|why| why.to_string());
        let paths: Vec<CString> = all.into_iter().map(path).collect::<Result<_, String>>()?;
        gate.wait();
        let begin = now_ns();
        if !(0..rounds).all(|round| look(&paths[round % paths.len()])) {
            return Err(format!("a thread was not found: {}", std::io::Error::last_os_error()));
        }
        let span = (begin, now_ns());
        // Nobody leaves while others look.
        gate.wait();
        Ok(span)
    };
    let spans: Result<Vec<(u64, u64)>, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread has died".to_owned())?).collect()
    });
    let (begins, ends): (Vec<u64>, Vec<u64>) = spans?.into_iter().unzip();
    let span = ends.into_iter().max().unwrap_or(0) - begins.into_iter().min().unwrap_or(0);
    Ok(span as f64 * cpus as f64 / (threads * rounds) as f64)
}
