//! Trials with a cost higher than it was measured. One cost may bring the simulated figures to the live ones. Then either it
//! does not fit this machine, or it stands for one that the simulated machine lacks.

use std::time::{Duration, Instant};

use sim::Cost;

use super::found::{Found, Series};
use super::sides::Request;
use super::table::Figures;

/// How many times as high costs are tried, in percent, and in words.
const FACTORS: [(u64, &str); 2] = [(200, "twice"), (400, "four times")];
/// After this time nothing more is tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// If more of them do it, every change disturbs the simulation, and they say nothing.
const NAMES_MAX: usize = 3;

/// Simulated runs, each with one cost that is higher.
#[derive(Default)]
pub(super) struct Trials(Vec<Trial>);

struct Trial {
    cost: &'static str,
    times: &'static str,
    found: Found,
}

impl Trials {
    /// Runs them, as long as patience lasts.
    pub fn run(request: &Request<'_>) -> Trials {
        let until = Instant::now() + PATIENCE;
        let each = FACTORS.into_iter().flat_map(|factor| Cost::NAMES.map(|name| (factor, name)));
        let trial = |((percent, times), cost): ((u64, &'static str), &'static str)| {
            let changed = request.costs.cost.with_one_scaled(cost, percent)?;
            let (found, _) = request.subject.simulate(request.seed, request.cpus, &changed).ok()?;
            Some(Trial { cost, times, found })
        };
        Trials(each.take_while(|_| Instant::now() < until).filter_map(trial).collect())
    }

    /// The costs that alone make the simulation agree with these live figures, in words: those that are the least changed.
    pub fn explain(&self, series: &Series, live: &Figures) -> Option<String> {
        let agrees = |trial: &&Trial| {
            let figures = Figures::of(&trial.found.samples(series), series);
            figures.samples > 0 && !live.median_differs(&figures)
        };
        let times = self.0.iter().find(agrees)?.times;
        let costs: Vec<&str> = self.0.iter().filter(|t| t.times == times).filter(agrees).map(|t| t.cost).collect();
        (costs.len() <= NAMES_MAX)
            .then(|| format!("with {times} the cost '{}' the simulated median agrees", costs.join("' or '")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::report::Samples;

    #[test]
    fn the_least_changed_costs_that_agree_are_named() {
        let series = |us: u64| {
            let mut samples = Samples::default();
            samples.add(us * 1000);
            let text = String::new;
            Series { thread: text(), policy: text(), quantity: text(), samples, of_means: false }
        };
        let trial =
            |cost, times, us| Trial { cost, times, found: Found { series: vec![series(us)], ..Found::default() } };
        let trials = Trials(vec![
            trial("line", "twice", 20),
            trial("timer", "twice", 60),
            trial("kick", "twice", 55),
            trial("line", "four times", 60),
        ]);
        let live = |us| Figures::of(&series(us).samples, &series(0));
        let words = trials.explain(&series(0), &live(60)).unwrap();
        assert_eq!(words, "with twice the cost 'timer' or 'kick' the simulated median agrees");
        assert_eq!(trials.explain(&series(0), &live(500)), None);
        let any = Trials(Cost::NAMES.map(|name| trial(name, "twice", 60)).into());
        assert_eq!(any.explain(&series(0), &live(60)), None);
    }
}
