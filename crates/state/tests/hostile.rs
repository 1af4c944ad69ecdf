//! Pages that change while they are read, by a writer in the middle of its work or by somebody with bad intentions.
//!
//! Each round is made from a number and nothing else: `ENTRESOL_HOSTILE=1000..2000000` asks for others than those of
//! every run, and a failure names its own.

use entresol_state::*;
use ids::Nanos;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// A well-mixed number for each call (SplitMix64).
struct Random(Cell<u64>);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = self.0.get();
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&self, n: u64) -> u64 {
        self.next() % n
    }

    /// What finds the edges of checks.
    fn nasty(&self) -> u64 {
        let edges =
            [0, 1, u64::MAX, 1 << 63, 1 << 32, 0x7fff_ffff, 0xffff_ffff, 4096, 4097, 1 << 20, (1 << 20) + 1, 1 << 40];
        match self.below(4) {
            0 => self.next(),
            1 => self.below(64),
            2 => edges[self.below(edges.len() as u64) as usize],
            _ => edges[self.below(edges.len() as u64) as usize] << 32 | self.below(4097),
        }
    }
}

fn rounds(usual: u64) -> Range<u64> {
    let Ok(text) = std::env::var("ENTRESOL_HOSTILE") else { return 0..usual };
    let (from, to) = text.split_once("..").expect("ENTRESOL_HOSTILE is FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

const CPUS: usize = 2;
const CAPACITY: usize = 12;

fn header() -> Header {
    Header { pid: 7, namespace: 4, service: 8, created: Nanos(9), cpus: CPUS, capacity: CAPACITY }
}

/// Everything in snapshot `n` says `n`.
fn process(n: u64) -> Process {
    Process { taken: Nanos(n), cost: Nanos(n), living: n as u32, started: n, user: Nanos(n), ..Process::default() }
}

fn cpu(n: u64) -> Cpu {
    Cpu { current: n as i32, busy: Nanos(n), waited: n, ..Cpu::default() }
}

fn threads(n: u64) -> Vec<Thread> {
    let one = |i: u64| Thread { tid: (n * 100 + i) as i32, user: Nanos(n), parked: [n; 3], ..Thread::default() };
    (1..=1 + n * 5 % CAPACITY as u64).map(one).collect()
}

/// What a writer stores, a word at a time.
#[derive(Default)]
struct Stores(Vec<(usize, u64)>);

impl Memory for Stores {
    fn write(&mut self, at: usize, words: &[u64]) -> Result<(), Full> {
        self.0.extend(words.iter().enumerate().map(|(i, &word)| (at + i, word)));
        Ok(())
    }
}

fn stores_of(snapshots: u64) -> Vec<(usize, u64)> {
    let mut writer = Writer::new(Stores::default(), header()).unwrap();
    for n in 1..=snapshots {
        writer.begin().unwrap();
        (0..CPUS).for_each(|i| writer.cpu(i, &cpu(n)).unwrap());
        for thread in threads(n) {
            assert!(writer.thread(&thread).unwrap());
        }
        writer.finish(&process(n)).unwrap();
    }
    writer.memory().0.clone()
}

/// A page under a writer who goes on while it is read, as fast as the dice say.
struct Torn<'a> {
    words: RefCell<Vec<u64>>,
    stores: &'a [(usize, u64)],
    done: Cell<usize>,
    /// Stores for each word that is read are below this.
    pace: u64,
    random: &'a Random,
}

impl Torn<'_> {
    fn go_on(&self) {
        for _ in 0..self.random.below(self.pace) {
            if let Some(&(at, word)) = self.stores.get(self.done.get()) {
                self.words.borrow_mut()[at] = word;
                self.done.set(self.done.get() + 1);
            }
        }
    }
}

impl Source for &Torn<'_> {
    fn words(&self) -> usize {
        self.words.borrow().len()
    }

    fn read(&self, at: usize, to: &mut [u64]) -> bool {
        for (i, to) in to.iter_mut().enumerate() {
            self.go_on();
            let Some(&word) = self.words.borrow().get(at + i) else { return false };
            *to = word;
        }
        true
    }
}

