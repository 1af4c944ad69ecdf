//! The `/proc` tree: what is in it, how a path is walked without writing to shared memory, who may look, and what
//! the files say, to the byte.
//!
//! A kernel of threads has a `/proc` of its own, because the host knows carriers and not threads. The tree knows
//! neither: what lives is asked of [`Threads`], so the same code serves a program that looks at itself, a mounted
//! tree, and tests.
//!
//! * [`node`], [`entries`]: what there is. A [`Node`] names a directory or file *of a thread*, by slot and id, so what
//!   has died is recognised and never mistaken for its successor.
//! * [`leap`]: the plainest paths of threads, by what the tree itself knows: nothing is written at all.
//! * [`walk`]: from a path to a node. First in RCU mode: names are compared under sequence counts, each
//!   thread is asked whether it still lives (`pid_revalidate`, which the seed of 2021 allowed here), and nothing is
//!   written but the reader's own word. What cannot go on so takes a reference where it stands, or begins again
//!   with references throughout.
//! * [`dentry`]: the cache of names that the walk goes by; a bounded table, whose entries know each other by number.
//! * [`permission`]: modes, and the mount's `hidepid` and `gid`.
//! * [`list`]: directories, by a cursor that outlives births and deaths.
//! * [`text`]: the files' formats.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dentry;
pub mod entries;
pub mod leap;
pub mod list;
mod name;
pub mod node;
pub mod permission;
mod policy;
pub mod text;
pub mod walk;
mod way;
mod word;

pub use name::{Name, id_of};
pub use node::{Node, Place, ThreadId};
pub use permission::{Caller, HidePid, Options, Owner};
pub use policy::{Mode, Policy};
pub use walk::{Tree, Walked, Want};
pub use word::first_of;

/// Who lives. Every answer is given without waiting and without a write to shared memory; it may be out of date
/// by the time it is used, and whoever uses it asks [`Threads::lives`] again.
pub trait Threads {
    /// The thread with this id, of any process that is shown.
    fn find(&self, id: i32) -> Option<ThreadId>;
    /// Whether this very thread still lives, or is a zombie that shows.
    fn lives(&self, thread: ThreadId) -> bool;
    /// The first thread of its process; itself if it is that.
    fn leader(&self, thread: ThreadId) -> Option<ThreadId>;
    /// Whose it is.
    fn owner(&self, thread: ThreadId) -> Option<Owner>;
    /// The first process whose id is at least this one.
    fn next_process(&self, at_least: i32) -> Option<ThreadId>;
    /// The first thread of the same process after the one that had this id: the leader after 0, and by
    /// ascending ids from then on.
    fn next_thread(&self, of: ThreadId, after: i32) -> Option<ThreadId>;
    /// How many threads its process has.
    fn count(&self, of: ThreadId) -> u32;
}
