//! The measurements of a run, of a file or a scenario.

use serde::{Deserialize, Serialize};
use sim::report::Samples;
use sim::workload::rtapp::script::Measured;
use sim::workload::rtapp::{Workload, policy_in_words};
use sim::workload::threads::Results;

/// The measurements of one run, or of several together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Found {
    pub series: Vec<Series>,
    pub counts: Vec<Count>,
    /// The number of the error with which a change of policy or CPUs was refused.
    pub refused: Option<i32>,
    /// The number of the error with which a fork was refused.
    pub no_thread: Option<i32>,
}

/// One quantity of one thread, or of threads that do the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Series {
    pub thread: String,
    pub policy: String,
    pub quantity: String,
    /// In nanoseconds.
    pub samples: Samples,
    /// Each sample is a mean of many.
    pub of_means: bool,
}

/// How often something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    pub what: String,
    pub n: u64,
}

impl Series {
    fn is_about_the_same_as(&self, other: &Series) -> bool {
        self.thread == other.thread && self.quantity == other.quantity
    }
}

impl Found {
    /// The measurements of a file's threads, by the rows of [`Workload::rows`].
    pub fn of_file(workload: &Workload, threads: &[Observed]) -> Found {
        let mut found = Found::default();
        for ((thread, attr), seen) in workload.rows().into_iter().zip(threads) {
            found.refused = found.refused.or(seen.refused);
            found.no_thread = found.no_thread.or(seen.no_thread);
            for (quantity, samples) in [("wake-up", &seen.wakeup), ("response", &seen.response)] {
                found.series.push(Series {
                    thread: thread.clone(),
                    policy: policy_in_words(&attr),
                    quantity: quantity.to_owned(),
                    samples: samples.clone(),
                    of_means: false,
                });
            }
        }
        found
    }

    /// Adds another run.
    pub fn add(&mut self, other: Found) {
        for one in other.series {
            match self.series.iter_mut().find(|mine| mine.is_about_the_same_as(&one)) {
                Some(mine) => mine.samples.add_all(&one.samples),
                None => self.series.push(one),
            }
        }
        for one in other.counts {
            match self.counts.iter_mut().find(|mine| mine.what == one.what) {
                Some(mine) => mine.n += one.n,
                None => self.counts.push(one),
            }
        }
        self.refused = self.refused.or(other.refused);
        self.no_thread = self.no_thread.or(other.no_thread);
    }

    /// The samples that another side has as this series.
    pub fn samples(&self, like: &Series) -> Samples {
        self.series
            .iter()
            .find(|one| one.is_about_the_same_as(like))
            .map_or_else(Samples::default, |s| s.samples.clone())
    }

    /// How often it happened.
    pub fn count(&self, what: &str) -> Option<u64> {
        self.counts.iter().find(|count| count.what == what).map(|count| count.n)
    }
}

impl From<Results> for Found {
    fn from(results: Results) -> Found {
        let series = results.quantities.into_iter().map(|q| Series {
            thread: q.threads.to_owned(),
            policy: policy_in_words(&q.attr),
            quantity: q.name.to_owned(),
            samples: q.samples,
            of_means: q.of_means,
        });
        let counts = results.counts.into_iter().map(|(what, n)| Count { what: what.to_owned(), n });
        Found { series: series.collect(), counts: counts.collect(), refused: None, no_thread: None }
    }
}

/// Measurements of a thread of a file in one run, or in several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Observed {
    /// The number of the error with which a change of policy or CPUs was refused.
    pub refused: Option<i32>,
    /// The number of the error with which a fork was refused.
    pub no_thread: Option<i32>,
    /// In nanoseconds, as the next.
    pub wakeup: Samples,
    pub response: Samples,
}

impl From<&Measured> for Observed {
    fn from(measured: &Measured) -> Observed {
        Observed {
            refused: measured.refused.map(|negative| -negative as i32),
            no_thread: measured.no_thread.map(|negative| -negative as i32),
            wakeup: measured.wakeup.clone(),
            response: measured.response.clone(),
        }
    }
}

impl Observed {
    pub fn add(&mut self, other: &Observed) {
        self.refused = self.refused.or(other.refused);
        self.no_thread = self.no_thread.or(other.no_thread);
        self.wakeup.add_all(&other.wakeup);
        self.response.add_all(&other.response);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(thread: &str, samples: &[u64], n: u64) -> Found {
        let mut series = Series {
            thread: thread.to_owned(),
            policy: "Fifo 2".to_owned(),
            quantity: "start".to_owned(),
            samples: Samples::default(),
            of_means: false,
        };
        samples.iter().for_each(|sample| series.samples.add(*sample));
        let counts = vec![Count { what: "rounds failed".to_owned(), n }];
        Found { series: vec![series], counts, ..Found::default() }
    }

    #[test]
    fn runs_are_added_by_thread_and_quantity() {
        let mut all = Found::default();
        all.add(found("a", &[1, 2], 1));
        all.add(found("a", &[3], 2));
        all.add(Found { refused: Some(1), ..found("b", &[4], 0) });
        assert_eq!(all.series.iter().map(|one| one.samples.len()).collect::<Vec<_>>(), [3, 1]);
        assert_eq!((all.count("rounds failed"), all.count("others"), all.refused), (Some(3), None, Some(1)));
        assert_eq!(all.samples(&found("b", &[], 0).series[0]).len(), 1);
    }
}
