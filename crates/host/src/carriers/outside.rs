//! Signals from other senders that carriers cannot block.
//!
//! Signals of faults must find their handler, and tick and interrupt must arrive. So the host may deliver a signal with
//! one of these numbers, sent by another process, to any host thread at any point. The handler notes it here, and the
//! service thread delivers it like all others from outside.
//!
//! A standard signal is pending once or not at all, so one slot per number is enough. Signals above 31 queue: they are
//! forwarded to the service thread, which blocks and receives them; their slot is for one that the host refuses to
//! queue. A thread may queue a signal with the code of `kill(2)` or `tgkill(2)` only for itself
//! (`do_rt_tgsigqueueinfo`), so a forwarded signal carries its code in the field of the error number.
//!
//! | slot | meaning | written by |
//! |---|---|---|
//! | any other | empty; another process's id means that this memory is a copy of a parent's | the service thread |
//! | `pid << 2 \| WRITING` | a handler has claimed it | that handler |
//! | `pid << 2 \| FULL` | the information is complete | that handler |
//! | `pid << 2 \| DELIVERING` | handlers may claim it; the signal is not with the kernel yet | the service thread |

use crate::base::dispositions::FAULTS;
use crate::base::os;
use crate::carriers::service_state::Service;
use abi::{SigInfo, si_code};
use core::cell::UnsafeCell;
use sync::atomic::{AtomicU64, Ordering::*};

/// Those of these signals that queue: the numbers of tick and interrupt.
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

/// Notes a signal that another process sent. Called by handlers; `service` is `None` before the process has begun.
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
        // A standard signal that is pending already is dropped.
        return;
    }
    // SAFETY: this handler has claimed the slot.
    unsafe { *slot.info.get() = *info };
    slot.state.store(mine | FULL, Release);
    service.map(Service::call);
}

/// In `si_errno`: the signal was forwarded; the lowest byte holds its negated code.
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

/// The signal as it was before it was forwarded.
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

/// Notes a signal in a process without a service thread, which finds it when it begins.
pub(crate) fn keep(info: &[u8; 128]) {
    note(None, info);
}

/// Whether a noted signal is not delivered yet.
pub(crate) fn is_due(pid: i32) -> bool {
    let mine = (pid as u64) << 2;
    SLOTS.iter().any(|slot| matches!(slot.state.load(Acquire).wrapping_sub(mine), WRITING..=DELIVERING))
}

/// Passes noted signals to `deliver`. Called by the service thread.
pub(crate) fn serve<R>(mut deliver: impl FnMut(SigInfo) -> R) {
    for slot in &SLOTS {
        let state = slot.state.load(Acquire);
        if state & 3 != FULL || state >> 2 != os::getpid() as u64 {
            continue;
        }
        // SAFETY: the memory is the slot's. If it is written to meanwhile, another reader has claimed it, and this copy
        // is discarded.
        let info = unsafe { slot.info.get().read_volatile() };
        // Fails if a service thread has begun since and delivers it.
        if slot.state.compare_exchange(state, state | DELIVERING, AcqRel, Relaxed).is_err() {
            continue;
        }
        // A queueing signal that is refused is lost: the host had no room for it either.
        let _ = SigInfo::read(&info).map(&mut deliver);
        // Fails if a handler has claimed the slot since.
        let _ = slot.state.compare_exchange(state | DELIVERING, state & !3, AcqRel, Relaxed);
    }
}

fn number(info: &[u8; 128]) -> i32 {
    i32::from_ne_bytes([info[0], info[1], info[2], info[3]])
}

const _: () = assert!(FAULTS >> os::SIGNAL_INTERRUPT == 0);
