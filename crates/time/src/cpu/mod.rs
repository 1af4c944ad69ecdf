//! CPU time: accounting, clocks, and what happens when enough of it is consumed.
//!
//! * [`Stopwatch`]: a clock in one word. [`ThreadCputime`] has one, [`ProcessCputime`]
//!   one per CPU: reading a process's clock never walks its threads.
//! * [`GroupExpiry`], [`ExpiryCache`]: whether a tick has anything to do, at constant cost.
//! * [`ProcessTimers`], [`expire_thread`]: what a tick that has something to do does, from
//!   [`CpuTimers`], the interval timers of [`itimer`] and the limits of [`limit`].
//! * [`Adjuster`]: user and system time as programs see them.
//! * [`bandwidth`]: shares of CPU time for named groups of threads, beyond Linux.
//!
//! A tick: [`ProcessCputime::tick`]; then, if [`ProcessCputime::is_due`] or the thread's
//! [`ExpiryCache::is_due`], claim ([`GroupExpiry::claim`]), take the process lock, expire.
pub mod bandwidth;
mod expire;
mod expiry;
mod group_expiry;
pub mod itimer;
pub mod limit;
mod process;
mod sample;
mod stopwatch;
mod thread;
mod timers;
mod usage;

pub use expire::{CpuEvent, CpuItimerKind, ProcessTimers, expire_thread};
pub use expiry::ExpiryCache;
pub use group_expiry::{ExpiryClaim, GroupExpiry};
pub use process::ProcessCputime;
pub use sample::{CpuClock, Cputime, Mode};
pub use stopwatch::{Floor, Stopwatch};
pub use thread::ThreadCputime;
pub use timers::{CpuTimers, FIRED_PER_PASS_MAX};
pub use usage::{Adjuster, Usage};
