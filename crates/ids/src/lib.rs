//! Names of things: thread slots, thread and process ids, CPUs and CPU masks, nanoseconds, priorities, ends of
//! waits.
//!
//! **May touch:** nothing. The lowest crate; it knows neither scheduling nor the host nor Linux's structures, and every
//! other crate speaks in its types.
//!
//! **Start reading at** [`ThreadIdx`], [`Tid`] and [`CpuId`].
#![no_std]
#![forbid(unsafe_code)]

mod cpu;
mod nanos;
mod prio;
mod thread;
mod wake;

pub use cpu::{CPUS_MAX, CpuId, CpuMask};
pub use nanos::Nanos;
pub use prio::{Nice, Policy, RtPriority};
pub use thread::{Pid, THREADS_MAX, ThreadIdx, Tid};
pub use wake::{Left, Wake, Waker};
