//! The names of things: thread slots, thread and process ids, CPUs, nanoseconds,
//! priorities and CPU masks.
//!
//! The bottom room of the house. It knows nothing of scheduling, of the host or of
//! Linux's structures; every other room speaks in these words.
#![no_std]
#![forbid(unsafe_code)]

mod cpu;
mod nanos;
mod prio;
mod thread;

pub use cpu::{CPUS_MAX, CpuId, CpuMask};
pub use nanos::Nanos;
pub use prio::{Nice, Policy, RtPriority};
pub use thread::{Pid, THREADS_MAX, ThreadIdx, Tid};
