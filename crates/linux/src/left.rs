//! Signals pending at the host: those that descriptors read, and those that a new program finds.

use crate::Host;
use crate::machine::Arg::{In, Out, Word};
use crate::machine::ask;
use abi::{SigInfo, SigSet, Timespec, nr};

/// Queues a signal for this process, unchanged.
///
/// A thread may send a signal with the code of a kernel's signal or of `tkill(2)` only to itself
/// (`do_rt_sigqueueinfo`), so the calling carrier names itself. That still means the process: which host thread is
/// named does not matter, because all block the program's own signals.
///
/// False if the host has no room, because it counts the signals of all processes of the user.
pub fn queue(m: &impl Host, info: &SigInfo) -> bool {
    let tid = ask(m, nr::GETTID, &mut []) as u64;
    ask(m, nr::RT_SIGQUEUEINFO, &mut [Word(tid), Word(info.signo() as u64), In(&info.to_bytes())]) == 0
}

/// Queues a signal for the calling carrier, which blocks it and may use any code for itself. False if the host has no
/// room.
pub fn queue_for_carrier(m: &impl Host, pid: i32, info: &SigInfo) -> bool {
    let tid = ask(m, nr::GETTID, &mut []) as u64;
    let ids = [Word(pid as u64), Word(tid), Word(info.signo() as u64)];
    let [pid, tid, signal] = ids;
    ask(m, nr::RT_TGSIGQUEUEINFO, &mut [pid, tid, signal, In(&info.to_bytes())]) == 0
}

/// Takes a signal of the set, those of the calling carrier first.
pub fn take(m: &impl Host, set: SigSet) -> Option<SigInfo> {
    let mut info = [0; 128];
    let (set, now) = (set.0.to_le_bytes(), [0; Timespec::SIZE]);
    let taken = ask(m, nr::RT_SIGTIMEDWAIT, &mut [In(&set), Out(&mut info), In(&now), Word(SigSet::SIZE as u64)]);
    if taken > 0 { SigInfo::read(&info).ok() } else { None }
}

/// Signals pending for the calling carrier or the process, and blocked by the carrier.
pub fn pending(m: &impl Host) -> SigSet {
    let mut set = [0; SigSet::SIZE];
    ask(m, nr::RT_SIGPENDING, &mut [Out(&mut set), Word(SigSet::SIZE as u64)]);
    SigSet(u64::from_le_bytes(set))
}

/// Signals pending for the calling carrier alone.
pub(crate) fn pending_for_carrier(m: &impl Host) -> SigSet {
    let mut bytes = [0; 4096];
    let status = crate::facts::read_file(m, c"/proc/thread-self/status", &mut bytes);
    SigSet(crate::facts::hexadecimal(status, b"SigPnd:").unwrap_or(0))
}
