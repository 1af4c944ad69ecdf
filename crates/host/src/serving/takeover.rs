//! Taking a CPU from a carrier that the host keeps.
//!
//! Most host calls are taken to be short and are made with the seat ([`kernel::Next::Inline`]):
//! giving it up and taking it back would cost more than the call. When one lasts after
//! all (a slow disk, a server that is away, a gigabyte to be zeroed) and threads wait for the CPU,
//! the watcher gives the CPU to a spare; the carrier notices when it returns, and its thread has then been
//! waiting for a host call like any other.
//!
//! Two words of the carrier decide who has the CPU. `inline` is odd during a call and changes with
//! every call. `taken` goes
//!
//! | from | to | by | meaning |
//! |---|---|---|---|
//! | `FREE` | `ASKED` | watcher | if you return now, look closer |
//! | `ASKED` | `FREE` | either | the carrier has returned and keeps the CPU |
//! | `ASKED` | `TAKEN` | watcher | the CPU is the watcher's |
//! | `TAKEN` | `GIVEN` | watcher | its thread waits, the seat is a spare's |
//! | `GIVEN` | `FREE` | carrier | noticed |
//!
//! **Why not both have it.** The carrier's way back is two plain accesses: it stores `inline`, then
//! loads `taken`. The watcher stores `ASKED`, has every running host thread of the process
//! pass a full barrier (`membarrier(2)`), and then loads `inline`. If it still finds the call that
//! it meant, the carrier's store comes after that barrier, and so does its load of `taken`, which finds
//! `ASKED` or more. From there on a compare-exchange of that word decides: `ASKED` to `FREE` by the carrier,
//! or to `TAKEN` by the watcher, not both. A carrier that finds `FREE` was not meant or was let go.
//!
//! **Why no kick is lost.** A kicker publishes its reason and then reads the seat. If it
//! read the old carrier, the reason was visible before the seat changed, and the new carrier
//! looks at everything when it sits down ([`kernel::Trap::Seated`]).

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

/// The result of a call that a tick or a kick has kept from beginning.
const NOT_BEGUN: isize = Errno::ERESTARTNOINTR.to_ret();

/// Makes a call that is taken to be short.
pub(crate) fn call(me: &'static Carrier, t: ThreadIdx, call: Call) -> Next {
    let k = me.process();
    let cpu = me.cpu();
    let before = me.inline.call.load(Relaxed);
    me.inline.call.store(before.wrapping_add(1), Release);
    compiler_fence(SeqCst);
    let r = match call.nr & ELSEWHERE {
        // A tick or a kick that came just before would not end the call, and might be the last.
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

/// Makes the call of a controlled run. To start over would be one more choice, which a repeated run does not have at this place.
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

/// Takes `cpu` from `carrier` for a spare if it still is in that call there.
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
        // From now on a signal for the thread ends its call; one that came before does so here.
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

/// Asks for the use of [`barrier`]: once in a process, before it has a second host thread, for then the
/// host would wait for a grace period of its RCU, some 10 ms (`sync_runqueues_membarrier_state`), and the end of a
/// short program with it. Where the host refuses, nothing is taken over.
pub(crate) fn prepare() {
    // SAFETY: has no effect on memory.
    unsafe { arch::syscall!(os::nr::MEMBARRIER, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
}

/// Every running host thread of the process passes a full barrier.
pub(crate) fn barrier() -> bool {
    // SAFETY: has no effect on memory but to order it.
    unsafe { arch::syscall!(os::nr::MEMBARRIER, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0 }
}
