//! Signals, wholly ours: what is pending and blocked, what each signal does, who receives
//! it, and the frame its handler runs on. The rules are those of `signal(7)` and of
//! Linux's `kernel/signal.c`; nothing here knows a host.
//!
//! # The way of a signal
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
//! # Who owns what
//! One [`ProcessSignals`] a process: dispositions, the process's own queue, and the memory
//! of all its queues. One [`ThreadSignals`] a thread: masks, alternate stack, its own
//! queue. All methods take `&mut`: the caller holds one lock over both. [`Summary`] is the
//! one part that is read without it.
//!
//! # Bounded work
//! No call here walks threads. Where Linux flushes a signal from every thread's queue
//! (`sigaction` to ignore, stop and continue cancelling each other), the process notes the
//! moment, and each thread's queue is settled before it is next looked at. Who lets a
//! signal through is found in an index (`takers.rs`), whose searches cost the same however many threads
//! there are; [`Retarget`] is answered by at most one search for each signal. A
//! queue is a list of lanes, one for each pending signal, so every operation costs at most
//! 64 steps however many signals are queued.
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
pub use dispositions::{ChildRule, DefaultAction, Dispositions};
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
