//! The real machine: what the kernel stands on when it runs inside a program on Linux.
//!
//! Mechanism only. No rule of scheduling, time or signals lives here (law 1), and what the scheduler decides is checked
//! here before a thread is resumed (law 2).
//!
//! **May touch:** host threads, host signals and timers, the process's descriptors and memory.
//!
//! **Start reading at** [`process`] (all that a process has), then [`traps`] (from a trap to the kernel, and from its
//! [`kernel::Next`] to a resumed thread) and [`carriers::seat`] (which carrier serves which CPU).
//!
//! # Layers
//! Each folder may use the folders above it in this table and its own files; `.ci/check-layers.py` checks this. Lower
//! layers call upwards through `trait Machine` ([`traps`] implements it) or through functions set at start
//! (`arch::entry::set_handlers`, [`report`]).
//!
//! | folder | module | subject |
//! |---|---|---|
//! | [`base`] | [`os`], [`report`], `task` | host calls with types; last words; what the host says of its threads |
//! | | [`dispositions`], [`sites`], `contexts` | masks and actions of the host's signals; program counters; threads' states |
//! | | `clock`, `bounds`, `ids_file`, `page`, `recorder`, `request`, `neighbour`, `socket` | time; thread ids; the state page, profiles and traces; what other processes ask, and are asked |
//! | [`carriers`] | [`carrier`], `mailbox`, `inline`, `alarms`, `place`, `poller`, `ahead` | host threads that run ours, what others ask of them, host timers and CPUs |
//! | | [`carriers::seat`] | seats and kicks |
//! | | `service_state`, `receive`, `outside` | how carriers and the service thread talk, and pass signals on |
//! | | `identities`, `credentials` | the rights that carriers have |
//! | [`process`] | `mod`, `end`, `survey`, `order`, `states`, `debugger` | all that a process has; its end and reports; registers of threads that do not run |
//! | `serving` | `away`, `delegate`, `takeover`, `scarce` | host calls that wait, or last; too few carriers |
//! | | `identity` | a thread runs only on a carrier with the same rights |
//! | [`services`] | [`start`], `fork`, `unborn`, [`exec`], `caught`, `borrower` | a process begins, forks, executes, lends its memory |
//! | | `alone` | a process with one thread receives its signals without a second host thread |
//! | | `service`, `watch`, `stops` | the thread that receives signals, and watches CPUs while threads compete |
//! | [`traps`] | `run`, [`handlers`], `machine` | entries, host signals, the kernel's `trait Machine` |
//!
//! # The host's signals
//! - **32** is the tick and the kick, told apart by `si_code`; **33** interrupts a host call. Both carry a cookie; without
//!   it they are the program's. Carriers admit these, faults and SIGSYS; a carrier in a waiting call admits 33 and
//!   faults only.
//! - A signal of these numbers that *others* send may arrive on any host thread. `outside` hands it to the service
//!   thread.
//! - All other signals are blocked in every host thread once there is a service thread, which receives them with
//!   `rt_sigtimedwait`, so they interrupt no carrier's call. Before that, the only carrier leaves them unblocked
//!   (`services::alone`). The host's dispositions are what the program's children must inherit: exec turns our handlers
//!   into default actions.
//! - If RLIMIT_SIGPENDING is exhausted the host refuses to queue 32 and 33. Carriers then get SIGFPE and the service thread
//!   SIGSTKFLT without a cookie, because signals below 32 are never refused.
//! - A fatal signal is left to the host: its default action is restored and the signal sent again, so exit status and core
//!   are native.
//! - A fault at a labelled access to user memory becomes EFAULT through an address table; any other fault of the image ends
//!   the process with a report.
#![no_std]

extern crate alloc;

pub mod base;
pub mod carriers;
pub mod process;
pub mod services;
mod serving;
pub mod traps;

pub use base::{catch, dispositions, handover, natives, os, points, report, sites};
pub use carriers::carrier;
#[cfg(feature = "planted")]
pub use carriers::planted;
pub use process::states::extended_state;
pub use services::borrower::memory as borrower_memory;
pub use services::{exec, start};
pub use traps::handlers;
