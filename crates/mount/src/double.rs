//! A process that acts in an asker's user namespace.
//!
//! A thread alone cannot enter another user namespace (`setns(2)`). So a process is made that shares this one's
//! memory and descriptors: it enters, takes on the asker's rights, acts, and ends, while the thread that made it waits. Files
//! that it opens are open here as well.
//!
//! The asker may be the superuser of its namespace and could read the double's memory. Therefore a process that serves
//! a mount must not be traceable (PR_SET_DUMPABLE), which applies to its memory in every process. The asker could also
//! stop or kill the double, so there is one double at a time, and every wait for it has a time limit.

use crate::rights::Rights;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::thread::{self, CapabilitySets, LinkNameSpaceType};
use std::ffi::{c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// The stack of a double.
const STACK: usize = 256 << 10;
/// The time limit of a double, and of the wait for another one.
const PATIENCE: Duration = Duration::from_millis(500);

/// A double exists.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Runs `act` in the namespace of these rights, with these rights. `own` are the capabilities of the caller.
///
/// # Errors
/// Those of `act`; EACCES if the namespace cannot be entered, EBUSY if the double, or another one, does not end in
/// time.
pub(crate) fn act<R, A: FnOnce() -> Result<R, Errno>>(
    rights: &Rights,
    own: &CapabilitySets,
    act: A,
) -> Result<R, Errno> {
    let since = Instant::now();
    while BUSY.swap(true, Acquire) {
        if since.elapsed() > PATIENCE {
            return Err(Errno::BUSY);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let done = in_double(|| if enter(rights, own).is_ok() { act() } else { Err(Errno::ACCESS) });
    BUSY.store(false, Release);
    done?
}

/// A double's work, and its result.
struct Errand<R, W> {
    work: Option<W>,
    result: Option<R>,
    finished: AtomicBool,
}

/// Runs `work` in a double. A double that is stopped is killed after a while, and its unfinished work is ignored.
///
/// # Errors
/// EAGAIN if there can be no further process, EBUSY if the double was stopped or killed, EIO if it panicked.
fn in_double<R, W: FnOnce() -> R>(work: W) -> Result<R, Errno> {
    let mut errand = ManuallyDrop::new(Errand { work: Some(work), result: None, finished: AtomicBool::new(false) });
    let mut stack = vec![0_u128; STACK / 16];
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_PIDFD;
    let mut fd: c_int = -1;
    // SAFETY: the double has a stack of its own, which lives until the double has ended: it is waited for below. Meanwhile
    // nobody else uses the errand, and this thread makes raw system calls only, which do not touch its local storage: the
    // double shares that.
    let double = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        if libc::clone(body::<R, W>, top.cast(), flags, (&raw mut *errand).cast(), &raw mut fd) < 0 {
            return Err(Errno::AGAIN);
        }
        OwnedFd::from_raw_fd(fd)
    };
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.as_nanos() as i64 };
    loop {
        match rustix::event::poll(&mut [PollFd::new(&double, PollFlags::IN)], Some(&patience)) {
            // It does not matter if the process has ended meanwhile.
            Ok(0) => drop(rustix::process::pidfd_send_signal(&double, Signal::KILL)),
            Ok(_) => break,
            Err(_) => {}
        }
    }
    // A double sends no signal when it ends, so it is no ordinary child (`__WALL`).
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: the host fills the information; the descriptor is the double's.
    unsafe { libc::waitid(libc::P_PIDFD, fd as libc::id_t, info.as_mut_ptr(), libc::WEXITED | libc::__WALL) };
    if !errand.finished.load(Acquire) {
        return Err(Errno::BUSY);
    }
    ManuallyDrop::into_inner(errand).result.ok_or(Errno::IO)
}

extern "C" fn body<R, W: FnOnce() -> R>(errand: *mut c_void) -> c_int {
    // SAFETY: `in_double` passes its errand and waits.
    let errand = unsafe { &mut *errand.cast::<Errand<R, W>>() };
    // Unwinding would leave the double's stack.
    let done = catch_unwind(AssertUnwindSafe(|| {
        if let Some(work) = errand.work.take() {
            errand.result = Some(work());
        }
    }));
    errand.finished.store(true, Release);
    c_int::from(done.is_err())
}

fn enter(rights: &Rights, own: &CapabilitySets) -> Result<(), Errno> {
    let Some(namespace) = rights.namespace() else { return Err(Errno::INVAL) };
    rights.take_ids()?;
    // The way into the namespace needs what went with the user.
    thread::set_capabilities(None, *own)?;
    thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
    let all = thread::capabilities(None)?;
    thread::set_capabilities(None, CapabilitySets { effective: rights.capabilities(), ..all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_acts_in_our_memory() {
        let mut seen = 0;
        assert_eq!(
            in_double(|| {
                seen = 7;
                String::from("done")
            })
            .as_deref(),
            Ok("done")
        );
        assert_eq!(seen, 7);
    }

    /// As an asker that is the superuser of its namespace could do to it.
    #[test]
    fn one_that_is_stopped_or_killed_is_not_waited_for() {
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            let begin = Instant::now();
            // SAFETY: the double signals itself.
            let done = in_double(|| unsafe { libc::syscall(libc::SYS_kill, libc::syscall(libc::SYS_getpid), signal) });
            assert_eq!(done, Err(Errno::BUSY), "{signal}");
            assert!(begin.elapsed() < 20 * PATIENCE);
        }
    }

    #[test]
    fn one_that_panics_has_no_result() {
        let quiet = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        assert_eq!(in_double(|| panic!("in the double")), Err::<(), _>(Errno::IO));
        std::panic::set_hook(quiet);
    }
}
