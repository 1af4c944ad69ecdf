//! The state page: what a process publishes of its threads for `ps`, `top` and similar tools.
//!
//! **May touch:** the words it is given. **Start reading here**, then at [`Header`] and `write.rs`.
//!
//! A page is one file per process, made of 64-bit words. A [`Header`] says whose page it is. Two areas of equal size follow,
//! each with room for one snapshot: a few words about the process, a record for every CPU, and one for every living thread.
//!
//! ```text
//!   header     process, start time, sizes; `begun`, `done`
//!   area 0     snapshots 0, 2, 4, …      process │ CPU 0 │ CPU 1 │ … │ thread │ thread │ …
//!   area 1     snapshots 1, 3, 5, …      the same
//! ```
//!
//! # Two areas and two counts
//! There is one writer. To make snapshot n it stores `begun` = n, fills area n mod 2, and stores `done` = n. The areas
//! alternate, so the last complete snapshot stays whole while the next one is made, even if the writer stops in the middle
//! for ever.
//!
//! | word | written | promises |
//! |---|---|---|
//! | `begun` = n | by the writer, before it touches area n mod 2 | snapshot n - 2, in the same area, is gone |
//! | `done` = n | by the writer, afterwards | snapshot n is whole |
//!
//! A reader loads `done` = n, copies area n mod 2, and then loads `begun`.
//!
//! 1. If `begun` is at most n + 1, the copy is snapshot n, whole.
//! 2. *Nothing in it is older*: the reader has seen `done` = n (release, acquire).
//! 3. *Nothing in it is newer*: a newer word would belong to snapshot n + 2 or later, whose words are stored after
//!    `begun` = n + 2 with a release fence in between. The reader's acquire fence separates that word from its load of
//!    `begun`, which would therefore return at least n + 2.
//!
//! `models` in `write.rs` explores all orders with loom. A reader never writes, so it can neither block nor slow the writer.
//!
//! # Why snapshots
//! Snapshots are made when somebody asks. Publishing every block and wake-up would cost one more cache line in each of
//! millions of hand-overs a second, for readers that come once a second. Sharing the kernel's tables would let a reader
//! write to the kernel, let a full file system kill it, and make the layout of every table an interface.
//!
//! # Nothing is trusted
//! A page may be forged. [`Page::open`] checks sizes before they are used, every field of every record has a type whose
//! values are checked when it is decoded, and anything else makes the page [`Error::Damaged`]. Readers copy instead of
//! mapping, because a mapped file can be truncated at any time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod error;
mod layout;
mod read;
mod record;
mod thread;
mod write;

pub use error::Error;
pub use layout::{AREA_WORDS, Header, RECORD_WORDS, VERSION, area_words, page_words};
pub use read::{Page, Snapshot, Source};
pub use record::{Cpu, Process};
pub use thread::{Place, Thread, Wait};
pub use write::{Full, Memory, Writer};
