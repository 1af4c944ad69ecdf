//! The tree of `/proc`: what is in it, how a path is walked, who may look, and what the files say, to the byte.
//!
//! A thread kernel needs its own `/proc`, because the host knows carriers and not threads. This crate knows neither:
//! it asks [`Threads`] which exist, so the same code serves a program that reads about itself, a mounted tree, and
//! tests.
//!
//! **May touch:** what its caller passes of threads.
//!
//! **Start reading at** [`walk`], which draws the path walk.
//!
//! | module | subject |
//! |---|---|
//! | [`node`], [`entries`] | what exists. A [`Node`] names a file of a thread by slot and id, so a dead thread's file is never mistaken for its successor's |
//! | [`walk`] | from a path to a node. First in RCU mode, where names are compared under sequence counts and nothing is written but the reader's own word; what cannot continue takes a reference, or starts again with references |
//! | [`dentry`] | the bounded cache of names |
//! | [`permission`] | modes, and the mount's `hidepid` and `gid` |
//! | [`list`] | directories, by a cursor that survives births and deaths |
//! | [`text`] | the files' formats |
//!
//! # Scalability
//! A successful look-up writes its reader's own word and nothing else; `tests/counting.rs` builds with atomics that count
//! writes and proves it. There are no pointers: RCU ([`sync::rcu`]) protects slots, and one word per CPU announces a reader,
//! because a trap never waits. The side that reuses slots pays for the readers' fence, with `membarrier(2)`, once for 64 names.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dentry;
pub mod entries;
pub mod list;
mod name;
pub mod node;
pub mod permission;
mod policy;
pub mod text;
pub mod walk;
mod way;

pub use name::{Name, id_of};
pub use node::{Node, Place, ThreadId};
pub use permission::{Caller, HidePid, Options, Owner};
pub use policy::{Mode, Policy};
pub use walk::{Tree, Walked, Want};

/// The living threads. Answers never wait and write no shared memory. They may be out of date when they are used, so
/// the user asks [`Threads::lives`] again.
pub trait Threads {
    /// The thread with this id, of any process that is shown.
    fn find(&self, id: i32) -> Option<ThreadId>;
    /// Whether this very thread still lives, or is a zombie that shows.
    fn lives(&self, thread: ThreadId) -> bool;
    /// The first thread of its process; itself if it is that.
    fn leader(&self, thread: ThreadId) -> Option<ThreadId>;
    /// The thread's owner.
    fn owner(&self, thread: ThreadId) -> Option<Owner>;
    /// The first process whose id is at least this one.
    fn next_process(&self, at_least: i32) -> Option<ThreadId>;
    /// The first thread of the same process after the one that had this id: the leader after 0, and by
    /// ascending ids from then on.
    fn next_thread(&self, of: ThreadId, after: i32) -> Option<ThreadId>;
    /// How many threads its process has.
    fn count(&self, of: ThreadId) -> u32;
}
