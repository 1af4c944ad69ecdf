//! The log of a controlled run, in memory shared with the command: what the run must do, and what it has done.
//!
//! ```text
//!  word  0  LAYOUT       1  STATE       2  POINTS: choices, also those of one thread
//!        3  STEPS: choices among several    4  SWITCHES: choices that were not plain, of which as many as fit follow
//!        5  HASH of all choices             6  THREADS   7  PLANNED: how many switches are to be repeated
//!        8  STOP: the run waits in this turn, of which the first is 1; 0: in none
//!        9  KEEP: how many of the switches are kept that the run could have made after the planned ones
//!       10  COULD: how many of these there were
//!       11  EXPECTED: about how many choices among several there will be
//!       12  PATIENCE: how often a repeated run finds that a thread computes, and lets it go on, before others run
//!       13  TURNS: how many there were (crate::turn)   14  KEEP_TURNS: how many of them are kept
//!       15  AFTER: so many choices of that turn come before it waits
//!       16  KNOWN: how many races are known already
//!       17  OWNER: the id of the controlled process in the lower half, 0: none yet; the number of the run in the upper
//!       18  OTHERS: how many programs were executed that are not controlled
//!       19  COMMAND: the id of the command's process
//!       20  PAUSED: how long its pauses were, in nanoseconds
//!  from 24  the ids of the first 256 threads
//!  from 280 the events of each thread and class that earlier runs had, then those of this run: 2048 words each
//!  from 4376 the race that has just been found, if the state says so
//!  from 4392 the races that are known already, 2 words each
//!  from 4904 the places that the run is to have among others
//!  from 4968 the accesses that it has made at its places (crate::sightings), 3 words each
//!  from 17256 PLANNED × 2 words, then the switches of this run, 2 words each
//!  before the last KEEP × 2 words: the turns, KEEP_TURNS words
//!  the last KEEP × 2 words: the switches that it could have made
//! ```
//! The command writes all words before the run, and STATE, STOP and AFTER while the run waits for it. The process that
//! has claimed OWNER writes them during the run. Other processes of the run write only OTHERS, and OWNER if it has no id
//! and their run's number. So a process that an earlier run has left behind never becomes the controlled one.
//!
//! A switch is two words: last thread and next thread (16 bits each, the last thread's in the lowest), the count above them (31
//! bits), and whether the thread spun (the highest bit); and where the last thread was.

use crate::census::{self, CLASSES, COUNTED_MAX, Census};
use crate::expected::Expected;
use crate::races::{Pair, Race};
use crate::sightings::{self, Sighting};
use crate::turn::Turn;
use alloc::vec::Vec;
use sync::atomic::{AtomicU64, Ordering::*};

/// The version of the layout.
pub const LAYOUT: u64 = 0x454e_4348_0007;
/// The places of words that several processes write.
const OWNER: usize = 17;
const OTHERS: usize = 18;
const IDS: usize = 24;
const IDS_LEN: usize = 256;
const EXPECTED: usize = IDS + IDS_LEN;
const COUNTED: usize = EXPECTED + census::LEN;
const RACE: usize = COUNTED + census::LEN;
const RACE_LEN: usize = 16;
const KNOWN: usize = RACE + RACE_LEN;
/// The number of known races that are kept. The run reports others again.
const KNOWN_MAX: usize = 256;
const CHOSEN: usize = KNOWN + 2 * KNOWN_MAX;
/// The number of places that a run can be told to have.
pub const CHOSEN_MAX: usize = 64;
const SIGHTINGS: usize = CHOSEN + CHOSEN_MAX;
const HEAD: usize = SIGHTINGS + sightings::LEN;
const SWITCH_WORDS: usize = 2;
/// The largest count of a switch.
const NTH_MAX: u32 = u32::MAX >> 1;
/// The largest number of threads that can be named.
pub const THREADS_MAX: u32 = 1 << 16;

