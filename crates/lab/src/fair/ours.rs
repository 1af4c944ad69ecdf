//! The fair class of crate `sched`, on a scheduler with one CPU. As in the kernel, a tick is set for the exact end of a slice
//! for which others wait (`Kernel::next_tick`).

use super::{Fair, Share, Thread};
use alloc::vec::Vec;
use ids::{CpuId, CpuMask, Nanos, Policy, ThreadIdx};
use sched::{Attr, Config, Kick, OutOfMemory, Prev, Scheduler};

const CPU: CpuId = CpuId(0);

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

/// The design; see the module's source.
#[derive(Debug)]
pub struct Ours {
    scheduler: Scheduler,
    /// By thread, whether it has not been woken yet.
    is_new: Vec<bool>,
    /// The least time to the end of a slice: another tick at once would cost more.
    grace: u64,
    /// When a thread was last chosen.
    chosen: Nanos,
}

impl Ours {
    /// With a tick of this length.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(tick: Nanos) -> Result<Ours, OutOfMemory> {
        let scheduler = Scheduler::new(&Config { tick, ..Config::default() })?;
        Ok(Ours { scheduler, is_new: Vec::new(), grace: (tick.0 / 16).max(1), chosen: Nanos::ZERO })
    }
}

fn index(thread: Thread) -> ThreadIdx {
    ThreadIdx(thread as u32)
}

impl Fair for Ours {
    fn name(&self) -> &'static str {
        "Entresol"
    }

    fn attach(&mut self, share: Share) {
        let attr = Attr { slice: share.slice, ..Attr::fair(Policy::Other, share.nice.0) };
        self.scheduler
            .attach(index(self.is_new.len()), &attr, CpuMask::only(CPU))
            .expect("there is memory for a thread");
        self.is_new.push(true);
    }

    fn wake(&mut self, thread: Thread, now: Nanos) {
        if core::mem::take(&mut self.is_new[thread]) {
            self.scheduler.wake_new(index(thread), CPU, now, &mut NoKick);
        } else {
            self.scheduler.wake(index(thread), CPU, now, &mut NoKick);
        }
    }

    fn block(&mut self, now: Nanos) {
        if let Some(current) = self.scheduler.current(CPU) {
            self.scheduler.prepare_block(current);
            let _next = self.scheduler.schedule(CPU, now, Prev::Block, &mut NoKick);
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.scheduler.tick(CPU, now, &mut NoKick);
    }

    fn choose(&mut self, now: Nanos) -> Option<Thread> {
        self.chosen = now;
        if self.scheduler.need_resched(CPU) {
            let _next = self.scheduler.schedule(CPU, now, Prev::Preempted, &mut NoKick);
        }
        self.scheduler.current(CPU).map(|thread| thread.0 as usize)
    }

    fn alarm(&self) -> Option<Nanos> {
        self.scheduler.slice_end(CPU).map(|(end, _)| end.max(Nanos(self.chosen.0 + self.grace)))
    }
}
