//! The rule that decides whether a run failed.

use serde::{Deserialize, Serialize};
use sim::Report;
use sim::report::QUANTITIES;

/// Why a run is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cause {
    /// An invariant of the kernel was broken.
    Invariant,
    /// The scenario's own rule was broken.
    Rule,
    /// A value is outside of the experiment's limits.
    Limit,
    /// The same seed gave another trace.
    Repeat,
}

/// What a value must not exceed or fall below.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limit {
    /// The name that `sim run` prints, like `wake-up p99`.
    pub metric: String,
    /// For this scenario only.
    pub scenario: Option<String>,
    /// A run fails above it.
    pub above: Option<f64>,
    /// A run fails below it.
    pub below: Option<f64>,
}

/// The whole rule.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rule {
    pub fails: Vec<Cause>,
    pub limits: Vec<Limit>,
}

/// The verdict on one run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Verdict {
    pub failed: bool,
    /// What was broken, also if that does not count as a failure here.
    pub broken: Option<(Cause, String)>,
}

impl Cause {
    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Invariant => "invariant",
            Cause::Rule => "rule",
            Cause::Limit => "limit",
            Cause::Repeat => "repeat",
        }
    }
}

impl Limit {
    /// What makes no sense about it.
    pub fn fault(&self) -> Option<String> {
        let Limit { metric, above, below, .. } = self;
        if !QUANTITIES.iter().any(|(name, _)| name == metric) {
            let names: Vec<&str> = QUANTITIES.iter().map(|(name, _)| *name).collect();
            return Some(format!("there is no metric '{metric}': expected one of {}", names.join(", ")));
        }
        if above.is_none() && below.is_none() {
            return Some(format!("the limit of '{metric}' says neither 'above' nor 'below'"));
        }
        None
    }

    fn broken(&self, scenario: &str, report: &Report) -> Option<String> {
        if self.scenario.as_deref().is_some_and(|of| of != scenario) {
            return None;
        }
        let value = report.get(&self.metric)?;
        let outside = |limit: Option<f64>, word, is_outside: fn(&f64, &f64) -> bool| {
            let limit = limit.filter(|limit| is_outside(&value, limit))?;
            Some(format!("{} is {value}, {word} {limit}", self.metric))
        };
        outside(self.above, "above", f64::gt).or_else(|| outside(self.below, "below", f64::lt))
    }
}

impl Rule {
    /// Judges a run of this scenario; `repeats` says whether a second run, if there was one, gave the same trace.
    pub fn judge(&self, scenario: &str, report: &Report, repeats: bool) -> Verdict {
        if !repeats {
            let why = "the second run of this seed gave another trace".to_owned();
            return Verdict { failed: true, broken: Some((Cause::Repeat, why)) };
        }
        if let Some(why) = &report.failure {
            let cause = if report.violation.is_some() { Cause::Invariant } else { Cause::Rule };
            if self.fails.contains(&cause) {
                return Verdict { failed: true, broken: Some((cause, why.clone())) };
            }
        }
        if let Some(why) = self.limits.iter().find_map(|limit| limit.broken(scenario, report)) {
            return Verdict { failed: true, broken: Some((Cause::Limit, why)) };
        }
        let cause = if report.violation.is_some() { Cause::Invariant } else { Cause::Rule };
        Verdict { failed: false, broken: report.failure.clone().map(|why| (cause, why)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(failure: Option<&str>) -> Report {
        let run = sim::scenario("hackbench").unwrap().run;
        let mut report = run(1, 1, &sim::Options { rounds: Some(1), ..sim::Options::default() });
        assert_eq!(report.failure, None);
        report.failure = failure.map(str::to_owned);
        report
    }

    #[test]
    fn a_limit_fails_what_no_rule_does() {
        let limit = |above, below| Limit { metric: "messages".to_owned(), scenario: None, above, below };
        let rule = |limit| Rule { fails: Vec::new(), limits: vec![limit] };
        let good = report(None);
        let messages = good.get("messages").unwrap();
        assert!(!rule(limit(Some(messages), None)).judge("hackbench", &good, true).failed);
        assert!(rule(limit(Some(messages - 1.0), None)).judge("hackbench", &good, true).failed);
        assert!(rule(limit(None, Some(messages + 1.0))).judge("hackbench", &good, true).failed);
        let other = Limit { scenario: Some("periodic".to_owned()), ..limit(Some(0.0), None) };
        assert!(!rule(other).judge("hackbench", &good, true).failed);
    }

    #[test]
    fn a_broken_rule_that_does_not_count_is_still_told() {
        let strict = Rule { fails: vec![Cause::Rule], limits: Vec::new() };
        let broken = report(Some("round 3"));
        let verdict = strict.judge("hackbench", &broken, true);
        assert_eq!(verdict, Verdict { failed: true, broken: Some((Cause::Rule, "round 3".to_owned())) });
        let lenient = Rule { fails: vec![Cause::Invariant], limits: Vec::new() };
        let verdict = lenient.judge("hackbench", &broken, true);
        assert_eq!(verdict, Verdict { failed: false, broken: Some((Cause::Rule, "round 3".to_owned())) });
        assert!(lenient.judge("hackbench", &report(None), false).failed);
    }

    #[test]
    fn a_limit_that_limits_nothing_is_a_fault() {
        let limit = |metric: &str| Limit { metric: metric.to_owned(), scenario: None, above: None, below: None };
        assert!(limit("messages").fault().unwrap().contains("neither"));
        assert!(limit("mesages").fault().unwrap().contains("expected one of threads"));
    }
}
