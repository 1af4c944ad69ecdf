//! Which schedules are tried, in which order.

use std::collections::VecDeque;

use anyhow::ensure;
use chaos::log::CHOSEN_MAX;
use chaos::{Census, Expected, Learned, Rng, Search, Spec, Switch};
use simulate::Shard;

use super::args::{ChaosArguments, Way};
use super::attempt::Outcome;

/// The number of choices that the first run is taken to have.
const STEPS: u64 = 100;
/// The number of runs whose choices are remembered.
const KNOWN_MAX: usize = 64;

/// The number of places of a run that looks for where threads meet: the second one, the fourth, the eighth, the sixteenth,
/// and every 32nd.
const PLACES_TO_LEARN: u16 = 2048;
const LEARNING: u64 = 32;

/// One schedule to be tried.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// `None`: these switches are made.
    pub strategy: Option<Spec>,
    /// See above.
    pub switches: Vec<Switch>,
    /// Whether the run is to say which switches it could have made after these.
    pub asks: bool,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// Expectations from earlier runs.
    pub expected: Expected,
    /// How many accesses become scheduling points.
    pub places: u16,
    /// Some of them.
    pub chosen: Vec<u64>,
}

/// The schedules to try.
#[derive(Debug)]
pub struct Schedules<'a> {
    request: &'a ChaosArguments,
    /// How many have been given out.
    given: u64,
    limit: u64,
    /// How many choices the last runs had among several threads.
    steps: VecDeque<u64>,
    /// The largest numbers of events that runs have had.
    census: Census,
    learned: Learned,
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    /// Each has its own seed, and these strategies take turns.
    Drawn(&'a [Spec]),
    /// Each follows from those before.
    Search(Search),
}

impl<'a> Schedules<'a> {
    /// Those that were asked for. Without a `limit` on their number there may be no end.
    pub fn new(request: &'a ChaosArguments, limit: u64) -> anyhow::Result<Schedules<'a>> {
        let source = match &request.strategy {
            Way::Drawn(specs) => Source::Drawn(specs),
            &Way::Search(bound) => {
                ensure!(
                    request.shard.is_none(),
                    "a search cannot be divided: leave out --shard, or use another --strategy"
                );
                Source::Search(Search::new(bound, request.seed))
            }
        };
        let (steps, census, learned) = Default::default();
        Ok(Schedules { request, given: 0, limit, steps, census, learned, source })
    }

    /// The next schedule. `None` if all have been taken or the next one depends on one that is running.
    pub fn take_one(&mut self) -> Option<Schedule> {
        let shard = self.request.shard.unwrap_or(Shard::WHOLE);
        let number = shard.numbers(self.limit).nth(usize::try_from(self.given).ok()?)?;
        let seed = self.request.seed.wrapping_add(number);
        let (places, chosen) = self.places(seed);
        let (census, meets) = (self.census.clone(), !chosen.is_empty());
        let expected = Expected { steps: self.steps_of_one(seed), census, meets };
        let schedule = match &mut self.source {
            Source::Drawn(specs) => Schedule {
                strategy: Some(specs[(number % specs.len() as u64) as usize]),
                switches: Vec::new(),
                asks: false,
                seed,
                expected,
                places,
                chosen,
            },
            Source::Search(search) => {
                let switches = search.take_one()?;
                let asks = search.goes_on_from(&switches);
                let (seed, places, expected) = (self.request.seed, self.request.places(), Expected::default());
                Schedule { strategy: None, switches, asks, seed, expected, places, chosen: Vec::new() }
            }
        };
        self.given += 1;
        Some(schedule)
    }

    /// How many places the next schedule has, and which. Every second one has three quarters of them where threads
    /// meet, as far as that is known.
    fn places(&self, seed: u64) -> (u16, Vec<u64>) {
        let places = self.request.places();
        if places == 0 || matches!(self.source, Source::Search(_)) {
            return (places, Vec::new());
        }
        let n = self.given + 1;
        if n > 1 && n < LEARNING && n.is_power_of_two() || n.is_multiple_of(LEARNING) {
            return (places.max(PLACES_TO_LEARN), Vec::new());
        }
        let mut rng = Rng::new(seed ^ 0x1ea4);
        let wanted = if rng.below(2) == 0 { (usize::from(places) * 3).div_ceil(4).min(CHOSEN_MAX) } else { 0 };
        (places, self.learned.draw(&mut rng, wanted))
    }

    /// The number of choices over which PCT spreads its changes: those of an earlier run, drawn by the seed. The largest number
    /// would be too large for most runs if few are much longer, as when a place is in a loop that waits.
    fn steps_of_one(&self, seed: u64) -> u64 {
        let at = Rng::new(seed ^ 0x57e5).below(self.steps.len().max(1) as u64);
        self.steps.get(at as usize).copied().unwrap_or(STEPS)
    }

    /// It has been tried, and has not failed.
    pub fn tried(&mut self, schedule: Schedule, outcome: Outcome) {
        self.steps.truncate(KNOWN_MAX - 1);
        self.steps.push_front(outcome.steps.max(2));
        self.learned.add(&outcome.sightings);
        self.census = std::mem::take(&mut self.census).max(&outcome.census);
        if let Source::Search(search) = &mut self.source {
            search.tried(schedule.switches, outcome.possible, outcome.knows_all);
        }
    }

    /// The claim about all schedules that a finished search allows.
    pub fn proof(&self) -> Option<String> {
        let Source::Search(search) = &self.source else { return None };
        let (bound, plural) = (search.bound(), if search.bound() == 1 { "" } else { "es" });
        search.is_exhausted().then(|| format!("all schedules with at most {bound} switch{plural} have been tried"))
    }
}
