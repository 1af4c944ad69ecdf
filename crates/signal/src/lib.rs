//! Signals: what is pending and blocked, what each signal does, which thread receives it, and the frame its handler runs on.
//!
//! The rules are those of `signal(7)` and of Linux's `kernel/signal.c`. Nothing here knows a host.
//!
//! **May touch:** its own tables. The caller holds one lock over [`ProcessSignals`] and [`ThreadSignals`].
//!
//! **Start reading at** [`ProcessSignals`], in the order of the picture.
//!
//! # The path of a signal
//! ```text
//! ProcessSignals::send ──► ignored, coalesced, refused (EAGAIN)
//!        │ queued for a thread or the process
//!        ▼ Sent.wake: whom to wake; Wake::Search: look for a receiver (find_receiver)
//! ProcessSignals::next_action ──► nothing, stop, terminate, or a handler: Delivery
//!        ▼
//! FramePlan::new ──► where the frame lies, or that it does not fit
//!        ▼ frame written to user memory
//! ProcessSignals::delivered ──► the mask in force while the handler runs
//!        ▼ handler returns
//! frame::read ──► ProcessSignals::sigreturn
//! ```
//!
//! # Ownership
//! One [`ProcessSignals`] per process holds the dispositions, the process's own queue, and the memory of all queues. One
//! [`ThreadSignals`] per thread holds masks, alternate stack and the thread's queue. All methods take `&mut`. [`Summary`] is
//! the one part that is read without the lock.
//!
//! # Bounded work
//! No call here walks threads. Where Linux flushes a signal from every thread's queue (`sigaction` to ignore; stop and
//! continue, which cancel each other), the process records the moment, and each thread's queue is settled before it is next
//! read. Receivers are found in an index (`takers.rs`) whose searches cost the same however many threads there are;
//! [`Retarget`] needs at most one search per signal. A queue is a list of lanes, one per pending signal number, so every
//! operation takes at most 64 steps.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod altstack;
mod deliver;
mod dispositions;
pub mod frame;
mod pending;
mod process;
mod receive;
mod restart;
mod send;
mod shown;
mod slab;
mod stops;
mod summary;
mod takers;
mod thread;
mod wait;

pub use altstack::AltStack;
pub use deliver::{Action, Delivery, Dequeued, Force, NoTimers, Taken, TimerSignals};
pub use dispositions::{DefaultAction, Dispositions};
pub use frame::FramePlan;
use pending::Pending;
pub use pending::TimerKey;
pub use process::{ActionChange, ProcessSignals, Scope};
pub use receive::{Candidate, Retarget, ThreadState};
pub use restart::{Restart, restart};
pub use send::{Fate, Quota, Sent, Target, Wake};
pub use shown::{Sets, Show, Shown, ShownGuard};
pub use summary::Summary;
pub use takers::NoRoom;
pub use thread::{MaskHow, ThreadSignals};
