//! A bounded, wait-free queue of words with one writer and one reader at a time.
//!
//! | word | written by | value |
//! |---|---|---|
//! | `head` | the writer, after the record's words | words ever written |
//! | `tail` | the reader, after it has copied them | words ever read |
//! | `refused` | the writer | records that did not fit |
//!
//! A release of `head` publishes the words before it; a release of `tail` frees their places.

use sync::atomic::{AtomicU64, Ordering::*};

/// One ring. Several writers, or several readers, take turns by means of their own.
#[derive(Debug)]
pub struct Ring {
    words: &'static [AtomicU64],
    head: AtomicU64,
    tail: AtomicU64,
    refused: AtomicU64,
}

/// A record that is being written. Readers see it after [`Writer::commit`] only.
#[derive(Debug)]
pub struct Writer<'a> {
    ring: &'a Ring,
    start: u64,
    at: u64,
    end: u64,
}

impl Ring {
    /// A ring in these words.
    #[must_use]
    pub fn new(words: &'static [AtomicU64]) -> Ring {
        Ring { words, head: AtomicU64::new(0), tail: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Begins a record of at most `words` words; `None`, which is counted, if that many are not free.
    pub fn begin(&self, words: usize) -> Option<Writer<'_>> {
        let head = self.head.load(Relaxed);
        let used = head - self.tail.load(Acquire);
        if used + words as u64 > self.words.len() as u64 {
            self.refused.store(self.refused.load(Relaxed) + 1, Relaxed);
            return None;
        }
        Some(Writer { ring: self, start: head, at: head, end: head + words as u64 })
    }

    /// The number of records that did not fit.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Whether more than half of it is unread.
    pub fn is_half_full(&self) -> bool {
        (self.head.load(Relaxed) - self.tail.load(Relaxed)) * 2 > self.words.len() as u64
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.head.load(Acquire) == self.tail.load(Relaxed)
    }

    /// Hands over every word written so far, in pieces of at most `buffer`.
    pub fn drain(&self, buffer: &mut [u64], mut take: impl FnMut(&[u64])) {
        let (head, mut tail) = (self.head.load(Acquire), self.tail.load(Relaxed));
        while tail < head {
            let n = ((head - tail) as usize).min(buffer.len());
            for (i, word) in buffer[..n].iter_mut().enumerate() {
                *word = self.word(tail + i as u64).load(Relaxed);
            }
            take(&buffer[..n]);
            tail += n as u64;
            self.tail.store(tail, Release);
        }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at % self.words.len() as u64) as usize]
    }
}

impl Writer<'_> {
    /// Adds a word; false if it exceeds the reservation.
    #[inline]
    pub fn push(&mut self, word: u64) -> bool {
        let fits = self.at < self.end;
        if fits {
            self.ring.word(self.at).store(word, Relaxed);
            self.at += 1;
        }
        fits
    }

    /// Adds words until the reservation is full.
    pub fn push_all(&mut self, words: &[u64]) {
        for &word in words {
            self.push(word);
        }
    }

    /// Changes a word that was added.
    pub fn set(&mut self, index: usize, word: u64) {
        assert!(index < self.len());
        self.ring.word(self.start + index as u64).store(word, Relaxed);
    }

    /// How many words it has.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.at - self.start) as usize
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.start
    }

    /// Publishes the record.
    pub fn commit(self) {
        self.ring.head.store(self.at, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    fn ring(words: usize) -> Ring {
        let words: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ring::new(Box::leak(words))
    }

    fn all(ring: &Ring) -> Vec<u64> {
        let mut got = Vec::new();
        ring.drain(&mut [0; 3], |words| got.extend_from_slice(words));
        got
    }

    #[test]
    fn words_come_out_as_they_went_in_also_around_the_end() {
        let ring = ring(8);
        for round in 0..20u64 {
            let mut w = ring.begin(5).expect("it was emptied");
            w.push_all(&[0, round, 7]);
            w.set(0, 100 + round);
            assert_eq!(w.len(), 3);
            w.commit();
            assert_eq!(all(&ring), [100 + round, round, 7]);
        }
        assert_eq!(ring.refused(), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_counted() {
        let ring = ring(8);
        let mut w = ring.begin(6).expect("it is empty");
        w.push_all(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(w.len(), 6, "no more than was asked for");
        w.commit();
        assert!(ring.is_half_full());
        assert!(ring.begin(3).is_none());
        assert!(ring.begin(3).is_none());
        assert_eq!(ring.refused(), 2);
        assert!(ring.begin(2).is_some(), "a record that is not committed takes no room");
        assert_eq!(all(&ring), [1, 2, 3, 4, 5, 6]);
        assert!(ring.begin(8).is_some());
    }

    #[test]
    fn writer_and_reader_at_the_same_time_lose_nothing() {
        extern crate std;
        let ring: &'static Ring = Box::leak(Box::new(ring(64)));
        const RECORDS: u64 = 20_000;
        let writer = std::thread::spawn(move || {
            for n in 0..RECORDS {
                loop {
                    if let Some(mut w) = ring.begin(3) {
                        w.push_all(&[n, !n, n * 3]);
                        w.commit();
                        break;
                    }
                    std::thread::yield_now();
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < 3 * RECORDS as usize {
            ring.drain(&mut [0; 16], |words| got.extend_from_slice(words));
            std::thread::yield_now();
        }
        writer.join().expect("it does not panic");
        for (n, words) in (0..RECORDS).zip(got.chunks(3)) {
            assert_eq!(words, [n, !n, n * 3]);
        }
    }
}
