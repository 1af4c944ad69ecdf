//! Ends a run with all that it has started.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The name of a run's log, as the maps of its process show it.
pub const LOG_NAME: &std::ffi::CStr = c"entresol-chaos-log";

/// How long a process that was killed may take to end: in a host call that cannot be interrupted, for example.
const PATIENCE_MS: i32 = 10_000;

/// Ends our child with its process group, and the controlled process `owner`, and waits for both.
pub fn end(child: i32, owner: i32) {
    end_group(child);
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    end_owner(child, owner);
}

/// Ends what our child, which has ended, has left behind.
pub fn end_rest(child: i32, owner: i32) {
    end_group(child);
    end_owner(child, owner);
}

fn end_group(child: i32) {
    // SAFETY: the group that the child has made for itself; gone groups are an error that does no harm.
    unsafe { libc::kill(-child, libc::SIGKILL) };
}

/// Ends the controlled process if it is another one than our child. It may be in a group of its own, and the next run
/// uses the same log.
fn end_owner(child: i32, owner: i32) {
    if owner == child || owner == 0 {
        return;
    }
    let Ok(handle) = handle(owner) else { return };
    // By now the id may be another process's, which has not mapped a log.
    let maps = fs::read_to_string(format!("/proc/{owner}/maps")).unwrap_or_default();
    if maps.contains(&*LOG_NAME.to_string_lossy()) {
        let mut polled = libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: system calls with a descriptor and memory of ours.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), libc::SIGKILL, 0, 0);
            libc::poll(&raw mut polled, 1, PATIENCE_MS);
        }
    }
}

/// A descriptor of a process, which is readable once that has ended.
///
/// # Errors
/// The host's.
pub fn handle(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is touched.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: made just now, and nobody else's.
    if handle < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(handle as i32) }) }
}
