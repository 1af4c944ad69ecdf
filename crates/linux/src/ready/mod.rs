//! Waiting for descriptors without a host thread.
//!
//! A call that may wait is tried in a form that cannot ([`host_call`](crate::host_call)). If it would wait, its thread
//! **parks**: it joins the queue of each descriptor that it waits for and leaves its CPU, as for a futex. An idle CPU
//! sleeps in the machine's poller (`epoll(7)`), busy ones look there at each tick; an event wakes threads of the
//! descriptor's queue. A woken thread makes its call again, in the same form, when it is chosen.
//!
//! Of a TCP connection that the last read has emptied it is known that the next would wait ([`streams`]).
//!
//! Each descriptor is registered once, when the first thread parks on it, and reports edges: nothing is armed again.
//!
//! **No event is lost.** Each descriptor has a *generation*, which every event increments before it looks into the
//! queue. A thread
//! 1. reads the generations of its descriptors,
//! 2. tries its call, which would wait,
//! 3. registers descriptors that are not registered yet, which reports their present state as an event,
//! 4. joins the queues,
//! 5. reads the generations again, and tries again if one has changed since 1, also when it is chosen again.
//!
//! An event after 2 either increments before 5, and the thread sees it, or looks into the queue after 4 (both take the
//! queue's lock), and finds the thread.
//!
//! **No wake-up is lost.** A reader or writer waits *exclusively*: an event wakes one of them, as in Linux. One that was
//! woken wakes the next when its call is over, however it ended; it keeps the wake-up to itself only if it finds that it
//! would wait once more, when there is nothing left for others either.
//!
//! The simulator's `models.rs` runs this protocol on a model checker.
//!
//! [`closing`] handles threads whose descriptor is closed, [`owed`] errors that come after a part.

mod closing;
mod owed;
mod park;
mod points;
mod poller;
mod streams;
mod table;

pub(crate) use points::{after, read_time, tells_time_left};
pub(crate) use table::Ready;
