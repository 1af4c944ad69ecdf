//! Trace files for ui.perfetto.dev, as far as scheduling needs them.
//!
//! The switches of each CPU are written as ftrace's `sched_switch`, so the viewer shows CPUs and thread states as it does
//! for Linux; what ended a wait is a `sched_waking`, a new thread a `task_newtask`. Simulated and live runs use the same
//! code. [`read`] reads what [`trace`] writes, and refuses a file that cannot be that.
//!
//! | in the file | here |
//! |---|---|
//! | `prev_state` 0, 1, 16 | [`Left`]: runnable, waiting, ended |
//! | `sched_waking` whose `pid` is a thread | [`Waker::Thread`](ids::Waker) |
//! | the same, `pid` 0, `common_flags` of a hard interrupt | [`Waker::Time`](ids::Waker) |
//! | the same, `pid` 0, `common_flags` of a soft interrupt | [`Waker::Outside`](ids::Waker) |
//! | `task_newtask` | [`Waker::Creator`](ids::Waker) |
//! | a bundle without events | a CPU that had no thread |
//! | `lost_events` | [`Process::lost`] |
//! | `track_event`, instant, on the track of a thread | [`Mark`] |
//!
//! **May touch:** what it is given. **Start reading at** [`trace`].

mod format;
mod marks;
mod read;
mod write;

pub use marks::{Mark, read_marks};
pub use read::{ReadError, read};
pub use write::{marked, trace};

use ids::{CpuId, Left, Nanos, Wake};
use std::collections::BTreeMap;
use std::ops::Range;

/// A thread had a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which CPU.
    pub cpu: CpuId,
    /// Since when.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// The thread's id.
    pub tid: i32,
    /// Its priority as Linux's kernel counts it (lower is more urgent).
    pub priority: i16,
    /// How it left the CPU.
    pub left: Left,
    /// What had made it runnable, if it waited before or is new; `None`, too, where nobody knows.
    pub woken: Option<Wake>,
}

/// A process and its threads' time on CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// The process's name.
    pub name: String,
    /// Names of threads, where known.
    pub threads: BTreeMap<i32, String>,
    /// Its CPUs. Those of two processes have different numbers.
    pub cpus: Range<u16>,
    /// Which thread had which CPU when, those of each CPU in order.
    pub spans: Vec<Span>,
    /// Switches are missing.
    pub lost: bool,
}
