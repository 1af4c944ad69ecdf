//! A process that acts in an asker's user namespace.
//!
//! A thread alone cannot enter another user namespace (`setns(2)`). So a process is made that shares this one's
//! memory and descriptors, as for vfork(2): it enters, takes on the asker's rights, acts, and ends, while the thread
//! that made it waits. Files that it opens are open here as well.
//!
//! The asker may be the superuser of its namespace and could look into the double. Therefore a process that serves a
//! mount must not be traceable (PR_SET_DUMPABLE), which applies to its memory in every process. The asker could also
//! stop or kill the double, so there is one double at a time, and others do not wait for ever.

use crate::rights::Rights;
use rustix::io::Errno;
use rustix::thread::{self, CapabilitySets, LinkNameSpaceType};
use std::ffi::{c_int, c_void};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// The stack of a double.
const STACK: usize = 256 << 10;
/// So long another double is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// There is one.
static BUSY: AtomicBool = AtomicBool::new(false);

/// The double's work, and its result.
struct Errand<'a, A, R> {
    rights: &'a Rights,
    own: &'a CapabilitySets,
    act: Option<A>,
    result: Result<R, Errno>,
}

/// Does something in the namespace of these rights, with them. `own` are the capabilities of the caller.
///
/// # Errors
/// Those of `act`; EACCES if the namespace cannot be entered, EBUSY if another double does not come to an end.
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
    let mut errand = Errand { rights, own, act: Some(act), result: Err(Errno::ACCESS) };
    let done = run(&mut errand);
    BUSY.store(false, Release);
    done.and(errand.result)
}

fn run<R, A: FnOnce() -> Result<R, Errno>>(errand: &mut Errand<'_, A, R>) -> Result<(), Errno> {
    let mut stack = vec![0_u128; STACK / 16];
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_VFORK;
    // SAFETY: the double has a stack of its own, which lives until the call returns, and that is when the double has ended
    // (CLONE_VFORK). Meanwhile nobody else uses the errand, nor this thread's local storage, which the double shares.
    unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        let child = libc::clone(body::<R, A>, top.cast(), flags, (&raw mut *errand).cast());
        if child < 0 {
            return Err(Errno::AGAIN);
        }
        libc::waitpid(child, std::ptr::null_mut(), libc::__WALL);
    }
    Ok(())
}

extern "C" fn body<R, A: FnOnce() -> Result<R, Errno>>(errand: *mut c_void) -> c_int {
    // SAFETY: `run` passes its errand and waits.
    let errand = unsafe { &mut *errand.cast::<Errand<'_, A, R>>() };
    // Unwinding would leave the double's stack.
    let done = catch_unwind(AssertUnwindSafe(|| {
        if enter(errand.rights, errand.own).is_ok()
            && let Some(act) = errand.act.take()
        {
            errand.result = act();
        }
    }));
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