/// The present state of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It has made no choice yet.
    New = 0,
    /// It is running.
    Running = 1,
    /// All threads wait, and nothing can wake them. The process waits for the command.
    Stuck = 2,
    /// It has reached the choice at which it must stop. The process waits for the command.
    Stopped = 3,
    /// A signal is about to end the process, which waits for the command.
    Dying = 4,
    /// A race has been found ([`Log::race`]). The process waits for the command.
    Raced = 5,
}

/// A choice that was not plain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switch {
    /// The thread that ran before.
    pub last: u32,
    /// The number of choices made after `last` ran, including this one unless `last` spun.
    pub nth: u32,
    /// The thread that ran next.
    pub to: u32,
    /// `last` was taken to spin ([`Why::Spins`](crate::Why::Spins)), at some point before its next choice.
    pub spins: bool,
    /// The address in the program that `last` had reached. Only reported, never compared.
    pub place: u64,
}

impl Switch {
    /// The moment of the switch. Several switches away from a spinning thread may have the same one.
    #[must_use]
    pub fn key(&self) -> (u32, u32, bool) {
        (self.last, self.nth, self.spins)
    }

    fn words(&self) -> [u64; SWITCH_WORDS] {
        let threads = u64::from(self.last & 0xffff) | u64::from(self.to & 0xffff) << 16;
        let moment = u64::from(self.nth & NTH_MAX) | u64::from(self.spins) << 31;
        [threads | moment << 32, self.place]
    }

    fn read([first, place]: [u64; SWITCH_WORDS]) -> Switch {
        let (threads, moment) = (first as u32, (first >> 32) as u32);
        Switch { last: threads & 0xffff, to: threads >> 16, nth: moment & NTH_MAX, spins: moment > NTH_MAX, place }
    }
}