/// What is read is one snapshot, whole, or nothing.
#[test]
fn a_snapshot_is_whole_whatever_the_writer_does_meanwhile() {
    let stores = stores_of(12);
    let (mut whole, mut overtaken) = (0, 0);
    for seed in rounds(20_000) {
        let random = Random::new(seed);
        let mut words = vec![0; page_words(CPUS, CAPACITY)];
        let begun = random.below(stores.len() as u64) as usize;
        stores[..begun].iter().for_each(|&(at, word)| words[at] = word);
        let pace = 1 + random.below(12);
        let torn = Torn { words: RefCell::new(words), stores: &stores, done: Cell::new(begun), pace, random: &random };
        let Ok(page) = Page::open(&torn) else {
            // The header is still being written.
            assert!(begun < 64, "seed {seed}");
            continue;
        };
        match page.snapshot() {
            Ok(s) => {
                let n = s.number;
                let wanted = Process { threads: threads(n).len(), ..process(n) };
                assert_eq!((s.process, s.cpus, s.threads), (wanted, vec![cpu(n); CPUS], threads(n)), "seed {seed}");
                whole += 1;
            }
            Err(Error::Overtaken) => overtaken += 1,
            Err(e) => assert_eq!(e, Error::Empty, "seed {seed}"),
        }
        if let Ok(process) = page.process() {
            assert_eq!(process.user, process.taken, "seed {seed}");
        }
    }
    println!("{whole} whole, {overtaken} overtaken");
    assert!(whole > 0 && overtaken > 0);
}

/// A page by somebody who answers each question anew.
struct Liar<'a> {
    words: Vec<u64>,
    length: usize,
    reads: Cell<u32>,
    random: &'a Random,
}

impl Source for &Liar<'_> {
    fn words(&self) -> usize {
        self.length
    }

    fn read(&self, at: usize, to: &mut [u64]) -> bool {
        self.reads.set(self.reads.get() + 1);
        for (i, to) in to.iter_mut().enumerate() {
            let real = self.words.get(at + i).copied();
            *to = match self.random.below(16) {
                0 => self.random.nasty(),
                1 => real.unwrap_or(0) ^ 1 << self.random.below(64),
                _ => real.unwrap_or_else(|| self.random.nasty()),
            };
        }
        self.random.below(64) != 0
    }
}

/// A damaged page is shown as far as it can be.
fn look_at(page: &Page<&Liar<'_>>) -> Result<(), Error> {
    let header = *page.header();
    assert!(header.pid > 0 && (1..=4096).contains(&header.cpus));
    let _ = (page.number(), page.process());
    let s = page.snapshot()?;
    assert_eq!((s.cpus.len(), s.threads.len()), (header.cpus, s.process.threads));
    assert!(s.threads.len() <= header.capacity);
    for t in &s.threads {
        assert!(t.tid > 0 && t.rt.0 <= 99 && (-20..=19).contains(&t.nice.0) && t.cpu < 4096 && t.allowed <= 4096);
        let _ = (t.name().len(), t.letter(), t.cpu_time(), t.wait.name());
    }
    Ok(())
}

#[test]
fn a_liar_crashes_nobody_and_wastes_little_of_their_time() {
    let valid = {
        let mut words = vec![0; page_words(CPUS, CAPACITY)];
        stores_of(5).into_iter().for_each(|(at, word)| words[at] = word);
        words
    };
    let (mut opened, mut shown) = (0, 0);
    for seed in rounds(20_000) {
        let random = Random::new(seed);
        let mut words = valid.clone();
        for _ in 0..random.below(6) {
            let at = random.below(words.len() as u64) as usize;
            words[at] = random.nasty();
        }
        // The header is where most depends on.
        if random.below(2) == 0 {
            words[random.below(16) as usize] = random.nasty();
        }
        words.truncate(if random.below(4) == 0 { random.below(400) as usize } else { usize::MAX });
        let length = if random.below(2) == 0 { words.len() } else { random.nasty() as usize };
        let liar = Liar { words, length, reads: Cell::new(0), random: &random };
        for _ in 0..3 {
            if let Ok(page) = Page::open(&liar) {
                opened += 1;
                shown += u32::from(look_at(&page).is_ok());
            }
        }
        // A read is of up to 256 records; the tries are bounded, whatever the counts say.
        assert!(liar.reads.get() < 3 * 3 * 8 * (4096 + (1 << 20)) / 256, "seed {seed}: {} reads", liar.reads.get());
    }
    println!("{opened} opened, {shown} shown");
    assert!(opened > 0 && shown > 0);
}
