//! Futexes: wait until a word changes, as `futex(2)` describes.
//!
//! A hashed table of queues, each with its own lock; there is no lock above them. A queue
//! is ordered by urgency and, within one urgency, by arrival (`plist` in Linux's
//! `futex_hash_bucket`). The links are words in the threads ([`Node`]), guarded by the lock
//! of the queue they are in.
//!
//! Waits and wakes meet under the queue's lock: a waiter compares the word and joins the
//! queue in one critical section, so a waker that changed the word before it looked at
//! the queue finds either a waiter that will see the change or one to wake.

pub mod pi;
mod queue;
mod requeue;
mod robust;
mod vector;
mod wait;

pub use queue::{FutexTable, Node};
