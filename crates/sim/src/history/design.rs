//! Schedulers as the historic machine asks them.

use ids::{CpuId, CpuMask, Nanos};
use lab::rt_balance::Thread;
use sched::Attr;

/// The consequences of a decision, which the machine carries out.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Run queues of other CPUs that were looked at.
    pub looks: u64,
    /// Run queues of other CPUs whose locks were taken, in order.
    pub locked: Vec<CpuId>,
    /// CPUs that are called to do an errand.
    pub errands: Vec<CpuId>,
    /// CPUs that must choose again.
    pub kicks: Vec<CpuId>,
}

/// The choice of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Choice {
    /// It goes on with its thread.
    Keep,
    /// It runs that thread, or is idle.
    Run(Option<Thread>),
}

/// A scheduler. Threads are numbered from 0.
pub(crate) trait Design {
    /// A new thread, which sleeps; its last CPU is `cpu`.
    fn spawn(&mut self, attr: &Attr, cpu: CpuId, now: Nanos) -> Result<Thread, String>;

    /// The thread that a CPU runs.
    fn running(&self, cpu: CpuId) -> Option<Thread>;

    /// Its priority as Linux's kernel counts it: lower is more urgent.
    fn priority(&self, thread: Thread) -> i16;

    /// A running thread may use these CPUs from now on.
    fn set_mask(&mut self, thread: Thread, mask: CpuMask);

    /// A running thread has these attributes from now on.
    fn set_attr(&mut self, thread: Thread, attr: &Attr, now: Nanos) -> Result<(), String>;

    /// A thread that sleeps is runnable from now on. Returns its CPU. `waker`: the CPU of the thread that woke it; none: a
    /// timer.
    fn wake(&mut self, thread: Thread, waker: Option<CpuId>, now: Nanos, effects: &mut Effects) -> CpuId;

    /// The running thread lets others run. Says whether the design knows what that means.
    fn give_way(&mut self, _cpu: CpuId, _now: Nanos) -> bool {
        false
    }

    /// The tick of a CPU, counted from 0.
    fn tick(&mut self, cpu: CpuId, tick: u64, now: Nanos, effects: &mut Effects);

    /// A CPU has been called.
    fn errand(&mut self, _cpu: CpuId, _effects: &mut Effects) {}

    /// A CPU chooses its thread. `leaves`: the running one sleeps.
    fn choose(&mut self, cpu: CpuId, leaves: bool, now: Nanos, effects: &mut Effects) -> Choice;

    /// A CPU has begun to run another thread.
    fn after_switch(&mut self, _cpu: CpuId, _effects: &mut Effects) {}
}
