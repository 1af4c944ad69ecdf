//! Five ways to know how much CPU time a process has consumed, and whether a timer on it
//! is due.
//!
//! | | kept | an accounting costs | a tick with a timer costs |
//! |---|---|---|---|
//! | [`Walk`] before 2008 | nothing | nothing | walks of all threads |
//! | [`PerCpu`] 2008 | always, per CPU | a plain add | a sum over CPUs |
//! | [`Locked`] 2009 | while a timer is armed | a lock | a lock |
//! | [`Atomic`] 2015 | while a timer is armed | an atomic add | three loads |
//! | [`Today`] | the same, started under a lock | an atomic add | three loads |
//! | [`Ours`] | always, a word per CPU | nothing | two loads |

mod atomic;
mod locked;
pub mod modelled;
mod ours;
mod per_cpu;
mod threads;
mod today;
mod walk;

pub use atomic::Atomic;
pub use locked::Locked;
pub use ours::Ours;
pub use per_cpu::PerCpu;
pub use threads::Threads;
pub use today::Today;
pub use walk::Walk;

use ids::{CpuId, Nanos};
use time::OutOfMemory;
use time::cpu::{CpuClock, Cputime, ExpiryCache};

/// Which of the three fields an accounting adds to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// User time, at a tick.
    User,
    /// System time, at a tick.
    System,
    /// Precise run time, at a tick or switch. Comes before the tick's User or System.
    Exec,
}

impl Kind {
    /// The field this kind adds to.
    fn add(self, to: &mut Cputime, span: Nanos) {
        match self {
            Kind::User => to.utime += span,
            Kind::System => to.stime += span,
            Kind::Exec => to.exec += span,
        }
    }
}

/// A way to account for the CPU time of one process. Threads are numbered slots; each is
/// accounted by one CPU at a time.
pub trait Accounting: Sync {
    /// The design's name in tables.
    fn name(&self) -> &'static str;

    /// A thread begins in this slot.
    fn spawn(&self, thread: usize) -> Result<(), OutOfMemory>;

    /// `thread` consumed `span` on `cpu`. Called by that CPU.
    fn account(&self, cpu: CpuId, thread: usize, kind: Kind, span: Nanos);

    /// `thread`, on `cpu`, consumes nothing any more.
    fn exit(&self, cpu: CpuId, thread: usize);

    /// Starts keeping the process's time, unless it is being kept; returns the reading to which an absolute expiry
    /// refers.
    fn start(&self) -> Cputime;

    /// A tick saw that nothing is armed: the process's time need not be kept.
    fn stop(&self);

    /// The values a tick compares with the expiries, while started.
    fn snapshot(&self) -> Cputime;

    /// The value `clock_gettime(2)` reads, started or not.
    fn clock(&self) -> Cputime;

    /// A process timer shall expire at this reading, and no other; `Nanos::MAX`: never.
    /// Starts the accounting.
    fn arm(&self, clock: CpuClock, at: Nanos);

    /// A tick hit `thread` on `cpu`: is a process timer due?
    fn tick(&self, cpu: CpuId, thread: usize) -> bool;
}

/// The check that generations 1 to 3 share: a cache of next events against a snapshot.
fn is_due(cache: &ExpiryCache, snapshot: impl FnOnce() -> Cputime) -> bool {
    !cache.is_empty() && cache.is_due(&snapshot())
}

#[cfg(all(test, not(shuttle)))]
mod tests;
