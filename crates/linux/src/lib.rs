//! The Linux personality: the calls that are not about threads, answered with the host's help.
//!
//! The kernel (crate `kernel`) has the threads. It passes every call that it does not handle to [`State`], its
//! [`kernel::Personality`], which makes host calls on the thread's behalf, says which of them may wait, and corrects
//! what the host gets wrong because it sees carriers where the program has threads.
//!
//! **May touch:** what [`Host`] offers, and the kernel's public functions. No unsafe code.
//!
//! **Start reading at** [`Linux::call`] in `calls.rs`, then `kinds` (which calls wait).
//!
//! | module | subject |
//! |---|---|
//! | `calls` | which function answers which call |
//! | `kinds`, `host_call`, `finish` | which calls may wait; how they are tried in a form that does not; how they end |
//! | `short` | reads that get less than they ask for, although there is more |
//! | `masked`, `put_off` | calls with a signal mask of their own; calls that have no carrier to wait on |
//! | `ready`, `vectors`, `connect` | waiting for descriptors without a host thread; sends that a stream may take in parts; connections |
//! | `memory` | thread stacks and shared mappings |
//! | `proc` | the program's view of `/proc`, on top of crate `procfs` |
//! | `signalfd`, `left`, `lent`, `arrivals`, `owners` | signals that the host queues, causes or addresses |
//! | `terminal` | job control |
//! | `exec`, `inherit`, `host_times` | what a new program and a forked child inherit |
//! | `shared_futex` | futexes that other processes see |
//! | `io_priority` | a priority for the I/O of each thread |
//! | `named`, `confine`, `membarrier` | calls that name threads, confine them, or order their memory accesses |
//! | `facts` | questions to the host about this process |
//! | `planted` | faults that the simulator's checks must catch |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arrivals;
mod calls;
mod confine;
mod connect;
mod exec;
pub mod facts;
mod finish;
mod host_call;
mod host_times;
mod inherit;
mod io_priority;
mod kinds;
mod lasting;
pub mod left;
mod lent;
mod machine;
mod masked;
mod membarrier;
pub mod memory;
mod named;
mod owners;
mod personality;
mod planted;
mod proc;
mod put_off;
mod ready;
mod shared_futex;
mod short;
mod signalfd;
mod terminal;
mod untried;
mod vectors;

use alloc::sync::Arc;
use core::ops::Deref;
use kernel::Kernel;
use sync::atomic::AtomicU32;

pub use exec::HandedOn;
pub use finish::{NOT_BEGUN, TRY_AGAIN};
pub use host_call::call_at_once;
pub use inherit::Inheritance;
pub use kinds::{polls_for_a_time, restarts, shows_interrupts};
pub use machine::{Arg, Ends, Host, host};
#[cfg(feature = "planted")]
pub use planted::Fault;
pub use short::Portion;

/// The personality's state of a process.
#[derive(Debug, Default)]
pub struct State {
    memory: memory::Memory,
    descriptors: signalfd::Descriptors,
    sources: arrivals::Sources,
    proc: proc::ProcRoom,
    enough: host_call::Enough,
    owners: owners::Owners,
    files: short::Files,
    ready: ready::Ready,
    registrations: membarrier::Registrations,
    io: io_priority::Given,
    /// The program's path, if the host takes another file for it. Set by the machine before the process begins.
    pub executable: Option<Arc<[u8]>>,
    /// The planted fault.
    pub planted: planted::Planted,
    /// Threads whose host call sleeps instead of waiting, because there is no carrier for it.
    put_off: AtomicU32,
}

impl State {
    /// The descriptor in which the machine's idle CPUs sleep while threads are parked (`epoll(7)`), if it exists.
    pub fn poller(&self) -> Option<u32> {
        self.ready.poller.descriptor()
    }

    /// The descriptors that keep files open for threads that wait for them after the program closed its own. A forked
    /// child has copies, but none of those threads.
    pub fn stand_ins(&self) -> impl Iterator<Item = u32> + '_ {
        self.ready.stand_ins()
    }

    /// How often a descriptor had to be waited for on a host thread because the host had no descriptor or no memory for
    /// the poller.
    pub fn poller_refusals(&self) -> u32 {
        self.ready.refusals()
    }
}

/// A process: its kernel, and through it its personality.
#[derive(Debug)]
pub struct Linux<'k, M: Host>(pub &'k Kernel<M>);

// A derived `Clone` would require `M: Clone`.
impl<M: Host> Clone for Linux<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Host> Copy for Linux<'_, M> {}

impl<M: Host> Deref for Linux<'_, M> {
    type Target = Kernel<M>;

    #[inline(always)]
    fn deref(&self) -> &Kernel<M> {
        self.0
    }
}

impl<'k, M: Host> Linux<'k, M> {
    #[inline(always)]
    fn state(&self) -> &'k State {
        &self.0.personality
    }

    /// Whether this fault is planted and strikes: see `planted.rs`.
    #[inline(always)]
    fn strikes(&self, fault: planted::Fault) -> bool {
        self.state().planted.strikes(fault)
    }

    /// The process's memory.
    pub fn memory(&self) -> &'k memory::Memory {
        &self.state().memory
    }
}