/// The words of the log.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a>(&'a [AtomicU64]);

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident, $set:ident = $at:literal;)*) => {
        impl Log<'_> {
            $($(#[$doc])* #[must_use] pub fn $name(&self) -> u64 { self.0[$at].load(Relaxed) }
            $(#[$doc])* pub fn $set(&self, value: u64) { self.0[$at].store(value, Relaxed); })*
        }
    };
}

words! {
    /// The number of choices.
    points, set_points = 2;
    /// The number of choices among several threads.
    steps, set_steps = 3;
    /// The number of choices that were not plain.
    switches, set_switches = 4;
    /// A hash of the choices among several threads.
    hash, set_hash = 5;
    /// The number of threads.
    threads, set_threads = 6;
    /// The turn in which the run waits.
    stop, set_stop = 8;
    /// How many alternative switches ([`Log::could`]) the log has room for.
    keep, set_keep = 9;
    /// How many alternative switches there were.
    possible, set_possible = 10;
    /// The expected number of choices among several threads.
    expected_steps, set_expected_steps = 11;
    /// How often in a row a repeated run lets a long-computing thread continue where the first run found none
    /// spinning.
    patience, set_patience = 12;
    /// The number of turns.
    turns, set_turns = 13;
    /// How many turns the log has room for.
    keep_turns, set_keep_turns = 14;
    /// The number of choices of that turn that come before the run waits.
    after, set_after = 15;
    /// The number of known races.
    known_len, set_known_len = 16;
    /// The number of executed programs that are not controlled.
    others, set_others = 18;
    /// The id of the command's process.
    command, set_command = 19;
    /// How long all pauses of the run were, in nanoseconds.
    paused, set_paused = 20;
}

impl<'a> Log<'a> {
    /// A log in these words; `None` if they are too few.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Option<Log<'a>> {
        (words.len() >= HEAD).then_some(Log(words))
    }

    /// The number of words of a log with room for this many planned and made switches.
    #[must_use]
    pub fn len(planned: usize, made: usize) -> usize {
        HEAD + SWITCH_WORDS * (planned + made)
    }

    /// Prepares the log for a run that repeats the switches `planned`.
    pub fn prepare(&self, planned: &[Switch]) {
        self.0[1..HEAD].iter().for_each(|word| word.store(0, Relaxed));
        self.0[7].store(planned.len() as u64, Relaxed);
        planned.iter().enumerate().for_each(|(i, switch)| self.put(i, switch));
        self.0[0].store(LAYOUT, Release);
    }

    /// Whether a command of the same version has prepared the log, and the log is large enough for its planned
    /// switches.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0[0].load(Acquire) == LAYOUT && self.planned_len() <= (self.0.len() - HEAD) / SWITCH_WORDS
    }

    /// From now on a process of this run can be controlled.
    pub fn open(&self, run: u32) {
        self.0[OWNER].store(u64::from(run) << 32, Release);
    }

    /// No process of the run can be controlled any more; returns the one that is, or 0.
    #[must_use]
    pub fn close(&self) -> i32 {
        self.0[OWNER].swap(0, AcqRel) as i32
    }

    /// The controlled process; 0: there is none yet.
    #[must_use]
    pub fn owner(&self) -> i32 {
        self.0[OWNER].load(Acquire) as i32
    }

    /// The process `pid` of this run begins to execute a program: whether it is controlled. The first one is that
    /// `may_be`. If the controlled process executes any other program before there was a choice among several threads,
    /// that one is controlled in its place, and what was counted so far is forgotten.
    #[must_use]
    pub fn claim(&self, run: u32, pid: i32, may_be: bool) -> bool {
        let none = u64::from(run) << 32;
        let mine = none | u64::from(pid as u32);
        match self.0[OWNER].load(Acquire) {
            word if word == none => may_be && self.0[OWNER].compare_exchange(none, mine, AcqRel, Acquire).is_ok(),
            word if word == mine && self.steps() == 0 => {
                let done = [2..7, 10..11, 13..14, 20..21, IDS..EXPECTED, COUNTED..RACE, SIGHTINGS..HEAD];
                done.into_iter().flatten().for_each(|i| self.0[i].store(0, Relaxed));
                true
            }
            _ => false,
        }
    }

    /// A program of this run is executed that is not controlled.
    pub fn count_other(&self, run: u32) {
        if self.0[OWNER].load(Acquire) >> 32 == u64::from(run) {
            self.0[OTHERS].fetch_add(1, Relaxed);
        }
    }

    fn planned_len(&self) -> usize {
        self.0[7].load(Relaxed) as usize
    }

    /// The switches that the run must repeat.
    #[must_use]
    pub fn planned(&self) -> Vec<Switch> {
        (0..self.planned_len()).filter_map(|i| self.get(i)).collect()
    }

    /// The switches that the run has made, as many as there was room for.
    #[must_use]
    pub fn made(&self) -> Vec<Switch> {
        let planned = self.planned_len();
        (0..self.switches() as usize).map_while(|i| self.get(planned + i)).collect()
    }

    /// Whether there was room for all switches of the run.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        Self::len(self.planned_len(), self.switches() as usize) <= self.turns_at()
    }

    /// Adds a switch that the run has made.
    pub fn add(&self, switch: &Switch) {
        let n = self.switches();
        self.put(self.planned_len() + n as usize, switch);
        self.set_switches(n + 1);
    }

    /// Whether the run must report its alternatives now: it has made the planned switches.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.keep() > 0 && self.switches() >= self.planned_len() as u64
    }

    /// Adds an alternative: a switch that the run could make now.
    pub fn add_possible(&self, switch: &Switch) {
        let n = self.possible();
        if n < self.keep() {
            Self::write(&self.0[self.kept_at() + SWITCH_WORDS * n as usize..], switch);
        }
        self.set_possible(n + 1);
    }

    /// The alternatives after the planned switches, and whether there was room for all.
    #[must_use]
    pub fn could(&self) -> (Vec<Switch>, bool) {
        let (there, kept) = (self.possible(), self.keep());
        let words = self.0[self.kept_at()..].chunks_exact(SWITCH_WORDS);
        (words.take(there as usize).map(Self::read).collect(), there <= kept)
    }

    /// The index of the first alternative.
    fn kept_at(&self) -> usize {
        self.0.len().saturating_sub(SWITCH_WORDS * self.keep() as usize).max(HEAD)
    }

    /// Adds a turn.
    pub fn add_turn(&self, turn: &Turn) {
        let n = self.turns();
        if n < self.keep_turns() {
            self.0[self.turns_at() + n as usize].store(turn.word(), Relaxed);
        }
        self.set_turns(n + 1);
    }

    /// The turns of the run, the first that there was room for.
    #[must_use]
    pub fn taken_turns(&self) -> Vec<Turn> {
        let there = self.turns().min(self.keep_turns()) as usize;
        self.0[self.turns_at()..].iter().take(there).map(|word| Turn::read(word.load(Relaxed))).collect()
    }

    /// The index of the first turn.
    fn turns_at(&self) -> usize {
        self.kept_at().saturating_sub(self.keep_turns() as usize).max(HEAD)
    }

    /// Counts an event of this class for a thread.
    pub fn count(&self, thread: u32, class: usize) {
        let index = thread as usize;
        if index < COUNTED_MAX {
            let word = &self.0[COUNTED + index * CLASSES + class];
            word.store(word.load(Relaxed) + 1, Relaxed);
        }
    }

    /// The counted events of this run.
    #[must_use]
    pub fn counted(&self) -> Census {
        self.census(COUNTED)
    }

    /// The number of choices and events to expect.
    #[must_use]
    pub fn expected(&self) -> Expected {
        Expected { steps: self.expected_steps(), census: self.census(EXPECTED), meets: !self.chosen().is_empty() }
    }

    /// Sets what to expect of this run.
    pub fn set_expected(&self, expected: &Expected) {
        self.set_expected_steps(expected.steps);
        let counts = expected.census.threads().flatten();
        self.0[EXPECTED..COUNTED].iter().zip(counts).for_each(|(word, &count)| word.store(count, Relaxed));
    }

    fn census(&self, from: usize) -> Census {
        let mut census = Census::default();
        for (i, word) in self.0[from..from + census::LEN].iter().enumerate() {
            census.set((i / CLASSES) as u32, i % CLASSES, word.load(Relaxed));
        }
        census
    }

    /// Sets the id of a thread.
    pub fn set_tid(&self, thread: u32, tid: i32) {
        if (thread as usize) < IDS_LEN {
            self.0[IDS + thread as usize].store(tid as u64, Relaxed);
        }
    }

    /// The ids of the first threads, in the order of their numbers.
    #[must_use]
    pub fn tids(&self) -> Vec<i32> {
        let known = (self.threads() as usize).min(IDS_LEN);
        self.0[IDS..IDS + known].iter().map(|word| word.load(Relaxed) as i32).collect()
    }

    /// Sets the race that has just been found.
    pub fn set_race(&self, race: &Race) {
        let words = race.words();
        self.0[RACE..RACE + words.len()].iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// The race that has just been found.
    #[must_use]
    pub fn race(&self) -> Race {
        Race::read(core::array::from_fn(|i| self.0[RACE + i].load(Relaxed)))
    }

    /// Sets the places ([`Sighting::place`]) that the run is to have among others.
    pub fn set_chosen(&self, places: &[u64]) {
        self.0[CHOSEN..SIGHTINGS].iter().zip(places).for_each(|(word, &place)| word.store(place, Relaxed));
    }

    /// The places that the run is to have among others.
    #[must_use]
    pub fn chosen(&self) -> Vec<u64> {
        self.0[CHOSEN..SIGHTINGS].iter().map(|word| word.load(Relaxed)).filter(|&place| place != 0).collect()
    }

    /// Adds an access of the run, if there is room.
    pub fn see(&self, sighting: &Sighting) {
        sightings::add(&self.0[SIGHTINGS..HEAD], sighting);
    }

    /// The accesses of the run.
    #[must_use]
    pub fn sightings(&self) -> Vec<Sighting> {
        sightings::all(&self.0[SIGHTINGS..HEAD])
    }

    /// Sets the races that the run need not report.
    pub fn set_known(&self, known: &[Pair]) {
        let pairs = &known[..known.len().min(KNOWN_MAX)];
        self.0[KNOWN..CHOSEN].iter().zip(pairs.as_flattened()).for_each(|(word, &place)| word.store(place, Relaxed));
        self.set_known_len(pairs.len() as u64);
    }

    /// The races that the run need not report.
    #[must_use]
    pub fn known(&self) -> Vec<Pair> {
        let pairs = self.0[KNOWN..CHOSEN].chunks_exact(2).take(self.known_len() as usize);
        pairs.map(|pair| [pair[0].load(Relaxed), pair[1].load(Relaxed)]).collect()
    }

    fn put(&self, index: usize, switch: &Switch) {
        let at = HEAD + SWITCH_WORDS * index;
        if let Some(room) = self.0[..self.turns_at()].get(at..at + SWITCH_WORDS) {
            Self::write(room, switch);
        }
    }

    fn get(&self, index: usize) -> Option<Switch> {
        let at = HEAD + SWITCH_WORDS * index;
        self.0[..self.turns_at()].get(at..at + SWITCH_WORDS).map(Self::read)
    }

    fn write(words: &[AtomicU64], switch: &Switch) {
        words.iter().zip(switch.words()).for_each(|(word, value)| word.store(value, Relaxed));
    }

    fn read(words: &[AtomicU64]) -> Switch {
        Switch::read([words[0].load(Relaxed), words[1].load(Relaxed)])
    }

    /// The present state of the run.
    #[must_use]
    pub fn state(&self) -> State {
        match self.0[1].load(Acquire) {
            0 => State::New,
            2 => State::Stuck,
            3 => State::Stopped,
            4 => State::Dying,
            5 => State::Raced,
            _ => State::Running,
        }
    }

    /// Sets what the run does at present.
    pub fn set_state(&self, state: State) {
        self.0[1].store(state as u64, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::races::{Access, Other};
    use alloc::vec;

    fn words(n: usize) -> Vec<AtomicU64> {
        (0..n).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn switches_are_read_back() {
        let words = words(Log::len(1, 2));
        let log = Log::new(&words).unwrap();
        assert!(!log.is_ready());
        let planned = [Switch { last: 65_535, nth: NTH_MAX, to: 7, spins: true, place: 9 }];
        log.prepare(&planned);
        assert!(log.is_ready());
        assert_eq!(log.planned(), planned);
        let made: Vec<Switch> =
            (0..3).map(|i| Switch { last: i, nth: 10 + i, to: 20 + i, spins: false, place: u64::MAX }).collect();
        made[..2].iter().for_each(|switch| log.add(switch));
        assert_eq!((log.made(), log.is_complete()), (made[..2].to_vec(), true));
        // One more does not fit: it is counted, and that is seen.
        log.add(&made[2]);
        assert_eq!((log.made(), log.switches(), log.is_complete()), (made[..2].to_vec(), 3, false));
    }

    #[test]
    fn one_process_is_controlled() {
        let words = words(Log::len(1, 2));
        let log = Log::new(&words).unwrap();
        let planned = [Switch { last: 1, nth: 5, to: 2, spins: false, place: 9 }];
        log.prepare(&planned);
        log.set_expected_steps(7);
        log.open(5);
        assert!(!log.claim(5, 69, false) && !log.claim(4, 69, true) && log.owner() == 0);
        assert!(log.claim(5, 70, true) && log.owner() == 70);
        log.set_points(3);
        log.set_tid(0, 70);
        log.set_threads(1);
        log.count(0, 1);
        // Its child is another process; then it executes a program itself.
        assert!(!log.claim(5, 71, true));
        assert!(log.claim(5, 70, false));
        assert_eq!((log.points(), log.tids(), log.counted()), (0, vec![], Census::default()));
        assert_eq!((log.planned(), log.expected_steps()), (planned.to_vec(), 7));
        log.set_steps(1);
        assert!(!log.claim(5, 70, true), "there was a choice");
        log.count_other(5);
        log.count_other(4);
        assert_eq!((log.others(), log.close()), (1, 70));
        assert!(!log.claim(5, 71, true) && log.close() == 0, "its run is over");
    }

    #[test]
    fn a_race_is_read_back() {
        let words = words(Log::len(0, 0));
        let log = Log::new(&words).unwrap();
        log.prepare(&[]);
        let pending = Access { place: u64::MAX, address: 7, size: 8, reads: true, writes: false, atomic: true };
        let arrives = Access { place: 1, address: 2, size: 1, reads: false, writes: true, atomic: false };
        let wrote = Other::Wrote { place: 5, before: u64::MAX, after: 6 };
        for other in [Other::Arrives(arrives), wrote] {
            let race = Race { holder: 65_535, pending, thread: u32::MAX, other };
            log.set_race(&race);
            log.set_state(State::Raced);
            assert_eq!((log.race(), log.state()), (race, State::Raced));
        }
        assert!(log.known().is_empty());
        let known: Vec<Pair> = (0..KNOWN_MAX as u64 + 1).map(|i| [i, u64::MAX]).collect();
        log.set_known(&known);
        assert_eq!(log.known(), known[..KNOWN_MAX]);
    }

    #[test]
    fn events_are_counted_and_told() {
        let words = words(Log::len(0, 0));
        let log = Log::new(&words).unwrap();
        log.prepare(&[]);
        for (thread, class) in [(0, 3), (2, 7), (2, 7), (COUNTED_MAX as u32, 0)] {
            log.count(thread, class);
        }
        let counted = log.counted();
        assert_eq!((counted.total(3), counted.total(7), counted.total(0)), (1, 2, 0));
        assert_eq!(log.expected(), Expected::default());
        let expected = Expected { steps: 7, census: counted.clone(), meets: false };
        log.set_expected(&expected);
        assert_eq!((log.expected(), log.counted()), (expected, counted));
    }

    #[test]
    fn what_a_run_could_have_done_is_kept_behind_what_it_did() {
        let words = words(Log::len(1, 1) + 2 * SWITCH_WORDS);
        let log = Log::new(&words).unwrap();
        let switch = |nth| Switch { last: 1, nth, to: 2, spins: false, place: 3 };
        log.prepare(&[switch(1)]);
        assert!(!log.asks());
        log.set_keep(2);
        assert!(!log.asks(), "a planned switch is still to come");
        log.add(&switch(1));
        assert!(log.asks());
        (2..4).for_each(|nth| log.add_possible(&switch(nth)));
        assert_eq!((log.made(), log.is_complete()), (vec![switch(1)], true));
        assert_eq!(log.could(), (vec![switch(2), switch(3)], true));
        // A switch that does not fit is counted, and neither part overwrites the other.
        log.add_possible(&switch(4));
        log.add(&switch(5));
        assert_eq!(log.could(), (vec![switch(2), switch(3)], false));
        assert_eq!((log.made(), log.is_complete()), (vec![switch(1)], false));
    }

    #[test]
    fn turns_are_kept_between_what_a_run_did_and_could_have_done() {
        use crate::turn::Left;
        let words = words(Log::len(0, 1) + 2 + SWITCH_WORDS);
        let log = Log::new(&words).unwrap();
        log.prepare(&[]);
        log.set_keep(1);
        log.set_keep_turns(2);
        let turn = |from| Turn { thread: 65_535, from, before: Left::Ended, is_switch: true };
        let switch = |nth| Switch { last: 1, nth, to: 2, spins: false, place: u64::MAX };
        (1..4).for_each(|n| log.add_turn(&turn(n)));
        (1..3).for_each(|nth| log.add(&switch(nth)));
        (1..3).for_each(|nth| log.add_possible(&switch(nth)));
        assert_eq!((log.taken_turns(), log.turns()), (vec![turn(1), turn(2)], 3));
        assert_eq!((log.made(), log.could().0), (vec![switch(1)], vec![switch(1)]));
        // Without room they are only counted.
        log.prepare(&[]);
        log.add_turn(&turn(1));
        assert_eq!((log.taken_turns(), log.turns()), (vec![], 1));
    }

    #[test]
    fn a_damaged_log_is_not_ready() {
        assert!(Log::new(&words(HEAD - 1)).is_none());
        let words = words(HEAD);
        let log = Log::new(&words).unwrap();
        log.prepare(&[]);
        words[7].store(u64::MAX, Relaxed);
        assert!(!log.is_ready());
    }
}
