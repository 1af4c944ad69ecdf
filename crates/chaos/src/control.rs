//! Controls one run: names its threads, counts its choices and writes them to the log.

use crate::census;
use crate::log::{Log, State, Switch, THREADS_MAX};
use crate::pauses::{Pauses, STEP_NS};
use crate::races::{Access, Race, Races};
use crate::sightings::Sighting;
use crate::strategy::{Moment, Strategy, Why};
use crate::torn::Torn;
use crate::turn::{Left, Turn};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A thread that was runnable at more consecutive choices than this, and was never chosen, is starved: the chosen
/// ones are taken to spin.
const PASSED_OVER_MAX: u32 = 20_000;

/// The name of a thread that has no name yet.
const NOBODY: u32 = u32::MAX;

/// A runnable thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    name: u32,
    slot: usize,
    tid: i32,
}

/// Makes the choices of one run.
#[derive(Debug)]
pub struct Control {
    strategy: Box<dyn Strategy>,
    log: Log<'static>,
    /// The name of the thread in each slot.
    names: Vec<u32>,
    /// For each thread the number of choices made after it ran.
    counts: Vec<u32>,
    /// The names of the runnable threads, in ascending order.
    runnable: Vec<u32>,
    slots: Vec<Candidate>,
    /// For each thread the last choice at which it was runnable, and how many consecutive choices up to that one
    /// passed it over.
    passed_over: Vec<(u64, u32)>,
    last: u32,
    /// Whether the last thread has ended.
    ended: bool,
    /// The choice with which the present turn began.
    turn_from: u64,
    hash: u64,
    /// Only if there may be some.
    torn: Option<Torn>,
    /// Only if there may be some.
    pauses: Option<Pauses>,
    /// Only if races are looked for.
    races: Option<Races>,
    /// The runnable threads that are not held back, at choices where some are.
    free: Vec<u32>,
    /// The places of which it is known that threads meet there, by their numbers.
    chosen: Vec<u64>,
    /// Whether the last thread is at one of them.
    meets: bool,
    /// Whether threads are held back: not while switches are repeated.
    holds: bool,
}

/// The thread that runs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elected {
    /// The slot of the thread.
    pub slot: usize,
    /// The run must wait for the command before it continues.
    pub stop: bool,
}

impl Control {
    /// A run by `strategy`, written to `log`.
    #[must_use]
    pub fn new(strategy: Box<dyn Strategy>, log: Log<'static>) -> Control {
        log.set_state(State::Running);
        Control {
            strategy,
            log,
            names: Vec::new(),
            counts: Vec::new(),
            runnable: Vec::new(),
            slots: Vec::new(),
            passed_over: Vec::new(),
            last: 0,
            ended: false,
            turn_from: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            torn: None,
            pauses: None,
            races: None,
            free: Vec::new(),
            chosen: log.chosen(),
            meets: false,
            holds: false,
        }
    }

    /// Some updates of the run may be torn.
    pub fn tear(&mut self, torn: Torn) {
        self.torn = Some(torn);
    }

    /// Whether the last thread has already loaded what this access loads, if it is not chosen to go on now.
    #[must_use]
    pub fn tears(&self, access: &Access) -> bool {
        self.torn.is_some_and(|torn| torn.tears(self.last, self.nth(), access))
    }

    /// The last thread is about to make this access at a place with this number ([`Sighting::place`]).
    pub fn see(&mut self, place: u64, access: &Access) {
        self.meets = self.chosen.contains(&place);
        // The main thread's accesses before there are others are shared with nobody.
        if place != 0 && self.counts.len() > 1 {
            self.log.see(&Sighting::new(place, self.last, access));
        }
    }

    /// The run may have pauses.
    pub fn pause(&mut self, pauses: Pauses) {
        self.pauses = Some(pauses);
    }

    /// Whether no thread runs before the next choice until the next timeout, which is so far away.
    pub fn pauses(&mut self, timeout_ns: u64) -> bool {
        let (last, nth) = (self.last, self.nth());
        let does = self.pauses.as_mut().is_some_and(|pauses| pauses.pauses(last, nth, timeout_ns));
        if does {
            self.log.set_paused(self.log.paused() + timeout_ns);
        }
        does
    }

