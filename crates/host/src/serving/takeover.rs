//! Taking a CPU from a carrier that the host keeps.
//!
//! Most host calls are expected to be short and are made with the seat ([`kernel::Next::Inline`]): giving it up and
//! taking it back would cost more than the call. If one lasts after all (a slow disk, an absent server, a gigabyte to
//! zero) and threads wait for the CPU, the watcher gives the CPU to a spare. The carrier notices when it returns; its
//! thread is then treated as one that waited for a host call.
//!
//! Two words of the carrier decide who has the CPU. `inline` is odd during a call and changes with every call. `taken`
//! has these transitions:
//!
//! | from | to | by | meaning |
//! |---|---|---|---|
//! | `FREE` | `ASKED` | watcher | if the carrier returns now, it must look closer |
//! | `ASKED` | `FREE` | either | the carrier has returned and keeps the CPU |
//! | `ASKED` | `TAKEN` | watcher | the CPU is the watcher's |
//! | `TAKEN` | `GIVEN` | watcher | its thread waits, a spare has the seat |
//! | `GIVEN` | `FREE` | carrier | the carrier has noticed |
//!
//! **Why not both have it.** The carrier's way back is two plain accesses: it stores `inline`, then loads `taken`. The
//! watcher stores `ASKED`, makes every running host thread of the process pass a full barrier (`membarrier(2)`), and
//! then loads `inline`. If it still finds the same call, the carrier's store comes after that barrier, and so does its
//! load of `taken`, which finds `ASKED` or a later state. From there on a compare-exchange of that word decides:
//! `ASKED` to `FREE` by the carrier, or to `TAKEN` by the watcher, never both. A carrier that finds `FREE` was not
//! asked or has been released.
//!
//! **Why no kick is lost.** A kicker publishes its reason and then reads the seat. If it read the old carrier, the
//! reason was visible before the seat changed, and the new carrier checks everything when it takes its seat
//! ([`kernel::Trap::Seated`]).

use crate::base::{neighbour, os};
use crate::carriers::carrier::Carrier;
use crate::carriers::inline::{ASKED, FREE, GIVEN, TAKEN};
use crate::process::Process;
use crate::serving::away;
use abi::Errno;
use core::sync::atomic::compiler_fence;
use ids::{CpuId, ThreadIdx};
use kernel::{Call, ELSEWHERE, Machine, Next};
use linux::Linux;
use sync::atomic::Ordering::*;

/// The result of a call that a tick or a kick kept from beginning.
const NOT_BEGUN: isize = Errno::ERESTARTNOINTR.to_ret();

/// Makes a call that is expected to be short.
pub(crate) fn call(me: &'static Carrier, t: ThreadIdx, call: Call) -> Next {
    let k = me.process();
    let cpu = me.cpu();
    let before = me.inline.call.load(Relaxed);
    me.inline.call.store(before.wrapping_add(1), Release);
    compiler_fence(SeqCst);
    let r = match call.nr & ELSEWHERE {
        // A tick or a kick just before would not end the call, and might be the last one.
        0 if me.gs.pending.load(Relaxed) != 0 => NOT_BEGUN,
        0 => os::interruptible(&call),
        _ => neighbour::call(&k.m, |tid| k.m.ids.owner(tid, k.process().uid()), &call),
    };
    let r = if r == NOT_BEGUN && k.is_controlled() { insist(me, &call) } else { r };
    me.inline.call.store(before.wrapping_add(2), Release);
    compiler_fence(SeqCst);
    me.gs.interrupt.store(0, Relaxed);
    let kept = me.inline.keeps();
    let r = k.m.accompany(t, r);
    if kept {
        return Linux(k).inline_done(cpu, t, call, r);
    }
    k.m.host_carrier(t).store(0, SeqCst);
    me.gs.interrupt.store(0, SeqCst);
    // The rest of its state is still in this carrier's registers. No CPU resumes it before it is woken.
    k.m.save(t);
    away::come_back(me, cpu, t, r)
}

/// Makes the call of a controlled run. Starting over would be an additional choice, which a repeated run does not have
/// here.
#[cold]
fn insist(me: &Carrier, call: &Call) -> isize {
    loop {
        me.gs.interrupt.store(0, Relaxed);
        let r = os::interruptible(call);
        if r != NOT_BEGUN {
            return r;
        }
    }
}

/// Takes `cpu` from `carrier` for a spare, if it is still in that call there.
pub(crate) fn take(k: &Process, cpu: CpuId, carrier: &Carrier, call: u32) -> bool {
    let m = &k.m;
    let Some(spare) = m.carriers.spare_or_new() else { return false };
    let inline = &carrier.inline;
    let asked = inline.taken.compare_exchange(FREE, ASKED, SeqCst, Relaxed).is_ok();
    let still = asked && barrier() && inline.call.load(SeqCst) == call && m.seats.is_mine(cpu, carrier);
    if !still || inline.taken.compare_exchange(ASKED, TAKEN, AcqRel, Relaxed).is_err() {
        let _ = inline.taken.compare_exchange(ASKED, FREE, AcqRel, Relaxed);
        m.carriers.give_spare(spare);
        return false;
    }
    if let Some(t) = k.set_aside(cpu, os::cpu_time_of(carrier.tid.load(Relaxed))) {
        // From now on a signal for the thread ends its call; this handles one that came before.
        m.host_carrier(t).store(carrier.number + 1, SeqCst);
        if k.host_interrupted(t) {
            m.interrupt(t);
        }
    }
    m.seats.replace(cpu, spare);
    inline.taken.store(GIVEN, Release);
    spare.assign(cpu);
    true
}

const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;

/// Registers for the use of [`barrier`], once per process and before it has a second host thread: later, the host would
/// wait for a grace period of its RCU, some 10 ms (`sync_runqueues_membarrier_state`), and delay the end of a short
/// program. If the host refuses, nothing is taken over.
pub(crate) fn prepare() {
    // SAFETY: has no effect on memory.
    unsafe { arch::syscall!(os::nr::MEMBARRIER, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
}

/// Makes every running host thread of the process pass a full barrier.
pub(crate) fn barrier() -> bool {
    // SAFETY: has no effect on memory but to order it.
    unsafe { arch::syscall!(os::nr::MEMBARRIER, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0 }
}
