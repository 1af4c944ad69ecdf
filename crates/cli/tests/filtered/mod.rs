//! Hosts that are changed by a seccomp filter.

use std::io;

use libc::{BPF_ABS, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// An instruction of a filter: its code, how far to jump if it holds and if not, its operand.
pub fn step(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// Loads the number of the call.
pub fn load_call() -> sock_filter {
    step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0)
}

/// Loads the lower half of an argument.
pub fn load_argument(n: u32) -> sock_filter {
    step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 16 + 8 * n)
}

/// The error that is behind an answer other than 0.
pub fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the host judge all calls by this filter from now on.
pub fn filter_by(code: &mut [sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY: the host copies the filter.
    unsafe {
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        done(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter))
    }
}

/// As libseccomp does where only the native interface is allowed, and systemd with SystemCallArchitectures=native.
pub fn kill_for_x32() -> io::Result<()> {
    const X32: u32 = 0x4000_0000;
    filter_by(&mut [
        load_call(),
        step(BPF_JMP | BPF_JSET | BPF_K, 0, 1, X32),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}
