//! Reading a page that may be forged.

use crate::error::Error;
use crate::layout::{AREA_WORDS, BEGUN, DONE, HEADER_WORDS, Header, RECORD_WORDS, page_words};
use crate::record::{Cpu, Process};
use crate::thread::Thread;
use alloc::vec::Vec;
use sync::atomic::{Ordering::Acquire, fence};

/// Where a page is read from.
pub trait Source {
    /// How many words there are.
    fn words(&self) -> usize;
    /// Copies words from `at` on; false if there are fewer. Two calls are not reordered.
    fn read(&self, at: usize, to: &mut [u64]) -> bool;
}

/// One snapshot, whole and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number.
    pub number: u64,
    /// The process.
    pub process: Process,
    /// Its CPUs.
    pub cpus: Vec<Cpu>,
    /// Its living threads.
    pub threads: Vec<Thread>,
}

/// A page whose header is what it should be.
#[derive(Debug)]
pub struct Page<S> {
    source: S,
    header: Header,
}

/// Records that are copied in one go. A model checker's stacks are small.
const BATCH: usize = if cfg!(loom) { 1 } else { 256 };
/// How often a snapshot is read again that was overwritten meanwhile.
const TRIES: usize = if cfg!(loom) { 1 } else { 8 };

impl<S: Source> Page<S> {
    /// Looks at the header.
    ///
    /// # Errors
    /// [`Error::NoPage`], [`Error::Version`] or [`Error::Damaged`].
    pub fn open(source: S) -> Result<Page<S>, Error> {
        let mut words = [0; HEADER_WORDS];
        if !source.read(0, &mut words) {
            return Err(Error::NoPage);
        }
        let header = Header::decode(&words)?;
        if source.words() < page_words(header.cpus, header.capacity) {
            return Err(Error::Damaged("length"));
        }
        Ok(Page { source, header })
    }

    /// The page's owner and size.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of the last complete snapshot; 0: none.
    pub fn number(&self) -> u64 {
        self.count(DONE).unwrap_or(0)
    }

    /// The process's words in the last snapshot.
    ///
    /// # Errors
    /// As [`Page::snapshot`].
    pub fn process(&self) -> Result<Process, Error> {
        self.consistent(|at| self.read_process(at)).map(|(_, process)| process)
    }

    /// The last snapshot.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Damaged`] or [`Error::Overtaken`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let (number, (process, cpus, threads)) = self.consistent(|at| self.read_area(at))?;
        Ok(Snapshot { number, process, cpus, threads })
    }

    fn count(&self, which: usize) -> Result<u64, Error> {
        let mut word = [0];
        let there = self.source.read(which, &mut word);
        if there { Ok(word[0]) } else { Err(Error::Damaged("length")) }
    }

    /// Reads the area of the last snapshot until it was whole all the time. See the proof in `lib.rs`.
    fn consistent<T>(&self, read: impl Fn(usize) -> Result<T, Error>) -> Result<(u64, T), Error> {
        for _ in 0..TRIES {
            let done = self.count(DONE)?;
            if done == 0 || self.header.capacity == 0 {
                return Err(Error::Empty);
            }
            fence(Acquire);
            let result = read(self.header.area(done));
            fence(Acquire);
            // Errors in a half-written area mean nothing, not even damage.
            if self.count(BEGUN)? <= done.saturating_add(1) {
                return Ok((done, result?));
            }
        }
        Err(Error::Overtaken)
    }

    fn read_process(&self, at: usize) -> Result<Process, Error> {
        let mut words = [0; AREA_WORDS];
        if !self.source.read(at, &mut words) {
            return Err(Error::Damaged("length"));
        }
        Process::decode(&words, self.header.capacity)
    }

    fn read_area(&self, at: usize) -> Result<(Process, Vec<Cpu>, Vec<Thread>), Error> {
        let process = self.read_process(at)?;
        let at = at + AREA_WORDS;
        let cpus = self.read_records(at, self.header.cpus, Cpu::decode)?;
        let threads = self.read_records(at + self.header.cpus * RECORD_WORDS, process.threads, Thread::decode)?;
        Ok((process, cpus, threads))
    }

    fn read_records<T>(
        &self,
        at: usize,
        count: usize,
        decode: impl Fn(&[u64; RECORD_WORDS]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut records = Vec::new();
        records.try_reserve_exact(count).map_err(|_| Error::Damaged("more records than there is memory for"))?;
        let mut words = [0; BATCH * RECORD_WORDS];
        for first in (0..count).step_by(BATCH) {
            let words = &mut words[..BATCH.min(count - first) * RECORD_WORDS];
            if !self.source.read(at + first * RECORD_WORDS, words) {
                return Err(Error::Damaged("length"));
            }
            for record in words.as_chunks::<RECORD_WORDS>().0 {
                records.push(decode(record)?);
            }
        }
        Ok(records)
    }
}

impl Source for &[u64] {
    fn words(&self) -> usize {
        self.len()
    }

    fn read(&self, at: usize, to: &mut [u64]) -> bool {
        let from = self.get(at..).and_then(|rest| rest.get(..to.len()));
        from.map(|from| to.copy_from_slice(from)).is_some()
    }
}
