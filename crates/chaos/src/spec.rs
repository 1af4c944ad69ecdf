//! The strategies by name.

use crate::Rng;
use crate::expected::Expected;
use crate::log::Switch;
use crate::pct::Pct;
use crate::random::RandomWalk;
use crate::replay::Replay;
use crate::strategy::Strategy;
use crate::surw::Surw;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A strategy as named on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spec {
    /// `random`: each runnable thread is equally likely.
    Random,
    /// `pct:D`: priorities, which change at D - 1 random moments.
    Pct(u32),
    /// `surw`: each order of some selected events is equally likely.
    Surw,
    /// `plain`: no preemptions.
    Plain,
}

impl Spec {
    /// Parses `random`, `pct`, `pct:D`, `surw` or `plain`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Spec> {
        match text.split_once(':') {
            None if text == "random" => Some(Spec::Random),
            None if text == "pct" => Some(Spec::Pct(3)),
            None if text == "surw" => Some(Spec::Surw),
            None if text == "plain" => Some(Spec::Plain),
            Some(("pct", depth)) => depth.parse().ok().filter(|depth| (1..=100).contains(depth)).map(Spec::Pct),
            _ => None,
        }
    }

    /// The strategy for one run.
    #[must_use]
    pub fn strategy(self, seed: u64, expected: &Expected) -> Box<dyn Strategy> {
        match self {
            Spec::Random => Box::new(RandomWalk::new(Rng::new(seed))),
            Spec::Pct(depth) => Box::new(Pct::new(Rng::new(seed), depth, expected)),
            Spec::Surw => Box::new(Surw::new(Rng::new(seed), &expected.census)),
            Spec::Plain => Box::new(Replay::new(Vec::new(), 0)),
        }
    }

    /// The strategy that repeats `switches` and makes plain choices elsewhere, with this patience
    /// ([`Log::patience`]).
    ///
    /// [`Log::patience`]: crate::Log::patience
    #[must_use]
    pub fn replay(switches: Vec<Switch>, patience: u64) -> Box<dyn Strategy> {
        Box::new(Replay::new(switches, patience))
    }
}

impl core::fmt::Display for Spec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Spec::Random => f.write_str("random"),
            Spec::Pct(depth) => write!(f, "pct:{depth}"),
            Spec::Surw => f.write_str("surw"),
            Spec::Plain => f.write_str("plain"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for spec in [Spec::Random, Spec::Pct(5), Spec::Surw, Spec::Plain] {
            assert_eq!(Spec::parse(&alloc::format!("{spec}")), Some(spec));
        }
        assert_eq!(Spec::parse("pct"), Some(Spec::Pct(3)));
        for wrong in ["", "pct:", "pct:0", "pct:101", "pct:x", "random:2", "surw:1"] {
            assert_eq!(Spec::parse(wrong), None, "{wrong}");
        }
    }
}
