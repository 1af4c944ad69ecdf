//! Making snapshots.

use crate::layout::{AREA_WORDS, BEGUN, DONE, Header, RECORD_WORDS};
use crate::record::{Cpu, Process};
use crate::thread::Thread;
use sync::atomic::{Ordering::Release, fence};

/// The memory of a page.
pub trait Memory {
    /// Stores words from `at` on, each in one piece. Two calls are not reordered behind a release fence between them.
    ///
    /// # Errors
    /// [`Full`] if there is no memory behind it, as when the file system has none left.
    fn write(&mut self, at: usize, words: &[u64]) -> Result<(), Full>;
}

/// There is no memory behind that place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The one writer of a page.
#[derive(Debug)]
pub struct Writer<M> {
    memory: M,
    header: Header,
    done: u64,
    /// Threads of the snapshot that is being made.
    threads: usize,
}

impl<M: Memory> Writer<M> {
    /// A page without snapshots, in memory that is zero and not read yet.
    ///
    /// # Errors
    /// [`Full`].
    pub fn new(mut memory: M, header: Header) -> Result<Writer<M>, Full> {
        memory.write(0, &header.encode())?;
        Ok(Writer { memory, header, done: 0, threads: 0 })
    }

    /// The number of threads that fit.
    pub fn capacity(&self) -> usize {
        self.header.capacity
    }

    /// The memory that it writes to.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Begins the next snapshot.
    ///
    /// # Errors
    /// [`Full`], from this and the following calls: start the snapshot again, or abandon it.
    pub fn begin(&mut self) -> Result<(), Full> {
        self.threads = 0;
        self.memory.write(BEGUN, &[self.done + 1])?;
        fence(Release);
        Ok(())
    }

    /// Writes the record of a CPU.
    ///
    /// # Errors
    /// [`Full`].
    pub fn cpu(&mut self, index: usize, cpu: &Cpu) -> Result<(), Full> {
        debug_assert!(index < self.header.cpus);
        let at = self.header.area(self.done + 1) + AREA_WORDS + index * RECORD_WORDS;
        self.memory.write(at, &cpu.encode())
    }

    /// Adds a thread; false if it does not fit.
    ///
    /// # Errors
    /// [`Full`].
    pub fn thread(&mut self, thread: &Thread) -> Result<bool, Full> {
        if self.threads == self.header.capacity {
            return Ok(false);
        }
        let records = self.header.cpus + self.threads;
        self.memory.write(self.header.area(self.done + 1) + AREA_WORDS + records * RECORD_WORDS, &thread.encode())?;
        self.threads += 1;
        Ok(true)
    }

    /// Ends the snapshot: from now on it is the one that is read. How many threads are in it is known here.
    ///
    /// # Errors
    /// [`Full`].
    pub fn finish(&mut self, process: &Process) -> Result<(), Full> {
        let next = self.done + 1;
        let process = Process { threads: self.threads, ..*process };
        self.memory.write(self.header.area(next), &process.encode())?;
        fence(Release);
        self.memory.write(DONE, &[next])?;
        self.done = next;
        Ok(())
    }
}

/// The two counts under loom: every order of the steps, and every value that a relaxed load may return.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::{Error, Page, Source, page_words};
    use loom::sync::Arc;
    use loom::thread;
    use sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// The words that change: the counts, and in each area the number of the snapshot and that of a thread. Only these
    /// are atomics, because loom's are expensive.
    #[derive(Clone)]
    struct Shared {
        fixed: [u64; 16],
        counts: Arc<[AtomicU64; 2]>,
        areas: Arc<[[AtomicU64; 2]; 2]>,
    }

    const HEADER: Header = Header { pid: 1, namespace: 4, service: 0, created: ids::Nanos(0), cpus: 1, capacity: 1 };

    impl Shared {
        /// The word at this place, if it is one that changes.
        fn word(&self, at: usize) -> Option<&AtomicU64> {
            let in_area = |n: usize| {
                let from = HEADER.area(n as u64);
                match at.checked_sub(from)? {
                    // When it was taken, and the address that the thread waits for.
                    0 => Some(&self.areas[n][0]),
                    n2 if n2 == AREA_WORDS + RECORD_WORDS + 4 => Some(&self.areas[n][1]),
                    _ => None,
                }
            };
            match at {
                BEGUN => Some(&self.counts[0]),
                DONE => Some(&self.counts[1]),
                _ => in_area(0).or_else(|| in_area(1)),
            }
        }
    }

    impl Memory for Shared {
        fn write(&mut self, at: usize, words: &[u64]) -> Result<(), Full> {
            for (i, &value) in words.iter().enumerate() {
                if let Some(word) = self.word(at + i) {
                    word.store(value, Relaxed);
                }
            }
            Ok(())
        }
    }

    impl Source for Shared {
        fn words(&self) -> usize {
            page_words(1, 1)
        }

        fn read(&self, at: usize, to: &mut [u64]) -> bool {
            for (i, value) in to.iter_mut().enumerate() {
                *value = match self.word(at + i) {
                    Some(word) => word.load(Relaxed),
                    None if at + i < 16 => self.fixed[at + i],
                    // One thread, whose id is 1.
                    None => u64::from([0, 1].iter().any(|&n| {
                        let area = HEADER.area(n);
                        at + i == area + 3 || at + i == area + AREA_WORDS + RECORD_WORDS
                    })),
                };
            }
            true
        }
    }

    fn snapshot(writer: &mut Writer<Shared>, n: u64) {
        writer.begin().unwrap();
        writer.thread(&Thread { address: n, ..Thread::default() }).unwrap();
        writer.finish(&Process { taken: ids::Nanos(n), ..Process::default() }).unwrap();
    }

    #[test]
    fn what_is_read_is_one_snapshot_whole() {
        loom::model(|| {
            let shared = Shared {
                fixed: HEADER.encode(),
                counts: Arc::new([AtomicU64::new(0), AtomicU64::new(0)]),
                areas: Arc::new([0, 1].map(|_| [AtomicU64::new(0), AtomicU64::new(0)])),
            };
            let mut writer = Writer::new(shared.clone(), HEADER).unwrap();
            snapshot(&mut writer, 1);
            let other = thread::spawn(move || {
                for n in 2..=3 {
                    snapshot(&mut writer, n);
                }
            });
            match Page::open(shared).unwrap().snapshot() {
                Ok(s) => {
                    assert_eq!((s.process.taken.0, s.threads[0].address), (s.number, s.number));
                }
                Err(why) => assert_eq!(why, Error::Overtaken),
            }
            other.join().unwrap();
        });
    }
}
