//! Waiting for descriptors without a host thread.
//!
//! A call that may wait is tried in a form that cannot ([`host_call`](crate::host_call)). If it would wait, its thread
//! **parks**: it joins the queue of each descriptor that it waits for and leaves its CPU, as for a futex. An idle CPU
//! sleeps in the machine's poller (`epoll(7)`), busy ones poll it at each tick; an event wakes threads in the
//! descriptor's queue. A woken thread repeats its call, in the same form, when it is chosen.
//!
//! If the last read has emptied a TCP connection, the next one is known to wait ([`streams`]). A descriptor that is known
//! to have O_NONBLOCK never parks a thread, and the host makes its reads ([`nonblocking`]).
//!
//! Each descriptor is registered once, when the first thread parks on it, and reports edges, so nothing is rearmed.
//!
//! **No event is lost.** Each descriptor has a *generation*, which every event increments before it checks the queue. A
//! thread
//! 1. reads the generations of its descriptors,
//! 2. tries its call, which would wait,
//! 3. registers descriptors that are not registered yet, which reports their present state as an event,
//! 4. joins the queues,
//! 5. reads the generations again, and tries again if one has changed since 1; also when it is chosen again.
//!
//! An event after 2 either increments before 5, and the thread sees it, or checks the queue after 4 (both take the
//! queue's lock), and finds the thread.
//!
//! **No wake-up is lost.** A reader or writer waits *exclusively*: an event wakes one of them, as in Linux. A thread
//! that was woken wakes the next when its call is over, however it ended. It does not if it finds that it would wait
//! again, because then nothing is left for others either.
//!
//! The simulator's `models.rs` runs this protocol on a model checker.
//!
//! [`closing`] handles threads whose descriptor is closed, [`owed`] errors that come after a part.

mod closing;
mod nonblocking;
mod owed;
mod park;
mod points;
mod poller;
mod streams;
mod table;

pub(crate) use points::{Points, after, read_time, tells_time_left};
pub(crate) use table::Ready;
