//! All records of all processes as one profile: equal stacks of one thread are one entry.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use record::read::{Sample, name};
use record::{Record, records};

use crate::Sampling;
use crate::modules::{Frame, Module, mappings};
use crate::stacks::{Files, Space, Spot};

/// A thread of a process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Thread {
    /// The thread's process.
    pub pid: i32,
    /// The thread's id.
    pub tid: i32,
    /// The thread's name at the sample.
    pub name: String,
}

/// A place in a file, and the functions there: the innermost first.
#[derive(Clone, Debug)]
pub struct Location {
    /// Index into [`Profile::files`].
    pub file: Option<usize>,
    /// The address in the file's own terms.
    pub address: u64,
    /// The functions.
    pub frames: Vec<Frame>,
}

/// The sum of the samples of one stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    /// How many.
    pub samples: u64,
    /// CPU time, nanoseconds.
    pub cpu: u64,
}

/// A profile.
#[derive(Debug)]
pub struct Profile {
    /// Time between two samples, nanoseconds.
    pub every: u64,
    /// Samples are by the wall clock.
    pub wall: bool,
    /// Files with code.
    pub files: Vec<String>,
    /// All places.
    pub locations: Vec<Location>,
    /// Stacks by thread: indices into [`Profile::locations`], innermost first.
    pub stacks: BTreeMap<(Thread, Vec<usize>), Weight>,
    /// Samples that were due and are missing.
    pub lost: u64,
    /// CPU time of threads that ended before they were sampled, nanoseconds.
    pub unsampled: u64,
    /// How many processes there were.
    pub processes: usize,
    /// The processes among them whose records have no end.
    pub unfinished: usize,
}

impl Profile {
    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks.values().map(|weight| weight.samples).sum()
    }

    /// CPU time in all samples, nanoseconds.
    #[must_use]
    pub fn cpu(&self) -> u64 {
        self.stacks.values().map(|weight| weight.cpu).sum()
    }

    /// Threads' wall time in all samples, nanoseconds.
    #[must_use]
    pub fn wall(&self) -> u64 {
        self.samples() * self.every
    }
}

/// Makes a profile of the words of every process.
#[must_use]
pub fn collect(files: &[Vec<u64>], sampling: &Sampling) -> Profile {
    let mut collector = Collector {
        profile: Profile {
            every: 1_000_000_000 / u64::from(sampling.hz),
            wall: sampling.wall,
            files: Vec::new(),
            locations: Vec::new(),
            stacks: BTreeMap::new(),
            lost: 0,
            unsampled: 0,
            processes: files.len(),
            unfinished: 0,
        },
        files: Files::default(),
        places: HashMap::new(),
    };
    for words in files {
        collector.process(words);
    }
    collector.profile
}

struct Collector {
    profile: Profile,
    files: Files,
    /// Places that were met: file (its address here) and address there.
    places: HashMap<(usize, u64), usize>,
}

impl Collector {
    fn process(&mut self, words: &[u64]) {
        let (mut space, mut pid, mut samples, mut ended) = (Space::default(), 0, 0, false);
        let mut last: HashMap<i32, (Thread, Vec<usize>)> = HashMap::new();
        let mut rests = Vec::new();
        for record in records(words) {
            match record {
                Record::Begin(begin) => {
                    pid = begin.pid;
                    last.clear();
                }
                Record::Maps(text) => {
                    let text = String::from_utf8_lossy(&text);
                    // Programs lie below libraries, and readers take the first file for the program.
                    if let Some(first) = mappings(&text).first() {
                        self.file(&first.path);
                    }
                    space.replace(&text, &mut self.files);
                }
                Record::Sample(sample) => {
                    let stack = space.unwind(&sample).into_iter().map(|spot| self.place(&spot)).collect();
                    let key = (thread(pid, &sample), stack);
                    samples += sample.who.count;
                    self.add(&key, sample.who.count, sample.who.value.0);
                    last.insert(sample.who.tid, key);
                }
                Record::Again(tid, count, value) => {
                    samples += count;
                    match last.get(&tid) {
                        Some(key) => self.add(key, count, value.0),
                        None => rests.push((tid, value.0)),
                    }
                }
                Record::End(end) => {
                    ended = true;
                    self.profile.lost += end.due.saturating_sub(samples);
                    self.profile.unsampled += end.unsampled.0;
                }
                Record::Switch(..) => {}
            }
        }
        for (tid, value) in rests {
            match last.get(&tid) {
                // On the CPU where it ended, records are read earlier than on the one where it was sampled.
                Some(key) => self.add(key, 0, value),
                // The thread has ended before a tick found it.
                None => self.profile.unsampled += value,
            }
        }
        self.profile.unfinished += usize::from(!ended);
    }

    fn add(&mut self, key: &(Thread, Vec<usize>), samples: u64, cpu: u64) {
        let weight = self.profile.stacks.entry(key.clone()).or_default();
        weight.samples += samples;
        weight.cpu += cpu;
    }

    fn place(&mut self, spot: &Spot) -> usize {
        let file = spot.module.as_ref().map_or(0, |module| Rc::as_ptr(module).cast::<Module>() as usize);
        if let Some(&index) = self.places.get(&(file, spot.address)) {
            return index;
        }
        let unknown = || vec![Frame { function: "[unknown]".to_owned(), file: String::new(), line: 0 }];
        let frames = spot.module.as_ref().map_or_else(unknown, |module| module.frames(spot.address));
        let name = spot.module.as_ref().map(|module| self.file(&module.path));
        let index = self.profile.locations.len();
        self.profile.locations.push(Location { file: name, address: spot.address, frames });
        self.places.insert((file, spot.address), index);
        index
    }

    fn file(&mut self, path: &str) -> usize {
        let files = &mut self.profile.files;
        files.iter().position(|known| known == path).unwrap_or_else(|| {
            files.push(path.to_owned());
            files.len() - 1
        })
    }
}

fn thread(pid: i32, sample: &Sample<'_>) -> Thread {
    Thread { pid, tid: sample.who.tid, name: name(sample.who.name) }
}
