//! Looking threads of the own process up in `/proc`, from one, two and many threads.

use std::ffi::CString;
use std::mem;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use super::clock::now_ns;
use super::{Measured, report};

/// How many threads look up at once.
const CROWDS: [usize; 3] = [1, 2, 64];
const SPANS: usize = 5;

/// An operation on a path.
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

pub(super) fn read(path: &CString) -> bool {
    let mut text = [0_u8; 1024];
    // SAFETY: the path ends with a zero, the text is as long as said, and the descriptor was just opened.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY);
        fd >= 0 && libc::read(fd, text.as_mut_ptr().cast(), text.len()) > 0 && libc::close(fd) == 0
    }
}

/// Nanoseconds of CPU for each, at each number of threads, and how many times as many two CPUs do as one.
pub(super) fn measure(quick: bool) -> Measured {
    let rounds = if quick { 40_000 } else { 200_000 };
    let tasks: [(&str, Look, usize); 4] = [
        ("proc_stat", stat, rounds),
        ("proc_access", access, rounds),
        ("proc_readlink", readlink, rounds),
        ("proc_read", read, rounds / 4),
    ];
    for (name, look, rounds) in tasks {
        let mut spans = CROWDS.map(|_| Vec::new());
        for _ in 0..SPANS {
            for (spans, threads) in spans.iter_mut().zip(CROWDS) {
                spans.push(crowd(threads, rounds / threads.min(8), look)?);
            }
        }
        let medians = spans.map(|mut spans| super::clock::percentile(&mut spans, 50));
        for (median, threads) in medians.into_iter().zip(CROWDS) {
            report::figure(&format!("{name}_{threads}"), "ns", median);
        }
        let [one, two, _] = medians;
        let cpus = super::pthread::cpus().len().min(2) as f64;
        report::figure(&format!("{name}_scaling"), "x", cpus * one / two);
    }
    Ok(())
}

/// All threads look each other up in turn, `rounds` times each. If there is a CPU for each, they are bound to them: the
/// host would take longer than a span to separate two that begin on the same CPU.
fn crowd(threads: usize, rounds: usize, look: Look) -> Result<f64, String> {
    let (gate, ids) = (Barrier::new(threads), Mutex::new(Vec::new()));
    let cpus = super::pthread::cpus();
    let work = |at: usize| {
        if threads <= cpus.len() {
            super::pthread::pin(cpus[at])?;
        }
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
        // No thread ends while others look it up.
        gate.wait();
        Ok(span)
    };
    let spans: Result<Vec<(u64, u64)>, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|at| scope.spawn(move || work(at))).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread has died".to_owned())?).collect()
    });
    Ok(span_ns(&spans?) * cpus.len().min(threads) as f64 / (threads * rounds) as f64)
}

/// From the first beginning to the last end.
pub(super) fn span_ns(spans: &[(u64, u64)]) -> f64 {
    let begin = spans.iter().map(|span| span.0).min().unwrap_or(0);
    let end = spans.iter().map(|span| span.1).max().unwrap_or(0);
    (end - begin) as f64
}
