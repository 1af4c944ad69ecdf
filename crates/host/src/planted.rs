//! Deliberate faults, one at a time, that show that the machine's own checks catch them. Only
//! with the feature `planted`.

use crate::carrier::Carrier;
use crate::machine::kernel;
use ids::{CpuId, ThreadIdx};
use sync::atomic::{AtomicU32, Ordering::*};

const RESUME_TWICE: u32 = 1;
const STUCK: u32 = 2;
/// The fault comes when so many threads have been resumed, so that the program is well under way: were its first thread
/// stopped before it has started the others, nobody would wait for that CPU, and nothing were amiss to the watchdog.
const AFTER: u32 = 20_000;

static FAULT: AtomicU32 = AtomicU32::new(0);
static RESUMED: AtomicU32 = AtomicU32::new(0);

/// Plants the fault of that name: `resume-twice` resumes a thread that another carrier has,
/// `stuck` stops one carrier in the kernel while threads wait for its CPU.
pub fn plant(name: &[u8]) {
    let fault = match name {
        b"resume-twice" => RESUME_TWICE,
        b"stuck" => STUCK,
        _ => 0,
    };
    FAULT.store(fault, Relaxed);
}

/// `t` is about to be resumed: who is resumed instead.
pub(crate) fn twist(me: &Carrier, t: ThreadIdx) -> ThreadIdx {
    let fault = FAULT.load(Relaxed);
    if fault == 0 || RESUMED.fetch_add(1, Relaxed) < AFTER {
        return t;
    }
    let cpu = me.cpu();
    match fault {
        RESUME_TWICE => another(cpu).unwrap_or(t),
        STUCK if kernel().sched.queued(cpu) > 0 => loop {
            sync::atomic::spin_hint();
        },
        _ => t,
    }
}

/// A thread that runs on another CPU now.
fn another(cpu: CpuId) -> Option<ThreadIdx> {
    let k = kernel();
    let others = (0..k.config().cpus).map(|i| CpuId(i as u16)).filter(|&c| c != cpu);
    // SAFETY: contexts live for ever; the claim is atomic.
    let claimed = |t: &ThreadIdx| unsafe { (*k.m.contexts.get(*t)).claim.load(Relaxed) != 0 };
    others.filter_map(|c| k.sched.current(c)).find(claimed)
}
