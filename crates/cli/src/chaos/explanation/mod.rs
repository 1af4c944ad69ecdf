//! Why a schedule fails: for each switch, which thread was stopped and where, and which thread ran instead, from where to where.
//!
//! The schedule is repeated once more, and at the beginning and end of each turn that a switch begins the run waits
//! until the stacks of its threads have been read. [`text`] is for a terminal, `page` for a browser, `perfetto` for ui.perfetto.dev.

mod page;
mod perfetto;
mod picture;
pub mod text;

use std::collections::BTreeSet;
use std::path::Path;

use chaos::{Left, Switch, Turn};
use tool::style;

use super::args::ChaosArguments;
use super::attempt::{Outcome, Plan, Room, Stop};
use super::frames::{self, Frame, own};
use super::recording::Recording;
use super::results::write;
use super::stacks::Stack;

/// The number of switches that are explained: the first ones.
const SWITCHES_MAX: usize = 50;
/// How often the run is stopped in one turn, and in all of them. Each stop takes time.
const STOPS_MAX: u64 = 64;
const STOPS_ALL_MAX: u64 = 800;

/// A run with its switches explained.
#[derive(Debug)]
pub struct Explanation {
    /// The program and its arguments.
    pub command: String,
    /// The seed of the run.
    pub seed: u64,
    /// What the run did, with its turns.
    pub outcome: Outcome,
    /// Its first switches.
    pub switches: Vec<Explained>,
}

/// A switch and the turn that it begins.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The switch.
    pub switch: Switch,
    /// The index of the turn.
    pub turn: usize,
    /// How the thread before it left.
    pub left: Left,
    /// Where that thread is, if it still is.
    pub stopped: Option<Stack>,
    /// Where the next thread goes on.
    pub from: Option<Stack>,
    /// Where it comes by, at its first and last choices if there are many: the places in the program's source, each once in a row.
    pub way: Vec<Frame>,
    /// Where the turn ends.
    pub to: Option<Stack>,
    /// How.
    pub until: Until,
    /// How many choices long it is.
    pub choices: u64,
}

/// How a turn ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// Another one begins.
    Turn(Left),
    /// Another one begins by the switch of this number, from 1.
    Switch(usize),
    /// The run ends.
    End,
}

/// Repeats the run whose `outcome` this is, and explains its switches.
pub fn explain(room: &mut Room, recording: &Recording, outcome: Outcome, timeout: u64) -> anyhow::Result<Explanation> {
    let begun: Vec<usize> =
        (0..outcome.turns.len()).filter(|&at| outcome.turns[at].is_switch).take(SWITCHES_MAX).collect();
    let stops = stops(&outcome, &begun);
    let again = room.attempt(&Plan { stops: &stops, ..recording.plan(&recording.switches, timeout) })?;
    if again.end != outcome.end || again.turns != outcome.turns {
        style::remark("the run took another course when it was repeated to read its stacks: they may not fit");
    }
    let seen = Seen { stops: &stops, outcome: &again };
    let switches = begun.iter().zip(&outcome.switches).enumerate().map(|(i, (&turn, &switch))| {
        let choices = outcome.end_of(turn) - outcome.turns[turn].from;
        Explained {
            switch,
            turn,
            left: outcome.turns[turn].before,
            stopped: seen.at((turn, 0), switch.last),
            from: seen.at((turn, 0), switch.to),
            way: seen.way(turn, choices, switch.to),
            to: seen.at((turn + 1, 0), switch.to),
            until: match outcome.turns.get(turn + 1) {
                None => Until::End,
                Some(Turn { is_switch: true, .. }) => Until::Switch(i + 2),
                Some(next) => Until::Turn(next.before),
            },
            choices,
        }
    });
    let switches = switches.collect();
    let words: Vec<_> = recording.command.iter().map(|word| word.to_string_lossy()).collect();
    Ok(Explanation { command: words.join(" "), seed: recording.seed, outcome, switches })
}

