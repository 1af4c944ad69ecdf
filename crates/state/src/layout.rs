//! The layout of a page, and its owner.

use crate::error::Error;
use ids::{CPUS_MAX, Nanos, THREADS_MAX};

/// The version of the layout: a reader takes no other.
pub const VERSION: u32 = 3;
/// The first word of every page: `entresol`.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"entresol");

/// Words of the header, and of the process's part of an area.
pub(crate) const HEADER_WORDS: usize = 16;
/// Words of the process's part of an area.
pub const AREA_WORDS: usize = 16;
/// Words of a CPU's or a thread's record.
pub const RECORD_WORDS: usize = 18;

/// Where the counts are.
pub(crate) const BEGUN: usize = 5;
pub(crate) const DONE: usize = 6;
/// Where the namespace is.
const NAMESPACE: usize = 7;

/// Words of an area for this many CPUs and threads.
pub const fn area_words(cpus: usize, capacity: usize) -> usize {
    AREA_WORDS + (cpus + capacity) * RECORD_WORDS
}

/// Words of a page for this many CPUs and threads. For 0 threads it is a header only.
pub const fn page_words(cpus: usize, capacity: usize) -> usize {
    HEADER_WORDS + if capacity == 0 { 0 } else { 2 * area_words(cpus, capacity) }
}

/// The page's owner and size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The process.
    pub pid: i32,
    /// The namespace in which that id counts: the inode of `/proc/self/ns/pid`; 0 if the process could not read it.
    pub namespace: u64,
    /// The host thread that makes snapshots when it is asked to (SIGURG with [`Header::REQUEST`]). If the process
    /// has no such host thread, the page is not about the program that runs there now.
    pub service: i32,
    /// When the page was made, by CLOCK_BOOTTIME. A process that has begun later has inherited the id.
    pub created: Nanos,
    /// CPUs.
    pub cpus: usize,
    /// The number of threads that fit into an area; 0 if no snapshot was requested yet.
    pub capacity: usize,
}

impl Header {
    /// The value of the signal that requests a snapshot: `entresoq`.
    pub const REQUEST: u64 = u64::from_le_bytes(*b"entresoq");

    /// As words; the counts are zero.
    pub fn encode(&self) -> [u64; HEADER_WORDS] {
        let mut words = [0; HEADER_WORDS];
        words[0] = MAGIC;
        words[1] = u64::from(VERSION);
        words[2] = pair(self.pid as u32, self.service as u32);
        words[3] = self.created.0;
        words[4] = pair(self.cpus as u32, self.capacity as u32);
        words[NAMESPACE] = self.namespace;
        words
    }

    pub(crate) fn decode(words: &[u64; HEADER_WORDS]) -> Result<Header, Error> {
        if words[0] != MAGIC {
            return Err(Error::NoPage);
        }
        if words[1] != u64::from(VERSION) {
            return Err(Error::Version(words[1]));
        }
        let ((pid, service), (cpus, capacity)) = (halves(words[2]), halves(words[4]));
        let header = Header {
            pid: id(pid).ok_or(Error::Damaged("process id"))?,
            namespace: words[NAMESPACE],
            // Without a service thread there is no one to ask.
            service: if service == 0 { 0 } else { id(service).ok_or(Error::Damaged("service thread"))? },
            created: Nanos(words[3]),
            cpus: cpus as usize,
            capacity: capacity as usize,
        };
        match header {
            Header { cpus, .. } if cpus == 0 || cpus > CPUS_MAX => Err(Error::Damaged("number of CPUs")),
            Header { capacity, .. } if capacity > THREADS_MAX => Err(Error::Damaged("room for threads")),
            _ => Ok(header),
        }
    }

    /// The word at which the area of snapshot `n` begins.
    pub(crate) fn area(&self, n: u64) -> usize {
        HEADER_WORDS + (n % 2) as usize * area_words(self.cpus, self.capacity)
    }
}

/// Two half words in one.
pub(crate) fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The opposite of [`pair`].
pub(crate) fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// A process's or thread's id, if it can be one.
pub(crate) fn id(raw: u32) -> Option<i32> {
    i32::try_from(raw).ok().filter(|&id| id > 0)
}
