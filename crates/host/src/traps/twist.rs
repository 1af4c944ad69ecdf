//! Planted faults in resuming a thread (`planted`).

use crate::carriers::carrier::Carrier;
use crate::carriers::planted::{Resumed, resumed};
use crate::process::Process;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering::*;

/// The thread to resume instead of `t`.
pub(crate) fn twist(me: &Carrier, t: ThreadIdx) -> ThreadIdx {
    let (k, cpu) = (me.process(), me.cpu());
    match resumed() {
        Resumed::Twice => another(k, cpu).unwrap_or(t),
        Resumed::Never if k.sched.queued(cpu) > 0 => loop {
            sync::atomic::spin_hint();
        },
        _ => t,
    }
}

/// Some thread that is running on another CPU.
fn another(k: &Process, cpu: CpuId) -> Option<ThreadIdx> {
    let others = (0..k.config().cpus).map(|i| CpuId(i as u16)).filter(|&c| c != cpu);
    // SAFETY: contexts live for ever; the claim is atomic.
    let claimed = |t: &ThreadIdx| unsafe { (*k.m.contexts.get(*t)).claim.load(Relaxed) != 0 };
    others.filter_map(|c| k.sched.current(c)).find(claimed)
}
