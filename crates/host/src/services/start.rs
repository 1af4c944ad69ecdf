//! The start of a process, and of a forked child.

use crate::base::os::{self, nr};
use crate::base::report;
use crate::process::Process;
use crate::process::debugger;
use crate::services::{alone, service};
use abi::args::{PR_GET_NAME, PR_GET_TID_ADDRESS};
use arch::{base, syscall};
use ids::CpuId;
use sync::atomic::Ordering::*;

/// Makes the calling host thread the first carrier, on `cpu`, and its user thread the main thread. If that thread may
/// run there, a process with a single thread never needs another carrier.
pub fn begin(k: &'static Process, cpu: CpuId) -> ids::ThreadIdx {
    let Some(me) = k.m.carriers.create() else { report::fatal(format_args!("no memory for a carrier")) };
    // SAFETY: from now on this host thread is that carrier.
    unsafe { base::set_gs_base(&raw const me.gs) };
    me.tid.store(k.m.pid as u32, Release);
    // All other carriers inherit the rights of this one.
    me.identity.store(0, Relaxed);
    k.m.places.begin_on(cpu);
    k.m.seats.take_first(cpu, me);
    let main = k.adopt_main(cpu).filter(|&t| k.m.contexts.reserve(t, &k.m.buffers).is_some());
    let Some(t) = main else { report::fatal(format_args!("no memory for the main thread")) };
    // A forked child inherits the slacks from its parent, a program started by exec from the one before.
    k.thread(t).set_slacks(os::reset_timer_slack());
    let context = k.m.contexts.get(t);
    // SAFETY: the thread runs here and now; its block is ours alone.
    unsafe {
        let gs = core::ptr::from_ref(&me.gs).cast_mut();
        (*gs).context = context;
        (*context).claim(me.number);
    }
    me.settle(&k.m.buffers);
    debugger::publish(k);
    t
}

/// Unblocks signals from outside: from now on mask and dispositions are the program's.
pub fn open(k: &Process) {
    if !alone::begin(k) {
        service::start(k);
    }
}

/// Takes over registrations that the loader made with the host for the main thread. `rseq_offset` is the distance of
/// the rseq area from the FS base.
pub fn adopt_registrations(k: &Process, t: ids::ThreadIdx, rseq_offset: Option<i64>) {
    let thread = k.thread(t);
    let (mut head, mut len, mut word) = (0u64, 0u64, 0u64);
    let mut name = [0u8; 16];
    // SAFETY: the host fills the words.
    unsafe {
        if syscall!(nr::PRCTL, PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) == 0 {
            thread.set_name(&name);
            k.begin_groups(t);
        }
        if syscall!(nr::GET_ROBUST_LIST, 0, &raw mut head, &raw mut len) == 0 {
            // The host keeps the list as well, in case the process is killed.
            thread.robust_list.store(head, Relaxed);
        }
        if syscall!(nr::PRCTL, PR_GET_TID_ADDRESS, &raw mut word, 0, 0, 0) == 0 {
            thread.clear_child_tid.store(word, Relaxed);
            syscall!(nr::SET_TID_ADDRESS, 0);
        }
    }
    if let Some(offset) = rseq_offset {
        let area = base::fs_base().wrapping_add_signed(offset);
        // SAFETY: the host checks that this is what was registered.
        let gone = unsafe { syscall!(nr::RSEQ, area, RSEQ_LEN, 1, RSEQ_SIGNATURE) } == 0;
        if gone {
            thread.rseq.store(area, Relaxed);
            thread.rseq_len.store(RSEQ_LEN, Relaxed);
            thread.rseq_signature.store(RSEQ_SIGNATURE, Relaxed);
            thread.rseq_cpu.store(0, Relaxed);
        }
    }
}

/// The length that glibc registers, in bytes.
const RSEQ_LEN: u32 = 32;

/// The signature that glibc registers on x86-64 (`RSEQ_SIG`).
const RSEQ_SIGNATURE: u32 = 0x5305_3053;