    /// The virtual time between two scheduling points, in nanoseconds.
    #[must_use]
    pub fn step_ns(&self) -> u64 {
        self.pauses.as_ref().map_or(STEP_NS, Pauses::step_ns)
    }

    /// Looks for races from now on. `holds`: holds threads back to find more.
    pub fn watch(&mut self, races: Races, holds: bool) {
        (self.races, self.holds) = (Some(races), holds);
    }

    /// Whether races are looked for.
    #[must_use]
    pub fn looks_for_races(&self) -> bool {
        self.races.is_some()
    }

    /// The last thread has run up to `place`, where it is about to make this access, if any; `may_wait`: others may see it
    /// wait there. `read` is the program's memory. Called before the choice; the races that show now.
    pub fn arrive(
        &mut self,
        place: u64,
        access: Option<Access>,
        may_wait: bool,
        mut read: impl FnMut(&Access) -> Option<u64>,
    ) -> Vec<Race> {
        let Some(races) = &mut self.races else { return Vec::new() };
        let mut found = races.look((self.last, place), &mut read);
        if let Some(access) = access {
            found.append(&mut races.meet(self.last, &access));
            if may_wait && let Some(value) = read(&access) {
                races.add(self.last, access, value, self.log.steps());
            }
        }
        found
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> Log<'static> {
        self.log
    }

    /// The thread in `slot`, whose id is `tid`, is runnable.
    pub fn offer(&mut self, slot: usize, tid: i32) {
        if self.names.len() <= slot {
            self.names.resize(slot + 1, NOBODY);
        }
        self.slots.push(Candidate { name: self.names[slot], slot, tid });
    }

    /// The thread in `slot`, which ran last, has ended: the slot may be used by a new thread, which gets a new name.
    pub fn ended(&mut self, slot: usize) {
        if let Some(name) = self.names.get_mut(slot) {
            *name = NOBODY;
        }
        self.ended = true;
    }

    /// The running thread continues without a choice: forgets the offered threads.
    pub fn stay(&mut self) {
        self.slots.clear();
    }

    /// Chooses among the threads that were offered since the last choice; `None` if there were none. `place` is the
    /// address that the last thread has reached.
    pub fn choose(&mut self, why: Why, place: u64) -> Option<Elected> {
        self.name_new();
        self.slots.sort_unstable();
        self.runnable.clear();
        self.runnable.extend(self.slots.iter().map(|candidate| candidate.name));
        let (first, several) = (*self.runnable.first()?, self.runnable.len() > 1);
        let spins = why == Why::Spins;
        if !spins {
            self.count();
        }
        let (last, nth, switches) = (self.last, self.nth(), self.log.switches());
        let to = match several {
            false => first,
            true if spins => self.after_spin((last, nth), place),
            true => self.among_several((last, nth), why, place),
        };
        let is_switch = self.log.switches() > switches;
        if to != last || is_switch || self.log.turns() == 0 {
            self.begin_turn(to, why, is_switch);
        }
        let after = self.log.points() - self.turn_from;
        let stop = (self.log.turns(), after) == (self.log.stop(), self.log.after());
        self.last = to;
        if let Some(races) = &mut self.races {
            races.goes_on(to);
        }
        let slot = self.slots.iter().find(|candidate| candidate.name == to)?.slot;
        self.slots.clear();
        Some(Elected { slot, stop })
    }

    /// Writes down that this thread runs from now on.
    fn begin_turn(&mut self, thread: u32, why: Why, is_switch: bool) {
        let before = Left::of(why, core::mem::take(&mut self.ended));
        self.turn_from = self.log.points();
        self.log.add_turn(&Turn { thread, from: self.turn_from, before, is_switch });
    }

