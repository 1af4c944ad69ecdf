//! POSIX timers: `timer_create(2)` and its family.
//!
//! * [`spec`]: the arguments and the order of checks: [`TimerClock`], [`Notify`].
//! * [`Timer`]: the life of one timer, as pure steps.
//! * [`TimerTable`]: ids and slots, at the same cost with ten timers or a million.
//! * [`ExpiryQueues`]: which timer is due next. [`IgnoredTimers`]: whose signal is parked.
//! * [`PosixTimers`]: all of it together, as the system calls need it.
//! * [`ProcTimer`]: the text of `/proc/PID/timers`.
mod arena;
mod calls;
mod ids;
mod ignored;
mod proc_text;
mod queues;
pub mod spec;
mod table;
mod timer;
mod trie;

pub use calls::{CpuClocks, Delivery, First, NoCpuClocks, PosixTimers, Refused, Taken, TellCpu, TimerSignal};
pub use ignored::IgnoredTimers;
pub use proc_text::ProcTimer;
pub use queues::{ExpiryQueues, ReadClock, WallClocks};
pub use spec::{Base, Notify, TimerClock, wanted_id};
pub use table::{IdSearch, Listed, NotReserved, Reserved, TimerKey, TimerTable};
pub use timer::{Delivered, Fired, Resumed, Sent, SignalAt, Status, Timer, TimerDump};
