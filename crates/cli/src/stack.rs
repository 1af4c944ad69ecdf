//! Room for the command's own work where the stack is limited (RLIMIT_STACK, `ulimit -s`).

use std::thread;

/// Reading the command line takes more than 64 KiB.
const ENOUGH: u64 = 256 << 10;
/// The stack of the thread that does it instead, in bytes.
const OWN: usize = 1 << 20;

/// Does the command's work: on this thread, or on one with more stack if the limit is low. The program gets the limit
/// as it is.
pub fn with_room(work: fn() -> i32) -> i32 {
    if limit() >= ENOUGH {
        return work();
    }
    match thread::Builder::new().stack_size(OWN).spawn(work) {
        Ok(worker) => worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        // No thread may be made: the work may still succeed.
        Err(_) => work(),
    }
}

/// The soft limit in bytes.
fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: u64::MAX, rlim_max: u64::MAX };
    // SAFETY: the host fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    limit.rlim_cur
}
