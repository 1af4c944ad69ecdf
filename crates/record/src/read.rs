//! Reads the words of a file as records. A damaged or newer record ends the reading without an error.

use crate::write::{Begin, End, Place, Sampled, Switched};
use crate::{Kind, VERSION};
use alloc::vec::Vec;
use ids::{Left, Nanos, Wake, Waker};

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A program begins.
    Begin(Begin),
    /// The lines of code of `/proc/PID/maps`.
    Maps(Vec<u8>),
    /// A thread at one moment.
    Sample(Sample<'a>),
    /// More of a thread's last sample: its id, how many samples, how much CPU time.
    Again(i32, u64, Nanos),
    /// A CPU turned to another thread.
    Switch(u16, Switched),
    /// The writer ended.
    End(End),
}

/// A thread at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample<'a> {
    /// The thread it belongs to.
    pub who: Sampled,
    /// Where the thread was.
    pub place: Place,
    /// Its frame records: place, return address.
    pub frames: &'a [[u64; 2]],
    /// Its stack, from the stack pointer rounded down to eight on.
    pub stack: &'a [u64],
}

/// The records in these words, in order.
pub fn records(words: &[u64]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = words;
    core::iter::from_fn(move || {
        let first = *rest.first()?;
        let len = (first >> 32) as usize;
        let record = rest.get(1..len)?;
        rest = &rest[len..];
        parse(Kind::of(first)?, (first >> 8) as u16, record)
    })
}

fn parse(kind: Kind, cpu: u16, w: &[u64]) -> Option<Record<'_>> {
    Some(match (kind, w) {
        (Kind::Begin, &[version, pid, cpus, at, every, wall, n0, n1]) if version == VERSION => Record::Begin(Begin {
            pid: pid as i32,
            cpus: cpus as usize,
            at: Nanos(at),
            every: Nanos(every),
            wall: wall != 0,
            name: [n0, n1],
        }),
        (Kind::Maps, [len, text @ ..]) => {
            let bytes = text.iter().flat_map(|word| word.to_ne_bytes());
            Record::Maps(bytes.take(*len as usize).collect())
        }
        (Kind::Sample, &[tid, count, value, at, n0, n1, rip, rsp, rbp, frames, ref rest @ ..]) => {
            let (chain, stack) = rest.split_at_checked(frames.checked_mul(2)? as usize)?;
            let who = Sampled { tid: tid as i32, name: [n0, n1], count, value: Nanos(value), at: Nanos(at) };
            let place = Place { rip, rsp, rbp };
            Record::Sample(Sample { who, place, frames: chain.as_chunks().0, stack })
        }
        (Kind::Again, &[tid, count, value]) => Record::Again(tid as i32, count, Nanos(value)),
        (Kind::Switch, &[at, tid, state, n0, n1, woken, by]) => {
            let (priority, left) = (state as u16 as i16, Left::from_raw((state >> 32) as u8)?);
            let woken = Waker::from_word(by).map(|by| Wake { at: Nanos(woken), by });
            let to = Switched { at: Nanos(at), tid: tid as i32, priority, name: [n0, n1], left, woken };
            Record::Switch(cpu, to)
        }
        (Kind::End, &[due, unsampled, switches_lost, at]) => {
            Record::End(End { due, unsampled: Nanos(unsampled), switches_lost, at: Nanos(at) })
        }
        _ => return None,
    })
}

