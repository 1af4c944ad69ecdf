//! State that this process inherited and Rust's standard library changes before `main`.
//!
//! The library ignores SIGPIPE and opens /dev/null in place of closed standard streams. The program that `run`
//! becomes would inherit both, so a constructor, which runs earlier, records the original state.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Bit n: stream n was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);
/// The inherited disposition of SIGPIPE; never a handler, since execve resets those.
static PIPE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// A constructor for the binary's `.init_array`.
pub extern "C" fn remember() {
    for stream in 0..3 {
        // SAFETY: asks about a descriptor only.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
    // SAFETY: all-zero bytes are a valid sigaction; a null new action changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) == 0 {
            PIPE.store(action.sa_sigaction, Ordering::Relaxed);
        }
    }
}

/// Gives SIGPIPE back its inherited disposition: also right for a command whose output goes to `head`.
pub fn restore_pipe() {
    // SAFETY: the disposition is SIG_DFL or SIG_IGN, as the process was started with.
    unsafe { libc::signal(libc::SIGPIPE, PIPE.load(Ordering::Relaxed)) };
}

/// Closes the standard streams that were closed at start. Called just before execve, because files that are opened
/// until then must not get their numbers.
pub fn close_streams() {
    let closed = CLOSED.load(Ordering::Relaxed);
    for stream in (0..3).filter(|stream| closed & 1 << stream != 0) {
        // SAFETY: nobody but the standard library's start-up has opened it, and nothing uses it from here on.
        unsafe { libc::close(stream) };
    }
}
