//! Records that a running program's image writes for the command: samples of its threads, and switches of its CPUs.
//!
//! Writer and reader are in one crate, so they cannot disagree about the format.
//!
//! **May touch:** the words it is given.
//!
//! **Start reading at** [`Kind`] (what a record holds), then [`Ring`] (a CPU's bounded, wait-free buffer; what does not fit
//! is counted), [`write`](mod@write) and [`read`](mod@read).
//!
//! A record is a row of 64-bit words in the machine's byte order. Its first word holds the kind, the CPU and the number of
//! words, itself included.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod read;
pub mod ring;
pub mod write;

pub use read::{Record, records};
pub use ring::{Ring, Writer};

/// Version of the form, in [`Kind::Begin`].
pub const VERSION: u64 = 2;

/// The kind of a record, which determines the words after the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A program begins, or continues after exec or fork: version, process id, number of CPUs, the time, nanoseconds
    /// between two samples, 1 if they are by the wall clock, two words of name.
    Begin = 1,
    /// `/proc/PID/maps`, the lines of code: number of bytes, the bytes.
    Maps = 2,
    /// A thread at one moment: thread id, how many samples it counts for, nanoseconds of CPU time that it stands for, the
    /// time, two words of name, instruction pointer, stack pointer, frame pointer, number of frame records, these
    /// (place, return address), the copied stack.
    Sample = 3,
    /// More of a thread's last sample, because it has not run since, or has ended soon after: thread id, how many samples more,
    /// nanoseconds of CPU time more.
    Again = 4,
    /// A CPU turns to another thread: the time, thread id (0: idle), priority as in `sched_switch` and in the upper half
    /// how the thread before left ([`ids::Left`]), two words of name, when the thread was woken or made (0: it could have
    /// gone on all the time) and by what ([`ids::Waker::to_word`]).
    Switch = 5,
    /// The end of the writer: due samples, CPU time whose record did not fit, lost switches, the time.
    End = 6,
}

impl Kind {
    /// The kind in a record's first word.
    #[must_use]
    pub fn of(first: u64) -> Option<Kind> {
        use Kind::*;
        [Begin, Maps, Sample, Again, Switch, End].into_iter().find(|&kind| kind as u64 == first & 0xff)
    }
}

/// A record's first word.
#[must_use]
pub const fn first_word(kind: Kind, cpu: u16, words: usize) -> u64 {
    kind as u64 | (cpu as u64) << 8 | (words as u64) << 32
}