/// The choices at which stacks are read: those of the turns that these indices name, and the one after each.
fn stops(outcome: &Outcome, begun: &[usize]) -> Vec<Stop> {
    let half = (STOPS_ALL_MAX / begun.len().max(1) as u64).min(STOPS_MAX) / 2;
    let mut stops = BTreeSet::new();
    for &turn in begun {
        let choices = outcome.end_of(turn) - outcome.turns[turn].from;
        let read = (0..choices.min(half)).chain(choices.saturating_sub(half)..choices);
        // Turns are counted from 1.
        stops.extend(read.map(|after| (turn as u64 + 1, after)));
        if turn + 1 < outcome.turns.len() {
            stops.insert((turn as u64 + 2, 0));
        }
    }
    stops.into_iter().collect()
}

/// The stacks of a run that was stopped.
struct Seen<'a> {
    stops: &'a [Stop],
    outcome: &'a Outcome,
}

impl Seen<'_> {
    /// Where a thread is after so many choices of the turn with this index. After the last turn, where it is in the end.
    fn at(&self, (turn, after): (usize, u64), thread: u32) -> Option<Stack> {
        let of = |stacks: &[Stack]| stacks.iter().find(|stack| stack.thread == Some(thread)).cloned();
        match self.stops.binary_search(&(turn as u64 + 1, after)) {
            Ok(at) => of(self.outcome.seen.get(at)?),
            Err(_) if turn == self.outcome.turns.len() => of(&self.outcome.stacks),
            Err(_) => None,
        }
    }

    fn way(&self, turn: usize, choices: u64, thread: u32) -> Vec<Frame> {
        let stacks = (1..choices).filter_map(|after| self.at((turn, after), thread));
        let mut way: Vec<Frame> = stacks.filter_map(|stack| frames::place(&stack.frames).cloned()).collect();
        way.dedup_by(|a, b| a.source == b.source);
        way
    }
}

impl Outcome {
    /// The choice before which a turn ends: that of the next one, or the one that would have followed the last.
    pub fn end_of(&self, turn: usize) -> u64 {
        self.turns.get(turn + 1).map_or(self.points + 1, |next| next.from)
    }
}

impl Explanation {
    /// The threads that had a turn: their numbers and titles.
    pub fn threads(&self) -> Vec<(u32, String)> {
        let numbers: BTreeSet<u32> = self.outcome.turns.iter().map(|turn| turn.thread).collect();
        numbers.into_iter().map(|number| (number, self.title(number))).collect()
    }

    /// A thread in a few words.
    pub fn title(&self, thread: u32) -> String {
        self.stacks()
            .find(|stack| stack.thread == Some(thread))
            .map_or_else(|| format!("thread {thread}"), Stack::title)
    }

    /// Whether it is worth showing where a turn ends: the next switch does not show it, and there is something to see.
    pub fn shows_end(&self, one: &Explained) -> bool {
        let is_shown = matches!(one.until, Until::Switch(number) if number <= self.switches.len());
        let has_frames = one.to.as_ref().is_some_and(|stack| !own(&stack.frames).is_empty());
        has_frames && !is_shown && one.until != Until::Turn(Left::Ended)
    }

    /// Where a thread comes by, without the two ends of its turn that are shown themselves.
    pub fn way<'a>(&self, one: &'a Explained) -> &'a [Frame] {
        let is_at = |stack: &Option<Stack>, frame: Option<&Frame>| {
            let place = stack.as_ref().and_then(|stack| frames::place(&stack.frames));
            place.zip(frame).is_some_and(|(a, b)| a.source == b.source)
        };
        let mut way = &one.way[..];
        if is_at(&one.from, way.first()) {
            way = &way[1..];
        }
        let shows_end = self.shows_end(one) || matches!(one.until, Until::Switch(_));
        if shows_end && is_at(&one.to, way.last()) {
            way = &way[..way.len() - 1];
        }
        way
    }

    /// All stacks that have been read, of which the last say how threads are called in the end.
    fn stacks(&self) -> impl Iterator<Item = &Stack> {
        let switches = self.switches.iter().rev().flat_map(|one| [&one.to, &one.from, &one.stopped]);
        self.outcome.stacks.iter().chain(switches.flatten())
    }
}