/// A name in two words as text.
#[must_use]
pub fn name(words: [u64; 2]) -> alloc::string::String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take_while(|&b| b != 0).collect();
    alloc::string::String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{FRAMES_MAX, SAMPLE_WORDS_MAX, STACK_MAX, again, maps, sample, switch};
    use crate::{Ring, first_word};
    use alloc::boxed::Box;
    use sync::atomic::AtomicU64;

    fn written(write: impl Fn(&Ring)) -> Vec<u64> {
        let words: Box<[AtomicU64]> = (0..2 * SAMPLE_WORDS_MAX).map(|_| AtomicU64::new(0)).collect();
        let ring = Ring::new(Box::leak(words));
        write(&ring);
        let mut got = Vec::new();
        ring.drain(&mut [0; 64], |words| got.extend_from_slice(words));
        got
    }

    const WHO: Sampled = Sampled { tid: 77, name: [0x6e69_616d, 0], count: 1, value: Nanos(1_000_000), at: Nanos(5) };

    #[test]
    fn everything_is_read_as_it_was_written() {
        let begin = Begin { pid: 9, cpus: 2, at: Nanos(1), every: Nanos(2), wall: true, name: [3, 4] };
        let end = End { due: 10, unsampled: Nanos(11), switches_lost: 12, at: Nanos(13) };
        let woken = Some(Wake { at: Nanos(5), by: Waker::Thread(ids::Tid(8)) });
        let to = Switched { at: Nanos(6), tid: 0, priority: -1, name: [1, 2], left: Left::Ended, woken };
        let mut words = begin.words().to_vec();
        words.extend(maps(b"7f00-7f01 r-xp").unwrap());
        words.extend(again(5, 6, Nanos(7)));
        words.extend(written(|ring| assert!(switch(ring, 3, &to))));
        words.extend(end.words());
        let got: Vec<Record<'_>> = records(&words).collect();
        let maps = Record::Maps(b"7f00-7f01 r-xp".to_vec());
        assert_eq!(
            got,
            [Record::Begin(begin), maps, Record::Again(5, 6, Nanos(7)), Record::Switch(3, to), Record::End(end)]
        );
        assert_eq!(name(WHO.name), "main");
    }

    /// A stack of 64 words at 0x1000 with two frame records; above it nothing can be read.
    fn load(at: u64) -> Option<u64> {
        match at {
            0x1020 => Some(0x1080),
            0x1028 => Some(0x400_100),
            0x1080 => Some(0),
            0x1088 => Some(0x400_200),
            0x1000..0x1200 => Some(at),
            _ => None,
        }
    }

    #[test]
    fn a_sample_ends_where_memory_does() {
        let place = Place { rip: 0x400_000, rsp: 0x1004, rbp: 0x1020 };
        let words = written(|ring| assert!(sample(ring, 1, &WHO, place, load, || true)));
        let got: Vec<Record<'_>> = records(&words).collect();
        let [Record::Sample(s)] = &got[..] else { panic!("{got:?}") };
        assert_eq!((s.who, s.place), (WHO, place));
        assert_eq!(s.frames, [[0x1020, 0x400_100], [0x1080, 0x400_200]]);
        assert_eq!((s.stack.len(), s.stack[0]), (64, 0x1000));
    }

    #[test]
    fn a_thread_that_went_on_meanwhile_is_not_sampled() {
        let place = Place { rip: 0x400_000, rsp: 0x1004, rbp: 0x1020 };
        assert!(written(|ring| assert!(!sample(ring, 1, &WHO, place, load, || false))).is_empty());
    }

    #[test]
    fn bad_pointers_make_short_samples() {
        for (rsp, rbp) in [(0, 0), (u64::MAX - 7, u64::MAX - 7), (8, 1 << 63), (0x1000, 0x1003), (u64::MAX, 0)] {
            let place = Place { rip: 1, rsp, rbp };
            let words = written(|ring| assert!(sample(ring, 0, &WHO, place, |_| None, || true)));
            let got: Vec<Record<'_>> = records(&words).collect();
            assert!(matches!(&got[..], [Record::Sample(s)] if s.frames.is_empty() && s.stack.is_empty()));
        }
        // A chain that never ends, all memory readable.
        let place = Place { rip: 1, rsp: 0x1000, rbp: 0x1000 };
        let words = written(|ring| assert!(sample(ring, 0, &WHO, place, |at| Some(at + 16), || true)));
        let got: Vec<Record<'_>> = records(&words).collect();
        let [Record::Sample(s)] = &got[..] else { panic!("{got:?}") };
        assert_eq!((s.frames.len(), s.stack.len()), (FRAMES_MAX, STACK_MAX / 8));
    }

    #[test]
    fn damaged_words_end_the_reading() {
        let mut words = again(1, 2, Nanos(0)).to_vec();
        words.extend([first_word(Kind::Sample, 0, 12), 0, 0, 0, 0, 0, 0, 0, 0, 0, u64::MAX, 0]);
        words.extend(again(3, 4, Nanos(0)));
        assert_eq!(records(&words).count(), 1);
        assert_eq!(records(&[first_word(Kind::End, 0, 0)]).count(), 0);
        assert_eq!(records(&[first_word(Kind::End, 0, 1000), 1]).count(), 0);
        assert_eq!(records(&[0xff | 1 << 32]).count(), 0);
        let mut newer = Begin { pid: 1, cpus: 1, at: Nanos(0), every: Nanos(0), wall: false, name: [0; 2] }.words();
        newer[1] += 1;
        assert_eq!(records(&newer).count(), 0);
    }
}
