//! Calls beyond Linux: requests of a program to Entresol, and requests about a program from outside.
//!
//! **May touch:** private system calls, and one signal to another process.
//!
//! **Start reading at** [`Checkpoint`].
//!
//! - [`Checkpoint`]: a process's timers, interval timers, limits and CPU clocks as data, and as the versioned JSON of
//!   `docs/CHECKPOINT.md`. A damaged one, or one from a newer version, is refused with what is wrong and where.
//! - [`restart`]: a program saves its timers, execs another program or itself anew, and gets them back with ids, remaining
//!   time, periods, overruns and owners. No expiry is lost and none comes twice.
//! - [`outside`]: asks another process for a checkpoint without stopping its threads.
//!
//! Outside Entresol everything here answers [`Unavailable`]; [`is_available`] tells beforehand.

mod calls;
mod check;
mod checkpoint;
pub mod outside;
pub mod restart;

pub use calls::is_available;
pub use check::Damaged;
pub use checkpoint::{
    Checkpoint, Clocks, CpuTime, FORMAT, ITimers, Limit, Limits, Notify, Setting, ThreadTime, TimerState, VERSION,
};

/// The program does not run under Entresol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this program does not run under Entresol")]
pub struct Unavailable;