    /// The last thread may be spinning. This is not counted as a choice, because a repetition does not interrupt
    /// the thread at the same moment; a switch to another thread is always written down.
    fn after_spin(&mut self, (last, nth): (u32, u32), place: u64) -> u32 {
        let step = self.log.steps();
        let to = self.strategy.choose(&Moment {
            last,
            nth,
            why: Why::Spins,
            runnable: &self.runnable,
            step,
            place,
            meets: false,
        });
        if to != last {
            self.log.set_points(self.log.points() + 1);
            self.log.add(&Switch { last, nth, to, spins: true, place });
        }
        to
    }

    fn among_several(&mut self, (last, nth): (u32, u32), why: Why, place: u64) -> u32 {
        let step = self.log.steps();
        let is_unfair = self.is_somebody_passed_over(step);
        // The last thread has slept for zero time, as spin locks do, and is runnable again.
        let sleeps = why == Why::Gone && self.runnable.binary_search(&last).is_ok();
        let why = if sleeps || is_unfair { Why::Yield } else { why };
        if why == Why::Point {
            self.log.count(last, census::class(place));
        }
        let holds = self.holds && self.holds_some_back(step);
        let meets = core::mem::take(&mut self.meets);
        let moment = Moment { last, nth, why, runnable: &self.runnable, step, place, meets };
        let plain = moment.plain();
        let to = match *self.free {
            [one] if holds => one,
            _ if holds => self.strategy.choose(&Moment { runnable: &self.free, ..moment }),
            _ => self.strategy.choose(&moment),
        };
        self.log.set_steps(step + 1);
        for value in [last, nth, to] {
            self.hash = (self.hash ^ u64::from(value)).wrapping_mul(0x100_0000_01b3);
        }
        self.log.set_hash(self.hash);
        self.passed_over[to as usize].1 = 0;
        if self.log.asks() {
            let others = self.runnable.iter().filter(|&&other| other != plain);
            others.for_each(|&to| self.log.add_possible(&Switch { last, nth, to, spins: false, place }));
        }
        if to != plain {
            self.log.add(&Switch { last, nth, to, spins: false, place });
        }
        to
    }

    /// Finds the runnable threads that are free to go on. False if all are, or none is.
    fn holds_some_back(&mut self, step: u64) -> bool {
        let Some(races) = &self.races else { return false };
        self.free.clear();
        self.free.extend(self.runnable.iter().filter(|&&thread| !races.holds_back(thread, step)));
        !self.free.is_empty() && self.free.len() < self.runnable.len()
    }

    /// Counts this choice for every runnable thread, and returns whether one of them is starved.
    fn is_somebody_passed_over(&mut self, step: u64) -> bool {
        self.passed_over.resize(self.counts.len(), (0, 0));
        let mut is = false;
        for &thread in &self.runnable {
            let (at, times) = &mut self.passed_over[thread as usize];
            *times = if *at + 1 == step { *times + 1 } else { 1 };
            *at = step;
            is |= *times > PASSED_OVER_MAX;
        }
        is
    }

    /// Names the offered threads that have no name, in the order of their slots.
    fn name_new(&mut self) {
        self.slots.sort_unstable();
        for candidate in self.slots.iter_mut().filter(|candidate| candidate.name == NOBODY) {
            candidate.name = (self.counts.len() as u32).min(THREADS_MAX - 1);
            self.counts.push(0);
            self.names[candidate.slot] = candidate.name;
            self.log.set_tid(candidate.name, candidate.tid);
            self.log.set_threads(self.counts.len() as u64);
        }
    }

    /// Counts a choice made after the last thread ran.
    fn count(&mut self) {
        self.log.set_points(self.log.points() + 1);
        if let Some(count) = self.counts.get_mut(self.last as usize) {
            *count += 1;
        }
    }

