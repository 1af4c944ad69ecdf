//! A spare makes a host call that waits, so that the carrier that needs it keeps its CPU.
//!
//! While a thread waits in the host and its CPU has other work, one carrier is in the call and another serves the
//! CPU. The choice decides how fast the end of the call is noticed. Linux runs a thread that wakes up at once if it
//! has positive lag (`place_entity` and `check_preempt_wakeup_fair` in kernel/sched/fair.c); others wait for its next
//! tick, up to 4 ms with HZ=250. A carrier that has just served a CPU has none. A spare that only makes calls has
//! waited nearly all its life, like a thread that waits natively, and keeps its lag.
//!
//! If there is no spare with the thread's credentials, the caller makes the call itself and a new carrier gets the
//! CPU (`run::away`); the caller is the spare of the next time.

use crate::carrier::Carrier;
use crate::machine::kernel;
use crate::{identity, place, run};
use ids::{CpuId, ThreadIdx};
use kernel::{Call, Next};
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// A call that a spare has been given. Written by who takes the spare off the list, before the spare is woken.
#[derive(Debug, Default)]
pub(crate) struct Delegated {
    thread: AtomicU32,
    /// The CPU that the thread left.
    cpu: AtomicU32,
    words: [AtomicU64; 7],
}

impl Delegated {
    fn put(&self, t: ThreadIdx, cpu: CpuId, call: &Call) {
        self.thread.store(t.0, Relaxed);
        self.cpu.store(u32::from(cpu.0), Relaxed);
        self.words[0].store(call.nr as u64, Relaxed);
        for (word, arg) in self.words[1..].iter().zip(call.args) {
            word.store(arg, Relaxed);
        }
    }

    fn get(&self) -> (ThreadIdx, CpuId, Call) {
        let [nr, args @ ..] = self.words.each_ref().map(|word| word.load(Relaxed));
        let cpu = CpuId(self.cpu.load(Relaxed) as u16);
        (ThreadIdx(self.thread.load(Relaxed)), cpu, Call { nr: nr as usize, args })
    }
}

/// Gives the call to a spare with the rights of `t`, which is off the CPU of the caller, `me`. False if there is none.
pub(crate) fn hand_out(me: &Carrier, t: ThreadIdx, call: &Call) -> bool {
    let Some(spare) = kernel().m.carriers.take_spare_of(identity::of(t)) else { return false };
    spare.delegated.put(t, me.cpu(), call);
    spare.make_call();
    true
}

/// The caller, woken as a spare, makes the call that it has been given. `None`: it is a spare again.
pub(crate) fn carry_out(me: &'static Carrier) -> Option<Next> {
    let (t, cpu, call) = me.delegated.get();
    place::leave(me);
    kernel().change_carrier(t);
    let result = run::waiting_call(me, t, call);
    run::deliver(me, cpu, t, result)
}
