//! Linux on x86-64 as plain data: error numbers, system call numbers, and the structures that cross the border between a
//! program and its kernel.
//!
//! Nothing here decides anything. A structure is read from the bytes a program passes (`from_bytes`) and written to the
//! bytes it gets back (`to_bytes`); what is wrong with a value is an [`Errno`].
//!
//! **May touch:** the bytes it is given.
//!
//! **Start reading at** [`Errno`] and [`nr`] (every system call); [`SigInfo`], [`SigAction`], [`SigSet`] and [`frame`] for
//! signals; [`Timespec`] for time; [`futex`], [`CloneArgs`], [`SchedAttr`] and [`rseq`] for threads; [`linux`] for constants
//! that need no type of their own; [`checkpoint`] for what Linux does not have.
#![no_std]
#![forbid(unsafe_code)]

/// The constants of the kernel's user-visible headers, as they are.
pub use linux_raw_sys::general as linux;

pub mod args;
pub mod bytes;
pub mod checkpoint;
mod clone;
pub mod epoll;
mod errno;
pub mod frame;
pub mod futex;
pub mod neighbour;
pub mod nr;
pub mod rseq;
mod sched;
mod sigaction;
mod sigevent;
mod siginfo;
mod signo;
mod sigset;
mod stack;
mod time;

pub use clone::{CloneArgs, clone_flags};
pub use errno::Errno;
pub use sched::{SchedAttr, sched_flags};
pub use sigaction::{SIG_DFL, SIG_IGN, SaFlags, SigAction};
pub use sigevent::SigEvent;
pub use siginfo::{SigInfo, si_code};
pub use signo::Signal;
pub use sigset::SigSet;
pub use stack::{SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, StackT};
pub use time::{Itimerspec, Itimerval, KTIME_MAX, NANOS_PER_SEC, Timespec, Timeval};
