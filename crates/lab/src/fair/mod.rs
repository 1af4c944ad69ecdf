//! How fair threads share a CPU: the algorithm's paper, two designs that Linux has had, and ours.
//!
//! | | a thread that wakes | the running thread goes on | chosen is |
//! |---|---|---|---|
//! | [`Cfs`] until Linux 6.5 | is placed at most half a period before the others | while its share of a period lasts | the least virtual run time |
//! | [`Paper`] 1995 | has the lag that it left with | to the end of a quantum | of those that are owed time, the earliest virtual deadline |
//! | [`Linux`] since 6.6, as of 6.12 | the same; if it left in debt, it competed on until that was paid | while its slice lasts | the same |
//! | [`Ours`] | the same; a debt is paid, a credit is limited | for the shortest slice of those present | the same |
//!
//! Sources: `Documentation/scheduler/sched-design-CFS.rst`; I. Stoica and H. Abdel-Wahab, "Earliest Eligible Virtual Deadline
//! First: A Flexible and Accurate Mechanism for Proportional Share Resource Allocation", 1995; `kernel/sched/fair.c`
//! (`place_entity`, `pick_eevdf`, `requeue_delayed_entity`). Left out: groups, buddies but that of `sched_yield(2)`, and
//! what a switch costs. [`Many`] has
//! the two of Linux on several CPUs.
//!
//! [`run`] lets threads compute and sleep under a design and holds what each has received against an ideal machine, which
//! serves all that compete at the same time, each by its weight.

mod cfs;
mod linux;
mod machine;
mod many;
mod ours;
mod paper;

pub use cfs::Cfs;
pub use linux::Linux;
pub use machine::{Burst, Load, Outcome, Served, run};
pub use many::{Many, Woken};
pub use ours::Ours;
pub use paper::Paper;

use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{Nanos, Nice, Policy};

/// Threads are numbered from 0 in the order in which they are attached.
pub type Thread = usize;

/// The part of a CPU that a thread asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// SCHED_OTHER, SCHED_BATCH or SCHED_IDLE: the last has the smallest weight, and neither preempts when it wakes.
    pub policy: Policy,
    /// Its nice value, from which its weight follows.
    pub nice: Nice,
    /// How long it wants to run at a time, 0.1 to 100 ms: the paper's request, Linux's slice. [`Cfs`] knows no such wish.
    pub slice: Nanos,
}

impl Share {
    /// Nice 0 with a slice of 3 ms.
    pub const DEFAULT: Share = Share { policy: Policy::Other, nice: Nice(0), slice: Nanos::from_millis(3) };

    /// The weight of its policy and nice value; 1024 for SCHED_OTHER with nice 0.
    #[must_use]
    pub fn weight(self) -> u32 {
        sched::weight(self.policy, self.nice)
    }

    /// Whether a thread with this share may preempt one with the other when it wakes (`check_preempt_wakeup_fair`).
    fn preempts(policy: Policy, running: Policy) -> bool {
        match (policy, running) {
            (Policy::Idle, _) => false,
            (_, Policy::Idle) => true,
            (policy, _) => policy == Policy::Other,
        }
    }
}

/// A way to share one CPU. Times do not decrease from call to call, and [`choose`](Fair::choose) follows each change.
pub trait Fair {
    /// The design's name in tables.
    fn name(&self) -> &'static str;

    /// A new thread, which sleeps. Its number is the count of those before it.
    fn attach(&mut self, share: Share);

    /// A thread that slept competes from now on.
    fn wake(&mut self, thread: Thread, now: Nanos);

    /// The running thread sleeps from now on.
    fn block(&mut self, now: Nanos);

    /// The regular tick, or the moment that [`alarm`](Fair::alarm) has named.
    fn tick(&mut self, now: Nanos);

    /// The thread that runs from now on; `None` if none competes.
    #[must_use]
    fn choose(&mut self, now: Nanos) -> Option<Thread>;

    /// When the design must be called even if nothing happens until then, beside the regular ticks.
    fn alarm(&self) -> Option<Nanos> {
        None
    }
}

/// A design whose threads can go from one CPU to another: each CPU has an instance of it.
pub trait Roams: Fair {
    /// Whether the running thread should make room: [`choose`](Fair::choose) may take another one.
    fn must_choose(&self) -> bool;

    /// The running thread lets others run (`sched_yield(2)`).
    fn give_way(&mut self, now: Nanos);

    /// Whether a thread that sleeps still competes, to pay a debt, and so must wake here.
    fn pays_debt(&self, thread: Thread) -> bool;

    /// A thread that sleeps or waits leaves this CPU. Its number may be another thread's from now on.
    fn depart(&mut self, thread: Thread, now: Nanos) -> Luggage;

    /// A thread comes from another CPU and sleeps here. Returns its number.
    fn arrive(&mut self, share: Share, luggage: Luggage, now: Nanos) -> Thread;
}

/// The state that a thread takes along to another CPU.
#[derive(Clone, Copy, Debug)]
pub struct Luggage {
    /// Of [`Linux`]: what it is owed. Of [`Cfs`]: its virtual run time beyond the least one.
    virtual_time: i64,
    /// With which that is counted.
    weight: u32,
    is_new: bool,
    /// It did not sleep.
    waits: bool,
}

/// All designs, for a CPU with this time between its ticks.
///
/// # Panics
/// There is no memory for [`Ours`].
#[must_use]
pub fn all(tick: Nanos) -> Vec<Box<dyn Fair>> {
    alloc::vec![
        Box::new(Cfs::default()),
        Box::new(Paper::new(tick)),
        Box::new(Linux::new(tick)),
        Box::new(Ours::new(tick).expect("there is memory for one CPU")),
    ]
}

/// Divides nanoseconds by a weight: virtual nanoseconds, which are real ones for nice 0.
fn to_virtual(time: i64, weight: u32) -> i64 {
    (i128::from(time) * 1024 / i128::from(weight)) as i64
}

#[cfg(test)]
mod tests;
