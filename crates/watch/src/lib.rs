//! Reads what processes under Entresol publish: their state pages.
//!
//! [`find`] knows where pages lie, whose they are and whether their process lives; [`fetch`] asks for fresh snapshots
//! and waits for them; [`mod@column`] turns threads into text; [`stack`] unwinds threads that have no CPU. The layout of
//! a page and its checks are in crate `state`, the writer is `host/src/base/page.rs`.
//!
//! **May touch:** pages and `/proc`, for reading, and one signal that asks a process for a snapshot. Nothing here stops a
//! process.
//!
//! **Start reading at** [`find`], then [`fetch`].

pub mod column;
pub mod fetch;
pub mod find;
pub mod stack;

use state::Snapshot;

/// A process and what its page says of it.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Its id.
    pub pid: i32,
    /// How long before the snapshot was read its page was made.
    pub age: ids::Nanos,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// How old the snapshot is, if the process has made no fresh one when it was asked to.
    pub stale: Option<std::time::Duration>,
}

impl Watched {
    /// The process's name: its main thread's, or the host's if that thread is gone.
    #[must_use]
    pub fn name(&self) -> String {
        match self.snapshot.threads.iter().find(|thread| thread.tid == self.pid) {
            Some(main) => printable(main.name()),
            None => std::fs::read(format!("/proc/{}/comm", self.pid))
                .map_or_else(|_| "?".to_owned(), |name| printable(name.trim_ascii_end())),
        }
    }
}

/// A text from an untrusted source without terminal control sequences.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
