//! The host's `/proc` with Entresol's threads in it, as a file system for everybody: `ps`, `top`, `htop`, exporters.
//!
//! The host knows carriers where the program has threads. Here each process that runs under Entresol has its own threads
//! below `task/`, as its state page tells them, and the files whose text is about a thread are made by the same functions as
//! those that the program itself reads (`procfs::text`). Everything else is the host's, passed on.
//!
//! * [`host`]: the host's `/proc` by a descriptor, so that it does not matter what is mounted over the path. A process is
//!   an id *and* the moment it began: what is opened below it is its own or nobody's.
//! * [`programs`]: who runs under Entresol, by snapshots of state pages, each used for a tick of Linux.
//! * [`node`]: what a number of the kernel's stands for.
//! * [`caller`]: who asks: `self`, what `hidepid` hides from whom, and rights.
//! * [`tree`]: names, attributes, links, listings. [`file`](mod@file): what is open. [`text`]: what is ours in it.
//! * [`serve`]: all that behind `/dev/fuse`; [`mounted`]: on a folder, until it is unmounted. The rest knows nothing of FUSE and is
//!   tested without.
//!
//! Nothing here can stop or slow a program that is looked at: a snapshot is made by its service thread, at most a hundredth of
//! the time, and read by copying. What has died in between is told as ESRCH or ENOENT, never as a mixture.
#![forbid(unsafe_code)]

pub mod caller;
pub mod file;
pub mod host;
pub mod mounted;
pub mod node;
pub mod programs;
pub mod serve;
pub mod text;
pub mod tree;

pub use caller::Asker;
pub use host::Host;
pub use mounted::{Mounted, Unmounter};
pub use programs::{Seen, Watch};
pub use rustix::io::Errno;
pub use tree::Tree;
