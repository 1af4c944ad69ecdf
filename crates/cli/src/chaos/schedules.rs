//! Which schedules are tried, in which order.

use anyhow::ensure;
use chaos::{Expected, Search, Spec, Switch};
use simulate::Shard;

use super::args::{ChaosArguments, Way};
use super::attempt::Outcome;

/// The number of choices that the first run is taken to have.
const STEPS: u64 = 100;

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
}

/// The schedules to try.
#[derive(Debug)]
pub struct Schedules<'a> {
    request: &'a ChaosArguments,
    /// How many have been given out.
    given: u64,
    limit: u64,
    /// The largest numbers that runs have had; `None` before the first has come back.
    had: Option<Expected>,
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
        Ok(Schedules { request, given: 0, limit, had: None, source })
    }

    /// The next schedule. `None` if all have been taken or the next one depends on one that is running.
    pub fn take_one(&mut self) -> Option<Schedule> {
        let shard = self.request.shard.unwrap_or(Shard::WHOLE);
        let number = shard.numbers(self.limit).nth(usize::try_from(self.given).ok()?)?;
        let first = || Expected { steps: STEPS, ..Expected::default() };
        let schedule = match &mut self.source {
            Source::Drawn(specs) => Schedule {
                strategy: Some(specs[(number % specs.len() as u64) as usize]),
                switches: Vec::new(),
                asks: false,
                seed: self.request.seed.wrapping_add(number),
                expected: self.had.clone().unwrap_or_else(first),
            },
            Source::Search(search) => {
                let switches = search.take_one()?;
                let asks = search.goes_on_from(&switches);
                Schedule { strategy: None, switches, asks, seed: self.request.seed, expected: Expected::default() }
            }
        };
        self.given += 1;
        Some(schedule)
    }

    /// It has been tried, and has not failed.
    pub fn tried(&mut self, schedule: Schedule, outcome: Outcome) {
        let had = self.had.take().unwrap_or_default();
        // PCT spreads its changes over as many choices as runs have had so far.
        let steps = outcome.steps.max(had.steps).max(2);
        self.had = Some(Expected { steps, census: had.census.max(&outcome.census) });
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
