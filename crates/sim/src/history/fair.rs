//! Fair threads under one of Linux's schedulers: [`lab::fair::Many`].

use super::design::{Choice, Design, Effects};
use ids::{CpuId, CpuMask, Nanos};
use lab::fair::{Many, Share};
use lab::rt_balance::Thread;
use sched::Attr;

pub(super) struct Fair(pub Many);

/// The share of a thread with these attributes.
fn share(attr: &Attr) -> Result<Share, String> {
    if !attr.policy.is_fair() {
        return Err(format!("this scheduler has fair threads only, not one of policy {:?}", attr.policy));
    }
    let slice = if attr.slice == Nanos::ZERO { Share::DEFAULT.slice } else { attr.slice };
    Ok(Share { policy: attr.policy, nice: attr.nice, slice })
}

impl Design for Fair {
    fn spawn(&mut self, attr: &Attr, _cpu: CpuId, now: Nanos) -> Result<Thread, String> {
        Ok(self.0.spawn(share(attr)?, now))
    }

    fn running(&self, cpu: CpuId) -> Option<Thread> {
        self.0.running(cpu)
    }

    fn priority(&self, thread: Thread) -> i16 {
        120 + i16::from(self.0.share(thread).nice.0)
    }

    fn set_mask(&mut self, thread: Thread, mask: CpuMask) {
        self.0.set_mask(thread, mask);
    }

    fn set_attr(&mut self, thread: Thread, attr: &Attr, now: Nanos) -> Result<(), String> {
        let share = share(attr)?;
        if share != self.0.share(thread) {
            self.0.set_share(thread, share, now);
        }
        Ok(())
    }

    fn wake(&mut self, thread: Thread, waker: Option<CpuId>, now: Nanos, effects: &mut Effects) -> CpuId {
        let woken = self.0.wake(thread, waker, now);
        effects.looks += u64::from(waker.is_some_and(|cpu| cpu != woken.cpu));
        if woken.preempts {
            effects.kicks.push(woken.cpu);
        }
        woken.cpu
    }

    fn give_way(&mut self, cpu: CpuId, now: Nanos) -> bool {
        self.0.give_way(cpu, now);
        true
    }

    fn tick(&mut self, cpu: CpuId, _tick: u64, now: Nanos, _effects: &mut Effects) {
        self.0.tick(cpu, now);
    }

    fn choose(&mut self, cpu: CpuId, leaves: bool, now: Nanos, effects: &mut Effects) -> Choice {
        let before = self.0.running(cpu);
        if leaves {
            self.0.block(cpu, now);
        } else if let Some(outside) = before.filter(|&thread| !self.0.allows(thread, cpu)) {
            self.0.block(cpu, now);
            effects.kicks.push(self.0.wake(outside, None, now).cpu);
        }
        match self.0.choose(cpu, now) {
            chosen if chosen == before && !leaves => Choice::Keep,
            chosen => Choice::Run(chosen),
        }
    }
}
