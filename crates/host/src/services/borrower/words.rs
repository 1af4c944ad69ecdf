//! Futex words that borrowers and our threads share.
//!
//! A borrower waits in the host's queues, where a private word is the same for all that share the memory; our threads
//! wait in ours. So while there are borrowers, each wake-up is made in both. At other times this costs our threads
//! nothing: `futex(2)` has another entry function while there are borrowers ([`entry::share_futex_words`]).

use super::{Borrower, memory, unkilled};
use crate::base::os::{self, nr};
use crate::carriers::carrier::Carrier;
use crate::carriers::lent::Lent;
use crate::process::Process;
use abi::futex::*;
use alloc::boxed::Box;
use arch::entry;
use kernel::{Call, WAKES_MAX};
use sync::atomic::Ordering::*;

/// Called before `child` begins.
pub(super) fn lent(k: &Process, child: *mut Carrier) {
    let mut all = k.m.lent.lock();
    all.blocks.push(child as usize);
    entry::share_futex_words(true);
}

/// Frees the blocks and states of borrowers that have left our memory.
pub(crate) fn sweep(k: &Process) {
    let mut lent = k.m.lent.lock();
    let Lent { blocks, spare } = &mut *lent;
    blocks.retain(|&child| {
        let child = child as *mut Carrier;
        // SAFETY: a borrower's block lives until it is freed here, once the host has stored that nobody uses it.
        unsafe {
            let b: *mut Borrower = (*child).borrower_state().cast();
            let gone = (*b).tid.load(Acquire) == 0;
            if gone {
                memory::bury(child, || drop(Box::from_raw(b)));
                match *spare {
                    0 => *spare = child as usize,
                    _ => Carrier::free_borrowed(child),
                }
            }
            !gone
        }
    });
    if blocks.is_empty() {
        entry::share_futex_words(false);
    }
}

/// Whether there are borrowers.
pub(super) fn are_shared(k: &Process) -> bool {
    !k.m.lent.lock().blocks.is_empty()
}

/// A block of a borrower that has left our memory.
pub(super) fn spare(k: &Process) -> Option<*mut Carrier> {
    match core::mem::take(&mut k.m.lent.lock().spare) {
        0 => None,
        block => Some(block as *mut Carrier),
    }
}

/// The call by which the host wakes waiters of the word that a call of ours wakes.
pub(crate) fn wake_of(call: &Call) -> Option<Call> {
    let [addr, op, count, ..] = call.args;
    let private = op & u64::from(FUTEX_PRIVATE_FLAG);
    let count = match op as u32 & FUTEX_CMD_MASK {
        FUTEX_WAKE | FUTEX_WAKE_BITSET | FUTEX_WAKE_OP => count,
        // Wake all: a waiter that would have been requeued finds its value changed and waits again.
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => i32::MAX as u64,
        _ => return None,
    };
    Some(Call { nr: nr::FUTEX, args: [addr, u64::from(FUTEX_WAKE) | private, count, 0, 0, 0] })
}

/// Wakes borrowers before a thread of ours makes this call. It may wake more than the call says; they see a spurious
/// wake-up. Returns the call's result if it is a plain FUTEX_WAKE of a few and has woken a borrower.
pub(crate) fn wake_borrowers(k: &Process, call: &Call) -> Option<isize> {
    let wake_up = wake_of(call)?;
    // SAFETY: the host only looks the address up.
    let woken = unsafe { arch::raw::syscall(wake_up.nr, wake_up.args.map(|a| a as usize)) };
    let few = call.args[1] as u32 & FUTEX_CMD_MASK == FUTEX_WAKE && call.args[2] as i32 <= WAKES_MAX as i32;
    (few && woken > 0).then(|| {
        let [addr, op, count, ..] = call.args;
        let more = (count as i32 as isize - woken).max(0) as usize;
        woken + wake_ours(k, addr, op as u32 & FUTEX_PRIVATE_FLAG != 0, more, || true)
    })
}

/// Wakes our threads for a borrower. Not if it has stopped them, because they may hold locks that it would wait for. A
/// borrower with its own memory has none to wake.
pub(super) fn wake(k: &Process, b: &Borrower, addr: u64, private: bool, count: usize) -> isize {
    if b.apart.is_some() {
        return 0;
    }
    unkilled(|| wake_ours(k, addr, private, count, || !b.tracer.holds_them()))
}

/// In rounds, while `may` allows it.
fn wake_ours(k: &Process, addr: u64, private: bool, count: usize, may: impl Fn() -> bool) -> isize {
    let mut woken = 0;
    while woken < count && may() {
        let round = (count - woken).min(WAKES_MAX);
        let n = k.wake_from_outside(addr, private, round);
        woken += n;
        if n < round {
            break;
        }
    }
    woken as isize
}

/// `futex(2)` of a borrower.
pub(super) fn futex(k: &Process, b: &Borrower, call: &Call) -> isize {
    let result = os::interruptible(call);
    let Some(wake_up) = wake_of(call).filter(|_| result >= 0) else { return result };
    let [addr, op, count, ..] = wake_up.args;
    let private = op & u64::from(FUTEX_PRIVATE_FLAG) != 0;
    result + wake(k, b, addr, private, count.clamp(1, i32::MAX as u64) as usize)
}