/// The files that were asked for.
#[derive(Debug)]
pub struct Files<'a> {
    html: Option<&'a Path>,
    trace: Option<&'a Path>,
}

impl<'a> Files<'a> {
    /// Before anything runs: whether they can be written is known then.
    pub fn begin(request: &'a ChaosArguments) -> anyhow::Result<Self> {
        let files = Files { html: request.html.as_deref(), trace: request.trace.as_deref() };
        [files.html, files.trace].into_iter().flatten().try_for_each(|file| write(file, ""))?;
        Ok(files)
    }

    /// Whether there are any.
    pub fn are_wanted(&self) -> bool {
        self.html.is_some() || self.trace.is_some()
    }

    /// Writes them.
    pub fn write(&self, told: &Explanation) -> anyhow::Result<()> {
        if let Some(file) = self.html {
            write(file, page::render(told))?;
        }
        if let Some(file) = self.trace {
            write(file, perfetto::trace(told))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::attempt::End;
    use chaos::Census;

    /// A run of three threads with ten choices: thread 1 is stopped, thread 2 runs from its beginning to its end.
    pub fn told() -> Explanation {
        let frame = |function: &str, line| Frame {
            function: format!("{function} + 0x1 (a)"),
            source: Some(("/not/there.c".to_owned(), line)),
        };
        let begin = Frame { function: "clone3 + 0x19 (libc.so.6)".to_owned(), source: None };
        let stack = |thread, name: &str, frames| Stack {
            thread: Some(thread),
            tid: 7,
            name: name.to_owned(),
            waits: None,
            on: None,
            pointer: 0,
            frames,
        };
        let turn = |thread, from, before, is_switch| Turn { thread, from, before, is_switch };
        let switch = Switch { last: 1, nth: 1, to: 2, spins: false, place: 5 };
        let outcome = Outcome {
            end: End::Status(3),
            switches: vec![switch],
            is_complete: true,
            points: 10,
            steps: 9,
            hash: 1,
            threads: 3,
            paused_ns: 0,
            census: Census::default(),
            sightings: vec![],
            possible: vec![],
            knows_all: true,
            turns: vec![
                turn(0, 1, Left::Waits, false),
                turn(1, 3, Left::Waits, false),
                turn(2, 4, Left::Stopped, true),
                turn(1, 8, Left::Ended, false),
            ],
            seen: vec![],
            stacks: vec![],
            races: vec![],
            pairs: vec![],
            others: 0,
            output: b"1 < 2".to_vec(),
        };
        let explained = Explained {
            switch,
            turn: 2,
            left: Left::Stopped,
            stopped: Some(stack(1, "x & y", vec![frame("f", 7), begin.clone()])),
            from: None,
            way: vec![frame("g", 9)],
            to: None,
            until: Until::Turn(Left::Ended),
            choices: 4,
        };
        let from = Some(stack(2, "b", vec![begin]));
        Explanation { command: "./a<b".to_owned(), seed: 1, outcome, switches: vec![Explained { from, ..explained }] }
    }

    #[test]
    fn a_run_is_stopped_at_each_choice_of_what_a_switch_begins() {
        let told = told();
        assert_eq!(stops(&told.outcome, &[2]), [(3, 0), (3, 1), (3, 2), (3, 3), (4, 0)]);
        // In a long turn only at the first and the last choices, and after the last turn nowhere.
        let mut long = told.outcome.clone();
        long.points = 1000;
        let half = STOPS_MAX / 2;
        let expected: Vec<Stop> = (0..half).chain(993 - half..993).map(|after| (4, after)).collect();
        assert_eq!(stops(&long, &[3]), expected);
        let many: Vec<usize> = (0..SWITCHES_MAX).map(|n| n % 4).collect();
        assert!(stops(&long, &many).len() as u64 <= STOPS_ALL_MAX);
    }
}
