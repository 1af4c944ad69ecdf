//! Signals that are pending at the host: those that descriptors read, and those that a new program finds.

use crate::os::{self, nr};
use crate::survey;
use abi::{SigInfo, SigSet};
use arch::syscall;

/// Queues a signal for the process.
///
/// Only `kill(2)` may speak of itself, and the codes of kernel and tkill are no process's to give to
/// a thread that is not the main one: they become SI_USER.
pub(crate) fn queue(pid: i32, info: &SigInfo) {
    const SI_TKILL: i32 = -6;
    let signal = info.signo();
    if info.code() < 0 && info.code() != SI_TKILL {
        let bytes = info.to_bytes();
        // SAFETY: the host reads the information.
        unsafe { syscall!(nr::RT_SIGQUEUEINFO, pid, signal, bytes.as_ptr()) };
    } else {
        // SAFETY: the program's own signal, which all host threads block.
        unsafe { syscall!(nr::KILL, pid, signal) };
    }
}

/// Queues a signal for the calling carrier, which may say of itself what it likes.
pub(crate) fn queue_for_carrier(pid: i32, info: &SigInfo) {
    let bytes = info.to_bytes();
    // SAFETY: the host reads the information; the carrier blocks the signal.
    unsafe { syscall!(nr::RT_TGSIGQUEUEINFO, pid, os::gettid(), info.signo(), bytes.as_ptr()) };
}

/// Takes a signal of the set, the calling carrier's first.
pub(crate) fn take(set: SigSet) -> Option<SigInfo> {
    let mut info = [0u8; 128];
    let now = [0u64; 2];
    // SAFETY: set, information and time are ours.
    let r = unsafe { syscall!(nr::RT_SIGTIMEDWAIT, &raw const set.0, info.as_mut_ptr(), now.as_ptr(), 8) };
    if r > 0 { SigInfo::from_bytes(&info).ok() } else { None }
}

/// Signals pending for the calling carrier or the process, and blocked by the carrier.
pub(crate) fn pending() -> SigSet {
    let mut set = 0u64;
    // SAFETY: the host fills the word.
    unsafe { syscall!(nr::RT_SIGPENDING, &raw mut set, 8) };
    SigSet(set)
}

/// Signals pending for the calling carrier alone.
pub(crate) fn pending_for_carrier() -> SigSet {
    let mut bytes = [0; 4096];
    let status = survey::read(os::gettid() as u32, "status", &mut bytes);
    let set = survey::labelled(status, "SigPnd:").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    SigSet(set.unwrap_or(0))
}
