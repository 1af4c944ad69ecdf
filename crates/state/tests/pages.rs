//! What is written is read; what somebody made up is refused or read, and nothing worse.

use entresol_state::*;
use ids::{Nanos, Nice, Policy, RtPriority};
use proptest::prelude::*;

/// A page in memory.
#[derive(Debug)]
struct Words(Vec<u64>);

impl Memory for Words {
    fn write(&mut self, at: usize, words: &[u64]) -> Result<(), Full> {
        let to = self.0.get_mut(at..at + words.len()).ok_or(Full)?;
        to.copy_from_slice(words);
        Ok(())
    }
}

fn header(cpus: usize, capacity: usize) -> Header {
    Header { pid: 7, namespace: 4, service: 8, created: Nanos(9), cpus, capacity }
}

fn thread(n: i32) -> Thread {
    Thread {
        tid: n,
        name: *b"worker\0\0\0\0\0\0\0\0\0\0",
        place: [Place::Running, Place::Queued, Place::Waiting][n as usize % 3],
        policy: [Policy::Other, Policy::Fifo, Policy::Deadline][n as usize % 3],
        nice: Nice((n % 40) as i8 - 20),
        rt: RtPriority((n % 100) as u8),
        cpu: 3,
        allowed: 4096,
        mask: u64::MAX,
        wait: Wait::ALL[n as usize % 9],
        call: 0x1234,
        address: 0x7fff_ffff_f000,
        until: Nanos(u64::MAX),
        user: Nanos(1),
        system: Nanos(2),
        queued: Nanos(3),
        pending: 10,
        blocked: u64::MAX,
        voluntary: 4,
        involuntary: 5,
        migrations: 6,
        parked: [7, 8, 9],
    }
}

fn cpu(n: u64) -> Cpu {
    Cpu {
        current: 5,
        queued: 6,
        busy: Nanos(n),
        switches: 1,
        preemptions: 2,
        wakeups: 3,
        migrations: 4,
        ticks: 5,
        kicks: 6,
        passed: 7,
        waited: 8,
    }
}

fn process(n: u64) -> Process {
    Process {
        taken: Nanos(n),
        cost: Nanos(1),
        next: Nanos(2),
        threads: 0,
        living: 300,
        peak: 400,
        started: 500,
        user: Nanos(3),
        system: Nanos(4),
        pending: 5,
        ignored: 6,
        caught: 7,
    }
}

/// A page with so many snapshots, each of `threads` threads.
fn page(capacity: usize, snapshots: u64, threads: i32) -> Writer<Words> {
    let mut writer = Writer::new(Words(vec![0; page_words(2, capacity)]), header(2, capacity)).unwrap();
    for n in 1..=snapshots {
        writer.begin().unwrap();
        writer.cpu(0, &cpu(n)).unwrap();
        writer.cpu(1, &cpu(n + 1)).unwrap();
        for i in 1..=threads {
            assert_eq!(writer.thread(&thread(i)).unwrap(), i as usize <= capacity);
        }
        writer.finish(&process(n)).unwrap();
    }
    writer
}

#[test]
fn every_field_comes_back() {
    for snapshots in 1..=3 {
        let writer = page(300, snapshots, 299);
        let page = Page::open(&writer.memory().0[..]).unwrap();
        assert_eq!(*page.header(), header(2, 300));
        let s = page.snapshot().unwrap();
        assert_eq!((s.number, page.number()), (snapshots, snapshots));
        assert_eq!(s.process, Process { threads: 299, ..process(snapshots) });
        assert_eq!(page.process().unwrap(), s.process);
        assert_eq!(s.cpus, [cpu(snapshots), cpu(snapshots + 1)]);
        assert_eq!(s.threads, (1..=299).map(thread).collect::<Vec<_>>());
    }
}

#[test]
fn a_page_that_is_full_says_how_many_there_are() {
    let writer = page(10, 1, 20);
    let s = Page::open(&writer.memory().0[..]).unwrap().snapshot().unwrap();
    assert_eq!((s.threads.len(), s.process.living), (10, 300));
}

#[test]
fn a_snapshot_in_the_making_does_not_disturb_the_last() {
    let mut writer = page(4, 2, 4);
    writer.begin().unwrap();
    writer.thread(&thread(99)).unwrap();
    let s = Page::open(&writer.memory().0[..]).unwrap().snapshot().unwrap();
    assert_eq!((s.number, s.threads[0].tid), (2, 1));
}

#[test]
fn what_is_no_page_is_said_to_be_none() {
    assert_eq!(Page::open(&[][..]).unwrap_err(), Error::NoPage);
    assert_eq!(Page::open(&[0; 4096][..]).unwrap_err(), Error::NoPage);
    let mut words = page(4, 1, 4).memory().0.clone();
    assert_eq!(Page::open(&words[..words.len() - 1]).unwrap_err(), Error::Damaged("length"));
    words[1] = 99;
    assert_eq!(Page::open(&words[..]).unwrap_err(), Error::Version(99));
    let only_header = header(2, 0).encode();
    assert_eq!(Page::open(&only_header[..]).unwrap().snapshot().unwrap_err(), Error::Empty);
}

#[test]
fn overtaken_readers_give_up() {
    let mut words = page(4, 2, 4).memory().0.clone();
    // `begun` is two ahead of `done`.
    words[5] = 4;
    assert_eq!(Page::open(&words[..]).unwrap().snapshot().unwrap_err(), Error::Overtaken);
}

/// What a reader does with any page: looks at everything that it can get.
fn read(words: &[u64]) -> Result<Snapshot, Error> {
    let page = Page::open(words)?;
    let _ = (page.number(), page.process());
    let snapshot = page.snapshot()?;
    for thread in &snapshot.threads {
        let _ = (thread.name().len(), thread.letter(), thread.cpu_time(), thread.wait.name());
    }
    Ok(snapshot)
}

/// What such a record can say without being refused.
fn is_plausible(s: &Snapshot) -> bool {
    s.threads.iter().all(|t| t.tid > 0 && t.rt.0 <= 99 && (-20..=19).contains(&t.nice.0) && t.cpu < 4096)
        && s.threads.len() == s.process.threads
}

proptest! {
    #[test]
    fn forged_words_crash_nobody(
        changes in prop::collection::vec((0..page_words(2, 20), prop_oneof![any::<u64>(), 0..40u64, Just(1 << 40)]), 1..20),
        cut in 0..page_words(2, 20),
    ) {
        let mut words = page(20, 2, 20).memory().0.clone();
        for (at, value) in changes {
            words[at] = value;
        }
        for words in [&words[..], &words[..cut]] {
            if let Ok(snapshot) = read(words) {
                prop_assert!(is_plausible(&snapshot));
            }
        }
    }

    #[test]
    fn flipped_bits_crash_nobody(flips in prop::collection::vec((0..page_words(2, 20), 0..64u32), 1..8)) {
        let mut words = page(20, 3, 20).memory().0.clone();
        for (at, bit) in flips {
            words[at] ^= 1 << bit;
        }
        if let Ok(snapshot) = read(&words) {
            prop_assert!(is_plausible(&snapshot));
        }
    }

    #[test]
    fn noise_crashes_nobody(mut words in prop::collection::vec(any::<u64>(), 0..400), real in any::<bool>()) {
        if real && words.len() > 5 {
            words[..5].copy_from_slice(&header(2, 3).encode()[..5]);
        }
        let _ = read(&words);
    }
}