    /// The number of choices made after the last thread ran.
    fn nth(&self) -> u32 {
        self.counts.get(self.last as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expected, Rng, Spec};
    use sync::atomic::AtomicU64;

    /// Three threads with so many points each, of which every fifth is a yield; the slots of the threads in the order in which
    /// they ran, and the log.
    fn run(strategy: Box<dyn Strategy>, planned: &[Switch], lengths: [u32; 3]) -> (Vec<usize>, Log<'static>) {
        let words: &'static [AtomicU64] =
            (0..Log::len(planned.len(), 1000)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        let log = Log::new(words).unwrap();
        log.prepare(planned);
        let mut control = Control::new(strategy, log);
        let mut left = lengths;
        let mut trace = Vec::new();
        let mut why = Why::Gone;
        loop {
            (0..3).filter(|&slot| left[slot] > 0).for_each(|slot| control.offer(slot, 1));
            let Some(elected) = control.choose(why, 0) else { return (trace, log) };
            left[elected.slot] -= 1;
            trace.push(elected.slot);
            why = match left[elected.slot] {
                0 => Why::Gone,
                n if n % 5 == 0 => Why::Yield,
                _ => Why::Point,
            };
            if why == Why::Gone {
                control.ended(elected.slot);
            }
        }
    }

    #[test]
    fn a_replay_equals_its_run() {
        let mut expected = Expected { steps: 90, ..Expected::default() };
        (0..3).for_each(|thread| expected.census.set(thread, census::class(0), 30));
        for seed in 0..50 {
            for spec in [Spec::Random, Spec::Pct(3), Spec::Surw, Spec::Plain] {
                let lengths = [30, 20, 40];
                let (trace, log) = run(spec.strategy(seed, &expected), &[], lengths);
                let planned = log.made();
                assert!(spec != Spec::Plain || planned.is_empty());
                let (again, second) = run(Spec::replay(planned.clone(), 0), &planned, lengths);
                assert_eq!((again, second.hash(), second.made()), (trace, log.hash(), planned));
                // The same seed is the same run, too.
                assert_eq!(run(spec.strategy(seed, &expected), &[], lengths).1.hash(), log.hash());
            }
        }
    }

    /// Each of two threads arrives at the same store again and again: the races of the run, and its log.
    fn watched(strategy: Box<dyn Strategy>, planned: &[Switch], holds: bool) -> (Vec<Race>, Log<'static>) {
        const STORE: Access = Access { place: 9, address: 1, size: 4, reads: false, writes: true, atomic: false };
        let words: &'static [AtomicU64] =
            (0..Log::len(planned.len(), 1000)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        let log = Log::new(words).unwrap();
        log.prepare(planned);
        let mut control = Control::new(strategy, log);
        control.watch(Races::new(Rng::new(3), Vec::new()), holds);
        let (mut left, mut found, mut last) = ([20; 2], Vec::new(), None);
        loop {
            let access = last.filter(|&slot: &usize| left[slot] > 0).map(|_| STORE);
            found.append(&mut control.arrive(9, access, true, |_| Some(0)));
            (0..2).filter(|&slot| left[slot] > 0).for_each(|slot| control.offer(slot, 1));
            let why = if access.is_some() { Why::Point } else { Why::Gone };
            let Some(elected) = control.choose(why, 9) else { return (found, log) };
            left[elected.slot] -= 1;
            last = Some(elected.slot);
        }
    }

    #[test]
    fn who_is_held_back_meets_the_others_and_a_replay_needs_no_holding_back() {
        assert!(watched(Spec::Plain.strategy(1, &Expected::default()), &[], false).0.is_empty());
        for spec in [Spec::Random, Spec::Pct(3), Spec::Surw, Spec::Plain] {
            let (found, log) = watched(spec.strategy(1, &Expected::default()), &[], true);
            assert_eq!(found.len(), 1, "{spec}");
            let (again, second) = watched(Spec::replay(log.made(), 0), &log.made(), false);
            assert_eq!((again, second.hash()), (found, log.hash()), "{spec}");
        }
    }

    #[test]
    fn turns_are_the_timeline() {
        let words: &'static [AtomicU64] = (0..Log::len(0, 500)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        let log = Log::new(words).unwrap();
        log.prepare(&[]);
        log.set_keep_turns(500);
        log.set_stop(2);
        log.set_after(1);
        let mut control = Control::new(Spec::Pct(3).strategy(3, &Expected { steps: 90, ..Expected::default() }), log);
        let (mut ran, mut stopped, mut left, mut why) = (Vec::new(), Vec::new(), [30, 20, 40], Why::Gone);
        loop {
            (0..3).filter(|&slot| left[slot] > 0).for_each(|slot| control.offer(slot, 1));
            let Some(elected) = control.choose(why, 0) else { break };
            ran.push(elected.slot as u32);
            stopped.extend(elected.stop.then_some((log.turns(), log.points())));
            left[elected.slot] -= 1;
            why = if left[elected.slot] == 0 { Why::Gone } else { Why::Point };
            if why == Why::Gone {
                control.ended(elected.slot);
            }
        }
        let turns = log.taken_turns();
        let ends = turns.iter().skip(1).map(|turn| turn.from).chain([ran.len() as u64 + 1]);
        let shown: Vec<u32> =
            turns.iter().zip(ends).flat_map(|(turn, end)| (turn.from..end).map(|_| turn.thread)).collect();
        assert_eq!(shown, ran);
        assert!(turns[2].from > turns[1].from + 1, "the second turn is long enough to stop in it: {turns:?}");
        assert_eq!(stopped, [(2, turns[1].from + 1)]);
        let count = |is: fn(&Turn) -> bool| turns.iter().filter(|turn| is(turn)).count();
        assert_eq!(count(|turn| turn.is_switch) as u64, log.switches());
        assert_eq!(count(|turn| turn.before == Left::Ended), 2);
    }

    #[test]
    fn a_replay_of_another_program_goes_on() {
        let (_, log) = run(Spec::Random.strategy(5, &Expected::default()), &[], [30, 20, 40]);
        let (trace, _) = run(Spec::replay(log.made(), 0), &[], [3, 2, 50]);
        assert_eq!(trace.len(), 55);
    }

    /// Two threads wait in a loop for a third by sleeping, and may be `back` before the next choice: whether the third runs.
    fn third_runs(spec: Spec, seed: u64, back: bool, choices: u32) -> bool {
        let words: &'static [AtomicU64] = (0..Log::len(0, 100)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        let log = Log::new(words).unwrap();
        log.prepare(&[]);
        // More events are expected of the two than of the third.
        let mut expected = Expected { steps: 9, ..Expected::default() };
        (0..2).for_each(|thread| expected.census.set(thread, census::class(0), 1_000_000));
        let mut control = Control::new(spec.strategy(seed, &expected), log);
        let (mut why, mut last) = (Why::Gone, 2);
        (0..choices).any(|_| {
            let offered = (0..3).filter(|&slot| slot == 2 || slot != last || back);
            offered.for_each(|slot| control.offer(slot, 1));
            last = control.choose(why, 0).unwrap().slot;
            why = if last == 2 { Why::Point } else { Why::Gone };
            last == 2
        })
    }

    #[test]
    fn threads_that_sleep_for_no_time_let_others_run() {
        for seed in 0..100 {
            for spec in [Spec::Random, Spec::Pct(3), Spec::Surw, Spec::Plain] {
                assert!(third_runs(spec, seed, true, 100), "{spec}, seed {seed}");
            }
        }
    }

    #[test]
    fn threads_that_sleep_in_turns_let_others_run() {
        for seed in 0..10 {
            for spec in [Spec::Random, Spec::Pct(3), Spec::Surw, Spec::Plain] {
                assert!(third_runs(spec, seed, false, 2 * PASSED_OVER_MAX), "{spec}, seed {seed}");
            }
        }
    }

    #[test]
    fn a_thread_that_spins_lets_others_run() {
        let words: &'static [AtomicU64] = (0..Log::len(0, 10)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        let log = Log::new(words).unwrap();
        log.prepare(&[]);
        let mut control = Control::new(Spec::Plain.strategy(1, &Expected::default()), log);
        let mut next = || {
            control.offer(4, 1);
            control.offer(9, 1);
            control.choose(Why::Point, 0).unwrap().slot
        };
        let first = next();
        assert!((0..2 * PASSED_OVER_MAX).any(|_| next() != first));
    }
}
