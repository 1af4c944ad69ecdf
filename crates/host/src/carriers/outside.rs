//! Signals from other senders that carriers cannot block.
//!
//! Signals of faults must find their handler, and tick and interrupt must arrive. So the host may deliver one of
//! these numbers from another process to any host thread, at any point. The handler leaves it here, and the service
//! thread delivers it like all others from outside.
//!
//! A standard signal is pending once or not at all, so one slot per number is enough. Signals above 31 queue: they
//! are forwarded to the service thread, which blocks and receives them; their slot is for one that the host refuses
//! to queue. With the code of `kill(2)` or `tgkill(2)` a thread may queue one for itself only (`do_rt_tgsigqueueinfo`), so the
//! code travels in the place of the error number.
//!
//! | slot | meaning | written by |
//! |---|---|---|
//! | any other | empty; another process's id belongs to a parent of which this memory is a copy | the service thread |
//! | `pid << 2 \| WRITING` | a handler has claimed it | that handler |
//! | `pid << 2 \| FULL` | the information is complete | that handler |
//! | `pid << 2 \| DELIVERING` | as good as empty for handlers; the signal is not with the kernel yet | the service thread |

use crate::base::dispositions::FAULTS;
use crate::base::os;
use crate::carriers::service_state::Service;
use abi::{SigInfo, si_code};
use core::cell::UnsafeCell;
use sync::atomic::{AtomicU64, Ordering::*};

/// The signals among them that queue: the numbers of tick and interrupt.
pub(crate) const SIGNALS: u64 = 1 << (os::SIGNAL_TICK - 1) | 1 << (os::SIGNAL_INTERRUPT - 1);

const WRITING: u64 = 1;
const FULL: u64 = 2;
const DELIVERING: u64 = 3;

struct Slot {
    state: AtomicU64,
    info: UnsafeCell<[u8; 128]>,
}

// SAFETY: the information is the claiming handler's while the state is WRITING and the service thread's while it is FULL.
unsafe impl Sync for Slot {}

static SLOTS: [Slot; os::SIGNAL_INTERRUPT as usize] =
    [const { Slot { state: AtomicU64::new(0), info: UnsafeCell::new([0; 128]) } }; os::SIGNAL_INTERRUPT as usize];

/// Notes a signal that another process sent. Called in handlers; `service` is `None` before the process has begun.
pub(crate) fn note(service: Option<&Service>, info: &[u8; 128]) {
    let signal = number(info);
    let pid = os::getpid();
    if let Some(service) = service
        && SIGNALS & 1 << (signal - 1) != 0
        && os::queue_info(pid, service.tid(), &to_forward(info)) == 0
    {
        return;
    }
    let Some(slot) = SLOTS.get(signal as usize - 1) else { return };
    let mine = (pid as u64) << 2;
    let is_free = |state: u64| state & !3 != mine || matches!(state & 3, 0 | DELIVERING);
    let claim = |state: u64| is_free(state).then_some(mine | WRITING);
    if slot.state.fetch_update(AcqRel, Acquire, claim).is_err() {
        // A standard signal that is pending is not queued again.
        return;
    }
    // SAFETY: claimed.
    unsafe { *slot.info.get() = *info };
    slot.state.store(mine | FULL, Release);
    service.map(Service::call);
}

/// In `si_errno`: the signal was forwarded, and its code, but for the sign, is in the lowest byte.
const FORWARDED: u32 = 0x656e_7400;

fn to_forward(info: &[u8; 128]) -> [u8; 128] {
    let mut forwarded = *info;
    let code = i32::from_ne_bytes([info[8], info[9], info[10], info[11]]);
    if matches!(code, si_code::USER | si_code::TKILL) {
        forwarded[4..8].copy_from_slice(&(FORWARDED | code.unsigned_abs()).to_ne_bytes());
        forwarded[8..12].copy_from_slice(&si_code::QUEUE.to_ne_bytes());
    }
    forwarded
}

/// The signal as it was before it was forwarded, if it was.
pub(crate) fn forwarded(info: SigInfo) -> SigInfo {
    let mut bytes = info.to_bytes();
    let errno = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let code = -((errno ^ FORWARDED) as i32);
    let ours = SIGNALS & 1 << (info.signo() - 1) != 0;
    if !ours || info.code() != si_code::QUEUE || !matches!(code, si_code::USER | si_code::TKILL) {
        return info;
    }
    bytes[4..8].fill(0);
    bytes[8..12].copy_from_slice(&code.to_ne_bytes());
    SigInfo::read(&bytes).unwrap_or(info)
}

/// Notes a signal on the carrier of a process without a service thread, which finds it when it begins.
pub(crate) fn keep(info: &[u8; 128]) {
    note(None, info);
}

/// Whether something has been noted that is not delivered yet.
pub(crate) fn is_due(pid: i32) -> bool {
    let mine = (pid as u64) << 2;
    SLOTS.iter().any(|slot| matches!(slot.state.load(Acquire).wrapping_sub(mine), WRITING..=DELIVERING))
}

/// Passes what has been noted to `deliver`. Called by the service thread.
pub(crate) fn serve<R>(mut deliver: impl FnMut(SigInfo) -> R) {
    for slot in &SLOTS {
        let state = slot.state.load(Acquire);
        if state & 3 != FULL || state >> 2 != os::getpid() as u64 {
            continue;
        }
        // SAFETY: the memory is the slot's. If it is written to meanwhile, another reader has claimed it, and this is thrown away.
        let info = unsafe { slot.info.get().read_volatile() };
        // A service thread may have begun since the carrier began to read.
        if slot.state.compare_exchange(state, state | DELIVERING, AcqRel, Relaxed).is_err() {
            continue;
        }
        // A queueing signal that finds no room is lost: the host could not keep it either.
        let _ = SigInfo::read(&info).map(&mut deliver);
        // Fails if a handler has claimed the slot since.
        let _ = slot.state.compare_exchange(state | DELIVERING, state & !3, AcqRel, Relaxed);
    }
}

fn number(info: &[u8; 128]) -> i32 {
    i32::from_ne_bytes([info[0], info[1], info[2], info[3]])
}

const _: () = assert!(FAULTS >> os::SIGNAL_INTERRUPT == 0);
