//! The host CPU that a carrier runs on.
//!
//! The host sometimes puts two carriers on one of its CPUs while another is idle, for milliseconds, in which a
//! real-time thread of ours waits. So if we have as many CPUs as the host lets us use, each seat has a host CPU of
//! its own, and a carrier that takes the seat moves there. With fewer CPUs the host chooses. With more, it chooses
//! except for CPUs that run real-time threads, among which the scheduler shares the host's CPUs out
//! (`sched/src/few_cores.rs`).
//!
//! The host also chooses while only one seat is in use, and the places of all seats follow from where the second
//! one's carrier is then: the host knows of other processes, we do not. If the first seat always had the first host
//! CPU, all programs of one thread would run there.
//!
//! The program never sees this: the kernel answers affinity calls, and a new program starts with the process's own
//! mask.

use crate::carrier::Carrier;
use crate::machine::kernel;
use crate::os::nr;
use crate::seat::Seat;
use arch::syscall;
use ids::CpuId;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

const WORDS: usize = 128;

static MASK: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static PLACED: AtomicBool = AtomicBool::new(false);
/// The process's first seat.
static FIRST: AtomicU32 = AtomicU32::new(0);
/// Each seat's place among the host's CPUs is its number and this less one; 0: no second seat has been in use.
static SHIFT: AtomicU32 = AtomicU32::new(0);
/// A seat of more than the host has CPUs has served real-time threads.
static SHARED: AtomicBool = AtomicBool::new(false);

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

/// The process, maybe a forked child, begins with this seat.
pub(crate) fn begin(cpu: CpuId) {
    FIRST.store(u32::from(cpu.0), Relaxed);
    // The parent's carrier may have had a place.
    release();
    SHIFT.store(0, SeqCst);
    SHARED.store(false, SeqCst);
}

/// The carrier, the caller, takes the seat of `cpu`.
pub(crate) fn take(me: &Carrier, cpu: CpuId) {
    if !PLACED.load(Relaxed) {
        return take_shared(me, cpu);
    }
    let shift = match SHIFT.load(SeqCst) {
        0 if FIRST.load(Relaxed) == u32::from(cpu.0) => return,
        0 => spread(cpu),
        shift => shift - 1,
    };
    let wanted = u32::from(cpu.0) + 1;
    if me.placed.swap(wanted, Relaxed) != wanted {
        set(0, &place_of(cpu, shift));
    }
}

/// The caller's seat is one of more than the host has CPUs. Its real-time threads have that one of those, or any.
pub(crate) fn share(me: &Carrier, core: Option<usize>) {
    let wanted = core.map_or(0, |core| core as u32 + 1);
    if me.placed.swap(wanted, Relaxed) != wanted {
        SHARED.store(true, SeqCst);
        set(0, &core.map_or_else(all, |core| place_of(CpuId(core as u16), 0)));
    }
}

/// `cpu` is to be woken up. If its carrier were bound only when it runs, it would wait first where the host puts it.
pub(crate) fn prepare(cpu: CpuId) {
    let k = kernel();
    let wanted = k.sched.core(cpu).map_or(0, |core| core as u32 + 1);
    let (Seat::Parked, carrier) = k.m.seats.look(cpu) else { return };
    let carrier = k.m.carriers.get(carrier);
    let tid = carrier.tid.load(Acquire);
    if wanted != 0 && tid != 0 && carrier.placed.swap(wanted, Relaxed) != wanted {
        SHARED.store(true, SeqCst);
        set(tid, &place_of(CpuId(wanted as u16 - 1), 0));
    }
}

/// The carrier takes such a seat. A new carrier has its maker's mask.
fn take_shared(me: &Carrier, cpu: CpuId) {
    if SHARED.load(SeqCst) {
        me.placed.store(u32::MAX, Relaxed);
        share(me, kernel().sched.core(cpu));
    }
}

fn all() -> [u64; WORDS] {
    MASK.each_ref().map(|word| word.load(Relaxed))
}

/// A second seat is in use: says by how much places are shifted, and gives the first seat's carrier its own.
#[cold]
fn spread(cpu: CpuId) -> u32 {
    let mut here = 0u32;
    // SAFETY: the host fills the word.
    unsafe { syscall!(nr::GETCPU, &raw mut here, 0, 0) };
    let here = here as usize;
    let below = |word: usize| match (here / 64).cmp(&word) {
        core::cmp::Ordering::Less => 0,
        core::cmp::Ordering::Equal => (1u64 << (here % 64)) - 1,
        core::cmp::Ordering::Greater => u64::MAX,
    };
    let place: u32 = MASK.iter().enumerate().map(|(i, word)| (word.load(Relaxed) & below(i)).count_ones()).sum();
    let count = host_cpus() as u32;
    let shift = (place + count - u32::from(cpu.0) % count) % count;
    if let Err(others) = SHIFT.compare_exchange(0, shift + 1, SeqCst, SeqCst) {
        return others - 1;
    }
    // A carrier that takes the seat from now on moves there by itself.
    let m = &kernel().m;
    let first = CpuId(FIRST.load(Relaxed) as u16);
    let (seat, carrier) = m.seats.look(first);
    let carrier = (seat != Seat::Empty).then(|| m.carriers.get(carrier));
    if let Some(tid) = carrier.map(|c| c.tid.load(Acquire)).filter(|&tid| tid != 0)
        && carrier.is_some_and(|c| c.placed.swap(u32::from(first.0) + 1, Relaxed) == 0)
    {
        set(tid, &place_of(first, shift));
    }
    shift
}

fn place_of(cpu: CpuId, shift: u32) -> [u64; WORDS] {
    let mut left = (cpu.index() + shift as usize) % host_cpus();
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
    mask
}

/// The carrier, the caller, has no seat and may wake up wherever a host CPU is free.
pub(crate) fn leave(me: &Carrier) {
    if me.placed.swap(0, Relaxed) != 0 {
        release();
    }
}

/// Restores the process's own mask: before a new program, and for carriers without a seat.
pub(crate) fn release() {
    if SHIFT.load(SeqCst) != 0 || SHARED.load(SeqCst) {
        set(0, &all());
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

/// Gives a host thread, 0 for the caller, these CPUs.
fn set(tid: u32, mask: &[u64; WORDS]) {
    // SAFETY: a host thread of ours. A refusal (the cpuset has changed) leaves its old mask.
    unsafe { syscall!(nr::SCHED_SETAFFINITY, tid, size_of_val(mask), mask.as_ptr()) };
}
