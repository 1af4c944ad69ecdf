//! The host's `/proc` with Entresol's threads in it, as a FUSE file system for `ps`, `top`, `htop` and exporters.
//!
//! The host shows carriers where the program has threads. Here each process under Entresol has its own threads below
//! `task/`, taken from its state page. The functions that write the files about a thread are those that the program's
//! own kernel uses (`procfs::text`). Everything else is the host's, passed on.
//!
//! **May touch:** the host's `/proc` by a descriptor, snapshots of processes, `/dev/fuse`.
//!
//! **Start reading at** [`tree`] (names, attributes, links, listings), then [`file`](mod@file) and [`text`].
//!
//! | module | subject |
//! |---|---|
//! | [`host`] | the host's `/proc` by a descriptor. A process is an id *and* its start time, so a path below it leads to that process or fails |
//! | [`programs`] | which processes run under Entresol, by snapshots of state pages, each valid for one tick of Linux |
//! | [`node`] | what an inode number stands for |
//! | [`caller`] | who asks: `self`, and what `hidepid` hides |
//! | [`rights`] | the rights of the process that asks, with which everything is done |
//! | [`serve`], [`mounted`] | `/dev/fuse` and the mount point; the rest knows nothing of FUSE and is tested without it |
//!
//! Nothing here can stop or slow a program that is watched: its service thread makes snapshots, at most a hundredth of
//! the time, and they are read by copying. If something ends in between, the result is ESRCH or ENOENT, never a
//! mixture.
//!
//! # Rights
//! A FUSE daemon that answered with its own rights would be a way around the host's rules. Without `--allow-other` the
//! kernel lets in only processes of the daemon's user. With it, which only root may ask for, it lets in all. Each
//! request, reads and writes of open files as well, is made on the host with the rights of the process that asks
//! ([`rights`]).

pub mod caller;
mod double;
pub mod file;
pub mod host;
pub mod mounted;
pub mod node;
pub mod programs;
pub mod rights;
pub mod serve;
pub mod text;
pub mod tree;

pub use caller::Asker;
pub use host::Host;
pub use mounted::{Mounted, Unmounter};
pub use programs::{Seen, Watch};
pub use rustix::io::Errno;
pub use tree::Tree;
