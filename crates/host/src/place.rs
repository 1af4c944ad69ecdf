//! Which host CPU a carrier runs on.
//!
//! Left to itself, the host now and then puts two carriers on one of its CPUs while another
//! is idle, for as long as its slices last: milliseconds in which a real-time thread of ours
//! waits. So where we have as many CPUs as the host lets us use, each seat has a host CPU of
//! its own, and whoever takes the seat goes there. With fewer or more CPUs the host chooses.
//!
//! The program never sees this: affinity calls are answered by the kernel, and a new
//! program starts with the mask that this process had.

use crate::carrier::Carrier;
use crate::os::nr;
use arch::syscall;
use ids::CpuId;
use sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

const WORDS: usize = 128;

static MASK: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static PLACED: AtomicBool = AtomicBool::new(false);

/// Notes the host CPUs of the process; for `cpus` of ours.
pub fn set_up(cpus: usize) {
    let mut mask = [0u64; WORDS];
    // SAFETY: the host fills at most the length given.
    unsafe { syscall!(nr::SCHED_GETAFFINITY, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    let mut count = 0;
    for (to, from) in MASK.iter().zip(mask) {
        to.store(from, Relaxed);
        count += from.count_ones() as usize;
    }
    PLACED.store(count == cpus && cpus > 1, Relaxed);
}

/// How many CPUs of the host the process had when it began; each carrier may have been given one of them since.
pub fn host_cpus() -> usize {
    MASK.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum::<usize>().max(1)
}

/// The carrier, the caller, takes the seat of `cpu`.
pub(crate) fn take(me: &Carrier, cpu: CpuId) {
    let wanted = u32::from(cpu.0) + 1;
    if PLACED.load(Relaxed) && me.placed.swap(wanted, Relaxed) != wanted {
        let mut left = cpu.index();
        let mut mask = [0u64; WORDS];
        for (word, all) in mask.iter_mut().zip(&MASK) {
            let mut bits = all.load(Relaxed);
            while bits != 0 && left > 0 {
                bits &= bits - 1;
                left -= 1;
            }
            if bits != 0 {
                *word = bits & bits.wrapping_neg();
                break;
            }
        }
        set(&mask);
    }
}

/// The carrier, the caller, has no seat and may wake up wherever a host CPU is free.
pub(crate) fn leave(me: &Carrier) {
    if me.placed.swap(0, Relaxed) != 0 {
        release();
    }
}

/// Before a new program: the mask that the process had.
pub(crate) fn release() {
    if PLACED.load(Relaxed) {
        let mut mask = [0u64; WORDS];
        for (to, from) in mask.iter_mut().zip(&MASK) {
            *to = from.load(Relaxed);
        }
        set(&mask);
    }
}

/// There is no new program after all.
pub(crate) fn resume() {
    let me = Carrier::me();
    if me.gs.borrowed == 0 && me.cpu.load(Relaxed) != 0 {
        me.placed.store(0, Relaxed);
        take(me, me.cpu());
    }
}

fn set(mask: &[u64; WORDS]) {
    // SAFETY: this host thread's own mask. A refusal (the cpuset has changed) leaves the old one.
    unsafe { syscall!(nr::SCHED_SETAFFINITY, 0, size_of_val(mask), mask.as_ptr()) };
}
