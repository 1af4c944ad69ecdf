//! The state page: what a process publishes of its threads for `ps`, `top` and their kin.
//!
//! One file for each process, made of 64-bit words. It begins with a [`Header`]: whose page this is. Behind
//! that are two areas of the same size, each with room for one snapshot: a few words on the process, a record for every
//! CPU, and one for every living thread.
//!
//! ```text
//!   header     whose, since when, sizes; `begun`, `done`
//!   area 0     snapshots 0, 2, 4, …      process │ CPU 0 │ CPU 1 │ … │ thread │ thread │ …
//!   area 1     snapshots 1, 3, 5, …      the same
//! ```
//!
//! # Two areas and two counts
//! The process has one writer. To make snapshot n it says that it has `begun` n, fills the area n mod 2 and says that n is
//! `done`; the areas are filled by turns, so the last snapshot that is done stays whole while the next is made, and even
//! if its writer is stopped in the middle of that for ever.
//!
//! | word | written by | says |
//! |---|---|---|
//! | `begun` = n | the writer, before it touches area n mod 2 | snapshot n - 2, in the same area, is no more |
//! | `done` = n | the writer, after it | snapshot n is whole |
//!
//! A reader loads `done` = n, reads the area n mod 2, and then loads `begun`. If that is n + 1 at most, what it
//! has read is snapshot n, whole. *Why*: it has seen `done` = n (release, acquire), so nothing that it read is older than
//! snapshot n. Were a word of it newer, it would be of snapshot n + 2 or later, whose words are stored
//! after `begun` = n + 2 with a release fence between; the reader's acquire fence stands between that word and its load of
//! `begun`, which would have to give n + 2 or more. `models` in `write.rs` goes through all orders with loom.
//!
//! A reader never writes: it can neither block nor slow the writer, and there may be any number.
//!
//! # Nothing is trusted
//! Who reads another process's page reads what somebody may have made up. [`Page::open`] checks sizes before they are
//! used, and every field of every record has a type whose values are checked when it is decoded; what does not fit makes the
//! page [`Error::Damaged`]. The reader reads by copying, because a mapped file may be cut short at any time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod layout;
mod read;
mod record;
mod thread;
mod write;

pub use layout::{AREA_WORDS, Header, RECORD_WORDS, VERSION, area_words, page_words};
pub use read::{Error, Page, Snapshot, Source};
pub use record::{Cpu, Process};
pub use thread::{Place, Thread, Wait};
pub use write::{Full, Memory, Writer};
