//! The real machine: what the kernel stands on when it runs inside a program on Linux.
//!
//! Mechanism only. No rule of scheduling, time or signals lives here (law 1), and what the scheduler decides is checked
//! here before a thread is resumed (law 2).
//!
//! **May touch:** host threads, host signals and timers, the process's descriptors and memory.
//!
//! **Start reading at** `run` (from a trap to the kernel, and from its [`kernel::Next`] to a resumed thread), then [`seat`]
//! (which carrier serves which CPU) and [`carrier`].
//!
//! | module | subject |
//! |---|---|
//! | `run`, [`machine`], `states` | entering the kernel, its `trait Machine`, registers of threads that do not run |
//! | [`carrier`], `alarms`, `place` | host threads that run ours, their two host timers, the host CPUs they run on |
//! | [`seat`], [`takeover`], `delegate`, `scarce` | seats and kicks; CPUs whose carrier the host keeps; too few carriers |
//! | [`handlers`], [`sites`] | host signals: dispatch, tick, kick, interrupt, faults; program counters shown in frames |
//! | [`service`], [`watch`], `stops`, `left`, `outside` | the thread that receives signals, and watches CPUs while threads compete |
//! | `receive` | signals that a carrier receives before a call returns |
//! | [`process`], `exec`, `caught`, `times` | exit, fork, exec, signals meanwhile, and what they hand on |
//! | `borrower` | processes that run in our memory: vfork, `clone(CLONE_VM)`; tracing our threads from there |
//! | `request`, `neighbour`, `socket` | what other processes ask this one, and this one asks them |
//! | `identity` | credentials: a thread runs only on a carrier that has the same |
//! | [`page`], [`recorder`], [`survey`], `report` | the state page, profiles and traces, reports of a process that cannot go on |
//!
//! # The host's signals
//! - **32** is the tick and the kick, told apart by `si_code`; **33** interrupts a host call. Both carry a cookie; without
//!   it they are the program's. Carriers admit these, faults and SIGSYS; a carrier in a waiting call admits 33 and
//!   faults only.
//! - What *others* send of these signals may find any host thread. `outside` hands it to the service thread.
//! - All others are blocked in every host thread. The service thread asks for them with `rt_sigtimedwait`, so no call of a
//!   carrier is interrupted, and the host's dispositions stay what the program's children must inherit.
//! - If RLIMIT_SIGPENDING is exhausted the host refuses to queue 32 and 33. Carriers then get SIGFPE and the service thread
//!   SIGSTKFLT without a cookie, because signals below 32 are never refused.
//! - A fatal signal is left to the host: its default action is restored and the signal sent again, so exit status and core
//!   are native.
//! - A fault at a labelled access to user memory becomes EFAULT through an address table; any other fault of the image ends
//!   the process with a report.
#![no_std]

extern crate alloc;

mod ahead;
mod alarms;
mod away;
mod borrower;
mod bounds;
pub mod carrier;
mod caught;
mod clock;
mod contexts;
mod debugger;
mod delegate;
pub mod dispositions;
mod end;
pub mod exec;
mod fork;
pub mod handlers;
pub mod handover;
mod identity;
mod ids_file;
mod inline;
mod machine;
mod mailbox;
mod neighbour;
mod order;
pub mod os;
mod outside;
mod page;
mod place;
#[cfg(feature = "planted")]
pub mod planted;
mod poller;
pub mod process;
mod receive;
mod recorder;
pub mod report;
mod request;
mod run;
mod scarce;
pub mod seat;
mod service;
mod service_state;
pub mod sites;
mod socket;
pub mod start;
mod states;
mod stops;
mod survey;
mod takeover;
mod task;
#[cfg(feature = "planted")]
mod twist;
mod watch;
